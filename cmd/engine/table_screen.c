// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/table_screen.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/engine/last_minute.h"
#include "cmd/engine/row_details.h"
#include "cmd/engine/screens.h"
#include "cmd/engine/tool.h"
#include "cmd/engine/trigger_file.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/parse.h"
#include "output/recording.h"

#define SHOWN_DISKS 4
#define SAID_SIZE   512

/* Memory for the intervals of a replay that keys can return to. */
#define KEPT_MEMORY_MAX (64U << 20)

/* The rows of an interval, or the sum of several. */
struct snapshot {
	struct pivot_rows rows;
	char *text; /* text next to the rows; NULL: none */
	char *said; /* and below the title; NULL: nothing */
	uint64_t end_ns;
	uint64_t ns; /* number of rows */
	int32_t utc_offset;
};

#define LABELS_MAX 16

enum { BY_NAME, BY_PROCESS, BY_DISK, BY_CGROUP, FILTERS, FIND = FILTERS, GO_TO };

struct table_screen {
	struct renderer renderer; /* first */
	const struct table_screen_spec *spec;
	struct pivot_kind kind;
	void *ctx;
	const char *subcommand;
	struct screen *screen;
	struct screen_view around;
	bool live, frozen, accumulated, tree;
	bool refresh;		    /* a key asks for an output */
	size_t by;		    /* index of the grouping */
	const char *order;	    /* key of a column; NULL: unsorted */
	char filters[FILTERS][256]; /* "": none */
	char none[256];		    /* see table_screen_none() */
	struct column columns[TABLE_SCREEN_COLUMNS];
	struct schema schema;
	struct pivot_rows shown, total;
	struct last_minute minute;
	struct screen_label labels[LABELS_MAX];
	bool details;		      /* of a row are on the screen */
	char found[256];	      /* the last one */
	struct steps steps;	      /* of struct snapshot; a live run has one */
	struct snapshot sum;	      /* since the start */
	struct snapshot while_frozen; /* the sum of the intervals received while it is frozen */
	size_t sum_first, sum_end;    /* a replay: the first interval in sum, and the end */
	size_t start;		      /* of a replay's sums: the key R */
	uint64_t first_ns;	      /* clock_local() of a replay's beginning */
	uint64_t to_ns; /* a replay goes to this time, clock_local(); 0: it is there */
	size_t asked;
	const struct trigger_events *triggers; /* of a replay; NULL: none */
	struct tool_run *run;
	uint64_t interval_ns;
	int stats;		      /* programs are timed while it is open; -1: not timed */
	uint64_t programs_ns, own_ns; /* CPU time so far, at cost_ns of CLOCK_MONOTONIC */
	uint64_t cost_ns;
	char cost[96];
};

/* ---- columns ---- */

/* For a tree: the path, and the figures. */
static void make_tree_columns(struct table_screen *s)
{
	struct column columns[TABLE_SCREEN_COLUMNS];
	const size_t all = s->schema.n;
	size_t n = 0;

	memcpy(columns, s->columns, sizeof(columns));
	s->columns[n++] = *schema_column(s->kind.all, s->spec->tree);
	for (size_t i = 0; i < all; i++)
		if (columns[i].role != ROLE_LABEL && columns[i].type != COLUMN_STR)
			s->columns[n++] = columns[i];
	s->schema.n = n;
}

size_t table_screen_pick(const struct schema *all, const char *const *keys, size_t n_keys,
			 bool with, struct column columns[TABLE_SCREEN_COLUMNS])
{
	size_t n = 0, key;

	for (size_t i = 0; i < all->n; i++) {
		for (key = 0; key < n_keys && strcmp(keys[key], all->columns[i].key) != 0; key++)
			;
		if ((key < n_keys) == with)
			columns[n++] = all->columns[i];
	}
	return n;
}

static size_t grouping(const struct table_screen *s, size_t i, struct column *columns)
{
	if (s->spec->by)
		return s->spec->by(s->ctx, i, columns);
	return i ? 0 : table_screen_pick(s->kind.all, NULL, 0, false, columns);
}

/* The columns of the selected grouping. */
static void make_columns(struct table_screen *s)
{
	const struct schema *all = s->kind.all;

	s->schema.columns = s->columns;
	s->schema.row_size = all->row_size;
	s->schema.n = grouping(s, s->by, s->columns);
	if (s->tree)
		make_tree_columns(s);
}

/* Do rows have a path for a tree? */
static bool has_tree(const struct table_screen *s)
{
	struct column columns[TABLE_SCREEN_COLUMNS];
	struct schema schema = { columns, 0, 0 };

	for (size_t i = 0; s->spec->tree; i++) {
		schema.n = grouping(s, i, columns);
		if (!schema.n)
			break;
		if (schema_column(&schema, s->spec->tree))
			return true;
	}
	return false;
}

static const char *initial_order(const struct table_screen *s)
{
	return s->spec->order_of ? s->spec->order_of(s->ctx) : s->spec->order;
}

