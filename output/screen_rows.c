/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows of the full screen: a copy of an interval's, in the order of a column. */
#include "output/screen_internal.h"

#include <errno.h>
#include <stdlib.h>

const void *screen_rows_sum(const struct screen_rows *rows)
{
	return rows->has_sum ? rows->rows + rows->n * rows->own.row_size : NULL;
}

void screen_rows_free(struct screen_rows *rows)
{
	for (size_t i = 0; i < rows->n_texts; i++)
		free(rows->texts[i]);
	free(rows->texts);
	free(rows->order);
	free(rows->rows);
	free(rows->columns);
	*rows = (struct screen_rows){ 0 };
}

/* ---- copies ---- */

/* Copies the strings of a row. */
static int own_texts(struct screen_rows *to, char *row)
{
	for (size_t i = 0; i < to->own.n; i++) {
		const struct column *column = &to->columns[i];
		char *text;

		if (column->type != COLUMN_STR)
			continue;
		text = strdup(column_string(column, row));
		if (!text)
			return -ENOMEM;
		to->texts[to->n_texts++] = text;
		memcpy(row + column->offset, &text, sizeof(text));
	}
	return 0;
}

static int allocate(struct screen_rows *to, const struct schema *schema)
{
	size_t n = to->n + 1; /* the sum */

	to->columns = calloc(schema->n + 1, sizeof(*to->columns));
	to->rows = calloc(n, schema->row_size);
	to->texts = calloc(n * schema->n + 1, sizeof(*to->texts));
	to->order = calloc(n, sizeof(*to->order));
	return to->columns && to->rows && to->texts && to->order ? 0 : -ENOMEM;
}

static int copy(struct screen_rows *to, const struct render_interval *in, const void *sum)
{
	const struct schema *schema = in->schema;
	int r;

	to->n = in->rows ? in->n : 0;
	r = allocate(to, schema);
	if (r)
		return r;
	memcpy(to->columns, schema->columns, schema->n * sizeof(*to->columns));
	to->own = (struct schema){ to->columns, schema->n, schema->row_size };
	if (to->n)
		memcpy(to->rows, in->rows, to->n * schema->row_size);
	to->has_sum = sum;
	if (sum)
		memcpy(to->rows + to->n * schema->row_size, sum, schema->row_size);
	for (size_t i = 0; !r && i < to->n + to->has_sum; i++)
		r = own_texts(to, to->rows + i * schema->row_size);
	return r;
}

/* ---- order ---- */

struct order {
	const struct column *column;
	bool reverse;
};

static int compare_values(const struct column *column, const void *a, const void *b)
{
	uint64_t p, q;

	if (column->type == COLUMN_STR)
		return strcmp(column_string(column, a), column_string(column, b));
	p = column_integer(column, a);
	q = column_integer(column, b);
	return (p < q) - (p > q);
}

/* Equal rows keep their order. */
static int compare(const void *a, const void *b, void *ctx)
{
	const char *p = *(const char *const *)a, *q = *(const char *const *)b;
	const struct order *order = ctx;
	int r = compare_values(order->column, p, q);

	if (r)
		return order->reverse ? -r : r;
	return (p > q) - (p < q);
}

static void sort(struct screen_rows *rows, const struct screen_view *view)
{
	struct order order = { NULL, view->reverse };

	for (size_t i = 0; i < rows->n; i++)
		rows->order[i] = schema_row(&rows->own, rows->rows, i);
	if (view->sort >= rows->own.n || !rows->n)
		return;
	order.column = &rows->columns[view->sort];
	qsort_r(rows->order, rows->n, sizeof(*rows->order), compare, &order);
}

/* ---- the selected row ---- */

static bool same_columns(const struct schema *a, const struct schema *b)
{
	for (size_t i = 0; i < a->n; i++)
		if (i >= b->n || a->columns[i].offset != b->columns[i].offset)
			return false;
	return a->n == b->n;
}

static bool same_names(const struct schema *schema, const void *a, const void *b)
{
	for (size_t i = 0; i < schema->n; i++) {
		const struct column *column = &schema->columns[i];

		if (column->role == ROLE_LABEL && compare_values(column, a, b))
			return false;
	}
	return true;
}

static size_t find_again(const struct screen_rows *rows, const struct screen_rows *before,
			 size_t selected, bool *same)
{
	*same = true;
	if (selected >= before->n || !same_columns(&rows->own, &before->own) || !rows->n) {
		*same = false;
		return SCREEN_NONE;
	}
	for (size_t i = 0; i < rows->n; i++)
		if (same_names(&rows->own, rows->order[i], before->order[selected]))
			return i;
	*same = false;
	return selected < rows->n ? selected : rows->n - 1;
}

int screen_rows_copy(struct screen_rows *rows, const struct render_interval *in,
		     const struct screen_view *view, size_t *selected, bool *same)
{
	struct screen_rows made = { 0 }, old = *rows;
	int r = copy(&made, in, in->rows ? view->sum : NULL);

	if (r) {
		screen_rows_free(&made);
		return r;
	}
	*rows = made;
	rows->table.secs = view->secs;
	text_table_measure(&rows->table, &rows->own, rows->rows, rows->n + rows->has_sum);
	sort(rows, view);
	*selected = find_again(rows, &old, *selected, same);
	screen_rows_free(&old);
	return 0;
}
