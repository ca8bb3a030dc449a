// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/table.h"

#include <errno.h>
#include <string.h>

#include "cmd/breakdown/rows.h"
#include "output/columns.h"
#include "output/render.h"
#include "core/base/array.h"

/* ---- rows ---- */

static const char *const class_names[CLASSES] = { "read", "write", "discard", "sync" };
static const char *const io_kind_names[IO_KINDS] = { "cached", "disk", "async" };

static uint32_t parts_per_million(uint64_t part, uint64_t whole)
{
	return whole ? (uint32_t)((double)part / (double)whole * 1e6 + 0.5) : 0;
}

static bool same_kind(const struct breakdown_row *a, const struct breakdown_row *b)
{
	return strcmp(a->op, b->op) == 0 && strcmp(a->io, b->io) == 0;
}

/* All the time of the system calls of a class and kind of I/O belongs to some layer, so that the
 * sum of SELF is the time of the calls that ended. */
void table_shares(struct breakdown_row *rows, size_t n)
{
	size_t first = 0;

	for (size_t i = 1; i <= n; i++) {
		uint64_t whole = 0;

		if (i < n && same_kind(&rows[first], &rows[i]))
			continue;
		for (size_t j = first; j < i; j++)
			whole += rows[j].self_ns;
		for (size_t j = first; j < i; j++)
			rows[j].self_ppm = parts_per_million(rows[j].self_ns, whole);
		first = i;
	}
}

/* The rows of one class and kind of I/O. */
static size_t fill_io_kind(const struct calls_layer *layer, const struct hist_row *const *cells,
			   unsigned int class, unsigned int io_kind, struct breakdown_row *rows)
{
	size_t n = 0;

	for (unsigned int k = 0; k < LAYERS; k++) {
		const unsigned int i = layer_from_top(k);
		bool block = i >= LAYER_ADMIT;
		const struct hist_row *from = calls_layer_cell(layer, class, io_kind, i);
		size_t place = (size_t)(from - layer->rows);

		if (!block && !(layer->layers & LAYER_BIT(i)))
			continue;
		from = cells[place];
		if (!from || (!from->hist.count && !from->self_ns))
			continue;
		breakdown_row_fill(&rows[n], layer_name(i), class_names[class], &from->hist);
		rows[n].place = (uint32_t)place;
		rows[n].io =
		    class == CLASS_SYNC && io_kind == IO_DISK ? "all" : io_kind_names[io_kind];
		rows[n].has_self = io_kind != IO_ASYNC;
		rows[n].self_ns = from->self_ns;
		n++;
	}
	return n;
}

size_t table_fill(const struct calls_layer *layer, const struct hist_row *const *cells,
		  struct breakdown_row *rows)
{
	size_t n = 0;

	for (unsigned int class = 0; class < CLASSES; class ++)
		for (unsigned int io_kind = 0; io_kind < IO_KINDS; io_kind++)
			n += fill_io_kind(layer, cells, class, io_kind, rows + n);
	table_shares(rows, n);
	return n;
}

/* ---- columns ---- */

void table_time(uint64_t ns, const struct breakdown_unit *unit, char *buf, size_t size)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
	size_t i = 0;

	if (unit) {
		snprintf(buf, size, "%.3f", (double)ns / (double)unit->ns);
		return;
	}
	while (i < 3 && (double)ns >= units[i + 1].ns)
		i++;
	if (i == 0)
		snprintf(buf, size, "%lluns", (unsigned long long)ns);
	else
		snprintf(buf, size, "%.*f%s", (double)ns < 10 * units[i].ns ? 2 : 1,
			 (double)ns / units[i].ns, units[i].name);
}

#define TIME_CELL(member)                                                                          \
	static void member##_cell(const void *row, char *buf, size_t size)                         \
	{                                                                                          \
		const struct breakdown_row *r = row;                                               \
                                                                                                   \
		if (r->count)                                                                      \
			table_time(r->member, r->unit, buf, size);                                 \
		else                                                                               \
			snprintf(buf, size, "-");                                                  \
	}

TIME_CELL(avg_ns)
TIME_CELL(p50_ns)
TIME_CELL(p99_ns)
TIME_CELL(max_ns)

