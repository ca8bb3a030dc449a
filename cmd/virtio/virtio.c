// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cmd/check.h"
#include "cmd/choices.h"
#include "cmd/command.h"
#include "cmd/maps.h"
#include "cmd/report.h"
#include "cmd/run.h"
#include "cmd/session.h"
#include "cmd/show.h"
#include "cmd/virtio/attach.h"
#include "cmd/virtio/print.h"
#include "core/clock.h"
#include "core/cpus.h"
#include "core/flip.h"
#include "core/hook_kernel.h"
#include "probes/virtio.skel.h"

extern const char virtio_source[];

#define LOSS_ROWS (VIRTIO_LOSSES + 1) /* and the events that were missed */

struct virtio {
	struct virtio_options o;
	enum virtio_way way;
	struct hooks *hooks;
	struct hook_kernel *kernel; /* --kernel */
	struct hook_event events[VIRTIO_EVENTS_MAX];
	size_t n_events;
	uint64_t handlers[VIRTIO_HANDLERS];
	struct virtio_bpf *skel;
	struct flip *flip;
	struct virtio_rows rows;
	struct column columns[VIRTIO_COLUMNS];
	struct schema schema;
	uint64_t lost_before[LOSS_ROWS];
	struct loss losses[LOSS_ROWS];
	uint64_t queues_gone; /* as of the last sweep */
	uint64_t since_ns;
	struct show_setting settings[3];
	struct show show;
};

static bool follows(const struct virtio_options *o)
{
	return o->extended || o->latency;
}

/* ---- the BPF object ---- */

/* Queues are few, but each CPU has its own row of each. */
static uint32_t rows_possible(void)
{
	uint32_t rows = 256 * cpus_possible();

	return rows < 4096 ? 4096 : rows > 131072 ? 131072 : rows;
}

static int size_maps(struct virtio *v)
{
	const struct args *args = &v->o.args;
	uint32_t rows = args->map_rows ? args->map_rows : rows_possible();
	uint32_t lats = v->o.latency ? rows : 1;
	struct virtio_bpf *skel = v->skel;
	const struct map_size sizes[] = {
		{ skel->maps.rows0, rows },
		{ skel->maps.rows1, rows },
		{ skel->maps.lats0, lats },
		{ skel->maps.lats1, lats },
		{ skel->maps.inflight, follows(&v->o) ? args->map_requests : 1 },
		{ skel->maps.calls, v->way == WAY_CALLS ? 0 : 1 },
	};

	return maps_resize(sizes, sizeof(sizes) / sizeof(sizes[0]));
}

static int open_object(void *ctx, const char *btf_path, struct bpf_object **obj, struct error *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = btf_path);
	struct virtio *v = ctx;
	int r;

	v->skel = virtio_bpf__open_opts(&opts);
	if (!v->skel)
		return error_set(err, STATUS_FAILED, -errno, "cannot open the BPF object: %s",
				 strerror(errno));
	v->skel->rodata->follow = follows(&v->o);
	v->skel->rodata->latencies = v->o.latency;
	v->skel->rodata->by_device = v->o.device;
	v->skel->rodata->only_device = v->o.device_index;
	v->skel->rodata->by_driver = v->o.driver;
	v->skel->rodata->by_vq = v->o.vq;
	if (v->o.driver)
		memcpy((void *)v->skel->rodata->only_driver, v->o.driver, strlen(v->o.driver));
	if (v->o.vq)
		memcpy((void *)v->skel->rodata->only_vq, v->o.vq, strlen(v->o.vq));
	if (v->o.args.list_entries && v->o.args.list_entries < v->skel->rodata->most_entries)
		v->skel->rodata->most_entries = v->o.args.list_entries;
	memcpy((void *)v->skel->rodata->handlers, v->handlers, sizeof(v->handlers));
	r = size_maps(v);
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot size the BPF maps: %s",
				 strerror(-r));
	*obj = v->skel->obj;
	return 0;
}

static int load_object(void *ctx)
{
	return virtio_bpf__load(((struct virtio *)ctx)->skel);
}

static void close_object(void *ctx)
{
	struct virtio *v = ctx;

	virtio_bpf__destroy(v->skel);
	v->skel = NULL;
}

