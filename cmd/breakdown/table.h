/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows of the table of all layers. */
#ifndef IOTRACE_CMD_BREAKDOWN_TABLE_H
#define IOTRACE_CMD_BREAKDOWN_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include "cmd/breakdown/calls_layer.h"
#include "cmd/breakdown/rows.h"
#include "output/schema.h"

#define TABLE_ROWS_MAX (CLASSES * IO_KINDS * LAYERS)

extern const struct schema table_schema;

/* Fills @rows (room for TABLE_ROWS_MAX) from @cells, the cells of @layer (by row; NULL: empty),
 * which must outlive them; returns how many. */
size_t table_fill(const struct calls_layer *layer, const struct hist_row *const *cells,
		  struct breakdown_row *rows);

/* Sets the shares of the system calls' time, SELF%, of the @n rows of one key. */
void table_shares(struct breakdown_row *rows, size_t n);

/* A time for people: three figures or more, and the unit; in @unit, if it is not NULL, without. */
void table_time(uint64_t ns, const struct breakdown_unit *unit, char *buf, size_t size);

/* Text: the table, and with @hist the histograms of its rows, which get the unit of @o. 0 or
 * -errno. */
int table_print(struct breakdown_row *rows, size_t n, const struct schema *schema,
		const struct breakdown_options *o, FILE *stream);

#endif
