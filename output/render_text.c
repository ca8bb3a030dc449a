/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The renderer of text. */
#include "output/columns.h"
#include "output/render_internal.h"

#include <inttypes.h>
#include <wchar.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "output/terminal.h"

/* Enough for the text that a column makes of its value; plain strings have no such bound. */
#define CELL_SIZE 1024

/* A line of the table.  Blanks are held back until something follows them, so that no line ends in
 * blanks. */
struct line {
	struct sink *sink;
	const struct text_table *table;
	size_t blanks;
	bool first;
};

/* For wcwidth() in a locale without these: East_Asian_Width W and F of Unicode 15, in rough
 * blocks. */
static bool is_wide(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} blocks[] = {
		{ 0x1100, 0x115f },   { 0x2e80, 0x303e },   { 0x3041, 0xa4cf },
		{ 0xa960, 0xa97f },   { 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },
		{ 0xfe30, 0xfe6f },   { 0xff01, 0xff60 },   { 0xffe0, 0xffe6 },
		{ 0x1f300, 0x1f64f }, { 0x1f900, 0x1f9ff }, { 0x20000, 0x3fffd },
	};

	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++)
		if (code >= blocks[i].first && code <= blocks[i].last)
			return true;
	return false;
}

size_t unit_width(const char *unit)
{
	uint32_t code = 0;
	int width;

	if ((unsigned char)unit[0] < 0x80)
		return strlen(unit);
	utf8_decode(unit, &code);
	width = wcwidth((wchar_t)code);
	return width >= 0 ? (size_t)width : is_wide(code) ? 2 : 1;
}

size_t render_step(const char **text)
{
	char unit[ESCAPE_UNIT_SIZE];

	if (!**text)
		return 0;
	*text += escape_next(*text, unit);
	return unit_width(unit);
}

const char *render_path_end(const char *path, size_t width, size_t room)
{
	while (width > room)
		width -= render_step(&path);
	return path;
}

static size_t shown_width(const char *text)
{
	struct name_walk walk = { text, NAME_SHOWN };
	char unit[ESCAPE_UNIT_SIZE];
	size_t width = name_plain(&walk, SIZE_MAX);

	while (name_next(&walk, unit))
		width += unit_width(unit) + name_plain(&walk, SIZE_MAX);
	return width;
}

/* At most @room columns of it; returns how many. */
static size_t put_cut(struct sink *sink, const char *text, size_t room)
{
	struct name_walk walk = { text, NAME_SHOWN };
	char unit[ESCAPE_UNIT_SIZE];
	size_t used = 0;

	for (;;) {
		const char *plain = walk.rest;
		size_t n = name_plain(&walk, room - used);

		sink_write(sink, plain, n);
		used += n;
		if (!name_next(&walk, unit) || unit_width(unit) > room - used)
			return used;
		sink_puts(sink, unit);
		used += unit_width(unit);
	}
}

void put_escaped(struct sink *sink, const char *text)
{
	put_cut(sink, text, SIZE_MAX);
}

int render_name(FILE *stream, const char *name)
{
	struct sink sink = { .stream = stream };

	put_escaped(&sink, name);
	return sink_result(&sink);
}

static void put_cell(struct line *line, const struct column *column, const char *text)
{
	size_t width = line->table->widths[column - line->table->schema->columns];
	size_t shown = shown_width(text), dots = strlen("...");

	if (!line->first)
		line->blanks++;
	line->first = false;

	if (!column->left && shown < width)
		line->blanks += width - shown;
	if (shown) {
		sink_fill(line->sink, ' ', line->blanks);
		line->blanks = 0;
		if (line->table->cuts && shown > width && *text == '/' && width > dots) {
			sink_puts(line->sink, "...");
			text = render_path_end(text, shown, width - dots);
			shown = dots + put_cut(line->sink, text, width - dots);
		} else {
			shown = put_cut(line->sink, text, line->table->cuts ? width : SIZE_MAX);
		}
	}
	if (column->left && shown < width)
		line->blanks += width - shown;
}

void column_ms(uint64_t ns, char *buf, size_t size)
{
	snprintf(buf, size, "%.2f", (double)ns / 1e6);
}

void column_us(uint64_t ns, char *buf, size_t size)
{
	snprintf(buf, size, "%" PRIu64 ".%02" PRIu64, ns / 1000, ns % 1000 / 10);
}

void column_kbytes(uint64_t bytes, char *buf, size_t size)
{
	snprintf(buf, size, "%.*f", bytes % 1024 ? 1 : 0, (double)bytes / 1024);
}