/* ---- buffers of queues that are gone ---- */

static bool is_gone(int queues_fd, const struct virtio_buffer *buffer,
		    const struct virtio_inflight *entry)
{
	struct virtio_queue q;

	return bpf_map_lookup_elem(queues_fd, &buffer->vq, &q) || q.born_ns != entry->born_ns;
}

/* A device that is taken away, or reset, keeps what it had: nobody gives it back. */
static void forget_gone(struct virtio *v)
{
	int inflight = bpf_map__fd(v->skel->maps.inflight);
	int queues = bpf_map__fd(v->skel->maps.queues);
	uint64_t gone = __atomic_load_n(&v->skel->bss->queues_gone, __ATOMIC_RELAXED);
	struct virtio_buffer key, next;
	struct virtio_inflight entry;
	bool more;

	if (gone == v->queues_gone)
		return;
	v->queues_gone = gone;
	more = bpf_map_get_next_key(inflight, NULL, &key) == 0;
	while (more) {
		more = bpf_map_get_next_key(inflight, &key, &next) == 0;
		if (bpf_map_lookup_elem(inflight, &key, &entry) == 0 &&
		    is_gone(queues, &key, &entry))
			bpf_map_delete_elem(inflight, &key);
		key = next;
	}
}

/* ---- losses ---- */

static const struct {
	const char *key, *text;
} loss_names[LOSS_ROWS] = {
	[VIRTIO_LOSS_ROWS_FULL] = { "rows_full", "buffers not shown: no room for another row" },
	[VIRTIO_LOSS_ROWS_BYTES] = { "rows_full_bytes",
				     "bytes not shown: no room for another row" },
	[VIRTIO_LOSS_QUEUES_FULL] = { "queues_full",
				      "buffers not shown: no room for another queue" },
	[VIRTIO_LOSS_LISTS] = { "lists", "scatter-gather lists too long to walk to their end: the "
					 "rest of their bytes is not counted" },
	[VIRTIO_LOSS_CALLS] = { "calls",
				"calls of which only one end was seen: what they gave or took is "
				"not counted" },
	[VIRTIO_LOSS_BUFFERS_FULL] = { "buffers_full",
				       "buffers that could not be followed: map full" },
	[VIRTIO_LOSS_NO_END] = { "no_end",
				 "buffers that came back unseen: their time is not known" },
	[VIRTIO_LOSS_CLOCK] = { "clock", "buffers back before they were given: the clock went "
					 "backwards" },
	[VIRTIO_LOSS_REAPED] = { "reaped", "buffers taken out without an interrupt that was seen: "
					   "their bytes are not counted" },
	[VIRTIO_LOSS_PACKED] = { "packed", "interrupts of packed rings, which do not tell what "
					   "was used" },
	[VIRTIO_LOSS_RING] = { "ring", "entries of a used ring that could not be read" },
	[VIRTIO_LOSSES] = { "missed",
			    "events missed: the program was running on that CPU already" },
};

static void fill_losses(struct virtio *v, struct interval *interval)
{
	for (size_t i = 0; i < LOSS_ROWS; i++) {
		uint64_t value = i == VIRTIO_LOSSES
				     ? hooks_missed(v->hooks, NULL)
				     : __atomic_load_n(&v->skel->bss->losses[i], __ATOMIC_RELAXED);

		v->losses[i].key = loss_names[i].key;
		v->losses[i].text = loss_names[i].text;
		v->losses[i].count = value - v->lost_before[i];
		v->lost_before[i] = value;
	}
	interval->losses = v->losses;
	interval->n_losses = LOSS_ROWS;
}

/* Runs a program with @arg; what it returns, 0 if it cannot be run. */
static uint32_t run_helper(const struct bpf_program *prog, uint64_t arg)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &arg, .ctx_size_in = sizeof(arg));

	return bpf_prog_test_run_opts(bpf_program__fd(prog), &opts) ? 0 : opts.retval;
}

/* All queues that there are: also of those that never interrupt it shall be known
 * how many buffers went through. */
