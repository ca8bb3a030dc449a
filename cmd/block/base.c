// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/block/base.h"

#include "cmd/engine/probe.h"
#include "core/base/array.h"

/* ---- losses ---- */

static const struct tool_loss losses[BLK_LOSS_ROWS] = {
	TOOL_LOSS(LOSS_NO_START, "no_start", "completions whose start was missed"),
	TOOL_LOSS(LOSS_REQUESTS_FULL, "requests_full",
		  "requests that could not be followed: map full"),
	TOOL_LOSS(LOSS_ROWS_FULL, "rows_full", "I/Os not shown: no room for another row"),
	TOOL_LOSS(LOSS_ROWS_BYTES, "rows_full_bytes",
		  "bytes of I/O not shown: no room for another row"),
	TOOL_LOSS(LOSS_CLOCK, "clock", "completions before their start: the clock went backwards"),
	TOOL_LOSS(LOSS_BIOS, "bios", "requests with too many bios to follow"),
	TOOL_LOSS(LOSS_TRACKED_FULL, "tracked_full",
		  "descendants of COMMAND not followed: map full"),
	TOOL_LOSS(LOSS_NO_END, "no_end", "completions missed: counted, but not in the averages"),
	TOOL_LOSS(LOSS_SUBMITTERS, "submitters",
		  "I/Os with an unknown submitter (missed, or map full): shown under "
		  "[unknown]; not counted with -p, --cgroup or COMMAND"),
	[BLK_LOSS_MISSED] = { .key = "missed",
			      .text = "events missed: the program was already running on that CPU",
			      .missed = true },
	[BLK_LOSS_DISK_GONE] = { .key = "disk_gone",
				 .text =
				     "times the disk of -d disappeared: nothing is counted until "
				     "it returns" },
	[BLK_LOSS_NAMES] = { .key = "names",
			     .text = "process names not stored, map full: shown as ?" },
	[BLK_LOSS_CGROUPS] = { .key = "cgroups",
			       .text = "cgroup paths not stored, table full: shown as cgroup:?" },
	[BLK_LOSS_EVICTED] = { .key = "processes_evicted",
			       .text = "rows merged into [other processes] to save memory, "
				       "smallest first" },
};

_Static_assert(BLK_LOSS_ROWS < TOOL_LOSSES, "room for a tool's own losses");

const char *const block_not_events[] = {
	"tracked_full", "rows_full_bytes",   "disk_gone", "names",
	"cgroups",	"processes_evicted", "no_cqe",	  NULL,
};

/* ---- the run ---- */

struct block_run *block_of(const struct tool_run *t)
{
	return t->base_data;
}

static void parsed(struct tool_run *t)
{
	block_of(t)->filters = (void *)(t->args + 1); /* BLOCK_TOOL() */
	t->helpers = blk_helpers;
}

static int resolve(struct tool_run *t, struct error *err)
{
	struct blk_filters *filters = block_of(t)->filters;
	int r = blk_resolve_filters(filters, t->disks, err);

	return r ? r : blk_check_processes(filters, t->args, err);
}

static void chosen(struct tool_run *t)
{
	block_of(t)->flags = blk_flags(t->object.hooks);
}

static int follow(struct tool_run *t, struct error *err)
{
	return blk_follow(block_of(t)->filters, t->run, err);
}

static int configure(struct tool_run *t, struct tool_object *o)
{
	const struct block_run *b = block_of(t);

	return blk_configure(o->obj, t->args, b->filters, t->object.hooks, &b->flags);
}

static int configured(struct tool_run *t, struct tool_object *o)
{
	return blk_size_places(o->obj, t->args);
}

/* ---- disks ---- */

/* While the disk of -d is missing nothing is counted, so that another disk that gets its number is
 * not mistaken for it; reported as a loss, once. */
static void set_disk_gone(struct tool_run *t, bool gone)
{
	struct block_run *b = block_of(t);

	if (gone && !b->disk_gone)
		tool_count_loss(t, BLK_LOSS_DISK_GONE, 1);
	if (gone != b->disk_gone && t->stopped)
		__atomic_store_n(t->stopped, gone, __ATOMIC_SEQ_CST);
	b->disk_gone = gone;
	tool_disks_changed(t);
}

static void watch_disk(struct tool_run *t)
{
	struct blk_filters *f = block_of(t)->filters;
	struct disk_ref *disk = &f->disks[0], before = *disk;
	bool there = disks_find_again(t->disks, disk);

	/* If its numbers changed it was gone in between, seen or not. */
	if (disk->dev != before.dev || disk->whole != before.whole) {
		set_disk_gone(t, true);
		if (t->object.obj)
			blk_set_disks(t->object.obj, f);
	}
	f->disk = *disk;
	set_disk_gone(t, !there);
}

/* The others are counted while one is missing. */
static void watch_disks(struct tool_run *t)
{
	struct blk_filters *f = block_of(t)->filters;
	uint32_t gone = 0;

	for (uint32_t i = 0; i < f->n_disks; i++) {
		const struct disk_ref before = f->disks[i];
		const bool missing = !disks_find_again(t->disks, &f->disks[i]);

		gone += (missing && !f->missing[i]) || f->disks[i].dev != before.dev;
		f->missing[i] = missing;
	}
	tool_count_loss(t, BLK_LOSS_DISK_GONE, gone);
	if (t->object.obj)
		blk_set_disks(t->object.obj, f);
	tool_disks_changed(t);
}

static void disks(struct tool_run *t)
{
	if (block_of(t)->filters->n_disks > 1)
		watch_disks(t);
	else if (block_of(t)->filters->n_disks)
		watch_disk(t);
	else
		tool_disks_changed(t);
	if (t->object.obj)
		tool_count_loss(
		    t, LOSS_SUBMITTERS,
		    blk_forget_merged(t->object.obj, probe_program_fd(t->object.obj, "rq_busy")));
}

/* ---- the end ---- */

static void losing(struct tool_run *t)
{
	if (t->names)
		tool_count_loss(t, BLK_LOSS_NAMES, process_names_lost(t->names));
}

struct lost_completion {
	struct tool_run *t;
	void (*each)(void *ctx, const struct blk_inflight *entry);
};

static void detach_before_sweep(void *ctx)
{
	const struct lost_completion *lost = ctx;

	tool_detach(lost->t);
}

static void on_lost_completion(void *ctx, const struct blk_inflight *entry)
{
	const struct lost_completion *lost = ctx;

	if (lost->each)
		lost->each(lost->t->ctx, entry);
}

void block_sweep(struct tool_run *t, void (*account)(void *ctx, const struct blk_inflight *entry))
{
	struct lost_completion ctx = { t, account };

	tool_count_loss(t, LOSS_NO_END,
			blk_sweep(detach_before_sweep, t->object.obj,
				  probe_program_fd(t->object.obj, "rq_busy"), on_lost_completion,
				  &ctx));
}

const struct tool_base block_base = {
	.data_size = sizeof(struct block_run),
	.stops = true,
	.losses = losses,
	.n_losses = ARRAY_SIZE(losses),
	.parsed = parsed,
	.resolve = resolve,
	.chosen = chosen,
	.follow = follow,
	.configure = configure,
	.configured = configured,
	.disks = disks,
	.losing = losing,
};
