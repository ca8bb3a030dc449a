// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/rows.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "output/render.h"

#define AT(member) offsetof(struct breakdown_row, member)
#define NS_COLUMN(key, role, meaning)                                                              \
	{                                                                                          \
#key, NULL, COLUMN_U64, role, "ns", meaning, AT(key), 0, false, NULL               \
	}

static const struct column columns[] = {
	{ "layer", NULL, COLUMN_STR, ROLE_LABEL, "", "layer of the I/O stack", AT(layer), 0, true,
	  NULL },
	{ "op", NULL, COLUMN_STR, ROLE_LABEL, "",
	  "operation: read, write, discard, flush (a command to "
	  "the device), sync (an empty request that waits for one) and others",
	  AT(op), 0, true, NULL },
	{ "count", NULL, COLUMN_U64, ROLE_COUNTER, "operations",
	  "operations that ended in the interval", AT(count), 0, false, NULL },
	NS_COLUMN(total_ns, ROLE_COUNTER, "their time, added up"),
	NS_COLUMN(p50_ns, ROLE_GAUGE, "half of them took no longer"),
	NS_COLUMN(p90_ns, ROLE_GAUGE, "90 % of them took no longer"),
	NS_COLUMN(p99_ns, ROLE_GAUGE, "99 % of them took no longer"),
	NS_COLUMN(p999_ns, ROLE_GAUGE, "99.9 % of them took no longer"),
	NS_COLUMN(max_ns, ROLE_GAUGE, "the longest"),
	{ "slots", NULL, COLUMN_HIST, ROLE_HISTOGRAM, "ns", "how many took from lo to hi",
	  AT(slots), 0, false, NULL, .help = "how long operations took" },
};

const struct schema breakdown_schema = { columns, sizeof(columns) / sizeof(columns[0]),
					 sizeof(struct breakdown_row) };

static const struct column order_columns[] = {
	{ "rank", NULL, COLUMN_U32, ROLE_STATE, "", "place of the key, the largest first", AT(rank),
	  0, false, NULL },
	{ "place", NULL, COLUMN_U32, ROLE_STATE, "", "place of the row among those of its key",
	  AT(place), 0, false, NULL },
};

void breakdown_keyed_schema(const struct schema *plain, by_keys keys, struct column *all,
			    struct schema *schema)
{
	size_t n = keys_columns(keys, AT(by), all);

	memcpy(&all[n], plain->columns, plain->n * sizeof(*all));
	n += plain->n;
	memcpy(&all[n], order_columns, sizeof(order_columns));
	*schema = *plain;
	schema->columns = all;
	schema->n = n + sizeof(order_columns) / sizeof(order_columns[0]);
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

static void name_cell(const void *row, char *buf, size_t size)
{
	const struct breakdown_row *r = row;

	snprintf(buf, size, "%s_%s", r->layer, r->op);
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

	in_unit(r->count ? r->total_ns / r->count : 0, r->unit, buf, size);
}

#define TOTAL(member, heading)                                                                     \
	{                                                                                          \
		NULL, heading, COLUMN_U64, ROLE_GAUGE, "", "", AT(member), 1, false, member##_cell \
	}

/* The line of each operation below the histograms. */
static int print_totals(const struct breakdown_row *rows, size_t n, by_keys keys,
			const struct breakdown_unit *unit, FILE *stream)
{
	char total[16];
	const struct column totals[] = {
		{ NULL, "OPERATION", COLUMN_STR, ROLE_LABEL, "", "", AT(op), 1, true, name_cell },
		{ NULL, "COUNT", COLUMN_U64, ROLE_COUNTER, "", "", AT(count), 1, false, NULL },
		TOTAL(total_ns, total),
		TOTAL(avg_ns, "AVG"),
		TOTAL(p50_ns, "P50"),
		TOTAL(p90_ns, "P90"),
		TOTAL(p99_ns, "P99"),
		TOTAL(p999_ns, "P99.9"),
		TOTAL(max_ns, "MAX"),
	};
	struct column all[KEY_COLUMNS_MAX + sizeof(totals) / sizeof(totals[0])];
	size_t n_keys = keys_columns(keys, AT(by), all);
	const struct schema schema = { all, n_keys + sizeof(totals) / sizeof(totals[0]),
				       sizeof(*rows) };

	snprintf(total, sizeof(total), "TOTAL %s", unit->name);
	memcpy(&all[n_keys], totals, sizeof(totals));
	return render_table(stream, &schema, rows, n, NULL);
}

int breakdown_print(struct breakdown_row *rows, size_t n, by_keys keys,
		    const struct breakdown_unit *unit, FILE *stream)
{
	char name[BREAKDOWN_NAME_SIZE];
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		rows[i].unit = unit;
		breakdown_name(name, "%s_%s", rows[i].layer, rows[i].op);
		r = keys_print(keys, &rows[i].by, stream);
		if (r)
			return r;
		if (fprintf(stream, "operation = %s\n", name) < 0)
			return -errno;
		if (rows[i].slots)
			r = hist_print(rows[i].slots, unit->name, stream);
		if (!r && fputc('\n', stream) < 0)
			r = -errno;
	}
	return r || !n ? r : print_totals(rows, n, keys, unit, stream);
}
