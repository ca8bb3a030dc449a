/* SPDX-License-Identifier: GPL-2.0-or-later */
/* CSV. */
#include "output/render_internal.h"

#include <inttypes.h>

#include "core/base/array.h"
#include "output/hist.h"

/* Does a spreadsheet take a cell with this beginning for a formula?  In East Asian locales the wide
 * forms of = + - @ begin one, too.  "-" alone is not a name. */
static bool begins_formula(const char *text)
{
	static const char *const wide[] = { "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d",
					    "\xef\xbc\xa0" };

	for (size_t i = 0; i < ARRAY_SIZE(wide); i++)
		if (strncmp(text, wide[i], strlen(wide[i])) == 0)
			return true;
	return *text && strchr("=+-@\t\r\n", *text) && strcmp(text, "-") != 0;
}

/* RFC 4180, but lines end like in Unix tools.  CSV has no escapes, so programs get all characters
 * unchanged, except one that would make a cell a formula; a terminal, which would act on some
 * characters, gets them escaped. */
static void csv_text(struct sink *sink, const char *text, bool in_list)
{
	struct name_walk walk = { text, NAME_DATA };
	char unit[ESCAPE_UNIT_SIZE];

	if (begins_formula(text)) {
		sink_printf(sink, "\\x%02x", (unsigned char)*text);
		walk.rest++;
	}
	while (walk.most && *walk.rest) {
		const char *plain = walk.rest;

		sink_write(sink, plain, name_plain(&walk, SIZE_MAX));
		if (!walk.most || !*walk.rest)
			break;
		walk.rest += data_next(walk.rest, sink->terminal, unit);
		walk.most--;
		if (in_list && unit[0] == ';')
			sink_puts(sink, "\\x3b");
		else
			sink_puts(sink, unit[0] == '"' ? "\"\"" : unit);
	}
	if (name_is_cut(&walk))
		sink_puts(sink, "...");
}

/* As it is, for iotrace itself. */
static void csv_exact(struct sink *sink, const char *text)
{
	for (size_t n; *text; text += n) {
		n = strcspn(text, "\"");
		sink_write(sink, text, n);
		if (text[n]) {
			sink_puts(sink, "\"\"");
			n++;
		}
	}
}

static void csv_string(struct sink *sink, const char *text, bool exact)
{
	bool quoted = strpbrk(text, ",\"\r\n");

	if (quoted)
		sink_puts(sink, "\"");
	if (exact)
		csv_exact(sink, text);
	else
		csv_text(sink, text, false);
	if (quoted)
		sink_puts(sink, "\"");
}

/* Always quoted: whether quotes are needed is only known at its end. */
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

/* Only with renderer.slots. */
static void csv_slots(struct sink *sink, const struct hist *h)
{
	const char *separator = "";

	for (unsigned int i = 0; h && i < HIST_FINE_SLOTS; i++) {
		if (!h->fine[i])
			continue;
		sink_printf(sink, "%s%u:%" PRIu64, separator, i, h->fine[i]);
		separator = ";";
	}
}

static void csv_value(struct sink *sink, const struct column *column, const void *row, bool exact)
{
	switch (column->type) {
	case COLUMN_U64:
	case COLUMN_U32:
		sink_integer(sink, column_integer(column, row));
		break;
	case COLUMN_BOOL:
		sink_puts(sink, column_integer(column, row) ? "true" : "false");
		break;
	case COLUMN_STR:
		csv_string(sink, column_string(column, row), exact);
		break;
	case COLUMN_FRAMES:
		csv_frames(sink, column_frames(column, row));
		break;
	case COLUMN_HIST:
		csv_slots(sink, column_hist(column, row));
		break;
	}
}

static bool has_cell(const struct renderer *r, const struct column *column)
{
	return r->slots ? column_in_json(column) : column_in_csv(column);
}

static void csv_heading(struct sink *sink, const struct renderer *r, const struct schema *schema)
{
	sink_puts(sink, "start,end");
	for (size_t i = 0; i < schema->n; i++) {
		if (!has_cell(r, &schema->columns[i]))
			continue;
		sink_puts(sink, ",");
		csv_string(sink, schema->columns[i].key, false);
	}
	sink_puts(sink, "\n");
}

static void csv_times(struct sink *sink, const struct interval *interval)
{
	put_seconds(sink, interval->start_ns);
	sink_puts(sink, ",");
	put_seconds(sink, interval->end_ns);
}

static void csv_row(struct sink *sink, const struct renderer *r, const struct interval *interval,
		    const struct schema *schema, const void *row)
{
	csv_times(sink, interval);
	for (size_t i = 0; i < schema->n; i++) {
		if (!has_cell(r, &schema->columns[i]))
			continue;
		sink_puts(sink, ",");
		csv_value(sink, &schema->columns[i], row, r->slots);
	}
	sink_puts(sink, "\n");
}

static int csv_begin(struct renderer *r, const struct render_head *head, struct error *err)
{
	struct sink sink = { .stream = r->stream };

	(void)err;
	if (r->appends)
		return 0;
	csv_heading(&sink, r, head->schema);
	return sink_flush(&sink);
}

static int csv_interval(struct renderer *r, const struct render_interval *in, struct error *err)
{
	struct sink sink = sink_of(r->stream);

	(void)err;
	for (size_t i = 0; i < in->n; i++)
		csv_row(&sink, r, &in->interval, in->schema, schema_row(in->schema, in->rows, i));
	if (!in->n && r->slots) {
		csv_times(&sink, &in->interval);
		sink_puts(&sink, "\n");
	}
	return sink_flush(&sink);
}

const struct renderer_ops csv_renderer = {
	.begin = csv_begin,
	.interval = csv_interval,
	.losses = render_losses_apart,
};
