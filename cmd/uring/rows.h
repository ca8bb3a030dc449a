/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Its rows: what they hold, and how they are made of what was counted. */
#ifndef IOTRACE_CMD_URING_ROWS_H
#define IOTRACE_CMD_URING_ROWS_H

#include "core/base/intern.h"
#include "core/base/text.h"
#include "output/hist.h"
#include "output/schema.h"
#include "probes/uring.h"

/* The requests of a process, a ring and an opcode that completed in an interval. */
struct uring_row {
	uint32_t pid;
	int32_t fd;
	uint32_t opcode;
	const char *comm, *ring, *mode, *op;
	uint64_t count, timed, time_ns;
	uint64_t p50_ns, p99_ns, max_ns;
	uint64_t inlined, polled, workers, failed, shorts, overflow, linked, more;
	struct hist *latency; /* NULL: no time is known */
};

struct uring_rows {
	struct uring_row *rows;
	size_t n;
	struct intern keys; /* of the rows, until they are sorted */
	struct text_set texts;
	uint64_t left_out; /* completions that there was no room for */
};

#define URING_ROWS_MAX 16384

extern const struct schema uring_schema;

/* "read" for 22; "op 99" for one that is new, stored in @buf. */
#define URING_OP_SIZE 16
const char *uring_op_name(uint32_t opcode, char buf[URING_OP_SIZE]);

/* Adds a struct uring_value of @key to its row; @ctx is a struct uring_rows: the form that
 * double_buffer_drain_hash() wants.  0 or -ENOMEM. */
int uring_rows_add(void *ctx, const void *key, const void *value);

/* Sorts them by process, ring and opcode, and computes their percentiles: then no more are added
 * before uring_rows_clear(). */
void uring_rows_finish(struct uring_rows *rows);

/* Computes the percentiles of the @n @rows from their histograms. */
void uring_rows_figures(struct uring_row *rows, size_t n);

/* Ready for the next interval; frees all. */
void uring_rows_clear(struct uring_rows *rows);

#endif
