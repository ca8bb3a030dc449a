// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace virtio: what it declares to the engine. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cmd/block/in_flight.h"
#include "cmd/engine/check.h"
#include "cmd/cli/command.h"
#include "cmd/engine/maps.h"
#include "cmd/engine/tool.h"
#include "cmd/virtio/screen.h"
#include "cmd/virtio/attach.h"
#include "cmd/virtio/counts.h"
#include "cmd/virtio/print.h"
#include "cmd/virtio/queues.h"
#include "core/base/array.h"
#include "core/bpf/tracepoints.h"
#include "core/system/cpus.h"
#include "core/system/limits.h"
#include "core/system/preflight.h"
#include "probes/virtio.skel.h"

struct virtio {
	struct virtio_options o;
	enum attach_method method;
	char why[256];		    /* it is not ATTACH_CALLS */
	const struct tool_run *run; /* once it is attached */
	const char *helpers[4];
	uint64_t handlers[VIRTIO_HANDLERS];
	struct virtio_arrays arrays;
	struct mapped_array mapped_values, mapped_lats, mapped_known;
	struct virtio_counts *counts;
	struct virtio_rows rows;
	struct column columns[VIRTIO_COLUMNS];
	struct schema schema;
	size_t widths[VIRTIO_COLUMNS];
	uint64_t queues_gone; /* value at the last sweep */
	bool stopped;
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

static int configure(struct tool_run *run, struct tool_object *object)
{
	const struct virtio *v = run->ctx;
	const struct virtio_options *o = &v->o;
	const struct virtio_bpf *skel = object->skel;
	uint32_t rows = o->args.map_rows ? o->args.map_rows : rows_possible();
	uint32_t cells = rows * VIRTIO_BANKS, longest = skel->rodata->max_list_entries;
	bool spares = hooks_has_spares(run->object.hooks);
	const struct probe_option options[] = {
		{ "has_spares", spares },
		{ "follow", follows(o) },
		{ "latencies", o->latency },
		{ "by_device", o->device != NULL },
		{ "only_device", o->device_index },
		{ "by_driver", o->driver != NULL },
		{ "by_vq", o->vq != NULL },
		{ "only_driver", 0, o->driver ?: "", strlen(o->driver ?: "") },
		{ "only_vq", 0, o->vq ?: "", strlen(o->vq ?: "") },
		{ "max_list_entries", o->args.list_entries && o->args.list_entries < longest
					  ? o->args.list_entries
					  : longest },
		{ "handlers", 0, v->handlers, sizeof(v->handlers) },
	};
	const struct probe_map maps[] = {
		{ "seen_marks", spares ? 0 : 1 },
		{ "counts", cells },
		{ "lats", o->latency ? cells : 1 },
		{ "known", rows },
		{ "row_numbers", rows },
		{ "free_rows", rows },
		{ "inflight", follows(o) ? o->args.map_requests : 1 },
		{ "calls", v->method == ATTACH_CALLS ? 0 : 1 },
	};

	return tool_configure(object, options, ARRAY_SIZE(options), maps, ARRAY_SIZE(maps));
}

/* ---- reading the counts ---- */

static int map_arrays(struct virtio *v, struct virtio_bpf *skel)
{
	struct virtio_arrays *a = &v->arrays;
	int r = maps_map_array(skel->maps.counts, false, &v->mapped_values);

	if (!r && v->o.latency)
		r = maps_map_array(skel->maps.lats, true, &v->mapped_lats);
	if (!r)
		r = maps_map_array(skel->maps.known, false, &v->mapped_known);
	a->active = &skel->bss->active_bank;
	a->taken = &skel->bss->rows_taken;
	a->n = v->mapped_known.n;
	a->values = v->mapped_values.at;
	a->lats = v->mapped_lats.at;
	a->known = v->mapped_known.at;
	return r;
}

/* Before anything is counted: these are system calls on a map. */
static int open_counts(struct virtio *v, struct virtio_bpf *skel, struct error *err)
{
	int r = map_arrays(v, skel);

	if (!r)
		r = maps_fill_queue(skel->maps.free_rows);
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
	maps_unmap(&v->mapped_values);
	maps_unmap(&v->mapped_lats);
	maps_unmap(&v->mapped_known);
}

/* ---- buffers of removed queues ---- */

static bool is_gone(int queues_fd, const struct virtio_buffer *buffer,
		    const struct virtio_inflight *entry)
{
	struct virtio_queue q;

	return bpf_map_lookup_elem(queues_fd, &buffer->vq, &q) || q.born_ns != entry->born_ns;
}

/* A device that is removed or reset never returns its buffers. */
static void forget_gone(struct virtio *v, const struct virtio_bpf *skel)
{
	int inflight = bpf_map__fd(skel->maps.inflight);
	int queues = bpf_map__fd(skel->maps.queues);
	uint64_t gone = __atomic_load_n(&skel->bss->queues_gone, __ATOMIC_RELAXED);
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

/* ---- attaching ---- */

/* @r with its @err; but if there are kprobes and this user may not use them, that is the reason. */
static int without_probes(int r, struct error *err)
{
	if (!r || preflight_access("/sys/bus/event_source/devices/kprobe/type", R_OK))
		return r;
	return preflight_perf(err) ? -EACCES : r;
}

/* When everything is attached: do the working hooks cover the options? */
static int check_attached(const struct virtio *v, const struct tool_run *run, struct error *err)
{
	const struct virtio_bpf *skel = run->object.skel;
	const struct hooks *hooks = run->object.hooks;
	const uint64_t no_queue = 0;
	int r = virtio_sees_irqs(v->method, hooks, v->why, err);

	if (r)
		return without_probes(r, err);
	if (v->method == ATTACH_IRQ &&
	    tracepoints_run(bpf_program__fd(skel->progs.irq_rest), &no_queue, 1, 0)) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "this kernel's BTF does not describe virtqueues");
		error_hint(err, "virtio_ring is a module: this needs kprobes or fentry");
		return without_probes(-ENOTSUP, err);
	}
	if (v->method == ATTACH_CALLS && !virtio_sees_adds(hooks)) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP, "no virtqueue function can be probed");
		error_hint(err, "run with -v to see every hook that was tried");
		return without_probes(-ENOTSUP, err);
	}
	if (v->method == ATTACH_CALLS && follows(&v->o) && !virtio_sees_gets(hooks)) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "no function that returns buffers can be probed");
		error_hint(err, "run without -x and -L; -v shows what was tried");
		return without_probes(-ENOTSUP, err);
	}
	return 0;
}