static bool is_sortable(const struct column *column)
{
	return column->heading && column->role != ROLE_STATE;
}

static size_t sort_column(const struct table_screen *s)
{
	for (size_t i = 0; s->order && i < s->schema.n; i++)
		if (is_sortable(&s->columns[i]) && strcmp(s->columns[i].key, s->order) == 0)
			return i;
	return SCREEN_UNSORTED;
}

/* Sorts by the next column to the right (1) or to the left (-1). */
static void move_sort(struct table_screen *s, int by)
{
	size_t at;

	/* The keys may have selected other columns than the displayed ones. */
	make_columns(s);
	if (!s->schema.n)
		return;
	at = sort_column(s);
	if (at == SCREEN_UNSORTED)
		at = 0;
	do {
		at = (at + s->schema.n + (size_t)by) % s->schema.n;
	} while (!is_sortable(&s->columns[at]));
	s->order = s->columns[at].key;
}

static void next_by(struct table_screen *s)
{
	struct column columns[TABLE_SCREEN_COLUMNS];

	if (s->tree)
		s->tree = false;
	else if (grouping(s, ++s->by, columns) == 0)
		s->by = 0;
}

/* ---- rows ---- */

static const struct snapshot none;

static const struct snapshot *current(const struct table_screen *s)
{
	if (s->accumulated)
		return &s->sum;
	return s->steps.n ? steps_item(&s->steps, s->steps.at) : &none;
}

static const char *label(const struct table_screen *s, const void *row, const char *key)
{
	return schema_text(s->kind.all, row, key);
}

static uint64_t figure(const struct table_screen *s, const void *row, const char *key)
{
	return schema_number(s->kind.all, row, key);
}

static bool is_process(const struct table_screen *s, const void *row)
{
	const char *wanted = s->filters[BY_PROCESS];
	char pid[24];

	snprintf(pid, sizeof(pid), "%" PRIu64, figure(s, row, "pid"));
	return strcmp(pid, wanted) == 0 || strcmp(label(s, row, "comm"), wanted) == 0 ||
	       strcmp(label(s, row, "guest"), wanted) == 0;
}

/* Without filters nothing in @row is looked up. */
static bool is_shown(const void *screen, const void *row)
{
	const struct table_screen *s = screen;
	const char *name = s->filters[BY_NAME], *disk = s->filters[BY_DISK];
	const char *cgroup = s->filters[BY_CGROUP];

	if (s->spec->is_shown && !s->spec->is_shown(row, &s->schema))
		return false;
	return (!name[0] || pivot_row_has(&s->kind, row, name)) &&
	       (!s->filters[BY_PROCESS][0] || is_process(s, row)) &&
	       (!disk[0] || strcmp(label(s, row, "disk"), disk) == 0) &&
	       (!cgroup[0] || strcasestr(label(s, row, "cgroup"), cgroup));
}

/* The sum of the shown rows.  A tree has it at its top. */
static int make_total(struct table_screen *s)
{
	const struct schema no_columns = { s->columns, 0, s->schema.row_size };
	const struct pivot_view all = { .schema = &no_columns };
	int r = 0;

	pivot_free(&s->total);
	if (!s->tree && !s->kind.apart)
		r = pivot_make(&s->shown, &all, &s->total);
	s->around.sum = s->total.n ? pivot_row(&s->total, 0) : NULL;
	return r;
}

static int make_rows(struct table_screen *s)
{
	const struct pivot_view view = {
		.schema = &s->schema,
		.tree = s->tree ? s->spec->tree : NULL,
		.is_shown = is_shown,
		.ctx = s,
	};
	struct pivot_rows made;
	int r;

	make_columns(s);
	r = pivot_make(&current(s)->rows, &view, &made);
	if (r)
		return r;
	pivot_free(&s->shown);
	s->shown = made;
	if (s->spec->finish)
		s->spec->finish(s->ctx, &s->shown, &s->schema);
	if (s->spec->made)
		s->around.sum = s->spec->made(s->ctx, &s->shown, s->tree);
	else
		r = make_total(s);
	return r;
}

/* ---- around the table ---- */

/* The interval that is shown, or that sums end with. */
static const struct snapshot *last_of(const struct table_screen *s)
{
	return s->steps.n ? steps_item(&s->steps, s->steps.at) : &none;
}

static void put_title(struct table_screen *s)
{
	const struct snapshot *now = current(s);
	char clock[CLOCK_TEXT_SIZE], text[512] = "";
	const struct snapshot *last = last_of(s);
	const bool has_text = s->spec->text && last->text && last->text[0];

	clock_time(now->end_ns, now->utc_offset, clock);
	if (has_text)
		render_escape(last->text, text, sizeof(text));
	snprintf(s->around.title, sizeof(s->around.title), "iotrace %s  %s%s%s%s%s", s->subcommand,
		 now->end_ns ? clock : "", has_text ? "  " : "", has_text ? s->spec->text : "",
		 has_text ? ": " : "", text);
}

