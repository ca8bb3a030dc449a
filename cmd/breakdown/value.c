// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/breakdown/table.h"
#include "core/base/array.h"
#include "output/columns.h"
#include "output/sink.h"

static const struct {
	struct breakdown_unit unit; /* name NULL: a time */
	const char *title;
	const char *metric, *help; /* of the histogram, output/metrics.h */
} values[VALUES] = {
	[VALUE_LATENCY] = { { NULL, 1 }, "Latency over time" },
	[VALUE_SIZE] = { { "bytes", 1, true },
			 "Request size over time",
			 "size",
			 "bytes of a block I/O request when it is issued" },
	[VALUE_DISTANCE] = { { "sectors", 1, true, true },
			     "Distance over time",
			     "distance",
			     "distance of a block I/O request from the end of the nearest of the 16 before it: "
			     "0 is sequential" },
	[VALUE_DEPTH] = { { "requests", 1, true, true },
			  "Depth over time",
			  "depth",
			  "block I/O requests at the disk when one is issued, including it" },
	[VALUE_GAP] = { { NULL, 1 },
			"Gap over time",
			"gap",
			"time between the issues of a block I/O request and the one before" },
};

const struct breakdown_unit *value_unit(enum breakdown_value value)
{
	return values[value].unit.name ? &values[value].unit : NULL;
}

const char *value_title(enum breakdown_value value)
{
	return values[value].title;
}

const char value_first_line[] = "Counting block I/O requests at their issue... Hit Ctrl-C to end.";

/* ---- rows ---- */

#define ROW struct breakdown_row

/* The unit of --value. */
static const char any_unit[] = "";

static const struct column columns[] = {
	LABEL(layer, NULL, 0, "layer of the I/O stack: blk"),
	LABEL(op, NULL, 0,
	      "operation: read, write, discard, flush (a command to the device) and others"),
	LABEL(direction, NULL, 0,
	      "with distance: forward from the end of the earlier request, or backward"),
	COUNTER(count, NULL, 0, "requests", "requests issued in the interval that have a value"),
	COLUMN(COUNTER, "total", total_ns, NULL, 0, any_unit, "sum of their values"),
	COLUMN(GAUGE, "p50", p50_ns, NULL, 0, any_unit, "median of their values"),
	COLUMN(GAUGE, "p90", p90_ns, NULL, 0, any_unit, "90th percentile of their values"),
	COLUMN(GAUGE, "p99", p99_ns, NULL, 0, any_unit, "99th percentile of their values"),
	COLUMN(GAUGE, "p999", p999_ns, NULL, 0, any_unit, "99.9th percentile of their values"),
	COLUMN(GAUGE, "max", max_ns, NULL, 0, any_unit, "largest of their values"),
	HISTOGRAM(slots, any_unit, "number of requests with a value from lo to hi", .fine = true),
};

const struct schema value_schema = SCHEMA(columns, ROW);

void value_columns(enum breakdown_value value, struct column *all, struct schema *schema)
{
	const struct breakdown_unit *unit = value_unit(value);
	size_t n = 0;

	for (size_t i = 0; i < schema->n; i++) {
		if (value != VALUE_DISTANCE && all[i].offset == offsetof(ROW, direction))
			continue;
		all[n] = all[i];
		if (all[n].unit == any_unit)
			all[n].unit = unit ? unit->name : "ns";
		if (all[n].role == ROLE_HISTOGRAM) {
			all[n].metric = values[value].metric;
			all[n].help = values[value].help;
		}
		n++;
	}
	schema->n = n;
}

void value_row_fill(struct breakdown_row *row, enum breakdown_value value, bool backward)
{
	if (value_unit(value))
		breakdown_row_plain(row, row->slots);
	if (value == VALUE_DISTANCE)
		row->direction = backward ? "backward" : "forward";
}

uint64_t value_weight(const void *ctx, const struct keyed_entry *entry)
{
	return *(const enum breakdown_value *)ctx == VALUE_SIZE ? entry->row.hist.total
								: entry->row.hist.count;
}

/* ---- the summary ---- */

/* All rows of an operation. */
struct sum {
	const char *layer, *op;
	struct hist hist, back; /* back: distances backward */
};

static struct sum *sum_of(struct sum *sums, size_t *n, const struct breakdown_row *row)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(sums[i].op, row->op) == 0 && strcmp(sums[i].layer, row->layer) == 0)
			return &sums[i];
	if (*n == BLK_OPS)
		return NULL;
	sums[*n].layer = row->layer;
	sums[*n].op = row->op;
	return &sums[(*n)++];
}

#define SHARE_SIZE 24

/* "82 %", never 0 of some or 100 of not all. */
static const char *share(uint64_t part, uint64_t all, char buf[SHARE_SIZE])
{
	double percent = all ? 100.0 * (double)part / (double)all : 0;

	if (part && percent < 0.5)
		return "<1 %";
	if (part < all && percent >= 99.5)
		return ">99 %";
	snprintf(buf, SHARE_SIZE, "%.0f %%", percent);
	return buf;
}

/* "4 KiB", or "64 to 72 KiB": from @lo to less than @end bytes. */
static void put_bytes(struct sink *sink, uint64_t lo, uint64_t end)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double from = (double)lo, to = (double)end;
	size_t unit = 0;

	for (; from >= 1024 && unit + 1 < ARRAY_SIZE(units); unit++) {
		from /= 1024;
		to /= 1024;
	}
	sink_printf(sink, "%.4g ", from);
	if (end)
		sink_printf(sink, "to %.4g ", to);
	sink_puts(sink, units[unit]);
}

