// SPDX-License-Identifier: GPL-2.0-or-later
/* What a tool drains, loses and shows. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/report.h"
#include "cmd/tool_private.h"
#include "core/base/clock.h"

/* ---- losses ---- */

/* Row @i: those of block I/O come first. */
static const struct tool_loss *loss_of(const struct tool *tool, size_t i)
{
	size_t shared = tool->flags & TOOL_BLK ? BLK_LOSS_ROWS : 0;

	return i < shared ? &blk_loss_table[i] : &tool->losses[i - shared];
}

int tool_find_losses(struct tool_run *t, struct error *err)
{
	if (!t->object.obj)
		return 0;
	t->n_losses = t->tool->n_losses + (t->tool->flags & TOOL_BLK ? BLK_LOSS_ROWS : 0);
	if (t->n_losses > TOOL_LOSSES)
		return error_set(err, STATUS_FAILED, -E2BIG, "too many losses");
	for (size_t i = 0; i < t->n_losses; i++) {
		const struct tool_loss *loss = loss_of(t->tool, i);
		const uint64_t *array = NULL;

		if (loss->variable)
			array =
			    tool_variable(t, loss->variable, (loss->index + 1) * sizeof(uint64_t));
		if (loss->variable && !array)
			return error_set(err, STATUS_FAILED, -ENOENT,
					 "the BPF object has no variable '%s'", loss->variable);
		t->loss_at[i] = array ? array + loss->index : NULL;
	}
	return 0;
}

void tool_count_loss(struct tool_run *t, size_t i, uint64_t n)
{
	t->lost[i] += n;
}

static uint64_t count_missed(struct tool_run *t)
{
	uint64_t missed = hooks_missed(t->object.hooks, t->backup_hits);

	for (struct tool_object *o = t->more; o; o = o->next)
		if (o->hooks)
			missed += hooks_missed(o->hooks, NULL);
	return missed;
}

void tool_losses(struct tool_run *t, struct interval *interval)
{
	for (size_t i = 0; i < t->n_losses; i++) {
		const struct tool_loss *loss = loss_of(t->tool, i);
		uint64_t now = t->lost_before[i];

		if (t->loss_at[i])
			now = __atomic_load_n(t->loss_at[i], __ATOMIC_RELAXED);
		else if (loss->missed && t->object.hooks)
			now = count_missed(t);
		if (now < t->lost_before[i]) /* a backup program handled one late */
			now = t->lost_before[i];
		t->losses[i] = (struct loss){
			.key = loss->key,
			.text = loss->text,
			.count = now - t->lost_before[i] + t->lost[i],
		};
		t->lost_before[i] = now;
		t->lost[i] = 0;
	}
	interval->losses = t->losses;
	interval->n_losses = t->n_losses;
}

/* ---- drain ---- */

static void disks_have_changed(struct tool_run *t)
{
	if (t->tool->disks)
		t->tool->disks(t);
}

/* While the disk of -d is not there nothing is counted, so that another one that gets its number is
 * not taken for it; the losses say so, once. */
static void set_disk_gone(struct tool_run *t, bool gone)
{
	if (gone && !t->disk_gone)
		tool_count_loss(t, BLK_LOSS_DISK_GONE, 1);
	if (gone != t->disk_gone && t->stopped)
		__atomic_store_n(t->stopped, gone, __ATOMIC_SEQ_CST);
	t->disk_gone = gone;
	disks_have_changed(t);
}

static void watch_disk(struct tool_run *t)
{
	struct disk_ref *disk = &t->filters->disk, before = *disk;
	bool there = disks_find_again(t->disks, disk);

	/* With other numbers it was gone meanwhile, seen or not. */
	if (disk->dev != before.dev || disk->whole != before.whole) {
		set_disk_gone(t, true);
		if (t->object.obj)
			blk_set_disk(t->object.obj, disk);
	}
	set_disk_gone(t, !there);
}

