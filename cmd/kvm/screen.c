// SPDX-License-Identifier: GPL-2.0-or-later
/* The full screen: events since the start with their rate, reasons, guests. */
#include "cmd/kvm/kvm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/engine/table_screen.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/system/process.h"
#include "output/columns.h"
#include "output/hist.h"

/* ---- columns ---- */

static void cell_event(const void *row, char *buf, size_t size)
{
	snprintf(buf, size, "%s", ((const struct kvm_row *)row)->event);
}

static void cell_guest(const void *row, char *buf, size_t size)
{
	const struct kvm_row *r = row;

	snprintf(buf, size, "%s%s", *r->guest || !r->pid ? r->guest : "?", r->gone ? " gone" : "");
}

static void cell_pid(const void *row, char *buf, size_t size)
{
	const struct kvm_row *r = row;

	if (r->pid)
		snprintf(buf, size, "%u", r->pid);
}

static void cell_share(const void *row, char *buf, size_t size)
{
	snprintf(buf, size, "%.1f", (double)((const struct kvm_row *)row)->share / 10);
}

/* A rate of 0 is left blank: what moves is seen better. */
static void cell_rate(const void *row, char *buf, size_t size)
{
	const struct kvm_row *r = row;
	const double rate = r->ns ? (double)r->delta * NS_PER_SEC / (double)r->ns : 0;

	if (rate >= 1e15)
		snprintf(buf, size, "%.3g", rate);
	else if (rate >= 0.5)
		snprintf(buf, size, "%.0f", (double)(uint64_t)(rate + 0.5));
}

/* Without any times, blank. */
static void put_us(uint64_t ns, char *buf, size_t size)
{
	if (ns)
		snprintf(buf, size, "%.1f", (double)ns / 1e3);
}