static void add_note(struct table_screen *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add_note(struct table_screen *s, const char *fmt, ...)
{
	char *note = s->around.note;
	size_t len = strlen(note);
	va_list args;

	va_start(args, fmt);
	vsnprintf(note + len, sizeof(s->around.note) - len, fmt, args);
	va_end(args);
}

/* The average is displayed where the rows are sorted by the total. */
static const char *sort_name(const struct table_screen *s, const struct column *column)
{
	if (strcmp(column->key, "time_ns") == 0)
		return "total time";
	return s->accumulated || !column->rate ? column->heading : column->rate;
}

static bool has_rates(const struct table_screen *s)
{
	for (size_t i = 0; i < s->schema.n; i++)
		if (s->columns[i].rate)
			return true;
	return false;
}

static bool is_within(const struct snapshot *interval, uint64_t epoch_ns)
{
	return epoch_ns <= interval->end_ns && interval->end_ns - epoch_ns < interval->ns;
}

static void put_note(struct table_screen *s)
{
	const struct snapshot *last = last_of(s);
	size_t sort = s->around.sort;
	char text[1024];

	s->around.note[0] = 0;
	if (s->live)
		add_note(s, "every %ss", screens_seconds(s->interval_ns, text, sizeof(text)));
	else
		add_note(s, "%s%s", steps_text(&s->steps, text, sizeof(text)),
			 s->steps.every_ns ? ", playing" : "");
	/* What happened has room first: 80 columns do not suffice for all. */
	if (last->said && !s->accumulated)
		add_note(s, "%s", render_escape(last->said, text, sizeof(text)));
	for (size_t i = 0; s->triggers && i < s->triggers->n; i++)
		if (is_within(current(s), s->triggers->list[i].epoch_ns))
			add_note(s, "  trigger %s", s->triggers->list[i].text);
	if (s->spec->selected) {
		s->spec->selected(s->ctx, text, sizeof(text));
		add_note(s, "%s", text);
	}
	if (s->tree)
		add_note(s, "  tree of %ss", s->spec->tree);
	else if (sort != SCREEN_UNSORTED)
		add_note(s, "  by %s%s", sort_name(s, &s->columns[sort]),
			 s->around.reverse ? " reversed" : "");
	if (s->accumulated)
		add_note(s, "  %saccumulated", has_rates(s) ? "totals, " : "");
	else if (has_rates(s))
		add_note(s, "  per second");
	if (s->accumulated && s->sum_first)
		add_note(s, " since interval %zu", s->sum_first + 1);
	if (s->frozen)
		add_note(s, "  frozen");
}

static void put_filters(struct table_screen *s)
{
	static const char *const names[FILTERS] = { "name", "process", "disk", "cgroup" };
	struct screen_view *view = &s->around;
	char text[1024];

	view->n_filters = 0;
	for (size_t i = 0; i < FILTERS; i++)
		if (s->filters[i][0])
			snprintf(view->filters[view->n_filters++], sizeof(view->filters[0]),
				 "%s: %.256s", names[i],
				 render_escape(s->filters[i], text, sizeof(text)));
	view->none = *s->none	       ? s->none
		     : view->n_filters ? "no row matches the filters (F clears them)"
				       : s->spec->none;
}

/* The keys that do something now, on the last line. */
static void put_labels(struct table_screen *s)
{
	struct column columns[TABLE_SCREEN_COLUMNS];
	const struct {
		struct screen_label label;
		bool works;
	} all[] = {
		{ { 'h', 1, "Help" }, true },
		{ { 'n', 3, "Find" }, true },
		{ { '/', 4, "Filter" }, true },
		{ { 't', 5, "Tree" }, has_tree(s) },
		{ { '>', 6, "Sort" }, true },
		{ { 'F', 0, "Clear" }, s->around.n_filters > 0 },
		{ { 'j', 0, "Next" }, !s->live },
		{ { 'k', 0, "Previous" }, !s->live },
		{ { '@', 0, "Time" }, !s->live },
		{ { ']', 0, "Trigger" }, s->triggers && s->triggers->n },
		{ { ' ', 0, s->steps.every_ns ? "Pause" : "Play" }, !s->live },
		{ { 'b', 0, "By" }, grouping(s, 1, columns) > 0 },
		{ { 'a', 0, s->accumulated ? "Interval" : "Totals" }, true },
		{ { 'Z', 0, s->frozen ? "Go on" : "Freeze" }, s->live },
		{ { '\r', 0, "Details" }, true },
		{ { 'q', 10, "Quit" }, true },
	};

	s->around.n_labels = 0;
	s->around.labels = s->labels;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].works)
			s->labels[s->around.n_labels++] = all[i].label;
}

/* ---- busiest disk ---- */