void tool_look(struct tool_run *t)
{
	if (!t->disks || !disks_refresh(t->disks))
		return;
	if (t->filters && t->filters->disk.dev)
		watch_disk(t);
	else
		disks_have_changed(t);
	if (t->tool->flags & TOOL_BLK && t->object.obj)
		tool_count_loss(
		    t, LOSS_SUBMITTERS,
		    blk_forget_merged(t->object.obj, probe_program_fd(t->object.obj, "rq_busy")));
}

int tool_drain(struct tool_run *t, struct error *err)
{
	int inactive = 0, r;

	tool_look(t);
	if (!t->double_buffer) {
		t->end_ns = clock_mono_ns();
	} else {
		t->swap_begin_ns = clock_mono_ns();
		inactive = double_buffer_swap(t->double_buffer, &t->end_ns);
		if (inactive < 0)
			return error_set(err, STATUS_FAILED, inactive,
					 "cannot swap the BPF maps: %s", strerror(-inactive));
	}
	err->status = STATUS_OK;
	r = t->tool->drain ? t->tool->drain(t, inactive, err) : 0;
	if (r && err->status == STATUS_OK)
		error_set(err, STATUS_FAILED, r, "cannot read the BPF maps: %s", strerror(-r));
	return r;
}

void tool_adapt(struct tool_run *t, unsigned int longest_ms, const struct run_fill *fills, size_t n)
{
	t->run->collect_ms = t->collect_ms;
	run_adapt(t->run, longest_ms, fills, n);
	t->collect_ms = t->run->collect_ms;
}

/* ---- outputs ---- */

int tool_show(struct tool_run *t, struct recording_interval *out, struct error *err)
{
	if (t->names && t->tool->flags & TOOL_BLK)
		tool_count_loss(t, BLK_LOSS_NAMES, process_names_lost(t->names));
	if (t->n_losses)
		tool_losses(t, &out->interval);
	return t->sink ? t->sink(t->sink_ctx, t, out, err) : show_output(&t->show, out, err);
}

/* A step of CLOCK_REALTIME.  Less is how long two calls may be apart. */
#define STEP_NS (NS_PER_SEC / 10)

void tool_follow_clock(struct tool_run *t)
{
	const uint64_t now = clock_epoch_ns() - clock_mono_ns();
	const int64_t moved = (int64_t)(now - t->epoch_less);

	if (moved > (int64_t)STEP_NS || moved < -(int64_t)STEP_NS)
		t->epoch_less = now;
}

uint64_t tool_epoch_ns(const struct tool_run *t, uint64_t mono_ns)
{
	return mono_ns + t->epoch_less;
}

static int emit(struct tool_run *t, bool last, struct error *err)
{
	struct recording_interval out = { .last = last };
	const struct tool *tool = t->tool;
	int r;

	if (last && tool->stop)
		tool->stop(t);
	else if (last)
		tool_detach(t);
	r = tool_drain(t, err);
	if (r)
		return r;
	tool_follow_clock(t);
	out.interval.start_ns = tool_epoch_ns(t, t->since_ns);
	out.interval.end_ns = tool_epoch_ns(t, t->end_ns);
	t->since_ns = t->end_ns;
	r = tool->rows(t, &out, err);
	if (!r)
		r = tool_show(t, &out, err);
	if (last && !r && t->filters && t->show.empty && !t->show.seen && !t->sink)
		blk_report_in_flight(t->filters);
	if (tool->end_output)
		tool->end_output(t, last && !r);
	if (t->names)
		process_names_forget(t->names);
	return r;
}

int tool_emit(struct tool_run *t, bool last, struct error *err)
{
	int r = emit(t, last, err);

	if (r && t->on_screen)
		show_end(&t->show);
	return r;
}

int tool_collect(struct tool_run *t, struct error *err)
{
	if (t->tool->collect)
		return t->tool->collect(t, err);
	tool_look(t);
	return 0;
}

char *tool_seconds(uint64_t ns, char *buf, size_t size)
{
	const uint64_t second = 1000000000;
	int len = snprintf(buf, size, "%llu.%09llu", (unsigned long long)(ns / second),
			   (unsigned long long)(ns % second));

	while (len > 0 && buf[len - 1] == '0')
		buf[--len] = 0;
	if (len > 0 && buf[len - 1] == '.')
		buf[--len] = 0;
	return buf;
}
