// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace breakdown -T blk: the block layer, also with --value. */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "cmd/block/base.h"
#include "cmd/block/files.h"
#include "cmd/breakdown/breakdown.h"
#include "cmd/breakdown/hists.h"
#include "core/base/array.h"
#include "core/system/cpus.h"
#include "probes/breakdown_blk.skel.h"
#include "probes/breakdown_value.skel.h"

/* ---- attaching ---- */

static bool wants_submitters(const struct breakdown *b)
{
	return blk_filters_submitters(&b->o.filters, &b->o.args) || b->blk.own_start ||
	       keys_of_submitter(b->o.by);
}

static int resolve(struct tool_run *run, struct error *err)
{
	struct breakdown *b = run->ctx;

	/* With -Q for all, without it for requests that are never issued (an fsync). */
	b->blk.own_start = blk_iostats_off(b->o.filters.disk.whole);
	b->blk.n_cpus = cpus_possible();
	b->blk.rows = b->o.value ? VALUE_ROWS : BLK_OPS;
	b->blk.balances = !run->check && b->o.queued && !wants_submitters(b) && !blk_has_paths();
	return breakdown_check_disk(&b->o, err);
}

static unsigned int wants(const struct breakdown *b)
{
	const struct breakdown_options *o = &b->o;
	bool track = o->args.command && !o->args.all;
	/* Without -Q for the time, otherwise to follow it. */
	unsigned int events = b->blk.balances ? WANT_COMPLETE : WANT_ISSUE;

	if (wants_submitters(b))
		events |= WANT_SUBMIT;
	if (keys_of_process(o->by))
		events |= WANT_NAMES;
	if (keys_of_cgroup(o->by))
		events |= WANT_CGROUPS;
	if (track)
		events |= WANT_TRACK;
	return events;
}

static size_t events(struct tool_run *run, struct hook_event *out)
{
	const struct breakdown *b = run->ctx;

	return blk_events(run->check
			      ? WANT_SUBMIT | WANT_ISSUE | WANT_TRACK | WANT_NAMES | WANT_CGROUPS
			      : wants(b),
			  out);
}

/* Including the ones shared by all CPUs. */
static uint32_t n_hists(const struct blk_layer *layer)
{
	return HIST_INDEX(layer->rows, layer->n_cpus + 1, 0, 0);
}

static bool has_streams(const struct breakdown_options *o)
{
	return o->value == VALUE_DISTANCE || o->value == VALUE_GAP;
}

/* For STREAMS of them, whatever the CPUs keep free for themselves. */
static uint32_t streams_room(const struct breakdown *b)
{
	return b->o.args.map_keys ? b->o.args.map_keys
				  : blk_owners_room(b->blk.n_cpus, STREAMS / 2);
}

static int configure(struct tool_run *run, struct tool_object *object)
{
	const struct breakdown *b = run->ctx;
	const struct args *args = &b->o.args;
	const struct probe_option options[] = {
		{ "n_cpus", b->blk.n_cpus },
		{ b->o.value ? "value" : "queued", b->o.value ? b->o.value : b->o.queued },
		{ "own_start", b->blk.own_start },
		{ "balance", b->blk.balances },
		{ "unit_ns", b->o.unit->ns },
		{ "keyed", b->o.by != 0 },
		{ "keyed_dev", keys_have(b->o.by, KEY_DISK) },
		{ "keyed_who", keys_of_submitter(b->o.by) },
		{ "keyed_cpu", keyed_fits_cpus(b->o.by, args->map_keys, run->disks) },
		{ "by_process", keys_of_process(b->o.by) },
		{ "want_cgroup", keys_of_cgroup(b->o.by) },
		{ "by_user", keys_have(b->o.by, KEY_USER) },
		{ "by_file", keys_of_file(b->o.by) },
	};
	/* As large as this machine needs or, if no program of this run uses it, as small as
	 * possible. */
	const struct probe_map maps[] = {
		{ "hists", n_hists(&b->blk) },
		{ "cpus", b->blk.n_cpus },
		{ "inflight", b->blk.balances ? 1
			      : args->map_requests
				  ? args->map_requests
				  : blk_requests_possible(b->o.filters.disk.whole) },
		{ "keyed0", !b->o.by ? 1 : args->map_keys },
		{ "keyed1", !b->o.by ? 1 : args->map_keys },
		{ "file_names0", keyed_files_room(b->o.by, args->map_files) },
		{ "file_names1", keyed_files_room(b->o.by, args->map_files) },
		{ "cgroups0", keys_of_cgroup(b->o.by) ? BLK_MADE_CGROUPS : 1 },
		{ "cgroups1", keys_of_cgroup(b->o.by) ? BLK_MADE_CGROUPS : 1 },
		{ "process_names0", keys_of_process(b->o.by) ? args->map_names : 1 },
		{ "process_names1", keys_of_process(b->o.by) ? args->map_names : 1 },
		{ "bio_owners",
		  blk_owners_entries(run->object.hooks, args, b->o.filters.disk.whole) },
	};

	const struct probe_map own[] = {
		{ "streams", has_streams(&b->o) ? streams_room(b) : 1 },
		{ "depths", b->o.value == VALUE_DEPTH ? 0 : 1 },
	};
	int r = tool_configure(object, options, ARRAY_SIZE(options), maps, ARRAY_SIZE(maps));

	if (!r && keys_of_file(b->o.by))
		r = files_configure(run, object, &block_of(run)->flags);
	return r || !b->o.value ? r : tool_configure(object, NULL, 0, own, ARRAY_SIZE(own));
}

