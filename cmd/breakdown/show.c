// SPDX-License-Identifier: GPL-2.0-or-later
/* Prints the output of a run and of a replay. */
#include "cmd/breakdown/breakdown.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"

/* The displayed rows of an interval: rows in memory of their own. */
struct shown {
	struct breakdown_row *rows;
	size_t n;
	struct hist *slots;	/* room for the histograms of the rows */
	struct hist_row *other; /* and of (other) */
};

/* The rows of the displayed keys, from rows with a rank. */
static size_t first_other(const struct breakdown *b, const struct render_interval *in)
{
	const struct breakdown_row *rows = in->rows;
	uint64_t most = breakdown_max_keys(&b->o);
	size_t n = 0;

	while (n < in->n && rows[n].rank < most)
		n++;
	return n;
}

static int by_place(const void *a, const void *b)
{
	const struct breakdown_row *x = a, *y = b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static void add_row(struct hist_row *sum, const struct breakdown_row *row)
{
	struct hist_row from = { .self_ns = row->self_ns };

	if (row->slots)
		from.hist = *row->slots;
	from.hist.count = row->count;
	from.hist.total = row->total_ns;
	from.hist.max = row->max_ns;
	hists_merge(sum, &from);
}

static void set_figures(const struct breakdown *b, struct breakdown_row *row,
			const struct hist *hist)
{
	(b->o.unit->plain ? breakdown_row_plain : breakdown_row_figures)(row, hist);
}

/* The rows from @first on are merged into (other). */
static void fold(const struct breakdown *b, struct shown *shown, size_t first)
{
	struct breakdown_row *rows = &shown->rows[first];
	size_t n = shown->n - first, used = 0;

	if (!n || rows[0].rank == RANK_OTHER)
		return;
	qsort(rows, n, sizeof(*rows), by_place);
	for (size_t i = 0; i < n; i++) {
		if (!used || rows[i].place != rows[used - 1].place)
			rows[used++] = rows[i];
		add_row(&shown->other[used - 1], &rows[i]);
	}
	for (size_t i = 0; i < used; i++) {
		set_figures(b, &rows[i], &shown->other[i].hist);
		rows[i].self_ns = shown->other[i].self_ns;
		rows[i].by = keys_other;
		rows[i].rank = RANK_OTHER;
	}
	if (b->combined)
		table_shares(rows, used);
	shown->n = first + used;
}

/* JSON has slots by nanoseconds, whatever the unit of the text: computed from the fine ones. */
static void slots_in_ns(struct shown *shown)
{
	for (size_t i = 0; i < shown->n; i++) {
		if (!shown->rows[i].slots)
			continue;
		shown->slots[i] = *shown->rows[i].slots;
		hist_log2_from_fine(&shown->slots[i]);
		shown->rows[i].slots = &shown->slots[i];
	}
}

/* The displayed rows of @in, in *own. -ENOMEM with @err. */
static int show_rows(const struct breakdown *b, const struct render_interval *in,
		     struct shown *shown, void **own, struct error *err)
{
	size_t first = b->o.by ? first_other(b, in) : in->n, others = in->n - first;

	*own = calloc(1, in->n * sizeof(struct hist) + others * sizeof(struct hist_row) +
			     (in->n + 1) * sizeof(struct breakdown_row));
	if (!*own)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	shown->slots = *own;
	shown->other = (struct hist_row *)(shown->slots + in->n);
	shown->rows = (struct breakdown_row *)(shown->other + others);
	shown->n = in->n;
	if (in->n)
		memcpy(shown->rows, in->rows, in->n * sizeof(struct breakdown_row));
	fold(b, shown, first);
	return 0;
}

/* A row's share of the time by which its key is sorted: calls, and I/O that no call waits for. */
static uint64_t weight(const struct breakdown *b, const struct breakdown_row *row)
{
	if (b->o.value && b->o.value != VALUE_SIZE)
		return row->count;
	if (!b->combined)
		return row->total_ns;
	if (row->has_self)
		return row->self_ns;
	return strcmp(row->layer, "device") == 0 ? row->total_ns : 0;
}

/* The rows of a key. */
struct group {
	struct breakdown_row *rows;
	size_t n;
	uint64_t weight;
	bool other;
};

static int by_keys_and_place(const void *a, const void *b, void *keys)
{
	const struct breakdown_row *x = a, *y = b;
	int r = keys_compare(*(const by_keys *)keys, &x->by, &y->by);

	return r ? r : by_place(a, b);
}

static int by_weight(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->other != y->other)
		return x->other ? 1 : -1;
	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	return (x->rows > y->rows) - (x->rows < y->rows);
}

