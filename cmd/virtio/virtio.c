// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
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
#include "cmd/virtio/counts.h"
#include "cmd/virtio/print.h"
#include "cmd/virtio/queues.h"
#include "core/base/clock.h"
#include "core/system/cpus.h"
#include "core/bpf/hook_kernel.h"
#include "core/system/limits.h"
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
	struct virtio_arrays arrays;
	struct virtio_counts *counts;
	struct virtio_rows rows;
	struct column columns[VIRTIO_COLUMNS];
	struct schema schema;
	uint64_t lost_before[LOSS_ROWS];
	struct loss losses[LOSS_ROWS];
	uint64_t queues_gone; /* as of the last sweep */
	uint64_t since_ns;
	bool used; /* any queue, since the beginning */
	struct show_setting settings[3];
	struct show show;
};

static bool follows(const struct virtio_options *o)
{
	return o->extended || o->latency;
}

/* ---- the BPF object ---- */

/* Multiqueue devices have a queue for each CPU. */
static uint32_t rows_possible(void)
{
	uint32_t rows = 64 * cpus_possible();

	return rows < 1024 ? 1024 : rows > 8192 ? 8192 : rows;
}

static int size_maps(struct virtio *v)
{
	const struct args *args = &v->o.args;
	uint32_t rows = args->map_rows ? args->map_rows : rows_possible();
	uint32_t cells = rows * VIRTIO_BANKS;
	struct virtio_bpf *skel = v->skel;
	const struct map_size sizes[] = {
		{ skel->maps.counts, cells },
		{ skel->maps.lats, v->o.latency ? cells : 1 },
		{ skel->maps.known, rows },
		{ skel->maps.row_numbers, rows },
		{ skel->maps.free_rows, rows },
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
	if (v->o.args.list_entries && v->o.args.list_entries < v->skel->rodata->max_list_entries)
		v->skel->rodata->max_list_entries = v->o.args.list_entries;
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

/* ---- what the programs count ---- */

static size_t values_size(const struct virtio *v)
{
	return v->arrays.n * VIRTIO_BANKS * sizeof(*v->arrays.values);
}

static size_t lats_size(const struct virtio *v)
{
	return v->arrays.n * VIRTIO_BANKS * sizeof(*v->arrays.lats);
}

static size_t known_size(const struct virtio *v)
{
	return v->arrays.n * sizeof(*v->arrays.known);
}

static int map_arrays(struct virtio *v)
{
	const struct virtio_bpf *skel = v->skel;
	void *values = NULL, *lats = NULL, *known = NULL;
	int r;

	v->arrays.active = &v->skel->bss->active_bank;
	v->arrays.taken = &v->skel->bss->rows_taken;
	v->arrays.n = bpf_map__max_entries(skel->maps.known);
	r = maps_map_array(skel->maps.counts, values_size(v), false, &values);
	if (!r && v->o.latency)
		r = maps_map_array(skel->maps.lats, lats_size(v), true, &lats);
	if (!r)
		r = maps_map_array(skel->maps.known, known_size(v), false, &known);
	v->arrays.values = values;
	v->arrays.lats = lats;
	v->arrays.known = known;
	return r;
}

/* Before anything is counted: these are system calls on a map. */
static int open_counts(struct virtio *v, struct error *err)
{
	int r = map_arrays(v);

	if (!r)
		r = maps_fill_queue(v->skel->maps.free_rows, v->arrays.n);
	if (!r)
		r = virtio_counts_open(&v->arrays, &v->counts);
	if (limits_is_shortage(r))
		return limits_error(r, "map the BPF arrays", err);
	if (r)
		error_set(err, STATUS_FAILED, r, "cannot map the BPF arrays: %s", strerror(-r));
	return r;
}

static void close_counts(struct virtio *v)
{
	virtio_counts_close(v->counts);
	if (v->arrays.values)
		munmap((void *)v->arrays.values, values_size(v));
	if (v->arrays.lats)
		munmap(v->arrays.lats, lats_size(v));
	if (v->arrays.known)
		munmap((void *)v->arrays.known, known_size(v));
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
				"calls of which only the entry or the return was seen: their "
				"buffers are not counted" },
	[VIRTIO_LOSS_BUFFERS_FULL] = { "buffers_full",
				       "buffers that could not be followed: map full" },
	[VIRTIO_LOSS_NO_END] = { "no_end",
				 "buffers whose return was not seen: their time is unknown" },
	[VIRTIO_LOSS_CLOCK] = { "clock", "buffers returned before they were added: the clock went "
					 "backwards" },
	[VIRTIO_LOSS_REAPED] = { "reaped",
				 "buffers reaped without an interrupt: their bytes are not "
				 "counted" },
	[VIRTIO_LOSS_PACKED] = { "packed",
				 "interrupts of packed rings: the buffers used are unknown" },
	[VIRTIO_LOSS_RING] = { "ring", "entries of a used ring that could not be read" },
	[VIRTIO_LOSSES] = { "missed",
			    "events missed: the program was already running on that CPU" },
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

/* Its queues, also those that never interrupt: it shall be known how many buffers went through. */
static void learn_device(void *ctx, int fd)
{
	const struct virtio *v = ctx;

	virtio_run_helper(v->skel->progs.irq_device, (uint64_t[]){ (uint64_t)fd }, 1);
}

/* What the drivers took out since the last interrupt of each queue: the program counts it. */
static void count_rest(const struct virtio *v)
{
	int fd = bpf_map__fd(v->skel->maps.queues);
	uint64_t key, *at = NULL;

	while (bpf_map_get_next_key(fd, at, &key) == 0) {
		virtio_run_helper(v->skel->progs.irq_rest, &key, 1);
		at = &key;
	}
}

/* Once everything is attached: does what is left of the attach table do what was asked for? */
static int check_attached(const struct virtio *v, struct error *err)
{
	const uint64_t no_queue = 0;

	if (v->way == WAY_IRQ && virtio_run_helper(v->skel->progs.irq_rest, &no_queue, 1)) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "this kernel's BTF does not describe virtqueues");
		error_hint(err, "virtio_ring is a module: this needs kprobes or fentry");
		return -ENOTSUP;
	}
	if (v->way == WAY_CALLS && !virtio_sees_adds(v->hooks)) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP, "no virtqueue function can be probed");
		error_hint(err, "run with -v to see every hook that was tried");
		return -ENOTSUP;
	}
	if (v->way == WAY_CALLS && follows(&v->o) && !virtio_sees_gets(v->hooks)) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "no function that returns buffers can be probed");
		error_hint(err, "run without -x and -L; -v shows what was tried");
		return -ENOTSUP;
	}
	return 0;
}