#define ROW struct kvm_row
#define FIGURE(role, member, heading, width, ...)                                                  \
	COLUMN(role, #member, member, heading, width, "", "", ##__VA_ARGS__)

static const struct column columns[] = {
	LABEL(top, "Event", 42, ""),
	COLUMN(LABEL, "event", path, "Event", 42, "", "", .left = true),
	COLUMN(LABEL, "name", event, NULL, 0, "", ""),
	LABEL(guest, "Guest", 24, "", .cell = cell_guest),
	FIGURE(LABEL, pid, "PID", 7, .cell = cell_pid),
	STATE(timed, "", ""),
	FIGURE(COUNTER, total, "Total", 10),
	FIGURE(GAUGE, share, "%Total", 6, .cell = cell_share),
	FIGURE(COUNTER, delta, "CurAvg/s", 9, .cell = cell_rate),
	FIGURE(GAUGE, avg_ns, "Avg us", 9, .text = put_us),
	FIGURE(GAUGE, p99_ns, "P99 us", 9, .text = put_us),
	FIGURE(GAUGE, ns, NULL, 0),
	HISTOGRAM(slots, "", ""),
};
static const struct schema all = SCHEMA(columns, struct kvm_row);

/* By event, by reason, by guest. */
static size_t columns_by(void *ctx, size_t i, struct column to[TABLE_SCREEN_COLUMNS])
{
	static const char *const labels[][2] = { { "top" }, { "event" }, { "guest", "pid" } };
	static const char *const figures[] = { "total", "share", "delta", "avg_ns", "p99_ns" };
	const struct kvm *k = ctx;
	size_t n = 0;

	if (i >= ARRAY_SIZE(labels))
		return 0;
	for (size_t c = 0; c < ARRAY_SIZE(labels[i]) && labels[i][c]; c++)
		to[n++] = *schema_column(&all, labels[i][c]);
	for (size_t c = 0; c < ARRAY_SIZE(figures) - (k->o.latency ? 0 : 2); c++)
		to[n++] = *schema_column(&all, figures[c]);
	if (strcmp(to[0].key, "event") == 0)
		to[0].cell = cell_event;
	return n;
}

/* ---- rows ---- */

/* The event that event @i is a part of, if it is shown; else -1. */
static int shown_parent(const struct kvm_events *e, size_t i)
{
	const int parent = e->v[i].parent;

	return parent >= 0 && !e->v[parent].hidden && !e->v[parent].off ? parent : -1;
}

/* Adds @row, which becomes one of event @at. */
static int add_row(struct kvm *k, struct kvm_row row, size_t at, int parent)
{
	const struct kvm_event *v = k->events.v;
	struct kvm_row *shown = ARRAY_ADD(k->shown.rows, k->shown.n);

	if (!shown)
		return -ENOMEM;
	row.event = v[at].name;
	row.path = v[at].path;
	row.top = parent >= 0 ? v[parent].name : row.event;
	row.total = row.past + row.delta;
	*shown = row;
	return 0;
}

/* The parts of an event, and the rest of it, add up to the event: each part is subtracted from it
 * where both are shown. */
int kvm_screen_rows(struct kvm *k, const struct kvm_rows *rows, uint64_t ns)
{
	const struct kvm_events *e = &k->events;

	k->shown.n = 0;
	for (size_t i = 0; i < rows->n; i++) {
		struct kvm_row row = rows->rows[i];
		const size_t at = (size_t)events_find(e, row.event);
		const int parent = shown_parent(e, at);

		if ((!row.delta && !row.past && !row.slots) || e->v[at].hidden ||
		    !kvm_selects(&k->by, &row))
			continue;
		row.ns = ns;
		row.timed = row.slots;
		if (row.timed) /* these exits have been counted */
			row.delta = 0;
		if (add_row(k, row, at, parent))
			return -ENOMEM;
		row.delta = -row.delta;
		row.past = -row.past;
		if (parent >= 0 && !row.timed && add_row(k, row, (size_t)parent, parent))
			return -ENOMEM;
	}
	return 0;
}

/* Of sums: nothing was counted in the interval yet. */
static void begin_interval(void *sum)
{
	struct kvm_row *row = sum;

	row->delta = row->ns = 0;
}

static int larger_first(const void *a, const void *b)
{
	const uint64_t x = ((const struct kvm_row *)a)->total;
	const uint64_t y = ((const struct kvm_row *)b)->total;

	return (x < y) - (x > y);
}

/* Of a recording that no run writes it may be too large: then it is the largest number. */
static uint64_t plus(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static void add_to_sum(struct kvm_row *sum, const struct kvm_row *row)
{
	sum->total = plus(sum->total, row->total);
	sum->delta = plus(sum->delta, row->delta);
	if (row->ns > sum->ns)
		sum->ns = row->ns;
}

/* In 1/1000. */
static uint64_t share_of(uint64_t part, uint64_t whole)
{
	return part < whole ? (uint64_t)((double)part * 1000 / (double)whole + 0.5)
	       : whole	    ? 1000
			    : 0;
}

static const void *made(void *ctx, struct pivot_rows *rows, bool tree)
{
	struct kvm *k = ctx;
	struct kvm_row *sum = &k->sum, *row;
	size_t n = 0;

	*sum = (struct kvm_row){ .top = "Total", .event = "Total", .path = "", .guest = "Total" };
	for (size_t i = 0; i < rows->n; i++) {
		row = pivot_row(rows, i);
		row->total = kvm_at_least_0(row->total);
		row->delta = kvm_at_least_0(row->delta);
		row->gone = row->pid && !k->o.args.replay && !process_exists(row->pid);
		if (row->slots)
			kvm_row_times(row);
		if (!tree || !i) /* the first of a tree has all */
			add_to_sum(sum, row);
		/* All that an event has counted may be in its parts. */
		if (row->total || row->delta || row->slots)
			memmove(pivot_row(rows, n++), row, sizeof(*row));
	}
	rows->n = n;
	for (size_t i = 0; i < n; i++) {
		row = pivot_row(rows, i);
		row->share = share_of(row->total, sum->total);
	}
	sum->share = 1000;
	if (tree)
		return NULL;
	/* Where the rate is the same. */
	if (rows->n)
		qsort(rows->rows, rows->n, sizeof(*row), larger_first);
	return sum;
}

/* Of too many guests those with the least are one. */
static void fold(void *folded)
{
	struct kvm_row *row = folded;

	row->pid = 0;
	row->guest = "(other)";
}

/* -g, -p and -f. */
static void selected(void *ctx, char *text, size_t size)
{
	const struct kvm *k = ctx;
	const char *gone = k->gone ? " gone" : "";
	char name[4 * GUEST_NAME_SIZE], regex[4 * KVM_PATTERN_SIZE] = "";
	char process[sizeof(name)] = "";

	render_escape(k->guest, name, sizeof(name));
	if (k->o.by_name && *name)
		snprintf(process, sizeof(process), "  -g %.60s%s", name, gone);
	else if (k->o.pid)
		snprintf(process, sizeof(process), "  -p %u%s", k->o.pid, gone);
	if (k->o.fields)
		render_escape(k->o.fields, regex, sizeof(regex));
	snprintf(text, size, "%s%s%.60s", process, *regex ? "  -f " : "", regex);
}

const struct table_screen_spec kvm_screen = {
	.kind = { .all = &all, .identity = "timed", .late = "guest", .fold = fold },
	.none = "No matching events yet",
	.instead = "-l",
	.selected = selected,
	.tree = "event",
	.most = 65536,
	.largest = "total", /* the growth is 0 where an interval begins */
	.accumulates = true,
	.graphs = { "delta" },
	.order = "delta",
	.by = columns_by,
	.begin_interval = begin_interval,
	.made = made,
};
