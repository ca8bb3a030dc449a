/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/render_internal.h"

#include <inttypes.h>

/* Enough for what a column makes of its value; plain strings have no such bound. */
#define CELL_SIZE 1024

#define MAX_COLUMNS 64

struct table {
	const struct schema *schema;
	size_t widths[MAX_COLUMNS];
};

/* A line of the table.  Blanks are held back until something follows them, so that no line
 * ends in blanks. */
struct line {
	struct sink *sink;
	const struct table *table;
	size_t blanks;
	bool first;
};

/* Columns that the text takes once escaped: one a character, however many bytes that has. */
static size_t shown_width(const char *text)
{
	struct name_walk walk = { text, NAME_SHOWN };
	char unit[ESCAPE_UNIT_SIZE];
	size_t width = 0;

	while (name_next(&walk, unit))
		width += (unsigned char)unit[0] < 0x80 ? strlen(unit) : 1;
	return width;
}

void put_escaped(struct sink *sink, const char *text)
{
	struct name_walk walk = { text, NAME_SHOWN };
	char unit[ESCAPE_UNIT_SIZE];

	while (name_next(&walk, unit))
		sink_puts(sink, unit);
}

static void put_cell(struct line *line, const struct column *column, const char *text)
{
	size_t width = line->table->widths[column - line->table->schema->columns];
	size_t shown = shown_width(text);
	size_t pad = shown < width ? width - shown : 0;

	if (!line->first)
		line->blanks++;
	line->first = false;

	if (!column->left)
		line->blanks += pad;
	if (shown) {
		sink_fill(line->sink, ' ', line->blanks);
		line->blanks = 0;
		put_escaped(line->sink, text);
	}
	if (column->left)
		line->blanks += pad;
}

static void put_value(struct line *line, const struct column *column, const void *row)
{
	char buf[CELL_SIZE] = "";

	if (column->cell) {
		column->cell(row, buf, sizeof(buf));
		put_cell(line, column, buf);
		return;
	}

	switch (column->type) {
	case COLUMN_U64:
	case COLUMN_U32:
		snprintf(buf, sizeof(buf), "%" PRIu64, column_integer(column, row));
		put_cell(line, column, buf);
		break;
	case COLUMN_BOOL:
		put_cell(line, column, column_integer(column, row) ? "yes" : "no");
		break;
	case COLUMN_STR:
		put_cell(line, column, column_string(column, row));
		break;
	case COLUMN_FRAMES:
	case COLUMN_HIST: /* drawn by hist_print(), stacks_text(): column_in_text() */
		break;
	}
}

/* One line: the headings, or the values of @row if there is one. */
static void text_line(struct sink *sink, const struct table *table, const void *row)
{
	struct line line = { .sink = sink, .table = table, .first = true };
	const struct schema *schema = table->schema;
	const struct column *column;
	size_t i;

	for (i = 0; i < schema->n && i < MAX_COLUMNS; i++) {
		column = &schema->columns[i];
		if (!column_in_text(column))
			continue;
		if (row)
			put_value(&line, column, row);
		else
			put_cell(&line, column, column->heading);
	}
	sink_puts(sink, "\n");
}

/* Columns of names are as wide as the longest needs, so that none is cut and all stand below each
 * other.  The others have the width that is declared. */
static size_t column_width(const struct schema *schema, const struct column *column,
			   const void *rows, size_t n)
{
	size_t width = column->width > 0 ? (size_t)column->width : 0;

	if (!width || column->cell || column->type != COLUMN_STR)
		return width;
	for (size_t i = 0; i < n; i++) {
		size_t shown = shown_width(column_string(column, schema_row(schema, rows, i)));

		if (shown > width)
			width = shown;
	}
	return width;
}

static struct table table_of(const struct schema *schema, const void *rows, size_t n)
{
	struct table table = { .schema = schema };

	for (size_t i = 0; i < schema->n && i < MAX_COLUMNS; i++)
		table.widths[i] = column_width(schema, &schema->columns[i], rows, n);
	return table;
}

void text_heading(struct sink *sink, const struct schema *schema, const void *rows, size_t n)
{
	const struct table table = table_of(schema, rows, n);

	text_line(sink, &table, NULL);
}

void text_rows(struct sink *sink, const struct schema *schema, const void *rows, size_t n)
{
	const struct table table = table_of(schema, rows, n);

	for (size_t i = 0; i < n; i++)
		text_line(sink, &table, schema_row(schema, rows, i));
}
