/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_TABLE_H
#define IOTRACE_CMD_BREAKDOWN_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include "cmd/breakdown/calls_layer.h"
#include "output/schema.h"

/* One row of the table of all layers. */
struct table_row {
	const char *op;	   /* read, write, sync */
	const char *layer; /* syscall, vfs, a file system, queue, device */
	const char *io;	   /* cached, disk, async; all for syncs */
	uint64_t count, total_ns, avg_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, self_ns;
	uint32_t self_ppm; /* of the time of the system calls */
	const struct hist *slots;
	const struct breakdown_unit *unit; /* of the text; NULL: whichever is fit for the number */
	bool has_self;
};

#define TABLE_ROWS_MAX (CLASSES * IO_KINDS * LAYERS)

extern const struct schema table_schema;

/* Fills @rows (room for TABLE_ROWS_MAX) with what is in @layer, which must outlive them; returns
 * how many. */
size_t table_fill(const struct calls_layer *layer, struct table_row *rows);

/* Text: the table, and with @hist the histograms of its rows, which get the unit of @o.  0 or
 * -errno. */
int table_print(struct table_row *rows, size_t n, const struct breakdown_options *o, FILE *stream);

#endif