static void learn_devices(const struct virtio *v)
{
	glob_t found = { 0 };

	if (glob("/sys/bus/virtio/devices/*", 0, NULL, &found))
		found.gl_pathc = 0;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		int fd = open(found.gl_pathv[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			continue;
		run_helper(v->skel->progs.irq_device, (uint64_t)fd);
		close(fd);
	}
	globfree(&found);
}

/* What the drivers took out since the last interrupt of each queue: the program counts it. */
static void count_rest(const struct virtio *v)
{
	int fd = bpf_map__fd(v->skel->maps.queues);
	uint64_t key, *at = NULL;

	while (bpf_map_get_next_key(fd, at, &key) == 0) {
		run_helper(v->skel->progs.irq_rest, key);
		at = &key;
	}
}

/* Once everything is attached: does what is left of the attach table do what was asked for? */
static int check_attached(const struct virtio *v, struct error *err)
{
	if (v->way == WAY_IRQ && run_helper(v->skel->progs.irq_rest, 0)) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "this kernel's types do not tell what a virtqueue looks like");
		error_hint(err, "virtio_ring is a module here: only its functions could be hooked");
		return -ENOTSUP;
	}
	if (v->way == WAY_CALLS && !virtio_sees_adds(v->hooks)) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "this kernel does not let anybody hook a way into a virtqueue");
		error_hint(err, "run with -v to see every way that was tried");
		return -ENOTSUP;
	}
	if (v->way == WAY_CALLS && follows(&v->o) && !virtio_sees_gets(v->hooks)) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "this kernel does not let anybody see buffers coming back");
		error_hint(err, "it works without -x and -L; run with -v to see what was tried");
		return -ENOTSUP;
	}
	return 0;
}

/* ---- output ---- */

static const char *const irq_notes[] = {
	"this kernel lets nobody hook its functions: what is shown is what the devices have used, as "
	"their interrupts tell, in descriptors and not in lists",
};

static int lookup_names(void *ctx, const struct virtio_id *id, struct virtio_names *names)
{
	struct virtio *v = ctx;

	return bpf_map_lookup_elem(bpf_map__fd(v->skel->maps.names), id, names) ? -errno : 0;
}

/* Adds what the kernel has counted since the last time to v->rows. */
static int drain(struct virtio *v, uint64_t *end_ns, struct error *err)
{
	int quiet = flip_turn(v->flip, end_ns), r = quiet < 0 ? quiet : 0;

	if (!r)
		r = flip_drain_hash(bpf_map__fd(quiet ? v->skel->maps.rows1 : v->skel->maps.rows0),
				    sizeof(struct virtio_key), sizeof(struct virtio_value),
				    virtio_rows_add, &v->rows);
	if (!r && v->o.latency)
		r = flip_drain_hash(bpf_map__fd(quiet ? v->skel->maps.lats1 : v->skel->maps.lats0),
				    sizeof(struct virtio_key), sizeof(struct virtio_lat),
				    virtio_rows_add_latency, &v->rows);
	if (!r)
		r = virtio_rows_finish(&v->rows, follows(&v->o), lookup_names, v);
	if (r)
		error_set(err, STATUS_FAILED, r, "cannot read the BPF maps: %s", strerror(-r));
	return r;
}

static int print(void *ctx, const struct recording_interval *in, struct error *err)
{
	struct virtio *v = ctx;
	const struct virtio_rows rows = { .rows = (struct virtio_row *)in->tables[0].rows,
					  .n = in->tables[0].n };
	time_t now = (time_t)(in->interval.end_ns / NS_PER_SEC);
	int r = virtio_print(&v->o, &v->schema, &rows, &in->interval, now, stdout);

	(void)err;
	if (!r && v->o.args.format != FORMAT_JSON)
		render_losses(stderr, &in->interval);
	return r;
}

static int emit(void *ctx, bool last, struct error *err)
{
	struct virtio *v = ctx;
	struct recording_interval out = { .interval.start_ns = v->since_ns, .last = last };
	int r;

	if (last) {
		__atomic_store_n(&v->skel->bss->begin_ns, 0, __ATOMIC_SEQ_CST);
		if (v->way == WAY_IRQ)
			count_rest(v);
		hooks_detach(v->hooks);
	}
	r = drain(v, &out.interval.end_ns, err);
	if (r)
		return r;
	v->since_ns = out.interval.end_ns;
	forget_gone(v);
	fill_losses(v, &out.interval);
	out.tables[0] = (struct recording_rows){ v->rows.rows, v->rows.n };
	r = show_output(&v->show, &out, err);
	virtio_rows_clear(&v->rows);
	return r;
}