/* Is each value the lowest of its slot?  Then their sum is the sum of the lowest ones. */
static bool are_lowest(const struct hist *h)
{
	uint64_t lo, hi, part, sum = 0;

	for (unsigned int i = 0; i < HIST_FINE_SLOTS; i++) {
		hist_fine_bounds(i, &lo, &hi);
		if (__builtin_mul_overflow(lo, h->fine[i], &part) ||
		    __builtin_add_overflow(sum, part, &sum))
			return false;
	}
	return sum == h->total;
}

/* The sizes that most requests have, the most frequent first.  A slot is shown as a range if it may
 * have several sizes, which are multiples of 512 bytes. */
static void put_sizes(struct sink *sink, const struct hist *h)
{
	char text[SHARE_SIZE];
	uint64_t lo, hi, before = UINT64_MAX, left = h->count;
	unsigned int last = HIST_FINE_SLOTS;
	bool exact = are_lowest(h);

	for (int n = 0; n < 3 && left; n++) {
		unsigned int most = HIST_FINE_SLOTS;

		for (unsigned int i = 0; i < HIST_FINE_SLOTS; i++)
			if (h->fine[i] &&
			    (h->fine[i] < before || (h->fine[i] == before && i > last)) &&
			    (most == HIST_FINE_SLOTS || h->fine[i] > h->fine[most]))
				most = i;
		if (most == HIST_FINE_SLOTS)
			break;
		before = h->fine[most];
		last = most;
		left -= before < left ? before : left;
		hist_fine_bounds(most, &lo, &hi);
		sink_printf(sink, "%s%s %s", n ? ", " : "", share(before, h->count, text),
			    n ? "" : "are ");
		put_bytes(sink, lo, exact || hi - lo < 512 ? 0 : hi + 1);
	}
	if (left)
		sink_printf(sink, ", %s other sizes", share(left, h->count, text));
}

#define NEAR_SECTORS 2048 /* 1 MiB */

/* A recording may contain anything. */
static uint64_t bounded_sum(uint64_t a, uint64_t b)
{
	return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

static uint64_t below(const struct hist *h, uint64_t limit)
{
	uint64_t lo, hi, sum = 0;

	for (unsigned int i = 0; i < HIST_FINE_SLOTS; i++) {
		hist_fine_bounds(i, &lo, &hi);
		if (hi >= limit)
			break;
		sum = bounded_sum(sum, h->fine[i]);
	}
	return sum;
}

static void put_distances(struct sink *sink, const struct hist *h, const struct hist *back)
{
	const uint64_t all = bounded_sum(h->count, back->count), sequential = h->fine[0];
	const uint64_t close = bounded_sum(below(h, NEAR_SECTORS), below(back, NEAR_SECTORS));
	const uint64_t near = close > sequential ? close - sequential : 0;
	const uint64_t far = close < all ? all - close : 0;
	char text[SHARE_SIZE];

	sink_printf(sink, "%s sequential", share(sequential, all, text));
	sink_printf(sink, ", %s within 1 MiB", share(near, all, text));
	sink_printf(sink, ", %s random (farther)", share(far, all, text));
}

static void put_depths(struct sink *sink, const struct hist *h)
{
	uint64_t least = hist_percentile_low(h, 0);

	sink_printf(sink, "depth %" PRIu64, least);
	if (h->max > least)
		sink_printf(sink, " to %" PRIu64 ", median %" PRIu64, h->max,
			    hist_percentile_low(h, 500));
}

static void put_gaps(struct sink *sink, const struct hist *h)
{
	char median[32], most[32], longest[32];

	table_time(hist_percentile(h, 500), NULL, median, sizeof(median));
	table_time(hist_percentile(h, 990), NULL, most, sizeof(most));
	table_time(h->max, NULL, longest, sizeof(longest));
	sink_printf(sink, "gaps: median %s, 99 %% up to %s, longest %s", median, most, longest);
}

static void put_sum(struct sink *sink, const struct sum *sum, enum breakdown_value value)
{
	char name[BREAKDOWN_NAME_SIZE];

	sink_printf(sink, "%s: ", breakdown_name(name, "%s_%s", sum->layer, sum->op));
	if (value == VALUE_SIZE)
		put_sizes(sink, &sum->hist);
	else if (value == VALUE_DISTANCE)
		put_distances(sink, &sum->hist, &sum->back);
	else if (value == VALUE_DEPTH)
		put_depths(sink, &sum->hist);
	else
		put_gaps(sink, &sum->hist);
	sink_puts(sink, "\n");
}

int value_summary(const struct breakdown_row *rows, size_t n, enum breakdown_value value,
		  FILE *stream)
{
	struct sum *sums = calloc(BLK_OPS, sizeof(*sums));
	struct sink sink = { .stream = stream };
	size_t n_sums = 0;

	if (!sums)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct sum *sum = sum_of(sums, &n_sums, &rows[i]);
		bool back = rows[i].direction && strcmp(rows[i].direction, "backward") == 0;

		if (sum && rows[i].slots)
			hist_add_growth(back ? &sum->back : &sum->hist, rows[i].slots, NULL);
	}
	if (n_sums)
		sink_puts(&sink, "\n");
	for (size_t i = 0; i < n_sums; i++)
		put_sum(&sink, &sums[i], value);
	free(sums);
	return sink_result(&sink);
}