static bool is_rate(const struct text_table *table, const struct column *column)
{
	return table->secs > 0 && column->rate;
}

static void put_rate(const struct column *column, const void *row, double secs, char *buf)
{
	const double kilo = strcmp(column->unit, "bytes") == 0 ? 1024 : 1;
	const double rate = (double)column_integer(column, row) / kilo / secs;

	snprintf(buf, CELL_SIZE, rate < 99999.95 ? "%.1f" : rate < 1e15 ? "%.0f" : "%.3g", rate);
}

/* The text of a cell, in @buf if it is generated. */
static const char *cell_text(const struct text_table *table, const struct column *column,
			     const void *row, char buf[CELL_SIZE])
{
	buf[0] = 0;
	if (table->sum && (column->role == ROLE_LABEL || column->type == COLUMN_STR))
		return "";
	if (is_rate(table, column)) {
		put_rate(column, row, table->secs, buf);
		return buf;
	}
	if (column->cell) {
		column->cell(row, buf, CELL_SIZE);
		return buf;
	}
	if (column->text) {
		column->text(column_integer(column, row), buf, CELL_SIZE);
		return buf;
	}

	switch (column->type) {
	case COLUMN_U64:
	case COLUMN_U32:
		snprintf(buf, CELL_SIZE, "%" PRIu64, column_integer(column, row));
		return buf;
	case COLUMN_BOOL:
		return column_integer(column, row) ? "yes" : "no";
	case COLUMN_STR:
		return column_string(column, row);
	case COLUMN_FRAMES:
	case COLUMN_HIST: /* drawn by hist_print(), stacks_text(): column_in_text() */
		break;
	}
	return buf;
}

static const char *heading_text(const struct text_table *table, const struct column *column)
{
	return is_rate(table, column) ? column->rate : column->heading;
}

void text_line(struct sink *sink, const struct text_table *table, const void *row)
{
	struct line line = { .sink = sink, .table = table, .first = true };
	const struct schema *schema = table->schema;
	char buf[CELL_SIZE];

	for (size_t i = 0; i < schema->n && i < TEXT_COLUMNS_MAX; i++) {
		const struct column *column = &schema->columns[i];

		if (column_in_text(column) && !(table->cuts && !table->widths[i]))
			put_cell(&line, column,
				 row ? cell_text(table, column, row, buf)
				     : heading_text(table, column));
	}
	sink_puts(sink, "\n");
}

/* Label columns are as wide as their widest cell, so that none is cut and all are aligned.  The
 * others have the declared width. */
static size_t column_width(const struct text_table *table, const struct column *column,
			   const void *rows, size_t n)
{
	size_t width = column->width > 0 ? (size_t)column->width : 0;
	char buf[CELL_SIZE];

	if (!width || column->role != ROLE_LABEL)
		return width;
	for (size_t i = 0; i < n; i++) {
		size_t shown =
		    shown_width(cell_text(table, column, schema_row(table->schema, rows, i), buf));

		if (shown > width)
			width = shown;
	}
	return width;
}

static struct text_table table_of(const struct schema *schema, const void *rows, size_t n)
{
	struct text_table table = { .schema = schema };

	for (size_t i = 0; i < schema->n && i < TEXT_COLUMNS_MAX; i++)
		table.widths[i] = column_width(&table, &schema->columns[i], rows, n);
	return table;
}

/* ---- a table that fits ---- */

/* Limits to which columns of names shrink and grow. */
#define NAME_WIDTH_MIN	20
#define NAME_WIDTH_LESS 8 /* before a column is left out */
#define NAME_WIDTH_MAX	60

static size_t widest_cell(const struct column *column, const struct text_table *table,
			  const void *rows, size_t n)
{
	size_t width = shown_width(heading_text(table, column));
	char buf[CELL_SIZE];

	for (size_t i = 0; i < n; i++) {
		size_t shown =
		    shown_width(cell_text(table, column, schema_row(table->schema, rows, i), buf));

		if (shown > width)
			width = shown;
	}
	return width;
}

static bool is_name(const struct column *column)
{
	return column_in_text(column) && column->type == COLUMN_STR && column->left;
}

/* The widest column of names that is wider than @least; NULL: none. */
static size_t *widest_name(struct text_table *table, size_t least)
{
	size_t *widest = NULL;

	for (size_t i = 0; i < table->schema->n && i < TEXT_COLUMNS_MAX; i++)
		if (is_name(&table->schema->columns[i]) && table->widths[i] > least &&
		    (!widest || table->widths[i] > *widest))
			widest = &table->widths[i];
	return widest;
}

