// SPDX-License-Identifier: GPL-2.0-or-later
/* Drains, losses and outputs of a tool. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cli/report.h"
#include "cmd/engine/table_screen.h"
#include "cmd/engine/tool_private.h"
#include "core/base/clock.h"

/* ---- losses ---- */

/* Row @i: the base's come first. */
static const struct tool_loss *loss_of(const struct tool *tool, size_t i)
{
	size_t shared = tool->base ? tool->base->n_losses : 0;

	return i < shared ? &tool->base->losses[i] : &tool->losses[i - shared];
}

int tool_find_losses(struct tool_run *t, struct error *err)
{
	if (!t->object.obj)
		return 0;
	t->n_losses = t->tool->n_losses + (t->tool->base ? t->tool->base->n_losses : 0);
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
	uint64_t missed = hooks_missed(t->object.hooks, t->spare_hits);

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
		if (now < t->lost_before[i]) /* a spare handled one late */
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

void tool_disks_changed(struct tool_run *t)
{
	if (t->tool->disks)
		t->tool->disks(t);
}

void tool_look(struct tool_run *t)
{
	if (!t->disks || !disks_refresh(t->disks))
		return;
	if (t->tool->base)
		t->tool->base->disks(t);
	else
		tool_disks_changed(t);
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

/* Records and displays an output. */
static int tool_show(struct tool_run *t, struct recording_interval *out, struct error *err)
{
	if (t->tool->base)
		t->tool->base->losing(t);
	if (t->n_losses)
		tool_losses(t, &out->interval);
	return t->sink ? t->sink(t->sink_ctx, t, out, err) : show_output(&t->show, out, err);
}

/* A step of CLOCK_REALTIME.  Smaller differences are the time between the two calls. */
#define STEP_NS (NS_PER_SEC / 10)

/* CLOCK_REALTIME less CLOCK_MONOTONIC: of some attempts the one with the least time between the
 * calls, so that the recordings of two runs agree within a microsecond. */
static uint64_t epoch_less(void)
{
	uint64_t least_ns = UINT64_MAX, less = 0;

	for (int i = 0; i < 8; i++) {
		const uint64_t before = clock_mono_ns(), now = clock_epoch_ns(),
			       took = clock_mono_ns() - before;

		if (took >= least_ns)
			continue;
		least_ns = took;
		less = now - before - took / 2;
	}
	return less;
}

void tool_follow_clock(struct tool_run *t)
{
	const uint64_t now = epoch_less();
	const int64_t moved = (int64_t)(now - t->epoch_less);

	if (moved > (int64_t)STEP_NS || moved < -(int64_t)STEP_NS)
		t->epoch_less = now;
}

uint64_t tool_epoch_ns(const struct tool_run *t, uint64_t mono_ns)
{
	return mono_ns + t->epoch_less;
}

/* ---- requests that wait ---- */

#define WAITS_MAX 16 /* disks */

struct waits {
	char lines[WAITS_MAX][TOOL_WAITS_SIZE];
	size_t n;
};

/* Looked for at the end, and where an output has no rows, which says nothing of a disk that does
 * not answer. */
static void look_for_waits(struct tool_run *t, const struct recording_interval *out,
			   struct waits *waits)
{
	waits->n = 0;
	if (t->waits && (!out->tables[0].n || out->last))
		waits->n = t->tool->waits->look(t, waits->lines, WAITS_MAX);
	if (t->show.screen)
		table_screen_none(t->show.screen, waits->n ? waits->lines[0] : NULL);
}

static void report_waits(const struct tool_run *t, const struct waits *waits)
{
	for (size_t i = 0; i < waits->n && !t->show.screen; i++)
		report_line("%s", waits->lines[i]);
}

static int emit(struct tool_run *t, bool last, struct error *err)
{
	struct recording_interval out = { .last = last };
	const struct tool *tool = t->tool;
	struct waits waits;
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
	if (t->show.screen)
		table_screen_cost(t->show.screen, t->object.obj);
	look_for_waits(t, &out, &waits);
	if (!r)
		r = tool_show(t, &out, err);
	if (!r)
		report_waits(t, &waits);
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
