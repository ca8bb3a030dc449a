// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace breakdown -T blk: the block layer. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cmd/breakdown/breakdown.h"
#include "cmd/breakdown/hists.h"
#include "core/system/cpus.h"
#include "probes/breakdown_blk.skel.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* ---- attaching ---- */

static int resolve(struct tool_run *run, struct error *err)
{
	struct breakdown *b = run->ctx;

	/* With -Q for all, without for what is never issued (an fsync). */
	b->blk.own_start = blk_iostats_off(b->o.filters.disk.whole);
	b->blk.n_cpus = cpus_possible();
	return breakdown_check_disk(&b->o, err);
}

static unsigned int wants(const struct breakdown_options *o, bool own_start)
{
	bool track = o->args.command && !o->args.all;
	/* Always issue: without -Q for the time, with a filter for a flush command's
	 * submitter, else for the balance. */
	unsigned int events = WANT_ISSUE;

	if (blk_filters_submitters(&o->filters, &o->args) || own_start || keys_of_submitter(o->by))
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
			      : wants(&b->o, b->blk.own_start),
			  out);
}

/* With -Q and no filter by submitter the kernel's own start times are enough. */
static bool follows_nothing(const struct tool_run *run, const struct breakdown_options *o)
{
	return o->queued && hooks_tag(run->object.hooks, "submit", SUBMIT_NONE) == SUBMIT_NONE;
}

static int configure(struct tool_run *run, struct tool_object *object)
{
	const struct breakdown *b = run->ctx;
	const struct args *args = &b->o.args;
	const struct probe_option options[] = {
		{ "queued", b->o.queued },
		{ "own_start", b->blk.own_start },
		{ "balance", follows_nothing(run, &b->o) },
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
		{ "hists", b->blk.n_cpus * 2 * BLK_OPS },
		{ "cpus", b->blk.n_cpus },
		/* -Q: of those that wait for a flush command */
		{ "inflight", args->map_requests ? args->map_requests
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
	int r =
	    hists_map(tool_map(run, "hists"),
		      layer->n_cpus * 2 * BLK_OPS * sizeof(struct probe_hist), &layer->mapped, err);

	if (r)
		return r;
	b->keyed.other = layer->hists;
	b->keyed.n_rows = BLK_OPS;
	return 0;
}

/* ---- what is counted ---- */

/* Issued, less what was given back or completed. */
static int64_t outstanding(const struct breakdown_blk_bpf *skel, uint32_t n_cpus)
{
	int fd = bpf_map__fd(skel->maps.cpus);
	struct blk_cpu cpu;
	int64_t n = 0;

	for (uint32_t i = 0; i < n_cpus; i++)
		if (bpf_map_lookup_elem(fd, &i, &cpu) == 0)
			n += (int64_t)(cpu.issued - cpu.requeued - cpu.completed);
	return n;
}

/* Of the three numbers none is read at the same moment as another, so while there is I/O the
 * difference is a little too high now and then: the lowest of some is believed. */
#define BALANCE_READINGS 5

static size_t unbalanced(const struct breakdown_blk_bpf *skel, const struct breakdown *b)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < BALANCE_READINGS; i++) {
		uint64_t before = blk_requests_in_flight(b->o.filters.disk.whole);
		int64_t n = outstanding(skel, b->blk.n_cpus);
		uint64_t after = blk_requests_in_flight(b->o.filters.disk.whole);

		n -= (int64_t)(before > after ? before : after);
		if (n < least)
			least = n;
	}
	return least > 0 ? (size_t)least : 0;
}

static void stop(struct tool_run *run)
{
	const struct breakdown *b = run->ctx;

	if (follows_nothing(run, &b->o))
		tool_count_loss(run, LOSS_NO_END, unbalanced(run->object.skel, b));
	tool_sweep(run, NULL);
}

static int drain(struct tool_run *run, int inactive, struct error *err)
{
	struct breakdown *b = run->ctx;
	struct blk_layer *layer = &b->blk;
	struct probe_hist *mapped = layer->mapped.at;
	bool unit_slots = hists_unit_slots(&b->o);

	(void)err;
	for (uint32_t cpu = 0; cpu < layer->n_cpus; cpu++)
		for (uint32_t op = 0; op < BLK_OPS; op++)
			hists_take(&layer->hists[op].hist,
				   &mapped[HIST_INDEX(cpu, (uint32_t)inactive, op)], unit_slots);
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
	return breakdown_rows(run, fill, out, err);
}

static void free_blk(void *ctx)
{
	breakdown_free_keyed(ctx);
	maps_unmap(&((struct breakdown *)ctx)->blk.mapped);
}

/* ---- the declaration ---- */

TOOL_PROBE(breakdown_blk);

const struct tool breakdown_blk_tool = {
	BREAKDOWN_TOOL,		.probe = &breakdown_blk_probe,
	.helpers = blk_helpers, .resolve = resolve,
	.events = events,	.configure = configure,
	.attached = attached,	.keeps = breakdown_keeps,
	.stop = stop,		.drain = drain,
	.collect = collect,	.rows = rows,
	.free = free_blk,
};
