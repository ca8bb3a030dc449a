// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/breakdown.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"

/* What is shown of an interval: rows in memory of their own. */
struct shown {
	struct breakdown_row *rows;
	size_t n;
	struct hist *slots;	/* room for those of the rows */
	struct hist_row *other; /* and for those of (other) */
};

/* Rows of the keys that are shown, of those that have a rank. */
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

/* The rows from @first on become those of (other). */
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
		breakdown_row_figures(&rows[i], &shown->other[i].hist);
		rows[i].self_ns = shown->other[i].self_ns;
		rows[i].by = keys_other;
		rows[i].rank = RANK_OTHER;
	}
	if (b->combined)
		table_shares(rows, used);
	shown->n = first + used;
}

/* JSON has slots by nanoseconds, whatever the unit of the text: they are made of the fine ones. */
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

/* The rows of @in as they are shown, in *own.  -ENOMEM with @err. */
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
	free(own);
	return r;
}

static int print_head(void *ctx, const struct recording_interval *in, FILE *stream)
{
	char text[CLOCK_TEXT_SIZE];

	if (((const struct breakdown *)ctx)->o.heatmap)
		return 0;
	clock_time(in->interval.end_ns, in->utc_offset, text);
	return fprintf(stream, "\n%s\n", text) < 0 ? -errno : 0;
}

static int print_start(void *ctx, FILE *stream)
{
	(void)ctx;
	if (fprintf(stream, "%s\n", breakdown_first_line) < 0)
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
	if (b->combined && (b->o.heatmap || b->o.svg))
		return breakdown_heatmap_error(err);
	return b->combined || !b->o.hist ? 0 : breakdown_hist_error(err);
}

/* The settings are known: the unit too. */
static void tables(void *ctx, struct show *show)
{
	struct breakdown *b = ctx;
	const struct breakdown_unit *unit = breakdown_unit(b->unit_ns);

	if (unit)
		b->o.unit = unit;
	breakdown_keyed_schema(b->combined ? &table_schema : &breakdown_schema, b->o.by, b->columns,
			       &b->schema);
	show->tables[0] = (struct recording_table){ b->combined ? "layers" : "rows",
						    b->o.by	  ? &b->schema
						    : b->combined ? &table_schema
								  : &breakdown_schema };
	show->n_tables = 1;
	if (!b->combined && b->o.layer && strcmp(b->o.layer, "blk") != 0)
		show->empty =
		    b->o.filters.disk.dev
			? "no I/O seen by calls of files on the disk; page faults (mmap), io_uring "
			  "and libaio are not counted"
			: "no I/O seen by calls; page faults (mmap) are none";
}

const struct tool_view breakdown_view = {
	.tables = tables,
	.check = check_options,
	.take = take,
	.rows = machine_rows,
	.text = { .begin = print_start, .head = print_head, .body = print_body },
	.empty = "no I/O seen",
	.notes_first = true,
	.written_by = "--heatmap",
	.written_at = offsetof(struct breakdown, o.svg),
	.written_beside = true,
};
