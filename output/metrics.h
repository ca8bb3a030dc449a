/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_METRICS_H
#define IOTRACE_OUTPUT_METRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "output/schema.h"

/*
 * Metrics for Prometheus: the rows of many intervals, added up by their labels since the start, and
 * written as OpenMetrics 1.0 or in the classic text format (0.0.4).
 *
 * The role, the unit and the key of a column determine its metric (metrics_source()):
 * - ROLE_LABEL: a label; "disk" is called device, like in node_exporter, "op" operation, "vq"
 *   queue.  Labels keep their order, except "guest" and "device", which come first.
 * - ROLE_COUNTER: a counter, in seconds if the column is in ns.
 * - ROLE_HISTOGRAM of ns: a classic histogram in seconds, with METRICS_BUCKETS buckets on powers of
 *   two of a nanosecond.  A value of exactly such a power is in the bucket above it.
 * - ROLE_HISTOGRAM of bytes, of sectors (shown in bytes) or of requests: these are whole numbers,
 * so that the bounds, one below a power of two, are exact.  0 sectors have a bucket of their own.
 * - ROLE_GAUGE: nothing, since it is about one interval, unless the column names a metric.
 *
 * The name is PREFIX_KEY_UNIT (_total): the key without its unit, "duration" for a histogram, and
 * empty if the prefix ends with it. struct column's metric replaces the key; "" leaves the column
 * out.
 */
struct metrics;
struct metrics_source;
struct renderer;

#define METRICS_BUCKETS	     25
#define METRICS_FIRST_BUCKET 10 /* bounds are 2^10 ns (1 us) to 2^34 ns (17 s) */

enum metrics_format { METRICS_CLASSIC, METRICS_OPENMETRICS };

/* For a Content-Type header. */
extern const char *const metrics_content_types[];

/* The labels of rows beyond the bound, except operation, layer and io if there is room for these;
 * also of a tool's own rows without room.  No disk, cgroup or unit has this name; a guest with this
 * name is "\\x28other)", a container of the system with this name is added to the others. */
#define METRICS_OTHER "(other)"

/*
 * @most: series (lines of the output) of all bounded sources.  Each source has a share of it, by
 * its weight, and may use the unused shares of others.  If there is no room for more,
 * - series of removed objects end if they were read, the longest gone first;
 * - otherwise, of the source most beyond its share, the least active series that were read; of the
 *   source's own if it has its share, and only for a more active row;
 * - otherwise the row is METRICS_OTHER.
 * A series that ends this way leaves the output; it is not added to another, since its values were
 * read.
 *
 * @kept_ns: how long series of removed objects stay, so that every reader gets their last values. 0
 * or -ENOMEM.
 */
int metrics_open(size_t most, uint64_t kept_ns, struct metrics **out);
void metrics_close(struct metrics *m);

/* The least bound with which all sources have room for METRICS_OTHER; more series are possible. */
size_t metrics_least(const struct metrics *m);

/*
 * Declares a table of rows: @prefix ("iotrace_block_io"), the columns @schema, which are copied and
 * whose strings must outlive @m, except columns with the keys @without (NULL ends; NULL: none).
 * Rows that differ only in an omitted label add up.  Equal family names are one family only within
 * a source. 0 or -ENOMEM.
 */
int metrics_source(struct metrics *m, const char *prefix, const struct schema *schema,
		   const char *const *without, unsigned int weight, struct metrics_source **out);

/* Adds @n rows; gauges are set.  A bounded source skips rows of zeros, except gauges that have a
 * series. 0 or -ENOMEM, with some of
 * the rows added. */
int metrics_add(struct metrics_source *source, const void *rows, size_t n);

/* How many rows were counted in METRICS_OTHER for want of room. */
uint64_t metrics_limited(const struct metrics_source *source);

/* Calls @each with each metric that @source, or a schema, may have: the name in OpenMetrics form,
 * the type, the unit, and HELP. */
struct metrics_about {
	const char *name, *type, *unit, *help;
	const char *const *labels; /* NULL ends */
};
void metrics_each(const struct metrics_source *source,
		  void (*each)(void *ctx, const struct metrics_about *about), void *ctx);

/* A renderer that adds the rows of intervals; lives as long as @source. */
struct renderer *metrics_renderer(struct metrics_source *source);

/* Writes a label value, without quotes: invalid UTF-8 and characters without a glyph
 * (unicode_is_control()) are escaped, and a long value ends in "...".  Returns its size with the
 * NUL. */
#define METRICS_LABEL_SIZE 1088
size_t metrics_label(char to[METRICS_LABEL_SIZE], const char *text);

/* Does the object with label @key (of the column, "disk") and value @value, see metrics_label(),
 * exist?  Only a row's first label is checked: the object of the row.  @changed: it had rows since
 * the last check. */
enum metrics_presence { METRICS_NOT_LOOKED, METRICS_THERE, METRICS_GONE };
typedef enum metrics_presence metrics_look(void *ctx, const char *key, const char *value,
					   bool changed);

/* Ends the series of bounded sources whose object was found gone, and had its last row, longer ago
 * than the retention time.  @now_ns: of any clock that does not go back.  Returns how many rows of
 * them. */
size_t metrics_end(struct metrics *m, uint64_t now_ns, metrics_look *look, void *ctx);

/* Series in use, see metrics_open(). */
size_t metrics_series(const struct metrics *m);

/* Writes all of it; @is_read: a reader gets it. 0 or -errno of @stream, which is flushed. */
int metrics_write(struct metrics *m, enum metrics_format format, bool is_read, FILE *stream);

#endif