static void put_disk(struct table_screen *s, const void *disk, double secs)
{
	char name[256], p99[32] = "-";
	uint64_t p99_ns = figure(s, disk, "p99_ns");

	if (p99_ns)
		snprintf(p99, sizeof(p99), "%.2f ms", (double)p99_ns / 1e6);
	snprintf(s->around.more[s->around.n_more], sizeof(s->around.more[0]),
		 "%-10.12s %8.1f IOPS %10.1f KiB/s  p99 %s", /* 60 columns */
		 render_escape(label(s, disk, "disk"), name, sizeof(name)),
		 (double)figure(s, disk, "io") / secs,
		 (double)figure(s, disk, "bytes") / 1024 / secs, p99);
	s->around.n_more++;
}

static int busiest(const void *left, const void *right, void *screen)
{
	const void *a = *(const void *const *)left, *b = *(const void *const *)right;
	static const char *const keys[] = { "bytes", "io" };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		uint64_t x = figure(screen, a, keys[i]), y = figure(screen, b, keys[i]);

		if (x != y)
			return x < y ? 1 : -1;
	}
	return 0;
}

/* The busiest disks, by bytes, if rows have a disk (not of top --by file), I/Os and bytes. */
static void put_disks(struct table_screen *s, const struct snapshot *now)
{
	static const char *const keys[] = { "disk", "io", "bytes" };
	const struct schema *all = s->kind.all;
	struct pivot_view view = { 0 };
	struct schema by_disk = { NULL, 1, all->row_size };
	struct pivot_rows disks = { 0 };
	const void **order;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!schema_column(all, keys[i]))
			return;
	by_disk.columns = schema_column(all, "disk");
	view.schema = &by_disk;
	if (!now->ns || pivot_make(&now->rows, &view, &disks))
		return;
	order = calloc(disks.n + 1, sizeof(void *));
	for (size_t i = 0; order && i < disks.n; i++)
		order[i] = pivot_row(&disks, i);
	if (order)
		qsort_r(order, disks.n, sizeof(void *), busiest, s);
	for (size_t i = 0; order && i < disks.n && i < SHOWN_DISKS; i++)
		if (figure(s, order[i], "io") && *label(s, order[i], "disk"))
			put_disk(s, order[i], (double)now->ns / 1e9);
	free(order);
	pivot_free(&disks);
}

static void put_graphs(struct table_screen *s, const struct snapshot *now)
{
	struct screen_view *view = &s->around;

	for (size_t i = 0; i < ARRAY_SIZE(s->spec->graphs) && s->spec->graphs[i]; i++)
		last_minute_graph(&s->minute, i, now->end_ns,
				  schema_column(s->kind.all, s->spec->graphs[i]), screen_width(),
				  view->more[view->n_more++], sizeof(view->more[0]));
	view->n_graphs = view->n_more;
}

static void put_more(struct table_screen *s)
{
	s->around.n_more = 0;
	put_graphs(s, current(s));
	put_disks(s, current(s));
	if (s->cost[0])
		snprintf(s->around.more[s->around.n_more++], sizeof(s->around.more[0]), "%s",
			 s->cost);
}

/* ---- intervals ---- */

static void snapshot_free(void *item)
{
	struct snapshot *snapshot = item;

	pivot_free(&snapshot->rows);
	free(snapshot->text);
	free(snapshot->said);
	*snapshot = none;
}

static uint64_t snapshot_memory(const void *item)
{
	const struct snapshot *snapshot = item;

	return pivot_memory(&snapshot->rows) + (snapshot->text ? strlen(snapshot->text) + 1 : 0);
}

static int snapshot_load(const struct table_screen *s, struct snapshot *to,
			 const struct render_interval *in)
{
	const struct recording_interval *from = in->drained;
	int r = pivot_copy(&to->rows, &s->kind, in->rows, in->n);
	char said[SAID_SIZE] = "";

	if (s->spec->said && !r)
		s->spec->said(from, said, sizeof(said));
	to->said = *said ? strdup(said) : NULL;
	if (*said && !to->said)
		r = -ENOMEM;
	to->end_ns = from->interval.end_ns;
	to->ns = from->interval.end_ns - from->interval.start_ns;
	to->utc_offset = from->utc_offset;
	to->text = from->text && !r ? strdup(from->text) : NULL;
	if (!r && from->text && !to->text)
		r = -ENOMEM;
	for (size_t i = 0; s->spec->settle && i < to->rows.n; i++)
		s->spec->settle(s->ctx, pivot_row(&to->rows, i));
	if (r)
		snapshot_free(to);
	return r;
}

static int snapshot_add(const struct table_screen *s, struct snapshot *sum,
			const struct snapshot *from)
{
	const char *largest = s->spec->largest;
	int r;

	for (size_t i = 0; s->spec->begin_interval && i < sum->rows.n; i++)
		s->spec->begin_interval(pivot_row(&sum->rows, i));
	/* The largest rows stay, whatever the sort key. */
	if (!largest)
		largest = initial_order(s);
	r = pivot_add(&sum->rows, &from->rows, largest ?: "", s->spec->most);
	if (r)
		return r;
	sum->end_ns = from->end_ns;
	sum->utc_offset = from->utc_offset;
	sum->ns += from->ns;
	return 0;
}

