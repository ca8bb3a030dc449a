// SPDX-License-Identifier: GPL-2.0-or-later
#include "output/wide.h"

#include <errno.h>
#include <inttypes.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "output/render.h"
#include "output/terminal.h"

#define HEADING_EVERY 20
#define LEAST_WIDTH   9
#define DATE_WIDTH    19
#define MORE_WIDTH    5 /* " +123": values without a column */

/* ---- columns ---- */

struct wide_column {
	int value;
	bool others; /* for the value's parts that have no column of their own */
	uint64_t total, delta;
	int width;
	char name[4 * WIDE_NAME_SIZE];
};

static int add_column(struct wide *wide, int value, uint64_t total, bool others, const char *name)
{
	struct wide_column *column = ARRAY_ADD(wide->columns, wide->n);

	if (!column)
		return -ENOMEM;
	column->value = value;
	column->others = others;
	column->total = total;
	column->width = (int)strlen(render_escape(name, column->name, sizeof(column->name)));
	if (column->width < LEAST_WIDTH)
		column->width = LEAST_WIDTH;
	return 0;
}

static int compare_totals(const void *a, const void *b)
{
	const struct wide_column *left = a, *right = b;

	return left->total != right->total ? left->total < right->total ? 1 : -1
					   : strcmp(left->name, right->name);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct wide_column *)a)->name, ((const struct wide_column *)b)->name);
}

/* Keeps as many columns as fit on the terminal, one at least. */
static void fit(struct wide *wide)
{
	int used = DATE_WIDTH, room = (int)wide->width;
	const size_t n = wide->n;

	for (size_t i = 0; i < n; i++)
		used += 1 + wide->columns[i].width;
	if (used <= room)
		return;
	qsort(wide->columns, n, sizeof(*wide->columns), compare_totals);
	used = DATE_WIDTH + MORE_WIDTH;
	wide->n = 0;
	for (size_t i = 0; i < n; i++) {
		const int width = 1 + wide->columns[i].width;

		if (wide->n && used + width > room)
			continue;
		used += width;
		wide->columns[wide->n++] = wide->columns[i];
	}
	wide->left_out = n - wide->n;
}

static bool has_place(const struct wide *wide, const struct wide_value *value)
{
	return value->shown && (!wide->width || value->total);
}

static bool has_parts(const struct wide_values *values, size_t i)
{
	for (size_t k = 0; k < values->n; k++)
		if (values->v[k].parent == (int)i)
			return true;
	return false;
}

static int make_columns(struct wide *wide, const struct wide_values *values)
{
	char others[WIDE_NAME_SIZE];
	int r = 0;

	wide->n = wide->left_out = 0;
	for (size_t i = 0; !r && i < values->n; i++) {
		const struct wide_value *value = &values->v[i];

		if (has_place(wide, value))
			r = add_column(wide, (int)i, value->total, false, value->name);
		if (r || !wide->csv || !value->others || !has_parts(values, i))
			continue;
		snprintf(others, sizeof(others), "%s(other)", value->name);
		r = add_column(wide, (int)i, 0, true, others);
	}
	if (wide->width && !r)
		fit(wide);
	if (wide->n)
		qsort(wide->columns, wide->n, sizeof(*wide->columns), compare_names);
	return r;
}

/* Is there a value to show that has no column? */
static bool columns_changed(const struct wide *wide, const struct wide_values *values)
{
	size_t shown = 0;

	for (size_t i = 0; i < values->n; i++)
		shown += has_place(wide, &values->v[i]);
	return shown != wide->n + wide->left_out;
}

static bool has_column(const struct wide *wide, size_t value)
{
	for (size_t i = 0; i < wide->n; i++)
		if (wide->columns[i].value == (int)value && !wide->columns[i].others)
			return true;
	return false;
}

/* Reads the columns' deltas.  Is any of them not 0? */
static bool read_columns(struct wide *wide, const struct wide_values *values)
{
	const struct wide_value *v = values->v;
	bool any = false;

	for (size_t i = 0; i < wide->n; i++) {
		struct wide_column *column = &wide->columns[i];

		column->delta = column->others ? 0 : v[column->value].delta;
		for (size_t k = 0; column->others && k < values->n; k++)
			if (v[k].parent == column->value && !has_column(wide, k))
				column->delta += v[k].delta;
		any = any || column->delta;
	}
	return any;
}

/* ---- lines ---- */

static void print_cell(const struct wide *wide, const struct wide_column *column, const char *text)
{
	if (wide->csv)
		fprintf(wide->stream, ",%s", text);
	else
		fprintf(wide->stream, " %*s", column->width, text);
}

/* False: a terminal, whose columns are the events that have happened so far. */
static bool has_columns(const struct wide *wide)
{
	return !wide->width || wide->n || wide->left_out;
}

/* Prints the heading if it is due. */
static void head(struct wide *wide)
{
	if (wide->csv ? wide->begun : wide->left > 0)
		return;
	if (!has_columns(wide))
		return;
	wide->begun = true;
	wide->left = HEADING_EVERY;
	/* As many words as the lines below. */
	fputs(wide->csv ? "timestamp" : "date       time    ", wide->stream);
	for (size_t i = 0; i < wide->n; i++)
		print_cell(wide, &wide->columns[i], wide->columns[i].name);
	if (wide->left_out)
		fprintf(wide->stream, " +%zu", wide->left_out);
	fputc('\n', wide->stream);
}

static void print_deltas(const struct wide *wide, const char *when)
{
	char text[24];

	fputs(when, wide->stream);
	if (!has_columns(wide))
		fputs(" no event so far", wide->stream);
	for (size_t i = 0; i < wide->n; i++) {
		snprintf(text, sizeof(text), "%" PRIu64, wide->columns[i].delta);
		print_cell(wide, &wide->columns[i], text);
	}
	fputc('\n', wide->stream);
}

/* Makes the columns if they do not exist yet or, in text, are not enough. */
static int need_columns(struct wide *wide, const struct wide_values *values)
{
	const unsigned int width =
	    wide->csv || wide->all ? 0 : (unsigned int)terminal_size(wide->stream).columns;
	const bool same = width == wide->width;

	wide->width = width;
	if (wide->made && (wide->csv || (same && !columns_changed(wide, values))))
		return 0;
	wide->left = 0;
	wide->made = true;
	return make_columns(wide, values);
}

int wide_heading(struct wide *wide, const struct wide_values *values)
{
	if (need_columns(wide, values))
		return -ENOMEM;
	head(wide);
	return render_flush(wide->stream);
}

int wide_line(struct wide *wide, const struct wide_values *values, uint64_t epoch_ns,
	      int32_t utc_offset)
{
	char when[CLOCK_TEXT_SIZE];

	if (need_columns(wide, values))
		return -ENOMEM;
	if (!read_columns(wide, values) && wide->skip_zero)
		return 0;
	head(wide);
	if (wide->left)
		wide->left--;
	print_deltas(wide, clock_date(epoch_ns, utc_offset, when));
	return render_flush(wide->stream);
}

void wide_free(struct wide *wide)
{
	free(wide->columns);
	wide->columns = NULL;
	wide->made = false;
}