static int attached(struct tool_run *run, struct error *err)
{
	struct breakdown *b = run->ctx;
	struct blk_layer *layer = &b->blk;
	int r = hists_map(tool_map(run, "hists"), n_hists(layer) * sizeof(struct blk_hist),
			  &layer->mapped, err);

	if (r)
		return r;
	b->keyed.other = layer->hists;
	b->keyed.n_rows = layer->rows;
	if (layer->balances) {
		const struct breakdown_blk_bpf *skel = run->object.skel;

		r = maps_map_array(skel->maps.cpus, false, &layer->cpus);
		if (r)
			error_set(err, STATUS_FAILED, r, "cannot map the counters: %s",
				  strerror(-r));
	}
	return r;
}

/* ---- counts ---- */

/* Do the kernel's I/O statistics also count the I/O in the histogram of @op (count_unlisted())? */
static bool is_in_statistics(const struct tool_run *run, uint32_t op)
{
	return op != BLK_PASSTHROUGH || block_of(run)->flags.io_stat;
}

static uint64_t seen_in(const struct probe_hist *hist)
{
	uint64_t sum = 0;

	if (!hist->total_ns && !hist->fine[0])
		return 0;
	for (size_t i = 0; i < PROBE_FINE_SLOTS; i++)
		sum += __atomic_load_n(&hist->fine[i], __ATOMIC_RELAXED);
	return sum;
}

static uint64_t seen(void *ctx)
{
	struct tool_run *run = ctx;
	const struct breakdown *b = run->ctx;
	const struct blk_hist *mapped = b->blk.mapped.at;
	uint64_t sum = b->blk.drained;
	const struct blk_cpu *cpus = b->blk.cpus.at;

	for (uint32_t i = 0; i < n_hists(&b->blk); i++)
		if (is_in_statistics(run, i % BLK_OPS))
			sum += seen_in(&mapped[i].hist);
	for (uint32_t cpu = 0; cpu < b->blk.n_cpus; cpu++)
		sum += __atomic_load_n(&cpus[cpu].unlisted, __ATOMIC_RELAXED);
	return sum;
}

static int begin(struct tool_run *run, struct error *err)
{
	struct breakdown *b = run->ctx;
	int r = breakdown_begin(run, err);

	if (!r && b->blk.balances) {
		r = balance_begin(&b->blk.balance, &b->o.filters, seen, run);
		if (r)
			error_set(err, STATUS_FAILED, r, "out of memory");
	}
	return r;
}

/* The programs do not count I/O while the disk of -d is gone. */
static void on_disks(struct tool_run *run)
{
	struct breakdown *b = run->ctx;

	if (block_of(run)->disk_gone || (b->blk.balances && blk_has_paths()))
		balance_free(&b->blk.balance);
	else
		balance_disks(&b->blk.balance, &b->o.filters);
}

static void stop(struct tool_run *run)
{
	struct breakdown *b = run->ctx;

	tool_look(run);
	tool_count_loss(run, LOSS_NO_END, balance_end(&b->blk.balance, seen, run));
	block_sweep(run, NULL);
}

static void take(struct hist *to, struct blk_hist *from, bool unit_slots)
{
	hists_take(to, &from->hist, unit_slots);
	if (from->interrupting_max_ns > to->max)
		to->max = from->interrupting_max_ns;
	from->interrupting_max_ns = 0;
}

