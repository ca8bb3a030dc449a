/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_TABLE_H
#define IOTRACE_CMD_BREAKDOWN_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include "cmd/breakdown/calls_layer.h"
#include "cmd/breakdown/rows.h"
#include "output/schema.h"

#define TABLE_ROWS_MAX (CLASSES * IO_KINDS * LAYERS)

extern const struct schema table_schema;

/* Fills @rows (room for TABLE_ROWS_MAX) with what is in @cells, which are those of @layer (by row;
 * NULL: empty) and must outlive them; returns how many. */
size_t table_fill(const struct calls_layer *layer, const struct hist_row *const *cells,
		  struct breakdown_row *rows);

/* Sets the shares of the system calls' time, SELF%, of the @n rows of one key. */
void table_shares(struct breakdown_row *rows, size_t n);

/* Text: the table, and with @hist the histograms of its rows, which get the unit of @o.  0 or
 * -errno. */
int table_print(struct breakdown_row *rows, size_t n, const struct schema *schema,
		const struct breakdown_options *o, FILE *stream);

#endif
