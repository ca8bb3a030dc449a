// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/rows.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "output/columns.h"
#include "output/render.h"

#define ROW struct breakdown_row

static const struct column columns[] = {
	LABEL(layer, NULL, 0, "layer of the I/O stack"),
	LABEL(op, NULL, 0,
	      "operation: read, write, discard, flush (a command to "
	      "the device), sync (an empty request that waits for one) and others"),
	COUNTER(count, NULL, 0, "operations", "operations that ended in the interval"),
	COUNTER(total_ns, NULL, 0, "ns", "sum of their times"),
	GAUGE(p50_ns, NULL, 0, "ns", "median of their times"),
	GAUGE(p90_ns, NULL, 0, "ns", "90th percentile of their times"),
	GAUGE(p99_ns, NULL, 0, "ns", "99th percentile of their times"),
	GAUGE(p999_ns, NULL, 0, "ns", "99.9th percentile of their times"),
	GAUGE(max_ns, NULL, 0, "ns", "longest of their times"),
	HISTOGRAM(slots, "ns", "number of operations with a time from lo to hi",
		  .help = "time of operations"),
};

const struct schema breakdown_schema = { columns, ARRAY_SIZE(columns),
					 sizeof(struct breakdown_row) };

static const struct column order_columns[] = {
	STATE(rank, "", "rank of the key, 0 is the largest"),
	STATE(place, "", "number of the row within its key, from 0"),
};

void breakdown_keyed_schema(const struct schema *plain, by_keys keys, struct column *all,
			    struct schema *schema)
{
	size_t n = keys_columns(keys, offsetof(ROW, by), all);

	memcpy(&all[n], plain->columns, plain->n * sizeof(*all));
	n += plain->n;
	memcpy(&all[n], order_columns, sizeof(order_columns));
	*schema = *plain;
	schema->columns = all;
	schema->n = n + ARRAY_SIZE(order_columns);
}

void breakdown_row_figures(struct breakdown_row *row, const struct hist *hist)
{
	row->count = hist->count;
	row->total_ns = hist->total;
	row->avg_ns = hist->count ? hist->total / hist->count : 0;
	row->p50_ns = hist_percentile(hist, 500);
	row->p90_ns = hist_percentile(hist, 900);
	row->p99_ns = hist_percentile(hist, 990);
	row->p999_ns = hist_percentile(hist, 999);
	row->max_ns = hist->max;
	row->slots = hist;
}

void breakdown_row_plain(struct breakdown_row *row, const struct hist *hist)
{
	breakdown_row_figures(row, hist);
	row->p50_ns = hist_percentile_low(hist, 500);
	row->p90_ns = hist_percentile_low(hist, 900);
	row->p99_ns = hist_percentile_low(hist, 990);
	row->p999_ns = hist_percentile_low(hist, 999);
}

void breakdown_row_fill(struct breakdown_row *row, const char *layer, const char *op,
			const struct hist *hist)
{
	*row = (struct breakdown_row){ .layer = layer, .op = op };
	breakdown_row_figures(row, hist);
}

int keyed_rows_begin(struct keyed_rows *rows, size_t n)
{
	free(rows->rows);
	rows->n = 0;
	rows->rows = calloc(n + 1, sizeof(*rows->rows));
	return rows->rows ? 0 : -ENOMEM;
}

void keyed_rows_add(struct keyed_rows *rows, size_t n, const struct key_labels *by, uint32_t rank)
{
	for (size_t i = 0; i < n; i++, rows->n++) {
		rows->rows[rows->n].by = *by;
		rows->rows[rows->n].rank = rank;
	}
}

const char breakdown_first_line[] =
    "Breaking Down Linux IO Stack's operation latency... Hit Ctrl-C to end.";

char *breakdown_name(char *buf, const char *fmt, ...)
{
	char name[BREAKDOWN_NAME_SIZE / 4];
	va_list args;

	va_start(args, fmt);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	return render_escape(name, buf, BREAKDOWN_NAME_SIZE);
}