static int print_start(void *ctx)
{
	struct virtio *v = ctx;
	int r;

	if (v->o.debug) {
		r = virtio_list_programs(v->hooks, v->events, v->n_events, stdout);
		if (r || fputs(virtio_source, stdout) < 0)
			return r ? r : -errno;
	}
	if (puts("Tracing virtio devices statistics ... Hit Ctrl-C to end.") < 0)
		return -errno;
	return render_flush(stdout);
}

/* ---- the run ---- */

static int attach(struct virtio *v, struct error *err)
{
	static const char *const irq_helpers[] = { "irq_rest", "irq_device", NULL };
	struct hook_object object = {
		.ctx = v,
		.helpers = v->way == WAY_IRQ ? irq_helpers : NULL,
		.open = open_object,
		.load = load_object,
		.close = close_object,
	};

	object.elf = virtio_bpf__elf_bytes(&object.elf_size);
	return hooks_attach(v->hooks, &object, err);
}

static void explain_hooks(const struct hooks *hooks)
{
	size_t n;
	const struct hook_choice *choices = hooks_choices(hooks, &n);

	choices_explain(choices, n);
}

static int trace(struct virtio *v, struct run *run)
{
	const struct run_emit output = { emit, NULL, v, show_start, &v->show };
	struct error err;
	int r = attach(v, &err);

	if (!r)
		r = check_attached(v, &err);
	if (!r)
		r = flip_open(&v->skel->bss->epoch, &v->flip, &err);
	if (!r)
		r = show_open_hooks(&v->show, v->hooks, irq_notes, v->way == WAY_IRQ ? 1 : 0, &err);
	if (r)
		return report_error(&err);
	v->skel->bss->begin_ns = clock_mono_ns();
	if (v->way == WAY_IRQ)
		learn_devices(v);
	v->since_ns = clock_epoch_ns();
	if (v->o.args.verbose)
		explain_hooks(v->hooks);
	return run_loop(run, &output);
}

static bool forces_irq(const struct args *args)
{
	for (size_t i = 0; args->hooks[i]; i++)
		if (strncmp(args->hooks[i], "irq=", 4) == 0)
			return true;
	return false;
}

static int choose_way(struct virtio *v, enum virtio_way way, int *status)
{
	hooks_free(v->hooks);
	v->hooks = NULL;
	v->way = way;
	v->n_events = virtio_events(way, follows(&v->o), v->events);
	return session_choose_hooks(v->events, v->n_events, &v->o.args, &v->hooks, &v->kernel,
				    status);
}

/* The functions if one way in can be hooked, else the interrupts. */
static int choose(struct virtio *v, int *status)
{
	struct error err;
	int r;

	if (v->o.args.list_hooks) {
		v->n_events = virtio_events(WAY_CALLS, follows(&v->o), v->events);
		v->n_events += virtio_events(WAY_IRQ, false, v->events + v->n_events);
		return session_choose_hooks(v->events, v->n_events, &v->o.args, &v->hooks,
					    &v->kernel, status);
	}
	r = choose_way(v, forces_irq(&v->o.args) ? WAY_IRQ : WAY_CALLS, status);
	if (!r && v->way == WAY_CALLS && !virtio_sees_adds(v->hooks))
		r = choose_way(v, WAY_IRQ, status);
	if (r || v->way == WAY_CALLS)
		return r;
	r = virtio_irq_check(&v->o, NULL, v->handlers, &err);
	if (r)
		*status = report_error(&err);
	return r;
}

/* ---- recordings ---- */

static void prepare_tables(void *ctx, struct show *show)
{
	struct virtio *v = ctx;

	virtio_schema(&v->o, v->columns, &v->schema);
	show->tables[0] = (struct recording_table){ "rows", &v->schema };
	show->n_tables = 1;
}