static const char irq_note[] = "no function hooks (%s): used buffers are counted from interrupts, "
			       "in descriptors instead of lists";

static int options(struct tool_run *t, int argc, char **argv, struct error *err)
{
	return virtio_options(argc, argv, &((struct virtio *)t->ctx)->o, err);
}

static bool forces_irq(const struct args *args)
{
	for (size_t i = 0; args->hooks[i]; i++)
		if (strncmp(args->hooks[i], "irq=", 4) == 0)
			return true;
	return false;
}

static int resolve(struct tool_run *run, struct error *err)
{
	struct virtio *v = run->ctx;

	v->method = forces_irq(run->args) ? ATTACH_IRQ : ATTACH_CALLS;
	snprintf(v->why, sizeof(v->why), "another hook is forced");
	run->no_waits = v->o.driver || v->o.device || v->o.vq; /* they are of no disk */
	return virtio_check(&v->o, NULL, err);
}

static size_t events(struct tool_run *run, struct hook_event *out)
{
	const struct virtio *v = run->ctx;
	size_t n;

	if (!run->args->list_hooks)
		return virtio_events(v->method, follows(&v->o), out);
	n = virtio_events(ATTACH_CALLS, follows(&v->o), out);
	return n + virtio_events(ATTACH_IRQ, false, out + n);
}

/* The functions if one that adds buffers can be hooked, else the interrupts. */
static int chosen(struct tool_run *run, struct error *err)
{
	struct virtio *v = run->ctx;
	size_t n = 0;
	int r;

	if (v->method == ATTACH_CALLS && !virtio_sees_adds(run->object.hooks)) {
		v->method = ATTACH_IRQ;
		virtio_why_no_adds(run->object.hooks, v->why, sizeof(v->why));
		return TOOL_AGAIN;
	}
	if (v->o.vq)
		v->helpers[n++] = "list_queue";
	if (v->method == ATTACH_IRQ) {
		v->helpers[n++] = "irq_rest";
		v->helpers[n++] = "irq_device";
	}
	run->helpers = v->helpers;
	if (v->method == ATTACH_CALLS)
		return 0;
	r = virtio_sees_irqs(v->method, run->object.hooks, v->why, err);
	if (!r)
		r = virtio_irq_check(&v->o, NULL, v->why, v->handlers, err);
	return without_probes(r, err);
}

