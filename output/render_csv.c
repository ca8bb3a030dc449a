/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/render_internal.h"

#include <inttypes.h>

#include "core/base/array.h"

/* Does a spreadsheet take a cell that begins so for a formula?  In East Asian locales the wide
 * forms of = + - @ begin one, too.  "-" alone is no name. */
static bool begins_formula(const char *text)
{
	static const char *const wide[] = { "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d",
					    "\xef\xbc\xa0" };

	for (size_t i = 0; i < ARRAY_SIZE(wide); i++)
		if (strncmp(text, wide[i], strlen(wide[i])) == 0)
			return true;
	return *text && strchr("=+-@\t\r\n", *text) && strcmp(text, "-") != 0;
}

/* RFC 4180, but lines end as Unix tools have it.  CSV has no escapes, so programs get all
 * characters as they are, but for one that would make a cell a formula; a terminal, which would act
 * on some of them, does not. */
static void csv_text(struct sink *sink, const char *text, bool in_list)
{
	struct name_walk walk = { text, NAME_DATA };
	char unit[ESCAPE_UNIT_SIZE];

	if (begins_formula(text)) {
		sink_printf(sink, "\\x%02x", (unsigned char)*text);
		walk.rest++;
	}
	for (; walk.most && *walk.rest; walk.most--) {
		walk.rest += data_next(walk.rest, sink->terminal, unit);
		if (in_list && unit[0] == ';')
			sink_puts(sink, "\\x3b");
		else
			sink_puts(sink, unit[0] == '"' ? "\"\"" : unit);
	}
	if (name_is_cut(&walk))
		sink_puts(sink, "...");
}

static void csv_string(struct sink *sink, const char *text)
{
	bool quoted = strpbrk(text, ",\"\r\n");

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

static void csv_heading(struct sink *sink, const struct schema *schema)
{
	sink_puts(sink, "start,end");
	for (size_t i = 0; i < schema->n; i++) {
		if (!column_in_csv(&schema->columns[i]))
			continue;
		sink_puts(sink, ",");
		csv_string(sink, schema->columns[i].key);
	}
	sink_puts(sink, "\n");
}

static void csv_row(struct sink *sink, const struct interval *interval, const struct schema *schema,
		    const void *row)
{
	put_seconds(sink, interval->start_ns);
	sink_puts(sink, ",");
	put_seconds(sink, interval->end_ns);
	for (size_t i = 0; i < schema->n; i++) {
		if (!column_in_csv(&schema->columns[i]))
			continue;
		sink_puts(sink, ",");
		csv_value(sink, &schema->columns[i], row);
	}
	sink_puts(sink, "\n");
}

static int csv_begin(struct renderer *r, const struct render_head *head, struct error *err)
{
	struct sink sink = { .stream = r->stream };

	(void)err;
	if (r->appends)
		return 0;
	csv_heading(&sink, head->schema);
	return sink_flush(&sink);
}

static int csv_interval(struct renderer *r, const struct render_interval *in, struct error *err)
{
	struct sink sink = sink_of(r->stream);

	(void)err;
	for (size_t i = 0; i < in->n; i++)
		csv_row(&sink, &in->interval, in->schema, schema_row(in->schema, in->rows, i));
	return sink_flush(&sink);
}

const struct renderer_ops csv_renderer = {
	.begin = csv_begin,
	.interval = csv_interval,
	.losses = render_losses_apart,
};
