/* SPDX-License-Identifier: GPL-2.0-or-later */
/* breakdown -T blk --value: names, columns, and a summary. */
#ifndef IOTRACE_CMD_BREAKDOWN_VALUE_H
#define IOTRACE_CMD_BREAKDOWN_VALUE_H

#include "cmd/breakdown/keyed.h"
#include "cmd/breakdown/rows.h"

/* The unit of @value; NULL: it is a time, in the unit of the options. */
const struct breakdown_unit *value_unit(enum breakdown_value value);

/* "Request size over time". */
const char *value_title(enum breakdown_value value);

extern const char value_first_line[];

/* The columns of all values; value_columns() sets units, and removes columns, in @all, the columns
 * of @schema, for @value. */
extern const struct schema value_schema;
void value_columns(enum breakdown_value value, struct column *all, struct schema *schema);

/* What is special about a row of @value (any one), after breakdown_row_fill(). */
void value_row_fill(struct breakdown_row *row, enum breakdown_value value, bool backward);

/* For struct keyed: keys are ordered by their bytes, or else by their number of requests; @ctx: an
 * enum breakdown_value. */
uint64_t value_weight(const void *ctx, const struct keyed_entry *entry);

/* Text: a line per operation about all @rows together, made of their histograms alone.  Of a
 * recording that has more operations than there are, the first. 0, or -errno of the stream or
 * -ENOMEM. */
int value_summary(const struct breakdown_row *rows, size_t n, enum breakdown_value value,
		  FILE *stream);

#endif
