/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows of A and B, and what each has counted in blocks of intervals. */
#ifndef IOTRACE_CMD_COMPARE_ROWS_H
#define IOTRACE_CMD_COMPARE_ROWS_H

#include "cmd/compare/options.h"
#include "cmd/engine/csv.h"
#include "cmd/engine/part.h"
#include "core/base/intern.h"
#include "output/hist.h"

/* What a row is about. */
enum compare_key {
	COMPARE_OP,
	COMPARE_IO,
	COMPARE_LAYER, /* from here on: --rows */
	COMPARE_DISK,
	COMPARE_UNIT,
	COMPARE_CONTAINER,
	COMPARE_CGROUP,
	COMPARE_USER,
	COMPARE_COMM,
	COMPARE_FILE,
	COMPARE_DIR,
	COMPARE_USER_STACK, /* frames, leaf first: "frame;frame" */
	COMPARE_KERNEL_STACK,
	COMPARE_KEYS
};
extern const char *const compare_keys[COMPARE_KEYS]; /* columns of CSV, but of stack: rows.c */

/* A row's sums over some intervals. */
struct compare_counts {
	double requests, time_ns, bytes, errors;
	double waits_ns; /* of threads (stack --value wait) */
};

#define COMPARE_BLOCKS 128

/* The intervals of A or B: each block has some of them, the last one may have fewer. */
struct compare_times {
	double start, end; /* seconds since the epoch */
	size_t n;	   /* intervals */
	size_t per;	   /* of a block */
	double secs[COMPARE_BLOCKS];
};

struct compare_row {
	const char *labels[COMPARE_KEYS]; /* "": has none */
	uint64_t seed;			  /* of its labels */
	struct compare_counts counts[2][COMPARE_BLOCKS];
	/* HIST_FINE_SLOTS of each block; NULL: none */
	uint32_t (*slots[2])[HIST_FINE_SLOTS];
	double weight; /* of A and B: requests; bytes or waits where these are not counted */
	bool chosen;   /* it is compared */
};

#define COMPARE_ROWS 64 /* of a table, at most: those with most requests */

/* What stack has counted, a bit each. */
enum compare_value { COMPARE_OF_BYTES = 1, COMPARE_OF_IOS = 2, COMPARE_OF_WAITS = 4 };

/* Which stacks it has, a bit each. */
enum compare_stacks { COMPARE_OF_KERNEL = 1, COMPARE_OF_USER = 2 };

/* What a subcommand has recorded. */
struct compare_table {
	const char *subcommand;
	uint64_t keys; /* of the rows */
	/* Of stack: enum compare_value, and of each side enum compare_stacks. */
	unsigned int values, stacks[2];
	struct compare_times times[2];
	struct intern names;
	struct compare_row **rows;
	size_t n;
	size_t left_out; /* rows that are not compared: too few requests, or no room */
};

/* Passes the replay of A (@side 0) or B as CSV to @take, with a line for each interval without
 * rows;
 * @more, ended by NULL, are further options.  -errno with @err. */
int compare_read(const struct compare_source *source, int side, const char *subcommand,
		 const char *const *more, part_taker *take, void *ctx, struct part *part,
		 struct error *err);

/* Its columns, of stack with the names of compare_keys; and enum compare_value. */
unsigned int compare_columns(struct csv *csv, bool of_stack);

/* Reads A and B of the subcommand (table->subcommand).  0, or -errno with @err: one of them cannot
 * be read, has nothing of that subcommand or is of --value (-ENOENT), or has other keys. */
int compare_rows_read(struct compare_table *table, const struct compare_options *o,
		      struct error *err);
void compare_rows_free(struct compare_table *table);

/* Is it of stack, with too few intervals to tell a change from chance? */
bool compare_rows_few(const struct compare_table *table);

/* Replaces "\\x3b" by ";", and so on, in a frame or a name of CSV, in place: characters that would
 * mean something else there. */
void compare_decode(char *text);

/* Joins the blocks of each side as stats_block_length() says: table->times have the blocks' lengths
 * then.  Returns how many there are. */
size_t compare_rows_join(struct compare_table *table, int side);

#endif