static int by_rank(const void *a, const void *b)
{
	const struct breakdown_row *x = a, *y = b;

	return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : by_place(a, b);
}

/* Ranks the keys anew, and orders the rows by them. */
static int rank_keys(const struct breakdown *b, struct breakdown_row *rows, size_t n)
{
	by_keys keys = b->o.by;
	struct group *groups = calloc(n + 1, sizeof(*groups)), *g = groups;

	if (!groups)
		return -ENOMEM;
	if (n)
		qsort_r(rows, n, sizeof(*rows), by_keys_and_place, &keys);
	for (size_t i = 0; i < n; i++) {
		if (!i || keys_compare(keys, &rows[i - 1].by, &rows[i].by))
			*g++ = (struct group){
				.rows = &rows[i],
				.other = keys_compare(keys, &rows[i].by, &keys_other) == 0,
			};
		g[-1].n++;
		g[-1].weight += weight(b, &rows[i]);
	}
	qsort(groups, (size_t)(g - groups), sizeof(*groups), by_weight);
	for (size_t rank = 0; groups + rank < g; rank++) {
		for (size_t i = 0; i < groups[rank].n; i++)
			groups[rank].rows[i].rank =
			    groups[rank].other ? RANK_OTHER : (uint32_t)rank;
		if (b->combined)
			table_shares(groups[rank].rows, groups[rank].n);
	}
	free(groups);
	if (n)
		qsort(rows, n, sizeof(*rows), by_rank);
	return 0;
}

static int narrowed(void *ctx, void *all, size_t n, bool joined)
{
	struct breakdown_row *rows = all;

	for (size_t i = 0; joined && i < n; i++)
		if (rows[i].slots)
			set_figures(ctx, &rows[i], rows[i].slots);
	return rank_keys(ctx, rows, n);
}

static int machine_rows(void *ctx, struct render_interval *in, void **own, struct error *err)
{
	const struct breakdown *b = ctx;
	struct shown shown = { 0 };
	int r;

	if (b->o.unit->ns == 1 && !b->o.by)
		return 0;
	r = show_rows(b, in, &shown, own, err);
	if (r)
		return r;
	if (b->o.unit->ns != 1)
		slots_in_ns(&shown);
	in->rows = shown.rows;
	in->n = shown.n;
	return 0;
}

static int print_body(void *ctx, const struct render_interval *in, FILE *stream, struct error *err)
{
	const struct breakdown *b = ctx;
	struct shown shown = { 0 };
	void *own = NULL;
	int r;

	if (b->o.heatmap)
		return breakdown_heatmap_print(b, in->drained, stream, err);
	r = show_rows(b, in, &shown, &own, err);
	if (r)
		return r;
	if (b->combined)
		r = table_print(shown.rows, shown.n, in->schema, &b->o, stream);
	else
		r = breakdown_print(shown.rows, shown.n, b->o.by, b->o.unit, stream);
	if (!r && b->o.value)
		r = value_summary(shown.rows, shown.n, b->o.value, stream);
	free(own);
	return r;
}

static int print_head(void *ctx, const struct recording_interval *in, FILE *stream)
{
	char text[CLOCK_TEXT_SIZE];

	if (((const struct breakdown *)ctx)->o.heatmap)
		return 0;
	recording_clock(in, text);
	return fprintf(stream, "\n%s\n", text) < 0 ? -errno : 0;
}

