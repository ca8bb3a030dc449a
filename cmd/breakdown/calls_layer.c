// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/block/base.h"
#include "cmd/block/files.h"
#include "cmd/breakdown/calls_layer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "cmd/breakdown/hists.h"
#include "cmd/breakdown/keyed.h"
#include "cmd/block/syscalls.h"
#include "cmd/block/uring_events.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/system/cpus.h"

#define ALTS(a) (a), ARRAY_SIZE(a)

#define SYSCALL_FUNCTION(op, name, number)                                                         \
	{ SYSCALLS_FUNCTION(name), CALL_ID(LAYER_SYSCALL, SYSCALL_##op, 0) },

static const struct hook_function syscall_functions[] = { SYSCALLS_EACH(SYSCALL_FUNCTION) };

#define SYSCALL_ALTERNATIVES 2

/* For @n system calls from @first on.  The tracepoints cost a little in every system call. */
#define SYSCALL_ALTS(name, first, n)                                                               \
	static const struct hook_alt name[SYSCALL_ALTERNATIVES] = {                                \
		{ HOOK_KPROBE_MULTI,                                                               \
		  SYSCALLS_FUNCTION("*"),                                                          \
		  0,                                                                               \
		  { "syscall_mx", "syscall_me" },                                                  \
		  0,                                                                               \
		  NULL,                                                                            \
		  syscall_functions + (first),                                                     \
		  n },                                                                             \
		{ HOOK_RAW_TP, "sys_enter", 2, { "sys_enter_raw", "sys_exit_raw" } }               \
	}

SYSCALL_ALTS(syscall_alts, 0, SYSCALLS);
SYSCALL_ALTS(table_syscall_alts, 0, SYSCALL_OPEN);
SYSCALL_ALTS(fsync_alts, SYSCALL_FSYNC, SYSCALL_FDATASYNC - SYSCALL_FSYNC + 1);

static const struct hook_alt thread_alts[] = {
	{ HOOK_RAW_TP, "sched_process_free", 1, { "thread_free" } },
};

static const struct hook_alt merge_alts[] = {
	{ HOOK_RAW_TP, "block_rq_merge", 1, { "merge_raw" } },
	{ HOOK_RAW_TP, "block_rq_merge", 2, { "merge_raw_q" } },
};

static const struct hook_alt bio_merge_alts[] = {
	{ HOOK_RAW_TP, "block_bio_backmerge", 1, { "backm_raw", "frontb_raw" }, 0, NULL, false },
	{ HOOK_RAW_TP,
	  "block_bio_backmerge",
	  3,
	  { "backm_raw_q", "frontb_raw_q" },
	  0,
	  NULL,
	  false },
};

static const struct hook_alt remap_alts[] = {
	{ HOOK_RAW_TP, "block_bio_remap", 3, { "bio_remap_raw" }, 0, NULL, false },
	{ HOOK_RAW_TP, "block_bio_remap", 4, { "bio_remap_raw_q" }, 0, NULL, false },
};

static struct hook_event syscall_event(const struct calls_layer *layer,
				       const struct hook_alt alts[SYSCALL_ALTERNATIVES])
{
	const size_t first = layer->drains_maps ? LAYERS_MULTI_ALTS : 0;

	return (struct hook_event){ "syscall", alts + first, SYSCALL_ALTERNATIVES - first, false };
}

static bool tracks(const struct breakdown_options *o)
{
	return o->args.command && !o->args.all;
}

/* In the table the layer may be missing. */
static size_t put_uring_events(const struct calls_layer *layer, struct hook_event *events)
{
	for (size_t i = 0; i < URING_EVENTS; i++) {
		events[i] = uring_events[i];
		events[i].optional |= layer->combined;
	}
	return URING_EVENTS;
}

size_t calls_layer_events(const struct calls_layer *layer, struct hook_event *events)
{
	unsigned int wants = WANT_SUBMIT | WANT_ISSUE | WANT_BIO;
	struct hook_event blk[BLK_EVENTS_MAX];
	size_t n = 0, n_blk, n_processes; /* events of processes come first */

	if (keys_of_process(layer->o->by))
		wants |= WANT_NAMES;
	if (keys_of_cgroup(layer->o->by))
		wants |= WANT_CGROUPS;
	n_blk = blk_events(wants | (tracks(layer->o) ? WANT_TRACK : 0), blk);
	n_processes = (tracks(layer->o) ? 1 : 0) + (wants & WANT_NAMES ? 1 : 0) +
		      (wants & WANT_CGROUPS ? 1 : 0);
	for (size_t i = 0; i < n_processes; i++)
		events[n++] = blk[i];
	events[n++] = (struct hook_event){ "thread", ALTS(thread_alts), .uncounted = true };
	if (layer->combined)
		events[n++] = syscall_event(layer, table_syscall_alts);
	else if (layer->layers & LAYER_BIT(LAYER_SYSCALL))
		events[n++] = syscall_event(layer, syscall_alts);
	else if (layer->layers & LAYER_BIT(LAYER_VFS)) /* see FSYNC_PLACEHOLDER */
		events[n++] = syscall_event(layer, fsync_alts);
	n += layers_events(layer->hooking, layer->combined, layer->drains_maps, events + n);
	if (layer->hooking & LAYER_BIT(LAYER_URING))
		n += put_uring_events(layer, events + n);
	if (!layer->combined)
		return n;
	events[n++] = (struct hook_event){ "remap", ALTS(remap_alts), false };
	events[n++] = (struct hook_event){ "merge", ALTS(merge_alts), false };
	events[n++] = (struct hook_event){ "bio_merge", ALTS(bio_merge_alts), false };
	for (size_t i = n_processes; i < n_blk; i++)
		events[n++] = blk[i];
	return n;
}

/* ---- rows ---- */

/* CPUs share rows if there are many CPUs. */
static uint32_t shards(void)
{
	uint32_t n = 1, cpus = cpus_possible();

	while (n < cpus && n < CALL_SHARDS_MAX)
		n *= 2;
	return n;
}

int calls_layer_init(struct calls_layer *layer, const struct breakdown_options *o,
		     struct layers_wanted wanted, struct error *err)
{
	unsigned int layers = wanted.all;

	memset(layer, 0, sizeof(*layer));
	layer->o = o;
	layer->layers = layers;
	layer->hooking = wanted.now;
	layer->combined = !o->layer;
	call_disks_init(&layer->disks, &o->filters, keys_have(o->by, KEY_DISK));
	layer->n_shards = shards();
	for (unsigned int k = 0; k < LAYERS; k++) {
		const unsigned int i = layer_from_top(k);
		bool block = i >= LAYER_ADMIT;

		if (!(layers & LAYER_BIT(i)) && !(block && layer->combined))
			continue;
		layer->row_of[i] = (uint16_t)layer->n_rows;
		layer->n_rows += layer->combined ? 1 : layer_ops(i);
	}
	if (layer->combined) {
		layer->n_cells = layer->n_rows;
		layer->n_rows *= CLASSES * IO_KINDS;
	}
	layer->rows = calloc(layer->n_rows, sizeof(*layer->rows));
	if (!layer->rows)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	return 0;
}

const struct hist_row *calls_layer_cell(const struct calls_layer *layer, unsigned int class,
					unsigned int io_kind, unsigned int which)
{
	return &layer->rows[(class * IO_KINDS + io_kind) * layer->n_cells + layer->row_of[which]];
}

/* ---- the object ---- */

#define FEWEST_THREADS 4096
#define MAX_THREADS    65536

/* Entries for threads: four times the present number. */
static uint32_t threads_possible(void)
{
	FILE *file FCLOSE_AT_END = fopen("/proc/loadavg", "re");
	unsigned int n = 0;

	if (!file || fscanf(file, "%*s %*s %*s %*u/%u", &n) != 1)
		n = 0;
	n = n < MAX_THREADS ? n * 4 : MAX_THREADS;
	if (n > MAX_THREADS)
		return MAX_THREADS;
	return n > FEWEST_THREADS ? n : FEWEST_THREADS;
}

int calls_layer_configure(const struct calls_layer *layer, struct tool_run *run,
			  struct tool_object *object)
{
	const struct breakdown_options *o = layer->o;
	const struct args *args = &o->args;
	const struct hooks *hooks = run->object.hooks;
	unsigned int hooked = layers_hooked(hooks, layer->layers, NULL, 0);
	bool combined = layer->combined;
	uint32_t uring = uring_is_seen(hooks) ? args->map_requests : 1; /* 0: as declared */
	unsigned char syscall_ops[SYSCALL_NUMBERS] = { 0 };
	const struct probe_option options[] = {
		{ "own_start", true },
		{ "trace_completion_mask", block_of(run)->flags.trace_completion },
		{ "time_syscalls", (hooked & LAYER_BIT(LAYER_SYSCALL)) != 0 },
		{ "time_vfs", (hooked & LAYER_BIT(LAYER_VFS)) != 0 },
		{ "combined", combined },
		{ "by_bios", combined && !blk_disk_has_requests(&o->filters) },
		{ "check_files", o->filters.disk.dev != 0 },
		{ "has_request", uring_has_request(hooks) },
		{ "unit_ns", hists_unit_slots(o) ? o->unit->ns : 1 },
		{ "n_rows", layer->n_rows },
		{ "n_cells", layer->n_cells },
		{ "shard_mask", layer->n_shards - 1 },
		{ "keyed", o->by != 0 },
		{ "keyed_dev", keys_have(o->by, KEY_DISK) },
		{ "keyed_who", keys_of_submitter(o->by) },
		{ "keyed_cpu", keyed_fits_cpus(o->by, args->map_keys, run->disks) },
		{ "by_process", keys_of_process(o->by) },
		{ "want_cgroup", keys_of_cgroup(o->by) },
		{ "by_user", keys_have(o->by, KEY_USER) },
		{ "by_file", keys_of_file(o->by) },
		{ "layer_row", 0, layer->row_of, sizeof(layer->row_of) },
		{ "syscall_ops", 0, syscall_ops, sizeof(syscall_ops) },
	};
	const struct probe_map maps[] = {
		{ "rows", layer->n_shards * 2 * layer->n_rows },
		{ "threads", args->map_rows ? args->map_rows : threads_possible() },
		CALL_DISKS_SIZES(&layer->disks),
		{ "cpus", combined || keys_of_process(o->by) ? cpus_possible() : 1 },
		{ "inflight", !combined		   ? 1
			      : args->map_requests ? args->map_requests
						   : blk_requests_possible(o->filters.disk.whole) },
		{ "stacked", combined ? 0 : 1 },
		{ "merged", combined ? 0 : 1 },
		{ "uring_names", uring },
		{ "uring_requests", uring_has_request(hooks) ? uring : 1 },
		{ "keyed0", !o->by ? 1 : args->map_keys },
		{ "keyed1", !o->by ? 1 : args->map_keys },
		{ "file_names0", keyed_files_room(o->by, args->map_files) },
		{ "file_names1", keyed_files_room(o->by, args->map_files) },
		{ "cgroups0", keys_of_cgroup(o->by) ? BLK_MADE_CGROUPS : 1 },
		{ "cgroups1", keys_of_cgroup(o->by) ? BLK_MADE_CGROUPS : 1 },
		{ "process_names0", keys_of_process(o->by) ? args->map_names : 1 },
		{ "process_names1", keys_of_process(o->by) ? args->map_names : 1 },
		{ "bio_owners",
		  combined ? blk_owners_entries(hooks, args, o->filters.disk.whole) : 1 },
	};

	int r;

	syscalls_numbers(!combined, syscall_ops);
	r = tool_configure(object, options, ARRAY_SIZE(options), maps, ARRAY_SIZE(maps));
	return r || !keys_of_file(o->by) ? r : files_configure(run, object, &block_of(run)->flags);
}

/* ---- a run ---- */

int calls_layer_map(struct calls_layer *layer, const struct tool_run *run, struct error *err)
{
	return hists_map(tool_map(run, "rows"),
			 layer->n_shards * 2 * layer->n_rows * sizeof(struct call_hist),
			 &layer->mapped, err);
}

static void take_row(struct hist_row *to, struct call_hist *from, bool unit_slots)
{
	/* Most are empty; calls of no time at all are in the first slot. */
	if (!from->hist.total_ns && !from->hist.fine[0] && !from->self_ns)
		return;
	to->self_ns += from->self_ns;
	from->self_ns = 0;
	hists_take(&to->hist, &from->hist, unit_slots);
}

void calls_layer_drain(struct calls_layer *layer, int inactive)
{
	bool unit_slots = hists_unit_slots(layer->o);
	struct call_hist *mapped = layer->mapped.at;

	for (uint32_t shard = 0; shard < layer->n_shards; shard++)
		for (uint32_t i = 0; i < layer->n_rows; i++)
			take_row(&layer->rows[i],
				 &mapped[(shard * 2 + (uint32_t)inactive) * layer->n_rows + i],
				 unit_slots);
	for (size_t i = 0; !unit_slots && i < layer->n_rows; i++)
		if (layer->rows[i].hist.count)
			hist_log2_from_fine(&layer->rows[i].hist);
}

uint64_t calls_layer_weight(const struct calls_layer *layer, uint32_t place,
			    const struct hist_row *row)
{
	if (!layer->combined)
		return row->hist.total;
	if (place / layer->n_cells % IO_KINDS != IO_ASYNC)
		return row->self_ns;
	return place % layer->n_cells == layer->row_of[LAYER_DEVICE] ? row->hist.total : 0;
}

void calls_layer_end(struct calls_layer *layer)
{
	maps_unmap(&layer->mapped);
	call_disks_free(&layer->disks);
	free(layer->rows);
}
