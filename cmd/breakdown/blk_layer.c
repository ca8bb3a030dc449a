// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace breakdown -T blk: the block layer. */
#include <errno.h>
#include <string.h>

#include "cmd/breakdown/breakdown.h"
#include "cmd/breakdown/hists.h"
#include "core/system/cpus.h"
#include "probes/breakdown_blk.skel.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* ---- attaching ---- */

static bool wants_submitters(const struct breakdown *b)
{
	return blk_filters_submitters(&b->o.filters, &b->o.args) || b->blk.own_start ||
	       keys_of_submitter(b->o.by);
}

static int resolve(struct tool_run *run, struct error *err)
{
	struct breakdown *b = run->ctx;

	/* With -Q for all, without for what is never issued (an fsync). */
	b->blk.own_start = blk_iostats_off(b->o.filters.disk.whole);
	b->blk.n_cpus = cpus_possible();
	b->blk.balances = !run->check && b->o.queued && !wants_submitters(b) && !blk_has_paths();
	return breakdown_check_disk(&b->o, err);
}

static unsigned int wants(const struct breakdown *b)
{
	const struct breakdown_options *o = &b->o;
	bool track = o->args.command && !o->args.all;
	/* Without -Q for the time, else to follow it. */
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

/* With those that stand for all CPUs. */
static uint32_t n_hists(const struct blk_layer *layer)
{
	return HIST_INDEX(layer->n_cpus + 1, 0, 0);
}

static int configure(struct tool_run *run, struct tool_object *object)
{
	const struct breakdown *b = run->ctx;
	const struct args *args = &b->o.args;
	const struct probe_option options[] = {
		{ "n_cpus", b->blk.n_cpus },
		{ "queued", b->o.queued },
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
	};
	/* As large as this machine needs, or, if no program of this run uses it, as small as it
	 * can be. */
	const struct probe_map maps[] = {
		{ "hists", n_hists(&b->blk) },
		{ "cpus", b->blk.n_cpus },
		{ "inflight", b->blk.balances ? 1
			      : args->map_requests
				  ? args->map_requests
				  : blk_requests_possible(b->o.filters.disk.whole) },
		{ "keyed0", !b->o.by ? 1 : args->map_keys },
		{ "keyed1", !b->o.by ? 1 : args->map_keys },
		{ "cgroups0", keys_of_cgroup(b->o.by) ? BLK_MADE_CGROUPS : 1 },
		{ "cgroups1", keys_of_cgroup(b->o.by) ? BLK_MADE_CGROUPS : 1 },
		{ "process_names0", keys_of_process(b->o.by) ? args->map_names : 1 },
		{ "process_names1", keys_of_process(b->o.by) ? args->map_names : 1 },
		{ "bio_owners",
		  blk_owners_entries(run->object.hooks, args, b->o.filters.disk.whole) },
	};

	return tool_configure(object, options, N(options), maps, N(maps));
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
	b->keyed.n_rows = BLK_OPS;
	if (layer->balances) {
		const struct breakdown_blk_bpf *skel = run->object.skel;

		r = maps_map_array(skel->maps.cpus, false, &layer->cpus);
		if (r)
			error_set(err, STATUS_FAILED, r, "cannot map the counters: %s",
				  strerror(-r));
	}
	return r;
}

/* ---- what is counted ---- */

/* Do the kernel's I/O statistics count those in the histogram of @op, too (count_unlisted())? */
static bool is_in_statistics(const struct tool_run *run, uint32_t op)
{
	return op != BLK_PASSTHROUGH || run->flags.io_stat;
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

/* What is done while the disk of -d is gone the programs do not count. */
static void on_disks(struct tool_run *run)
{
	struct breakdown *b = run->ctx;

	if (run->disk_gone || (b->blk.balances && blk_has_paths()))
		balance_free(&b->blk.balance);
	else
		balance_disks(&b->blk.balance, &b->o.filters);
}

static void stop(struct tool_run *run)
{
	struct breakdown *b = run->ctx;

	tool_look(run);
	tool_count_loss(run, LOSS_NO_END, balance_end(&b->blk.balance, seen, run));
	tool_sweep(run, NULL);
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
	for (uint32_t op = 0; op < BLK_OPS; op++) {
		struct hist *hist = &layer->hists[op].hist;
		uint64_t before = hist->count;

		for (uint32_t cpu = 0; cpu <= layer->n_cpus; cpu++)
			take(hist, &mapped[HIST_INDEX(cpu, (uint32_t)inactive, op)], unit_slots);
		if (is_in_statistics(run, op))
			layer->drained += hist->count - before;
	}
	for (size_t op = 0; !unit_slots && op < BLK_OPS; op++)
		hist_log2_from_fine(&layer->hists[op].hist);
	return breakdown_drain_keyed(run, inactive);
}

/* Between two outputs: the maps shall not fill up, however long the interval. */
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

	(void)b;
	for (uint32_t op = 0; op < BLK_OPS; op++) {
		if (!cells[op] || !cells[op]->hist.count)
			continue;
		breakdown_row_fill(&rows[n], "blk", blk_op_name(op), &cells[op]->hist);
		rows[n++].place = op;
	}
	return n;
}

static int rows(struct tool_run *run, struct recording_interval *out, struct error *err)
{
	struct breakdown *b = run->ctx;

	tool_count_loss(run, LOSS_NO_END, balance_missed(&b->blk.balance, seen, run));
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

const struct tool breakdown_blk_tool = {
	BREAKDOWN_TOOL,		.probe = &breakdown_blk_probe,
	.helpers = blk_helpers, .resolve = resolve,
	.events = events,	.configure = configure,
	.attached = attached,	.keeps = breakdown_keeps,
	.begin = begin,		.disks = on_disks,
	.stop = stop,		.drain = drain,
	.collect = collect,	.rows = rows,
	.free = free_blk,
};
