/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Its rows: what they hold, and how they are made of what was counted. */
#ifndef IOTRACE_TEST_SAMPLE_ROWS_H
#define IOTRACE_TEST_SAMPLE_ROWS_H

#include "core/naming/disks.h"
#include "output/schema.h"
#include "test/sample/sample.h"

struct sample_row {
	uint32_t dev;
	const char *disk; /* lives as long as the table of disks */
	uint64_t requests, bytes;
};

struct sample_rows {
	struct sample_row *rows;
	size_t n;
};

extern const struct schema sample_schema;

/* Adds the counters of @key to the row of its disk, @ctx is a struct sample_rows: the form that
 * double_buffer_drain_hash() wants.  0 or -ENOMEM. */
int sample_rows_add(void *ctx, const void *key, const void *value);

/* Names the rows. */
void sample_rows_finish(struct sample_rows *rows, struct disks *disks);

#endif