/* A replay: sums the intervals up to the displayed one, from the start on or, if its first
 * intervals were dropped, from the oldest.  An interval before the start sets it back. */
static int sum_steps(struct table_screen *s)
{
	const struct steps *steps = &s->steps;
	const size_t end = steps->dropped + steps->at + 1;
	int r = 0;

	if (s->start > end)
		s->start = 0;
	if (s->sum_end > end || s->sum_end < steps->dropped) {
		snapshot_free(&s->sum);
		s->sum_first = s->sum_end = s->start > steps->dropped ? s->start : steps->dropped;
	}
	while (!r && s->sum_end < end) {
		r = snapshot_add(s, &s->sum, steps_item(steps, s->sum_end - steps->dropped));
		s->sum_end += !r;
	}
	return r;
}

/* ---- details ---- */

/* Of the selected row, as it is now.  If it has no I/O any more, or without memory, they stay as
 * they were. */
static void show_details(struct table_screen *s)
{
	const void *row =
	    s->details && !screen_still_selected(s->screen) ? NULL : screen_selected(s->screen);
	struct row_details details = {
		.kind = &s->kind,
		.schema = &s->schema,
		.row = row,
		.parts = s->tree ? &none.rows : &current(s)->rows,
		.is_shown = is_shown,
		.ctx = s,
		.secs = s->around.secs,
		.width = screen_width(),
	};
	struct hist times;
	char *text;

	s->details = row;
	if (!row)
		return;
	details.times = schema_hist(s->kind.all, row);
	if (s->spec->times && s->spec->times(row, &times))
		details.times = &times;
	text = row_details(&details);
	if (text)
		screen_show_text(s->screen, "Details", text);
	free(text);
}

static int show_rows(struct table_screen *s, struct error *err)
{
	struct render_interval out = { .schema = &s->schema };
	int r = s->accumulated && !s->live ? sum_steps(s) : 0;

	if (r || make_rows(s))
		return error_no_memory(err);
	s->around.sort = s->tree ? SCREEN_UNSORTED : sort_column(s);
	s->around.secs = s->accumulated ? 0 : (double)current(s)->ns / NS_PER_SEC;
	put_title(s);
	put_note(s);
	put_filters(s);
	put_labels(s);
	put_more(s);
	out.rows = s->shown.rows;
	out.n = s->shown.n;
	r = renderer_interval(screen_renderer(s->screen), &out, err);
	if (!r && s->details) {
		show_details(s);
		screen_draw(s->screen);
	}
	return r;
}

/* Redraws after keys; if out of memory the screen is unchanged. */
static void redraw(void *screen)
{
	struct table_screen *s = screen;
	struct error err;

	if (!s->steps.n || show_rows(s, &err))
		screen_draw(s->screen);
}

/* Stores @now, and owns it from then on; a live run has only the last one. */
static int store(struct table_screen *s, struct snapshot *now)
{
	const struct steps *steps = &s->steps;
	int r = 0;

	if (s->live && s->spec->follow)
		r = s->spec->follow(
		    &now->rows, steps->n
				    ? &((struct snapshot *)steps_item(steps, steps->n - 1))->rows
				    : &none.rows);
	if (!r)
		r = steps_add(&s->steps, now);
	if (r)
		snapshot_free(now);
	else if (s->live && steps->n > 1)
		steps_drop_first(&s->steps);
	return r;
}

static int load(struct table_screen *s, const struct render_interval *in)
{
	struct snapshot now = { .text = NULL };
	int r = snapshot_load(s, &now, in);

	if (!r)
		r = last_minute_add(&s->minute, &now.rows, s->spec->graphs, now.end_ns, now.ns);
	if (!r && s->live)
		r = snapshot_add(s, s->frozen ? &s->while_frozen : &s->sum, &now);
	if (r || s->frozen) {
		snapshot_free(&now);
		return r;
	}
	if (!s->steps.n)
		s->first_ns = clock_local(now.end_ns - now.ns, now.utc_offset);
	return store(s, &now);
}

/* ---- the renderer ---- */

static struct table_screen *screen_of(struct renderer *r)
{
	return (struct table_screen *)r;
}

static int begin(struct renderer *r, const struct render_head *head, struct error *err)
{
	struct table_screen *s = screen_of(r);
	struct render_head own = *head;

	make_columns(s);
	put_title(s);
	put_labels(s);
	s->around.sort = sort_column(s);
	own.schema = &s->schema;
	return renderer_begin(screen_renderer(s->screen), &own, err);
}

static int interval(struct renderer *r, const struct render_interval *in, struct error *err)
{
	struct table_screen *s = screen_of(r);

	if (load(s, in))
		return error_no_memory(err);
	s->around.last = s->live && in->drained->last;
	return s->frozen ? 0 : show_rows(s, err);
}

static int losses(struct renderer *r, const struct interval *interval, struct error *err)
{
	return renderer_losses(screen_renderer(screen_of(r)->screen), interval, err);
}