static int drain(struct tool_run *run, int inactive, struct error *err)
{
	struct breakdown *b = run->ctx;
	struct blk_layer *layer = &b->blk;
	struct blk_hist *mapped = layer->mapped.at;
	bool unit_slots = hists_unit_slots(&b->o);

	(void)err;
	for (uint32_t row = 0; row < layer->rows; row++) {
		struct hist *hist = &layer->hists[row].hist;
		uint64_t before = hist->count;

		for (uint32_t cpu = 0; cpu <= layer->n_cpus; cpu++)
			take(hist, &mapped[HIST_INDEX(layer->rows, cpu, (uint32_t)inactive, row)],
			     unit_slots);
		if (layer->balances && is_in_statistics(run, row))
			layer->drained += hist->count - before;
	}
	for (size_t row = 0; !unit_slots && row < layer->rows; row++)
		hist_log2_from_fine(&layer->hists[row].hist);
	return breakdown_drain_keyed(run, inactive);
}

/* Between two outputs: the maps must not fill up, however long the interval. */
static int collect(struct tool_run *run, struct error *err)
{
	if (((struct breakdown *)run->ctx)->o.by)
		return tool_drain(run, err);
	tool_look(run);
	return 0;
}

static size_t fill(const struct breakdown *b, const struct hist_row *const *cells,
		   struct breakdown_row *rows)
{
	size_t n = 0;

	for (uint32_t row = 0; row < b->blk.rows; row++) {
		if (!cells[row] || !cells[row]->hist.count)
			continue;
		breakdown_row_fill(&rows[n], "blk", blk_op_name(b->o.value ? row / 2 : row),
				   &cells[row]->hist);
		value_row_fill(&rows[n], b->o.value, row % 2);
		rows[n++].place = row;
	}
	return n;
}

static int rows(struct tool_run *run, struct recording_interval *out, struct error *err)
{
	struct breakdown *b = run->ctx;

	tool_count_loss(run, LOSS_NO_END, balance_missed(&b->blk.balance, seen, run));
	return breakdown_rows(run, fill, out, err);
}

/* Streams that are not in their map any more.  It is not read while it has room for all.  A stream
 * that is evicted meanwhile may hide others until the next output, the last of which is exact. */
static void count_evicted(struct tool_run *run)
{
	struct breakdown *b = run->ctx;
	const uint64_t *at = tool_variable(run, "streams_made", sizeof(*at));
	uint64_t made = __atomic_load_n(at, __ATOMIC_RELAXED), left = 0;
	uint32_t room = streams_room(b);
	struct hist_key key, *before = NULL;
	int fd = tool_map(run, "streams");

	if (!b->o.args.map_keys && made <= STREAMS / 2)
		return;
	while (left < room && !bpf_map_get_next_key(fd, before, &key)) {
		before = &key;
		left++;
	}
	if (made < left + b->blk.evicted)
		return;
	tool_count_loss(run, BLK_LOSS_ROWS, made - left - b->blk.evicted);
	b->blk.evicted = made - left;
}

static int value_rows(struct tool_run *run, struct recording_interval *out, struct error *err)
{
	if (has_streams(&((struct breakdown *)run->ctx)->o))
		count_evicted(run);
	return breakdown_rows(run, fill, out, err);
}

static void free_blk(void *ctx)
{
	struct breakdown *b = ctx;

	breakdown_free_keyed(b);
	balance_free(&b->blk.balance);
	maps_unmap(&b->blk.cpus);
	maps_unmap(&b->blk.mapped);
}

/* ---- the declaration ---- */

TOOL_PROBE(breakdown_blk);

TOOL_PROBE(breakdown_value);

static const struct tool_loss value_losses[] = {
	{ .key = "streams_evicted",
	  .text = "keys whose last requests were forgotten: the next one is in no row" },
};

/* Their common fields. */
#define BLK_LAYER_TOOL                                                                             \
	BREAKDOWN_TOOL, .resolve = resolve, .events = events, .configure = configure,              \
			.attached = attached, .keeps = breakdown_keeps, .begin = begin,            \
			.disks = on_disks, .stop = stop, .drain = drain, .collect = collect,       \
			.free = free_blk

const struct tool breakdown_blk_tool = {
	BLK_LAYER_TOOL,
	.probe = &breakdown_blk_probe,
	.rows = rows,
};

const struct tool breakdown_value_tool = {
	BLK_LAYER_TOOL,		.probe = &breakdown_value_probe,
	.losses = value_losses, .n_losses = ARRAY_SIZE(value_losses),
	.rows = value_rows,
};