static int attached(struct tool_run *run, struct error *err)
{
	struct virtio *v = run->ctx;
	int r = check_attached(v, run, err);

	v->run = run;
	if (!r && v->o.vq)
		r = virtio_check_queue(run->object.skel, &v->o, err);
	if (!r)
		r = open_counts(v, run->object.skel, err);
	if (!r && v->method == ATTACH_IRQ)
		tool_note(run, irq_note, v->why);
	return r;
}

/* Registers its queues, also queues that never interrupt: their buffers are counted from here
 * on. */
static void note_queues(void *ctx, int fd)
{
	const struct virtio_bpf *skel = ctx;

	tracepoints_run(bpf_program__fd(skel->progs.irq_device), (uint64_t[]){ (uint64_t)fd }, 1,
			0);
}

static int begin(struct tool_run *run, struct error *err)
{
	const struct virtio *v = run->ctx;

	(void)err;
	if (v->method == ATTACH_IRQ)
		virtio_each_device(&v->o, note_queues, run->object.skel);
	return 0;
}

/* Options that a run would reject, or could not display, though everything is attached. */
static int check(struct tool_run *run, struct check *check, struct error *err)
{
	struct virtio_options latency = { .latency = true };
	uint64_t handlers[VIRTIO_HANDLERS];
	const struct virtio *v = run->ctx;
	struct error gap;
	int r = check_attached(v, run, err);

	/* Without -x and -L it may be enough. */
	if (r && (v->method == ATTACH_IRQ || !virtio_sees_adds(run->object.hooks)))
		return r;
	if (r)
		check_gap(check, "-x and -L", err);
	if (v->method == ATTACH_CALLS)
		return 0;
	if (virtio_irq_check(&latency, NULL, v->why, handlers, &gap))
		check_gap(check, "-L", &gap);
	error_set(&gap, STATUS_OK, 0, irq_note, v->why);
	error_hint(&gap, "%s", "");
	check_gap(check, "", &gap);
	return 0;
}

/* ---- outputs ---- */

/* The buffers that drivers took out since the last interrupt of each queue: the program counts
 * them. */
static void count_rest(const struct virtio_bpf *skel)
{
	int fd = bpf_map__fd(skel->maps.queues);
	uint64_t key, *at = NULL;

	while (bpf_map_get_next_key(fd, at, &key) == 0) {
		tracepoints_run(bpf_program__fd(skel->progs.irq_rest), &key, 1, 0);
		at = &key;
	}
}

static void stop(struct tool_run *run)
{
	struct virtio *v = run->ctx;
	struct virtio_bpf *skel = run->object.skel;

	__atomic_store_n(&skel->bss->begin_ns, 0, __ATOMIC_SEQ_CST);
	if (v->method == ATTACH_IRQ)
		count_rest(skel);
	tool_detach(run);
	v->stopped = true;
}

static int drain(struct tool_run *run, int inactive, struct error *err)
{
	struct virtio *v = run->ctx;
	int r = virtio_counts_take(v->counts, v->stopped, &v->rows, &run->end_ns);

	(void)inactive;
	return r ? error_set(err, STATUS_FAILED, r, "out of memory") : 0;
}

static int rows(struct tool_run *run, struct recording_interval *out, struct error *err)
{
	struct virtio *v = run->ctx;

	(void)err;
	virtio_rows_finish(&v->rows, follows(&v->o));
	forget_gone(v, run->object.skel);
	out->tables[0] = (struct recording_rows){ v->rows.rows, v->rows.n };
	return 0;
}

static void end_output(struct tool_run *run, bool last)
{
	(void)last;
	virtio_rows_clear(&((struct virtio *)run->ctx)->rows);
}

static int print_head(void *ctx, const struct recording_interval *in, FILE *stream)
{
	return virtio_print_head(&((struct virtio *)ctx)->o, in, stream);
}

static int print_tail(void *ctx, const struct render_interval *in, FILE *stream)
{
	return virtio_print_tail(&((struct virtio *)ctx)->o, in, stream);
}

static int print_start(void *ctx, FILE *stream)
{
	const struct virtio *v = ctx;
	const struct tool_object *object = v->run ? &v->run->object : NULL;
	int r;

	if (v->o.debug && object) {
		r = virtio_list_programs(object->hooks, object->events, object->n_events, stream);
		if (r || fputs(object->probe->source, stream) < 0)
			return r ? r : -errno;
	}
	if (fputs("Tracing virtio devices statistics ... Hit Ctrl-C to end.\n", stream) < 0)
		return -errno;
	return render_flush(stream);
}