/* Columns as wide as their cells, and as declared. */
static void whole_table(struct text_table *table, const struct schema *schema, const void *rows,
			size_t n)
{
	table->schema = schema;
	for (size_t i = 0; i < schema->n && i < TEXT_COLUMNS_MAX; i++) {
		const struct column *column = &schema->columns[i];
		const size_t declared = column->width > 0 ? (size_t)column->width : 0;

		table->widths[i] = table->least[i] = 0;
		if (!column_in_text(column))
			continue;
		table->least[i] = widest_cell(column, table, rows, n);
		table->widths[i] = table->least[i] < declared ? declared : table->least[i];
	}
}

/* The last column may be long, since nothing is behind it. */
void text_table_measure(struct text_table *table, const struct schema *schema, const void *rows,
			size_t n)
{
	size_t *last = NULL;

	whole_table(table, schema, rows, n);
	table->cuts = true;
	for (size_t i = 0; i < schema->n && i < TEXT_COLUMNS_MAX; i++) {
		if (last && *last > NAME_WIDTH_MAX)
			*last = NAME_WIDTH_MAX;
		if (column_in_text(&schema->columns[i]))
			last = is_name(&schema->columns[i]) ? &table->widths[i] : NULL;
	}
}

static size_t table_width(const struct text_table *table)
{
	size_t width = 0;

	for (size_t i = 0; i < TEXT_COLUMNS_MAX; i++)
		if (table->widths[i])
			width += table->widths[i] + (width != 0);
	return width;
}

/* Names shrink to @least, while the table is wider than @room. */
static void shrink_names(struct text_table *table, size_t room, size_t least)
{
	size_t width = table_width(table), *name;

	for (; width > room && (name = widest_name(table, least)); width--)
		--*name;
}

/* Columns become as narrow as their cells. */
static void narrow(struct text_table *table)
{
	for (size_t i = 0; i < TEXT_COLUMNS_MAX; i++)
		if (table->widths[i] > table->least[i])
			table->widths[i] = table->least[i];
}

/* Leaves columns out from the right, of the @spare ones or of all but the first. */
static void leave_out(struct text_table *table, size_t room, bool spare)
{
	size_t width = table_width(table);

	for (size_t i = TEXT_COLUMNS_MAX; --i && width > room;) {
		if (!table->widths[i] || (spare && !table->schema->columns[i].spare))
			continue;
		width -= table->widths[i] + 1;
		table->widths[i] = 0;
	}
}

/* Columns become as narrow as their cells and names shorter; spare columns are left out. */
static void make_narrow(struct text_table *table, size_t room)
{
	shrink_names(table, room, NAME_WIDTH_MIN);
	if (table_width(table) > room)
		narrow(table);
	leave_out(table, room, true);
	shrink_names(table, room, NAME_WIDTH_LESS);
}

/* A table that is wider than the terminal on which it is printed is made narrow.  If it does not
 * fit even then, lines wrap: no column that is not spare is left out. */
static void fit_terminal(FILE *stream, struct text_table *table, const void *rows, size_t n)
{
	const size_t room = terminal_size(stream).columns;
	struct text_table cut;

	if (!room || table_width(table) <= room)
		return;
	whole_table(table, table->schema, rows, n);
	narrow(table);
	cut = *table;
	cut.cuts = true;
	make_narrow(&cut, room);
	if (table_width(&cut) <= room)
		*table = cut;
}

int render_table(FILE *stream, const struct schema *schema, const void *rows, size_t n,
		 bool (*is_gap)(const void *row))
{
	struct text_table table = { 0 };
	struct sink sink = { .stream = stream };

	whole_table(&table, schema, rows, n);
	fit_terminal(stream, &table, rows, n);
	text_line(&sink, &table, NULL);
	for (size_t i = 0; i < n; i++) {
		const void *row = schema_row(schema, rows, i);

		if (i && is_gap && is_gap(row))
			sink_puts(&sink, "\n");
		text_line(&sink, &table, row);
	}
	return sink_result(&sink);
}

int render_row(FILE *stream, const struct schema *schema, const void *row, double secs)
{
	const struct text_table table = { .schema = schema, .secs = secs };
	struct sink sink = { .stream = stream };
	char buf[CELL_SIZE];
	bool first = true;

	for (size_t i = 0; i < schema->n; i++) {
		const struct column *column = &schema->columns[i];
		const char *cell =
		    column_in_text(column) ? cell_text(&table, column, row, buf) : "";

		if (!*cell)
			continue;
		sink_puts(&sink, first ? "" : "  ");
		put_escaped(&sink, heading_text(&table, column));
		sink_puts(&sink, ": ");
		put_escaped(&sink, cell);
		first = false;
	}
	sink_puts(&sink, "\n");
	return sink_result(&sink);
}

