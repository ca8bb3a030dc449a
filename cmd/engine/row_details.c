// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/row_details.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "output/render.h"

#define OPERATION   "op" /* key of a column: parts of a row differ in it */
#define NAMES_MAX   8
#define PARTS_MAX   64
#define COLUMNS_MAX 64

/* ---- parts ---- */

static bool is_label(const struct column *column)
{
	return column->role == ROLE_LABEL && column->key &&
	       (column->type == COLUMN_STR || column->type == COLUMN_U32);
}

static bool is_same(const struct schema *all, const void *a, const void *b, const char *key)
{
	return schema_number(all, a, key) == schema_number(all, b, key) &&
	       strcmp(schema_text(all, a, key), schema_text(all, b, key)) == 0;
}

/* Is @part one of the row's, of any operation? */
static bool is_part(const void *details, const void *part)
{
	const struct row_details *d = details;

	if (d->is_shown && !d->is_shown(d->ctx, part))
		return false;
	for (size_t i = 0; i < d->schema->n; i++) {
		const struct column *column = &d->schema->columns[i];

		if (is_label(column) && strcmp(column->key, OPERATION) != 0 &&
		    !is_same(d->kind->all, part, d->row, column->key))
			return false;
	}
	return true;
}

/* The different names that @parts have in a column, up to NAMES_MAX and one. */
static size_t names_of(const struct row_details *d, const struct pivot_rows *parts,
		       const struct column *column, const void *found[NAMES_MAX + 1])
{
	size_t n = 0;

	for (size_t i = 0; i < parts->n && n <= NAMES_MAX; i++) {
		const void *part = pivot_row(parts, i);
		size_t k = 0;

		while (k < n && !is_same(d->kind->all, found[k], part, column->key))
			k++;
		if (k == n)
			found[n++] = part;
	}
	return n;
}

static void put_name(FILE *stream, const struct row_details *d, const struct column *column,
		     const void *row)
{
	if (column->type == COLUMN_STR)
		render_name(stream, schema_text(d->kind->all, row, column->key));
	else
		fprintf(stream, "%" PRIu64, schema_number(d->kind->all, row, column->key));
}

static bool is_unnamed(const struct schema *all, const void *row, const char *key)
{
	const char *text = schema_text(all, row, key);

	return !schema_number(all, row, key) && (!*text || strcmp(text, "-") == 0);
}

/* A label that the row has, or another form of it, like a path. */
static bool is_displayed(const struct schema *shown, const struct column *column)
{
	for (size_t i = 0; i < shown->n; i++)
		if (strcmp(shown->columns[i].key ?: "", column->key) == 0 ||
		    strcmp(shown->columns[i].heading ?: "", column->heading) == 0)
			return true;
	return false;
}

/* Labels of the parts that the row does not show. */
static void put_names(FILE *stream, const struct row_details *d, const struct pivot_rows *parts)
{
	const void *found[NAMES_MAX + 1];
	bool any = false;

	for (size_t i = 0; i < d->kind->all->n; i++) {
		const struct column *column = &d->kind->all->columns[i];
		size_t n;

		if (!is_label(column) || !column->heading || is_displayed(d->schema, column) ||
		    schema_column(d->kind->all, column->key) != column)
			continue;
		n = names_of(d, parts, column, found);
		if (!n || (n == 1 && is_unnamed(d->kind->all, found[0], column->key)))
			continue;
		fprintf(stream, "%s%s:", any ? "  " : "", column->heading);
		any = true;
		for (size_t k = 0; k < n && k < NAMES_MAX; k++) {
			fputs(k ? ", " : " ", stream);
			put_name(stream, d, column, found[k]);
		}
		fputs(n > NAMES_MAX ? ", ..." : "", stream);
	}
	if (any)
		putc('\n', stream);
}

/* ---- operations ---- */

/* The labels in which the parts differ, and the figures. */
static size_t part_columns(const struct row_details *d, const struct pivot_rows *parts,
			   struct column columns[COLUMNS_MAX])
{
	const void *found[NAMES_MAX + 1];
	size_t n = 0, labels;