static int end(struct renderer *r, struct error *err)
{
	return renderer_end(screen_renderer(screen_of(r)->screen), err);
}

struct renderer *table_screen_renderer(struct table_screen *s)
{
	return &s->renderer;
}

int table_screen_open(const struct table_screen_spec *spec, void *ctx, const char *subcommand,
		      struct table_screen **out)
{
	static const struct renderer_ops ops = {
		.begin = begin,
		.interval = interval,
		.losses = losses,
		.end = end,
		.says_all = true,
	};
	struct table_screen *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->renderer = (struct renderer){ .ops = &ops, .stream = stdout };
	s->spec = spec;
	s->kind = spec->kind;
	if (spec->all)
		s->kind.all = spec->all();
	s->ctx = ctx;
	s->subcommand = subcommand;
	s->stats = -1;
	s->accumulated = spec->accumulates;
	s->steps = (struct steps){ sizeof(struct snapshot), snapshot_free, snapshot_memory,
				   KEPT_MEMORY_MAX };
	s->around = (struct screen_view){ .none = spec->none, .instead = spec->instead };
	if (screen_open(stdin, stdout, &s->around, &s->screen)) {
		free(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

void table_screen_close(struct table_screen *s)
{
	if (!s)
		return;
	screen_close(s->screen);
	steps_free(&s->steps);
	snapshot_free(&s->sum);
	snapshot_free(&s->while_frozen);
	pivot_free(&s->shown);
	pivot_free(&s->total);
	last_minute_free(&s->minute);
	if (s->stats >= 0)
		close(s->stats);
	free(s);
}

void table_screen_triggers(struct table_screen *s, const struct trigger_events *triggers)
{
	s->triggers = triggers;
}

void table_screen_set(struct table_screen *s, bool live, uint64_t interval_ns)
{
	if (!live)
		steps_catch_signals();
	s->order = initial_order(s);
	s->live = live;
	s->interval_ns = live ? interval_ns : NS_PER_SEC;
}

/* ---- cost of tracing ---- */

static uint64_t programs_ns(const struct bpf_object *obj)
{
	struct bpf_program *program;
	uint64_t sum = 0;

	bpf_object__for_each_program (program, obj) {
		struct bpf_prog_info info = { 0 };
		uint32_t size = sizeof(info);
		int fd = bpf_program__fd(program);

		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0)
			sum += info.run_time_ns;
	}
	return sum;
}

static uint64_t own_cpu_ns(void)
{
	struct timespec used;

	return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used)
		   ? 0
		   : (uint64_t)used.tv_sec * NS_PER_SEC + (uint64_t)used.tv_nsec;
}

void table_screen_none(struct table_screen *s, const char *text)
{
	snprintf(s->none, sizeof(s->none), "%s", text ? text : "");
}

void table_screen_cost(struct table_screen *s, const struct bpf_object *obj)
{
	const uint64_t programs = obj ? programs_ns(obj) : 0, own_ns = own_cpu_ns();
	const uint64_t now = clock_mono_ns(), since = s->cost_ns ? now - s->cost_ns : 0;

	if (since && !s->frozen)
		snprintf(s->cost, sizeof(s->cost),
			 "iotrace    %.2f%% of a CPU, its programs %.2f%%",
			 (double)(own_ns - s->own_ns) * 100 / (double)since,
			 (double)(programs - s->programs_ns) * 100 / (double)since);
	s->cost_ns = now;
	s->own_ns = own_ns;
	s->programs_ns = programs;
}

/* ---- keys ---- */

static void help(struct table_screen *s)
{
	screen_show_text(
	    s->screen, "Keys",
	    "Arrows PgUp PgDn End  select a row;  Home Esc  none, from the top\n"
	    "Enter  details of the selected row: names, operations, times\n"
	    "q F10  quit;  h ? F1  this help;  any key ends it\n"
	    "n F3  find a row by part of a name, Enter again: the next one\n"
	    "/ f F4  show only rows with part of a name\n"
	    "p  one process,  d  one disk,  g  a cgroup or guest\n"
	    "F c  clear all filters\n"
	    "s o > F6  sort by the next column;  <  by the previous column\n"
	    "r  reverse the order\n"
	    "b  rows by the next key (disk, process, ...)\n"
	    "t x F5  tree of cgroups or events, each including its descendants\n"
	    "a  totals accumulated since the start;  R  the start is now\n"
	    "Z  freeze;  space  refresh at once;  + -  longer, shorter interval\n"
	    "In a replay: j k  next, previous interval;  @  go to a time (03:12, +5m)\n"
	    "    space  play, pause;  + -  slower, faster;  ] [  next, previous trigger\n"
	    "Mouse: a heading sorts, a row is selected, then opened. With the Shift key most "
	    "terminals select text.\n"
	    "Bars: the last minute, from left to right.\n");
}

#define GO_TO_QUESTION "Go to (03:12, 2026-11-28 03:12, -5m, +5m): "

static bool ask(struct table_screen *s, int key)
{
	static const struct {
		int key;
		size_t filter;
		const char *column; /* required column; NULL: any */
		const char *question;
	} questions[] = {
		{ 'n', FIND, NULL, "Find, part of a name [Enter: next]: " },
		{ '/', BY_NAME, NULL, "Filter, part of a name [Enter: all]: " },
		{ 'p', BY_PROCESS, "pid", "Pid or name [Enter: all]: " },
		{ 'd', BY_DISK, "disk", "Disk [Enter: all]: " },
		{ 'g', BY_PROCESS, "guest", "Guest's name or pid [Enter: all]: " },
		{ 'g', BY_CGROUP, "cgroup", "Part of a cgroup's path [Enter: all]: " },
		{ '@', GO_TO, NULL, GO_TO_QUESTION },
	};

	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		const char *column = questions[i].column;

		if (questions[i].key != (key == 'f' ? '/' : key) ||
		    (column && !schema_column(s->kind.all, column)) ||
		    (questions[i].filter == GO_TO && (s->live || !s->steps.n)))
			continue;
		s->asked = questions[i].filter;
		screen_ask(s->screen, questions[i].question);
		return true;
	}
	return false;
}

