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
 * What a column becomes follows from its role, its unit and its key (metrics_source()):
 * - ROLE_LABEL: a label; "disk" is called device, as node_exporter has it, "op" operation,
 *   "vq" queue.  Labels keep their order, but for "guest" and "device", which come first.
 * - ROLE_COUNTER: a counter, in seconds where the column is in ns.
 * - ROLE_HISTOGRAM of ns: a classic histogram in seconds, with METRICS_BUCKETS buckets on powers of
 *   two of a nanosecond.  A value of exactly such a power is in the bucket above it.
 * - ROLE_GAUGE: nothing, since it is about one interval, unless the column names a metric.
 *
 * The name is PREFIX_KEY_UNIT (_total): the key without its unit, "duration" for a histogram, and
 * nothing where the prefix ends with it.  struct column's metric takes the place of the key;
 * "" leaves the column out.
 */
struct metrics;
struct metrics_source;
struct renderer;

#define METRICS_BUCKETS	     25
#define METRICS_FIRST_BUCKET 10 /* bounds are 2^10 ns (1 us) to 2^34 ns (17 s) */

enum metrics_format { METRICS_CLASSIC, METRICS_OPENMETRICS };

/* Of a Content-Type header. */
extern const char *const metrics_content_types[];

/* What is beyond the bound has this as its labels, but for operation, layer and io where there is
 * room for these; so have rows that say it themselves, as what a tool had no room for.  No disk,
 * cgroup or unit is called so; a guest that is has "\\x28other)", a container of the system's that
 * is adds to the others. */
#define METRICS_OTHER "(other)"

/*
 * @most: series (lines of the output) of all bounded sources.  Each of them has a share of that, by
 * its weight, and may use what others leave.  If there is no room for more,
 * - series of what has gone end, and were read, the longest gone first;
 * - else, of the source that is most beyond its share, those that did least lately, and were read;
 *   of the source's own if it has its share, and only for more than they did;
 * - else the row is METRICS_OTHER.
 * A series that ends so is no more in the output; it adds to no other, since its values were read.
 *
 * @kept_ns: how long series of what has gone stay, so that every reader has their last values.
 * 0 or -ENOMEM.
 */
int metrics_open(size_t most, uint64_t kept_ns, struct metrics **out);
void metrics_close(struct metrics *m);

/* The least bound with which all sources have room for METRICS_OTHER: more series there may be. */
size_t metrics_least(const struct metrics *m);

/*
 * A table of rows: @prefix ("iotrace_block_io"), the columns @schema, which are copied and whose
 * strings must outlive @m, but for those with the keys @without (NULL ends; NULL: none): rows that
 * differ only in a label that is left out add up.  Families of one name are one family only within
 * a source.  0 or -ENOMEM.
 */
int metrics_source(struct metrics *m, const char *prefix, const struct schema *schema,
		   const char *const *without, unsigned int weight, struct metrics_source **out);

/* Adds @n rows; gauges are set.  In a bounded source a row of zeros is none.  0 or
 * -ENOMEM, with some of the rows added. */
int metrics_add(struct metrics_source *source, const void *rows, size_t n);

/* How many rows have been METRICS_OTHER for want of room. */
uint64_t metrics_limited(const struct metrics_source *source);

/* Calls @each with each metric that @source may have, or of a schema: the name as OpenMetrics has
 * it, the type, the unit, and HELP. */
struct metrics_about {
	const char *name, *type, *unit, *help;
	const char *const *labels; /* NULL ends */
};
void metrics_each(const struct metrics_source *source,
		  void (*each)(void *ctx, const struct metrics_about *about), void *ctx);

/* A renderer that adds the rows of intervals; lives as long as @source. */
struct renderer *metrics_renderer(struct metrics_source *source);

/* A label as it is written, but for the quotes: what is not UTF-8 is escaped, so is what has
 * nothing to show (unicode_is_control()), and a long one ends in "...".  Returns its size with the
 * NUL. */
#define METRICS_LABEL_SIZE 1088
size_t metrics_label(char to[METRICS_LABEL_SIZE], const char *text);

/* Is the object there that label @key (of the column, "disk") calls @value, as of metrics_label()?
 * Only a row's first label is asked about: the object that the row is about.  @changed: it had rows
 * since it was asked about last. */
enum metrics_presence { METRICS_NOT_LOOKED, METRICS_THERE, METRICS_GONE };
typedef enum metrics_presence metrics_look(void *ctx, const char *key, const char *value,
					   bool changed);

/* Ends the series of bounded sources whose object has gone, when that was found first, and the last
 * row of the object came, longer ago than they are kept.  @now_ns: of any clock that does not go
 * back.  Returns how many rows of them. */
size_t metrics_end(struct metrics *m, uint64_t now_ns, metrics_look *look, void *ctx);

/* Series in use, as of metrics_open(). */
size_t metrics_series(const struct metrics *m);

/* All of it; @is_read: somebody gets it.  0 or -errno of @stream, which is flushed. */
int metrics_write(struct metrics *m, enum metrics_format format, bool is_read, FILE *stream);

#endif