static void tables(void *ctx, struct show *show)
{
	struct virtio *v = ctx;

	virtio_schema(&v->o, v->columns, &v->schema);
	show->tables[0] = (struct recording_table){ "rows", &v->schema };
	show->n_tables = 1;
	show->text.widths = v->widths;
	show->empty = v->o.device || v->o.driver || v->o.vq
			  ? "no virtqueue was used that matches the filters"
			  : "no virtqueue was used";
}

static void free_virtio(void *ctx)
{
	struct virtio *v = ctx;

	close_counts(v);
	virtio_rows_free(&v->rows);
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
	static struct column all[ARRAY_SIZE(variants)][VIRTIO_COLUMNS];
	static struct schema schemas[ARRAY_SIZE(variants)];

	*with = "";
	if (i >= ARRAY_SIZE(variants))
		return NULL;
	*with = variants[i].with;
	virtio_schema(&variants[i].o, all[i], &schemas[i]);
	return &schemas[i];
}

/* ---- the declaration ---- */

TOOL_PROBE(virtio);

static const struct tool_loss losses[] = {
	TOOL_LOSS(VIRTIO_LOSS_ROWS_FULL, "rows_full", "buffers not shown: no room for another row"),
	TOOL_LOSS(VIRTIO_LOSS_ROWS_BYTES, "rows_full_bytes",
		  "bytes not shown: no room for another row"),
	TOOL_LOSS(VIRTIO_LOSS_QUEUES_FULL, "queues_full",
		  "buffers not shown: no room for another queue"),
	TOOL_LOSS(VIRTIO_LOSS_LISTS, "lists",
		  "scatter-gather lists too long to read fully: the rest of their "
		  "bytes is not counted"),
	TOOL_LOSS(VIRTIO_LOSS_CALLS, "calls",
		  "calls with only their entry or their return seen: their buffers "
		  "are not counted"),
	TOOL_LOSS(VIRTIO_LOSS_BUFFERS_FULL, "buffers_full",
		  "buffers that could not be followed: map full"),
	TOOL_LOSS(VIRTIO_LOSS_NO_END, "no_end",
		  "buffers whose return was missed: their time is unknown"),
	TOOL_LOSS(VIRTIO_LOSS_CLOCK, "clock",
		  "buffers returned before they were added: the clock went backwards"),
	TOOL_LOSS(VIRTIO_LOSS_REAPED, "reaped",
		  "buffers reaped without an interrupt: their bytes are not counted"),
	TOOL_LOSS(VIRTIO_LOSS_PACKED, "packed",
		  "interrupts of packed rings: the buffers used are unknown"),
	TOOL_LOSS(VIRTIO_LOSS_RING, "ring", "entries of a used ring that could not be read"),
	[VIRTIO_LOSSES] = { .key = "missed",
			    .text = "events missed: the program was already running on that CPU",
			    .missed = true },
};

static const struct check_line checks[] = { { { "-x" }, "" }, { { NULL }, NULL } };

static const struct show_setting settings[] = {
	SHOW_SETTING(struct virtio, "extended", 0, o.extended, 1),
	SHOW_SETTING(struct virtio, "latency", 0, o.latency, 1),
	SHOW_SETTING(struct virtio, "way", 0, method, ATTACH_IRQ),
	{ 0 },
};

static const char *const not_events[] = { "rows_full_bytes", NULL };

static const char *const in_rows[] = { "lists", "buffers_full", "no_end", "clock", NULL };

static const struct tool_view view = {
	.columns = columns,
	.events = { "in_sgs", "out_sgs" },
	.not_events = not_events,
	.in_rows = in_rows,
	.settings = settings,
	.screen = &virtio_screen,
	.tables = tables,
	.text = { .begin = print_start, .head = print_head, .tail = print_tail },
};

const struct tool tool_virtio = {
	.name = "virtio",
	TOOL_CTX(struct virtio, o.args),
	.waits = &in_flight,
	.probe = &virtio_probe,
	.losses = losses,
	.n_losses = ARRAY_SIZE(losses),
	.view = &view,
	.options = options,
	.checks = checks,
	.resolve = resolve,
	.events = events,
	.chosen = chosen,
	.configure = configure,
	.attached = attached,
	.check = check,
	.begin = begin,
	.stop = stop,
	.drain = drain,
	.rows = rows,
	.end_output = end_output,
	.free = free_virtio,
};
