// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/rows.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"

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
	  AT(slots), 0, false, NULL },
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
static const char *in_unit(uint64_t ns, const struct breakdown_unit *unit, char *buf, size_t size)
{
	if (unit->ns == 1)
		snprintf(buf, size, "%llu", (unsigned long long)ns);
	else
		snprintf(buf, size, "%.3f", (double)ns / (double)unit->ns);
	return buf;
}

static int print_summary(const struct breakdown_row *row, by_keys keys,
			 const struct breakdown_unit *unit, FILE *stream)
{
	const struct {
		const char *label;
		uint64_t ns;
	} figures[] = {
		{ "average", row->count ? row->total_ns / row->count : 0 },
		{ "p50", row->p50_ns },
		{ "p90", row->p90_ns },
		{ "p99", row->p99_ns },
		{ "p99.9", row->p999_ns },
		{ "max", row->max_ns },
	};
	char buf[48], name[BREAKDOWN_NAME_SIZE];
	int r;

	r = keys_print(keys, &row->by, stream);
	if (r)
		return r;
	r = fprintf(stream, "%s total %s = %s, count = %llu",
		    breakdown_name(name, "%s_%s", row->layer, row->op), unit->name,
		    in_unit(row->total_ns, unit, buf, sizeof(buf)), (unsigned long long)row->count);
	for (size_t i = 0; r >= 0 && i < sizeof(figures) / sizeof(figures[0]); i++)
		r = fprintf(stream, ", %s = %s", figures[i].label,
			    in_unit(figures[i].ns, unit, buf, sizeof(buf)));
	if (r >= 0)
		r = fputc('\n', stream);
	return r < 0 ? -errno : 0;
}

int breakdown_print(const struct breakdown_row *rows, size_t n, by_keys keys,
		    const struct breakdown_unit *unit, FILE *stream)
{
	char name[BREAKDOWN_NAME_SIZE];
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
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
	for (size_t i = 0; !r && i < n; i++)
		r = print_summary(&rows[i], keys, unit, stream);
	return r;
}