/* ---- output ---- */

static const char *const irq_notes[] = {
	"this kernel has no function hooks: used buffers are counted from interrupts, in "
	"descriptors instead of lists",
};

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
	r = virtio_counts_take(v->counts, last, &v->rows, &out.interval.end_ns);
	if (r)
		return error_set(err, STATUS_FAILED, r, "out of memory");
	virtio_rows_finish(&v->rows, follows(&v->o));
	v->since_ns = out.interval.end_ns;
	forget_gone(v);
	fill_losses(v, &out.interval);
	v->used = v->used || v->rows.n;
	if (last && !v->used && v->o.args.format != FORMAT_JSON)
		fprintf(stderr, "iotrace: no virtqueue was used%s\n",
			v->o.device || v->o.driver || v->o.vq ? " that matches the filters" : "");
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
	const char *helpers[4] = { NULL };
	size_t n = 0;
	struct hook_object object = {
		.ctx = v,
		.helpers = helpers,
		.open = open_object,
		.load = load_object,
		.close = close_object,
	};

	if (v->o.vq)
		helpers[n++] = "list_queue";
	if (v->way == WAY_IRQ) {
		helpers[n++] = "irq_rest";
		helpers[n++] = "irq_device";
	}
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
	if (!r && v->o.vq)
		r = virtio_check_queue(v->skel, &v->o, &err);
	if (!r)
		r = open_counts(v, &err);
	if (!r)
		r = show_open_hooks(&v->show, v->hooks, irq_notes, v->way == WAY_IRQ ? 1 : 0, &err);
	if (r)
		return report_error(&err);
	v->skel->bss->begin_ns = clock_mono_ns();
	if (v->way == WAY_IRQ)
		virtio_each_device(&v->o, learn_device, v);
	run->keeps = hooks_privileges();
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
	close_counts(&v);
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
