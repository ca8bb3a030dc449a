/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_ROWS_H
#define IOTRACE_CMD_BREAKDOWN_ROWS_H

#include <stdint.h>
#include <stdio.h>

#include "cmd/breakdown/options.h"
#include "output/hist.h"
#include "output/schema.h"

/* One operation of one layer. */
struct breakdown_row {
	const char *layer, *op;
	uint64_t count, total_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns;
	const struct hist *slots;
};

/* Fills the figures of @row from @hist, which must outlive it. */
void breakdown_row_fill(struct breakdown_row *row, const char *layer, const char *op,
			const struct hist *hist);

extern const struct schema breakdown_schema;

extern const char breakdown_first_line[];

/* What an operation is called in text, "vfs_read": its parts may come from a recording, which
 * other users may have chosen, and are escaped.  Returns @buf, which has BREAKDOWN_NAME_SIZE bytes.
 */
#define BREAKDOWN_NAME_SIZE 512
char *breakdown_name(char *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Text: the time of day at @epoch_ns, before each output.  0 or -errno. */
int breakdown_print_time(uint64_t epoch_ns, FILE *stream);

/* Text: the histograms, then one line per operation.  0 or -errno. */
int breakdown_print(const struct breakdown_row *rows, size_t n, const struct breakdown_unit *unit,
		    FILE *stream);

#endif
