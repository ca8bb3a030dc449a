/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Graphs of the last minute: sums of all rows of each interval, as rates. */
#ifndef IOTRACE_CMD_ENGINE_LAST_MINUTE_H
#define IOTRACE_CMD_ENGINE_LAST_MINUTE_H

#include <stddef.h>
#include <stdint.h>

#include "output/pivot.h"

#define LAST_MINUTE_GRAPHS 2

/* { 0 } is empty. */
struct last_minute {
	struct last_minute_interval {
		uint64_t end_ns, ns;
		uint64_t sums[LAST_MINUTE_GRAPHS];
	} * intervals;
	size_t n;
};

/* Adds an interval that ended at @end_ns after @ns: the sums of the columns @keys of @rows.  The
 * oldest intervals are dropped.  0 or -ENOMEM. */
int last_minute_add(struct last_minute *m, const struct pivot_rows *rows,
		    const char *const keys[LAST_MINUTE_GRAPHS], uint64_t end_ns, uint64_t ns);

/* Graph @i up to @end_ns, in @out: the rate now, a bar for each part of the minute, the largest of
 * them; @room columns.  @column: its heading and unit. */
void last_minute_graph(const struct last_minute *m, size_t i, uint64_t end_ns,
		       const struct column *column, size_t room, char *out, size_t size);

void last_minute_free(struct last_minute *m);

#endif
