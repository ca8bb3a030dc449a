/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows of one layer's histograms. */
#ifndef IOTRACE_CMD_BREAKDOWN_ROWS_H
#define IOTRACE_CMD_BREAKDOWN_ROWS_H

#include <stdint.h>
#include <stdio.h>

#include "cmd/block/by.h"
#include "cmd/breakdown/options.h"
#include "output/hist.h"
#include "output/schema.h"

/* One operation of one layer, with --by of one key. */
struct breakdown_row {
	struct key_labels by; /* first: cells of keys read it */
	uint32_t rank;	      /* of its key, the largest is 0 */
	uint32_t place;	      /* among the possible rows of a key */
	const char *layer, *op;
	const char *direction; /* --value distance: "forward" or "backward" */
	uint64_t count, total_ns, avg_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns;
	const struct hist *slots;
	/* In the table of all layers only: */
	const char *io; /* cached, disk, async; all for syncs */
	uint64_t self_ns;
	uint32_t self_ppm; /* of the time of the system calls */
	bool has_self;
	const struct breakdown_unit *unit; /* of the text; NULL: fitting the number */
};

#define RANK_OTHER UINT32_MAX /* the rows of (other) */

/* Sets the figures of @row from @hist, which must outlive it. */
void breakdown_row_figures(struct breakdown_row *row, const struct hist *hist);

/* The same of numbers that are no times, with percentiles that occur as they are if they are
 * multiples of a power of two: the lowest value of their slot. */
void breakdown_row_plain(struct breakdown_row *row, const struct hist *hist);

/* Fills all of @row; of no key. */
void breakdown_row_fill(struct breakdown_row *row, const char *layer, const char *op,
			const struct hist *hist);

/* Rows with --by, made of the drained data. */
struct keyed_rows {
	struct breakdown_row *rows;
	size_t n;
};

/* Makes room for @n rows, and none yet. 0 or -ENOMEM. */
int keyed_rows_begin(struct keyed_rows *rows, size_t n);

/* The @n rows after the present ones belong to the key @by with that rank; adds them. */
void keyed_rows_add(struct keyed_rows *rows, size_t n, const struct key_labels *by, uint32_t rank);

#define BREAKDOWN_COLUMNS_MAX 32

/* Fills @schema with the columns of @keys, of @plain, and the order of keys; @all has room for
 * BREAKDOWN_COLUMNS_MAX. */
void breakdown_keyed_schema(const struct schema *plain, by_keys keys, struct column *all,
			    struct schema *schema);

extern const struct schema breakdown_schema;

extern const char breakdown_first_line[];

/* The name of an operation in text, "vfs_read": its parts may come from a recording of another
 * user, and are escaped.  Returns @buf, which has BREAKDOWN_NAME_SIZE bytes. */
#define BREAKDOWN_NAME_SIZE 512
char *breakdown_name(char *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Text: the histograms, then a table with a line per operation, with the labels of @keys; sets the
 * unit of @rows. 0 or -errno. */
int breakdown_print(struct breakdown_row *rows, size_t n, by_keys keys,
		    const struct breakdown_unit *unit, FILE *stream);

#endif
