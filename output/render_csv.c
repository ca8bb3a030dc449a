/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/render_internal.h"

#include <inttypes.h>

/* RFC 4180, but lines end as Unix tools have it.  An escaped string holds no line end any more. */
static void csv_text(struct sink *sink, const char *text, bool in_list)
{
	char unit[ESCAPE_UNIT_SIZE];

	while (*text) {
		text += escape_next(text, unit);
		if (in_list && unit[0] == ';')
			sink_puts(sink, "\\x3b");
		else
			sink_puts(sink, unit[0] == '"' ? "\"\"" : unit);
	}
}

static void csv_string(struct sink *sink, const char *text)
{
	bool quoted = strpbrk(text, ",\"");

	if (quoted)
		sink_puts(sink, "\"");
	csv_text(sink, text, false);
	if (quoted)
		sink_puts(sink, "\"");
}

/* Always quoted: whether it must be is only known at its end. */
static void csv_frames(struct sink *sink, struct frames frames)
{
	const char *name, *separator = "";

	sink_puts(sink, "\"");
	while ((name = frames_next(&frames))) {
		sink_puts(sink, separator);
		csv_text(sink, name, true);
		separator = ";";
	}
	sink_puts(sink, "\"");
}

static void csv_value(struct sink *sink, const struct column *column, const void *row)
{
	switch (column->type) {
	case COLUMN_U64:
	case COLUMN_U32:
		sink_printf(sink, "%" PRIu64, column_integer(column, row));
		break;
	case COLUMN_BOOL:
		sink_puts(sink, column_integer(column, row) ? "true" : "false");
		break;
	case COLUMN_STR:
		csv_string(sink, column_string(column, row));
		break;
	case COLUMN_FRAMES:
		csv_frames(sink, column_frames(column, row));
		break;
	case COLUMN_HIST: /* a table has no place for it: column_in_csv() */
		break;
	}
}

/* One line: the keys, or the values of @row if there is one. */
static void csv_line(struct sink *sink, const struct schema *schema, const void *row)
{
	const struct column *column;
	bool first = true;
	size_t i;

	for (i = 0; i < schema->n; i++) {
		column = &schema->columns[i];
		if (!column_in_csv(column))
			continue;
		if (!first)
			sink_puts(sink, ",");
		first = false;
		if (row)
			csv_value(sink, column, row);
		else
			csv_string(sink, column->key);
	}
	sink_puts(sink, "\n");
}

void csv_heading(struct sink *sink, const struct schema *schema)
{
	csv_line(sink, schema, NULL);
}

void csv_rows(struct sink *sink, const struct schema *schema, const void *rows, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		csv_line(sink, schema, schema_row(schema, rows, i));
}