/* ---- the time of a replay ---- */

static uint64_t local_end(const struct table_screen *s, size_t step)
{
	const struct snapshot *of = steps_item(&s->steps, step);

	return clock_local(of->end_ns, of->utc_offset);
}

/* Displays the interval with the time s->to_ns, of which one is kept, or the closest.  False: it
 * has not been read. */
static bool arrive(struct table_screen *s)
{
	struct steps *steps = &s->steps;

	if (!steps->end && local_end(s, steps->n - 1) <= s->to_ns)
		return false;
	/* The previous interval is in memory as well. */
	steps->at = steps->dropped > 0 && steps->n > 1;
	while (steps->at + 1 < steps->n && local_end(s, steps->at) <= s->to_ns)
		steps->at++;
	s->to_ns = 0;
	return true;
}

/* The time of day closest to the displayed time, but one that is in the recording. */
static uint64_t closest_clock(const struct table_screen *s, uint64_t of_day)
{
	const uint64_t now = local_end(s, s->steps.at), day = 86400 * NS_PER_SEC;
	const uint64_t last = s->steps.end ? local_end(s, s->steps.n - 1) : UINT64_MAX;
	uint64_t at = now / day * day + of_day;

	if (at + day / 2 < now)
		at += day;
	else if (at > now + day / 2 && at > day)
		at -= day;
	if (at < s->first_ns && at + day <= last)
		at += day;
	else if (at > last && at >= s->first_ns + day)
		at -= day;
	return at;
}

/* "03:12", a date, "-5m" or "+5m" from the displayed time. */
static void go_to(struct table_screen *s, const char *text)
{
	const uint64_t now = local_end(s, s->steps.at);
	const struct snapshot *shown = steps_item(&s->steps, s->steps.at);
	struct moment moment;
	struct error unused;
	char back[64];

	snprintf(back, sizeof(back), "-%s", text + 1);
	if (!*text)
		return;
	if (parse_moment("", *text == '+' ? back : text, &moment, &unused)) {
		screen_ask(s->screen, "Not a time. " GO_TO_QUESTION);
		return;
	}
	s->to_ns = moment.kind == MOMENT_CLOCK	      ? closest_clock(s, moment.ns)
		   : moment.kind == MOMENT_UTC	      ? clock_local(moment.ns, shown->utc_offset)
		   : moment.kind != MOMENT_BEFORE_END ? moment.ns
		   : *text == '+'		      ? now + moment.ns
		   : now > moment.ns		      ? now - moment.ns
						      : 1;
	s->steps.wanted = !arrive(s);
}

/* To the next trigger (1), or the previous one (-1), if there is one. */
static void go_to_trigger(struct table_screen *s, int by)
{
	const struct snapshot *shown = s->steps.n ? steps_item(&s->steps, s->steps.at) : &none;
	const struct trigger_events *all = s->triggers;
	const struct trigger_event *found = NULL;

	for (size_t i = 0; all && i < all->n; i++) {
		const struct trigger_event *one = &all->list[i];

		if (by > 0 && one->epoch_ns > shown->end_ns && !found)
			found = one;
		if (by < 0 && one->epoch_ns + shown->ns <= shown->end_ns)
			found = one;
	}
	if (!found || !s->steps.n)
		return;
	/* the interval that ends then, or later */
	s->to_ns = clock_local(found->epoch_ns, shown->utc_offset) - 1;
	s->steps.wanted = !arrive(s);
}

/* ---- keys ---- */

static void find(struct table_screen *s, const char *name)
{
	if (name[0])
		snprintf(s->found, sizeof(s->found), "%s", name);
	if (s->found[0] && !screen_find(s->screen, s->found))
		screen_ask(s->screen, "Not found. Find, part of a name: ");
}