	for (size_t i = 0; i < d->kind->all->n && n < COLUMNS_MAX / 2; i++) {
		const struct column *column = &d->kind->all->columns[i];

		if (is_label(column) && column->heading &&
		    schema_column(d->kind->all, column->key) == column &&
		    names_of(d, parts, column, found) > 1)
			columns[n++] = *column;
	}
	labels = n;
	for (size_t i = 0; labels && i < d->schema->n && n < COLUMNS_MAX; i++)
		if (d->schema->columns[i].role != ROLE_LABEL &&
		    d->schema->columns[i].type != COLUMN_STR)
			columns[n++] = d->schema->columns[i];
	return n;
}

static void put_parts(FILE *stream, const struct row_details *d, const struct pivot_rows *parts)
{
	struct column columns[COLUMNS_MAX];
	struct schema schema = { columns, part_columns(d, parts, columns), d->kind->all->row_size };
	const struct pivot_view view = { .schema = &schema };
	struct pivot_rows made;

	if (!schema.n || pivot_make(parts, &view, &made))
		return;
	putc('\n', stream);
	render_table(stream, &schema, made.rows, made.n < PARTS_MAX ? made.n : PARTS_MAX, NULL);
	if (made.n > PARTS_MAX)
		fprintf(stream, "and %zu more\n", made.n - PARTS_MAX);
	pivot_free(&made);
}

/* ---- times ---- */

static const char *time_text(uint64_t ns, char text[32])
{
	static const struct {
		uint64_t ns;
		const char *unit;
	} units[] = { { 1000000000, "s" }, { 1000000, "ms" }, { 1000, "us" } };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (ns >= units[i].ns) {
			double value = (double)ns / (double)units[i].ns;

			snprintf(text, 32, "%.*f %s",
				 value < 10    ? 2
				 : value < 100 ? 1
					       : 0,
				 value, units[i].unit);
			return text;
		}
	snprintf(text, 32, "%" PRIu64 " ns", ns);
	return text;
}

static void put_percentiles(FILE *stream, const struct hist *times)
{
	static const struct {
		unsigned int permille;
		const char *name;
	} all[] = { { 500, "P50" }, { 900, "P90" }, { 990, "P99" }, { 999, "P99.9" } };
	char text[32];

	fputs("\nTimes: ", stream);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		fprintf(stream, "%s %s, ", all[i].name,
			time_text(hist_percentile(times, all[i].permille), text));
	fprintf(stream, "max %s\n", time_text(times->max, text));
}

/* A line for each power of two between the shortest and the longest time. */
static void put_times(FILE *stream, const struct row_details *d)
{
	struct hist hist = *d->times;
	const size_t room = d->width > 36 ? d->width - 34 : 2;
	size_t first = HIST_LOG2_SLOTS, last = 0;
	uint64_t most = 0, low, high;
	char text[32];

	hist_log2_from_fine(&hist);
	for (size_t i = 0; i < HIST_LOG2_SLOTS; i++) {
		if (!hist.log2[i])
			continue;
		first = i < first ? i : first;
		last = i;
		most = hist.log2[i] > most ? hist.log2[i] : most;
	}
	if (!most)
		return;
	put_percentiles(stream, &hist);
	for (size_t i = first; i <= last; i++) {
		size_t bar = (size_t)((double)hist.log2[i] / (double)most * (double)room);

		hist_log2_bounds((unsigned int)i, &low, &high);
		fprintf(stream, "%8s +  %10" PRIu64 "%s", time_text(low, text), hist.log2[i],
			hist.log2[i] ? "  " : "");
		if (!bar && hist.log2[i])
			bar = 1;
		while (bar--)
			putc('*', stream);
		putc('\n', stream);
	}
}

char *row_details(const struct row_details *d)
{
	const struct pivot_view view = { .schema = d->kind->all, .is_shown = is_part, .ctx = d };
	struct pivot_rows parts;
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	render_row(stream, d->schema, d->row, d->secs);
	if (!pivot_make(d->parts, &view, &parts)) {
		put_names(stream, d, &parts);
		if (d->times)
			put_times(stream, d);
		put_parts(stream, d, &parts);
		pivot_free(&parts);
	}
	fclose(stream);
	return text;
}
