/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows of any schema that are stored, and added up by their labels; trees of paths. */
#ifndef IOTRACE_OUTPUT_PIVOT_H
#define IOTRACE_OUTPUT_PIVOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/text.h"
#include "output/schema.h"

struct hist;

/* Rows that are stored, and rows that are added up: rows with the same labels, and the same stacks,
 * become one. */

/* The common properties of a subcommand's rows. */
struct pivot_kind {
	const struct schema *all; /* every column that may be displayed; their texts are copied */
	/* Each row has its own object, and is never added to another. */
	bool apart;
	/* Key of a column that is not displayed, but distinguishes rows that look the same; NULL:
	 * none. */
	const char *identity;
	/* Key of a text label that may be found later than the others: a row without it is added to
	 * the row that is the same otherwise.  NULL: none. */
	const char *late;
	/* How one row is added to another.  NULL: counters are summed, gauges become the larger
	 * one, histograms are summed. 0 or -ENOMEM. */
	int (*join)(void *to, const void *from);
	/* @row is a copy of another: copies other data that it points to, in addition to texts and
	 * histograms. 0, or -ENOMEM, then it has no pointer to the original's data.  NULL: no other
	 * data. */
	int (*copied)(void *row);
	/* Frees the data of copied() and join().  NULL: nothing to do. */
	void (*drop)(void *row);
	/* Removes the labels of @row that distinguish it from other rows of the smaller half, if
	 * there are too many rows.  NULL: such rows are left out. */
	void (*fold)(void *row);
};

/* { 0 } is empty. */
struct pivot_rows {
	const struct pivot_kind *kind;
	char *rows; /* of kind->all->row_size bytes */
	size_t n;
	struct text_set texts;
	size_t n_frames; /* of all rows' stacks */
};

/* A copy of the @n @rows, and of their texts. 0 or -ENOMEM, then *to is empty. */
int pivot_copy(struct pivot_rows *to, const struct pivot_kind *kind, const void *rows, size_t n);

/* Adds a copy of @row.  Returns it; NULL: out of memory. */
void *pivot_add_row(struct pivot_rows *to, const void *row);

void pivot_free(struct pivot_rows *p);
void *pivot_row(const struct pivot_rows *p, size_t i);

/* Bytes of memory in use, approximately. */
size_t pivot_memory(const struct pivot_rows *p);

/* Adds @from to @sum, merging rows with the same labels.  Beyond @most rows the smaller half, by
 * column @order (a key), is folded.  @sum is in the order of its labels, or empty. 0, or -ENOMEM:
 * some rows may be missing. */
int pivot_add(struct pivot_rows *sum, const struct pivot_rows *from, const char *order,
	      size_t most);

/* How rows are displayed. */
struct pivot_view {
	const struct schema *schema; /* rows with equal labels of it are merged */
	/* Key of a column with paths: a row for each directory, including everything below it,
	 * showing its last name, indented by depth.  NULL: none. */
	const char *tree;
	/* Which rows count; NULL: all. */
	bool (*is_shown)(const void *ctx, const void *row);
	const void *ctx;
};

/* The rows of @from according to @view, not sorted, except a tree's.  Their texts belong to @from
 * or *to. 0 or -ENOMEM, then *to is empty. */
int pivot_make(const struct pivot_rows *from, const struct pivot_view *view, struct pivot_rows *to);

/* The column of @schema with @key; NULL: none. */
const struct column *schema_column(const struct schema *schema, const char *key);

/* The text of column @key in @row, and its number; "" and 0: no such column. */
const char *schema_text(const struct schema *schema, const void *row, const char *key);
uint64_t schema_number(const struct schema *schema, const void *row, const char *key);

/* The text of a cell, and its number; @column is of that type. */
const char *column_text(const struct column *column, const void *row);
uint64_t column_number(const struct column *column, const void *row);

/* The first histogram of @row; NULL: none. */
const struct hist *schema_hist(const struct schema *schema, const void *row);

/* Does it have a text label that contains @part, ignoring case? */
bool pivot_row_has(const struct pivot_kind *kind, const void *row, const char *part);

#endif