/* Are other rows to be shown? */
static int answer(struct table_screen *s)
{
	screen_back(s->screen);
	if (s->asked == FIND) {
		find(s, screen_answer(s->screen));
		return RUN_GO_ON;
	}
	if (s->asked == GO_TO) {
		go_to(s, screen_answer(s->screen));
		return RUN_OUTPUT;
	}
	snprintf(s->filters[s->asked], sizeof(s->filters[0]), "%s", screen_answer(s->screen));
	return RUN_OUTPUT;
}

static void sort_clicked(struct table_screen *s)
{
	size_t at = screen_column(s->screen);

	if (at >= s->schema.n || !is_sortable(&s->columns[at]) || s->tree)
		return;
	if (s->order && strcmp(s->columns[at].key, s->order) == 0)
		s->around.reverse = !s->around.reverse;
	else
		s->order = s->columns[at].key;
}

/* To the next longer or shorter interval of these. */
static void change_interval(struct table_screen *s, bool longer)
{
	static const uint64_t steps_ms[] = { 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000 };
	uint64_t found = 0;

	for (size_t i = 0; i < ARRAY_SIZE(steps_ms); i++) {
		uint64_t ns = steps_ms[i] * (NS_PER_SEC / 1000);

		if (longer ? !found && ns > s->interval_ns : ns < s->interval_ns)
			found = ns;
	}
	if (!found)
		return;
	s->interval_ns = found;
	if (!s->live && s->steps.every_ns)
		s->steps.every_ns = found;
	if (s->live)
		run_set_interval(s->run->run, found, found);
}

/* If out of memory for the intervals received while frozen, it stays frozen. */
static void freeze(struct table_screen *s)
{
	if (s->frozen && s->while_frozen.end_ns) {
		if (snapshot_add(s, &s->sum, &s->while_frozen))
			return;
		snapshot_free(&s->while_frozen);
	}
	s->frozen = s->live && !s->frozen;
}

/* The sums begin with the next interval. */
static void reset(struct table_screen *s)
{
	snapshot_free(&s->sum);
	snapshot_free(&s->while_frozen);
	if (!s->live)
		s->sum_first = s->sum_end = s->start = s->steps.dropped + s->steps.at + 1;
}

static int on_key(void *screen, int key)
{
	struct table_screen *s = screen;

	switch (key) {
	case SCREEN_ANSWER:
		return answer(s);
	case SCREEN_COLUMN:
		sort_clicked(s);
		break;
	case SCREEN_RESIZED: /* graphs are as wide as it */
		break;
	case SCREEN_BACK:
		s->details = false;
		return RUN_GO_ON;
	case '\r':
		show_details(s);
		return RUN_GO_ON;
	case 'q':
		return RUN_STOP;
	case 'h':
	case '?':
		help(s);
		return RUN_GO_ON;
	case 's':
	case 'o':
	case '>':
		move_sort(s, 1);
		break;
	case '<':
		move_sort(s, -1);
		break;
	case 'r':
		s->around.reverse = !s->around.reverse;
		break;
	case 't':
	case 'x':
		s->tree = !s->tree && has_tree(s);
		break;
	case 'b':
		next_by(s);
		break;
	case 'Z':
		freeze(s);
		break;
	case 'F':
	case 'c':
		memset(s->filters, 0, sizeof(s->filters));
		break;
	case 'a':
		s->accumulated = !s->accumulated;
		break;
	case 'R':
		reset(s);
		break;
	case ' ':
		s->refresh = s->live && !s->frozen; /* that shows nothing new */
		if (!s->live)
			s->steps.every_ns = s->steps.every_ns ? 0 : s->interval_ns;
		break;
	case '+':
	case '-':
		change_interval(s, key == '+');
		break;
	case 'j':
	case 'k':
		if (!s->live)
			steps_key(&s->steps, key);
		break;
	case ']':
	case '[':
		go_to_trigger(s, key == ']' ? 1 : -1);
		break;
	default:
		ask(s, key);
		return RUN_GO_ON;
	}
	return RUN_OUTPUT;
}

static int input(void *screen)
{
	struct table_screen *s = screen;

	return screens_keys(s->screen, s->live ? NULL : &s->steps, on_key, s);
}

static int live_input(void *screen, short events, struct error *err)
{
	struct table_screen *s = screen;
	int r = input(s);

	(void)events;
	(void)err;
	if (r != RUN_OUTPUT || s->refresh) {
		s->refresh = false;
		return r;
	}
	redraw(s);
	return RUN_GO_ON;
}

int table_screen_watch(struct table_screen *s, struct tool_run *t, struct error *err)
{
	s->run = t;
	s->stats = bpf_enable_stats(BPF_STATS_RUN_TIME); /* 5.8 */
	return screens_watch(t->run, s->screen, live_input, s, err);
}

bool table_screen_step(struct table_screen *s, const char *end)
{
	s->steps.end = end;
	if (s->to_ns && s->steps.n && !arrive(s))
		return true;
	return steps_wait(&s->steps, end, input, redraw, s);
}