void text_table_fit(struct text_table *table, size_t room)
{
	make_narrow(table, room);
	/* Half a number is a wrong one. */
	leave_out(table, room, false);
}

/* ---- all of a table ---- */

void text_heading(struct sink *sink, const struct schema *schema, const void *rows, size_t n)
{
	const struct text_table table = table_of(schema, rows, n);

	text_line(sink, &table, NULL);
}

void text_rows(struct sink *sink, const struct schema *schema, const void *rows, size_t n)
{
	const struct text_table table = table_of(schema, rows, n);

	for (size_t i = 0; i < n; i++)
		text_line(sink, &table, schema_row(schema, rows, i));
}

/* ---- the renderer ---- */

/* On a screen of @columns. */
static size_t loss_lines(const struct interval *interval, size_t columns)
{
	size_t lines = 0;

	for (size_t i = 0; i < interval->n_losses; i++) {
		const struct loss *loss = &interval->losses[i];

		if (loss->count)
			lines +=
			    1 + (render_loss(NULL, 0, loss) - 1) / (columns ? columns : SIZE_MAX);
	}
	return lines;
}

#define LINES_AROUND 2 /* heading, and the cursor's own */

/* How many rows of @in fit on the screen, below the losses and the output of head(). */
static size_t rows_that_fit(const struct renderer *r, const struct render_interval *in)
{
	struct terminal_size size = terminal_size(r->stream);
	size_t around =
	    LINES_AROUND + r->text->head_lines + loss_lines(&in->interval, size.columns);
	size_t fit = size.lines > around ? size.lines - around : 1;

	return size.lines && in->n > fit ? fit : in->n;
}

static int begin(struct renderer *r, const struct render_head *head, struct error *err)
{
	(void)head;
	(void)err;
	return r->text && r->text->begin ? r->text->begin(r->text->ctx, r->stream)
					 : render_flush(r->stream);
}

static int put_table(struct renderer *r, const struct render_interval *in, size_t n)
{
	struct text_table table = table_of(in->schema, in->rows, n);
	size_t *widths = r->text ? r->text->widths : NULL;
	struct sink sink = { .stream = r->stream };

	for (size_t i = 0; widths && i < in->schema->n; i++) {
		if (widths[i] < table.widths[i])
			widths[i] = table.widths[i];
		table.widths[i] = widths[i];
	}
	fit_terminal(r->stream, &table, in->rows, n);
	text_line(&sink, &table, NULL);
	for (size_t i = 0; i < n; i++)
		text_line(&sink, &table, schema_row(in->schema, in->rows, i));
	return sink_result(&sink);
}

static int put_interval(struct renderer *r, const struct render_interval *in, size_t n,
			struct error *err)
{
	const struct text_view *text = r->text;
	int code = 0;

	if (text && text->head)
		code = text->head(text->ctx, in->drained, r->stream);
	if (!code && text && text->body)
		code = text->body(text->ctx, in, r->stream, err);
	else if (!code)
		code = put_table(r, in, n);
	if (!code && text && text->tail)
		code = text->tail(text->ctx, in, r->stream);
	return code ? code : render_flush(r->stream);
}

/* A line below the losses that is too long is cut: it would push them out of sight. */
static int put_screen(struct renderer *r, const struct render_interval *in, struct error *err)
{
	int code = terminal_clear(r->stream), wrapped;

	if (!code)
		code = render_flush(r->stream);
	if (code)
		return code;
	render_losses_apart(r, &in->interval, err);
	code = terminal_wrap(r->stream, false);
	if (!code)
		code = put_interval(r, in, rows_that_fit(r, in), err);
	wrapped = terminal_wrap(r->stream, true);
	if (!wrapped)
		wrapped = render_flush(r->stream);
	return code ? code : wrapped;
}

static int interval(struct renderer *r, const struct render_interval *in, struct error *err)
{
	return r->text && r->text->clears ? put_screen(r, in, err)
					  : put_interval(r, in, in->n, err);
}

static int losses(struct renderer *r, const struct interval *interval, struct error *err)
{
	return r->text && r->text->clears ? 0 : render_losses_apart(r, interval, err);
}

static int end(struct renderer *r, struct error *err)
{
	(void)err;
	return r->text && r->text->end ? r->text->end(r->text->ctx, r->stream) : 0;
}

const struct renderer_ops text_renderer = {
	.begin = begin,
	.interval = interval,
	.losses = losses,
	.end = end,
	.own_text = true,
};