/* A time in @unit: whole nanoseconds, else three decimals. */
static void in_unit(uint64_t ns, const struct breakdown_unit *unit, char *buf, size_t size)
{
	if (unit->ns == 1)
		snprintf(buf, size, "%llu", (unsigned long long)ns);
	else
		snprintf(buf, size, "%.3f", (double)ns / (double)unit->ns);
}

static const char *back(const struct breakdown_row *row)
{
	return row->direction && strcmp(row->direction, "backward") == 0 ? "_back" : "";
}

static void name_cell(const void *row, char *buf, size_t size)
{
	const struct breakdown_row *r = row;

	snprintf(buf, size, "%s_%s%s", r->layer, r->op, back(r));
}

#define TOTAL_CELL(member)                                                                         \
	static void member##_cell(const void *row, char *buf, size_t size)                         \
	{                                                                                          \
		const struct breakdown_row *r = row;                                               \
                                                                                                   \
		in_unit(r->member, r->unit, buf, size);                                            \
	}

TOTAL_CELL(total_ns)
TOTAL_CELL(p50_ns)
TOTAL_CELL(p90_ns)
TOTAL_CELL(p99_ns)
TOTAL_CELL(p999_ns)
TOTAL_CELL(max_ns)

static void avg_ns_cell(const void *row, char *buf, size_t size)
{
	const struct breakdown_row *r = row;

	if (r->unit->plain)
		snprintf(buf, size, "%.1f",
			 r->count ? (double)r->total_ns / (double)r->count : 0.0);
	else
		in_unit(r->count ? r->total_ns / r->count : 0, r->unit, buf, size);
}

#define TOTAL(member, heading, ...)                                                                \
	COLUMN(GAUGE, NULL, member, heading, 1, "", "", .cell = member##_cell, ##__VA_ARGS__)

/* The line of each operation below the histograms. */
static int print_totals(const struct breakdown_row *rows, size_t n, by_keys keys,
			const struct breakdown_unit *unit, FILE *stream)
{
	char total[16];
	const struct column totals[] = {
		COLUMN(LABEL, NULL, op, "OPERATION", 1, "", "", .left = true, .cell = name_cell),
		COLUMN(COUNTER, NULL, count, "COUNT", 1, "", ""),
		TOTAL(total_ns, total, .spare = true),
		TOTAL(avg_ns, "AVG"),
		TOTAL(p50_ns, "P50"),
		TOTAL(p90_ns, "P90", .spare = true),
		TOTAL(p99_ns, "P99"),
		TOTAL(p999_ns, "P99.9"),
		TOTAL(max_ns, "MAX"),
	};
	struct column all[KEY_COLUMNS_MAX + ARRAY_SIZE(totals)];
	size_t n_keys = keys_columns(keys, offsetof(ROW, by), all);
	struct schema schema = { all, n_keys, sizeof(*rows) };

	snprintf(total, sizeof(total), "TOTAL %s", unit->name);
	for (size_t i = 0; i < ARRAY_SIZE(totals); i++)
		if (!unit->no_sum || totals[i].offset != offsetof(ROW, total_ns))
			all[schema.n++] = totals[i];
	return render_table(stream, &schema, rows, n, NULL);
}

int breakdown_print(struct breakdown_row *rows, size_t n, by_keys keys,
		    const struct breakdown_unit *unit, FILE *stream)
{
	char name[BREAKDOWN_NAME_SIZE];
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		rows[i].unit = unit;
		breakdown_name(name, "%s_%s%s", rows[i].layer, rows[i].op, back(&rows[i]));
		r = keys_print(keys, &rows[i].by, stream);
		if (r)
			return r;
		if (fprintf(stream, "operation = %s\n", name) < 0)
			return -errno;
		if (rows[i].slots)
			r = (unit->plain ? hist_print_plain : hist_print)(rows[i].slots, unit->name,
									  stream);
		if (!r && fputc('\n', stream) < 0)
			r = -errno;
	}
	return r || !n ? r : print_totals(rows, n, keys, unit, stream);
}