static void self_ns_cell(const void *row, char *buf, size_t size)
{
	const struct breakdown_row *r = row;

	if (r->has_self)
		table_time(r->self_ns, r->unit, buf, size);
	else
		snprintf(buf, size, "-");
}

static void share_cell(const void *row, char *buf, size_t size)
{
	const struct breakdown_row *r = row;

	if (r->has_self)
		snprintf(buf, size, "%.1f%%", (double)r->self_ppm / 1e4);
	else
		snprintf(buf, size, "-");
}

#define ROW struct breakdown_row

static const struct column columns[] = {
	LABEL(op, "OP", 7,
	      "operation of the system call: read, write or sync; for I/O that "
	      "no call waits for, the operation of the request (also discard)"),
	LABEL(layer, "LAYER", 7,
	      "layer of the I/O stack: uring, syscall, vfs, a file system, admit (bios wait for "
	      "their request), queue (requests wait to be issued) or device"),
	LABEL(io, "I/O", 6,
	      "disk: calls with requests of their own; cached: calls without; all: syncs, with or "
	      "without; async: no read, write or sync call waits for it"),
	COUNTER(count, "COUNT", 8, "operations",
		"calls that ended in the interval; for uring, its requests; for admit, bios; for "
		"queue and device, requests"),
	COUNTER(total_ns, NULL, 0, "ns", "sum of their times"),
	GAUGE(avg_ns, "AVG", 7, "ns", "their average time", .cell = avg_ns_cell, .spare = true),
	GAUGE(p50_ns, "P50", 7, "ns", "median of their times", .cell = p50_ns_cell, .spare = true),
	GAUGE(p90_ns, NULL, 0, "ns", "90th percentile of their times"),
	GAUGE(p99_ns, "P99", 7, "ns", "99th percentile of their times", .cell = p99_ns_cell),
	GAUGE(p999_ns, NULL, 0, "ns", "99.9th percentile of their times"),
	GAUGE(max_ns, "MAX", 7, "ns", "longest of their times", .cell = max_ns_cell),
	COUNTER(self_ns, "SELF", 8, "ns",
		"time spent in this layer itself, without the layers below it",
		.cell = self_ns_cell),
	GAUGE(self_ppm, "SELF%", 6, "ppm",
	      "SELF as a share of the time of the system calls, in millionths", .cell = share_cell),
	STATE(has_self, "", "whether a call waits for it; otherwise SELF is meaningless"),
	HISTOGRAM(slots, "ns", "number of operations with a time from lo to hi",
		  .help = "time of calls, bios and requests in each layer"),
};

const struct schema table_schema = { columns, ARRAY_SIZE(columns), sizeof(struct breakdown_row) };

/* ---- text ---- */

static int print_histograms(const struct breakdown_row *rows, size_t n, by_keys keys,
			    const struct breakdown_unit *unit, FILE *stream)
{
	char name[BREAKDOWN_NAME_SIZE];
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		if (!rows[i].count || !rows[i].slots)
			continue;
		breakdown_name(name, "%s_%s_%s", rows[i].layer, rows[i].op, rows[i].io);
		if (fputc('\n', stream) < 0)
			return -errno;
		r = keys_print(keys, &rows[i].by, stream);
		if (!r && fprintf(stream, "operation = %s\n", name) < 0)
			return -errno;
		if (!r)
			r = hist_print(rows[i].slots, unit->name, stream);
	}
	return r;
}

/* Empty lines are between the operations, or between the keys. */
static bool is_gap(const void *at)
{
	const struct breakdown_row *row = at;

	return row[0].op != row[-1].op;
}

static bool is_gap_of_keys(const void *at)
{
	const struct breakdown_row *row = at;

	return row[0].rank != row[-1].rank;
}

int table_print(struct breakdown_row *rows, size_t n, const struct schema *schema,
		const struct breakdown_options *o, FILE *stream)
{
	int r;

	for (size_t i = 0; i < n; i++)
		rows[i].unit = o->unit->ns == 1 ? NULL : o->unit;
	r = render_table(stream, schema, rows, n,
			 schema == &table_schema ? is_gap : is_gap_of_keys);
	if (!r && o->hist)
		r = print_histograms(rows, n, o->by, o->unit, stream);
	return r;
}