static int print_start(void *ctx, FILE *stream)
{
	const struct breakdown *b = ctx;

	if (fprintf(stream, "%s\n", b->o.value ? value_first_line : breakdown_first_line) < 0)
		return -errno;
	return render_flush(stream);
}

static int take(void *ctx, const struct recording_interval *in, struct error *err)
{
	struct breakdown *b = ctx;

	return b->o.heatmap || b->o.svg ? breakdown_heatmap_take(b, in, err) : 0;
}

static int check_options(void *ctx, struct error *err)
{
	const struct breakdown *b = ctx;

	if (b->o.max_keys && !b->o.by)
		return breakdown_keys_error(err);
	if ((args_given(&b->o.args, 'm') || args_given(&b->o.args, 'u')) &&
	    (!b->combined || b->o.hist))
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "the histograms of a recording keep the unit of the run");
	if (b->combined && (b->o.heatmap || b->o.svg))
		return breakdown_heatmap_error(err);
	return b->combined || !b->o.hist ? 0 : breakdown_hist_error(err);
}

/* The settings are known: the unit too. */
static void tables(void *ctx, struct show *show)
{
	struct breakdown *b = ctx;
	const struct breakdown_unit *unit = value_unit(b->o.value) ?: breakdown_unit(b->unit_ns);

	if (unit)
		b->o.unit = unit;
	breakdown_keyed_schema(b->combined  ? &table_schema
			       : b->o.value ? &value_schema
					    : &breakdown_schema,
			       b->o.by, b->columns, &b->schema);
	if (b->o.value)
		value_columns(b->o.value, b->columns, &b->schema);
	show->tables[0] = (struct recording_table){ b->combined ? "layers" : "rows",
						    b->o.by || b->o.value ? &b->schema
						    : b->combined	  ? &table_schema
									  : &breakdown_schema };
	show->n_tables = 1;
	if (b->o.value)
		show->empty = "no I/O seen that has this value";
	if (!b->combined && b->o.layer && strcmp(b->o.layer, "blk") != 0)
		show->empty =
		    strcmp(b->o.layer, "uring") == 0 ? "no I/O seen by io_uring"
		    : b->o.filters.disk.dev
			? "no I/O seen in calls on files of this disk; page faults (mmap), "
			  "io_uring and libaio are not counted"
			: "no I/O seen in calls; page faults (mmap) are not counted";
}

static const struct schema *columns(size_t i, const char **with)
{
	static const struct {
		const struct schema *schema;
		const char *with;
	} variants[] = { { &table_schema, "" },
			 { &breakdown_schema, "-T" },
			 { &value_schema, "--value" },
			 { &keys_schema, "--by" } };

	if (i >= ARRAY_SIZE(variants))
		return NULL;
	*with = variants[i].with;
	return variants[i].schema;
}

static const struct show_setting settings[] = {
	{ "unit_ns", 'm', offsetof(struct breakdown, unit_ns), sizeof(uint64_t), UINT32_MAX, 'u' },
	SHOW_SETTING(struct breakdown, "combined", 0, combined, 1),
	SHOW_SETTING(struct breakdown, "value", 0, o.value, VALUES - 1),
	SHOW_SETTING(struct breakdown, "by", KEYS_KEY, o.by, UINT64_MAX),
	SHOW_SETTING(struct breakdown, "max_keys", 'r', o.max_keys, UINT32_MAX),
	{ 0 },
};

static const char *const in_rows[] = { "submitters", NULL };

const struct tool_view breakdown_view = {
	.columns = columns,
	.settings = settings,
	.tables = tables,
	.check = check_options,
	.narrowed = narrowed,
	.take = take,
	.rows = machine_rows,
	.text = { .begin = print_start, .head = print_head, .body = print_body },
	.events = { "count" },
	.not_events = block_not_events,
	.in_rows = in_rows,
	.empty = "no I/O seen",
	.file = { "--heatmap", offsetof(struct breakdown, o.svg), breakdown_heatmap_write },
};