static void prepare_show(struct virtio *v)
{
	const struct show_setting settings[] = {
		SHOW_SETTING("extended", 0, v->o.extended, 1),
		SHOW_SETTING("latency", 0, v->o.latency, 1),
		SHOW_SETTING("way", 0, v->way, WAY_IRQ),
	};

	_Static_assert(sizeof(settings) <= sizeof(v->settings), "room");
	memcpy(v->settings, settings, sizeof(settings));
	v->show = (struct show){
		.args = &v->o.args,
		.subcommand = "virtio",
		.ctx = v,
		.settings = v->settings,
		.n_settings = sizeof(settings) / sizeof(settings[0]),
		.prepare = prepare_tables,
		.start = print_start,
		.print = print,
	};
}

static int run_virtio(int argc, char **argv)
{
	struct virtio v = { 0 };
	struct run run;
	struct error err;
	int status;

	if (virtio_options(argc, argv, &v.o, &err))
		return report_error(&err);
	if (v.o.args.help)
		return report_stdout();
	if (v.o.args.show_source)
		return session_source(virtio_source);
	prepare_show(&v);
	if (v.o.args.replay)
		return show_replay(&v.show);
	if (!v.o.args.kernel && virtio_check(&v.o, NULL, &err))
		return report_error(&err);
	if (choose(&v, &status)) {
		hooks_free(v.hooks);
		hook_kernel_free(v.kernel);
		return status;
	}
	if (run_begin(&run, &v.o.args, &err))
		status = report_error(&err);
	else
		status = trace(&v, &run);
	status = show_close(&v.show, status);
	flip_close(v.flip);
	hooks_free(v.hooks);
	virtio_bpf__destroy(v.skel);
	virtio_rows_free(&v.rows);
	run_end(&run);
	return status;
}

/* What there is to attach, as choose() finds it for a run. */
static int check_way(struct check *check, struct virtio *v)
{
	int r;

	v->n_events = virtio_events(v->way, true, v->events);
	r = check_choose(check, v->events, v->n_events, &v->hooks);
	if (r || v->way == WAY_IRQ || virtio_sees_adds(v->hooks))
		return r;
	check_outcome(check, v->hooks, 0); /* why it is not this way */
	hooks_free(v->hooks);
	v->hooks = NULL;
	v->way = WAY_IRQ;
	r = check_way(check, v);
	return r ? r : virtio_irq_check(&v->o, NULL, v->handlers, &check->err);
}

/* What a run would refuse, or could not show, though it is attached. */
static void check_gaps(struct check *check, const struct virtio *v)
{
	struct virtio_options latency = { .latency = true };
	uint64_t handlers[VIRTIO_HANDLERS];
	struct error err;

	if (check_attached(v, &err)) {
		/* Without -x and -L it may be enough. */
		if (v->way == WAY_IRQ || !virtio_sees_adds(v->hooks)) {
			check->err = err;
			return;
		}
		check_gap(check, "-x and -L", &err);
	}
	if (v->way == WAY_IRQ) {
		if (virtio_irq_check(&latency, NULL, handlers, &err))
			check_gap(check, "-L", &err);
		error_set(&err, STATUS_OK, 0, "%s", irq_notes[0]);
		check_gap(check, "", &err);
	}
	check_works(check);
}

static void check_virtio(struct check *check)
{
	struct virtio v = { .o.extended = true, .way = WAY_CALLS };
	int r = virtio_check(&v.o, NULL, &check->err);

	if (!r)
		r = check_way(check, &v);
	if (!r)
		r = check_outcome(check, v.hooks, attach(&v, &check->err));
	if (!r)
		check_gaps(check, &v);
	hooks_free(v.hooks);
	virtio_bpf__destroy(v.skel);
}

static const struct schema *columns(size_t i, const char **with)
{
	static const struct {
		const char *with;
		struct virtio_options o;
	} variants[] = {
		{ "", { .extended = false } },
		{ "-x or -L", { .extended = true } },
		{ "-L", { .latency = true, .extended = true } },
	};
	static struct column all[sizeof(variants) / sizeof(variants[0])][VIRTIO_COLUMNS];
	static struct schema schemas[sizeof(variants) / sizeof(variants[0])];

	*with = "";
	if (i >= sizeof(variants) / sizeof(variants[0]))
		return NULL;
	*with = variants[i].with;
	virtio_schema(&variants[i].o, all[i], &schemas[i]);
	return &schemas[i];
}

const struct command command_virtio = { run_virtio, check_virtio, &virtio_args, columns };
