/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows of named stacks, in bounded memory. */
#ifndef IOTRACE_CMD_STACK_TABLE_H
#define IOTRACE_CMD_STACK_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/intern.h"
#include "core/symbols/stack_tree.h"
#include "output/stacks.h"

/* The counts so far, in memory with a fixed limit: rows, their names, and their stacks. */

/* The key of a row. */
struct table_key {
	uint64_t start; /* of process @pid */
	uint32_t pid;
	uint32_t disk, comm, labels[STACK_LABELS]; /* names */
	uint32_t kernel, user;			   /* nodes of the leaves */
	uint32_t pad;				   /* 0: keys are compared byte by byte */
};

struct table_row {
	uint64_t bytes[2]; /* read, written */
	uint64_t ios[2], ns[2];
};

struct table {
	struct stack_tree tree;
	struct intern rows;   /* struct table_key, and struct table_row */
	enum stack_unit unit; /* decides which rows are large */
	uint64_t evicted;     /* rows whose stack or process was dropped to save memory */
};

/* Adds @more to a row.  0 or -ENOMEM. */
int table_add(struct table *t, const struct table_key *key, const struct table_row *more);

/* The names of all processes and files whose rows were dropped. */
#define TABLE_LOST_PROCESS "[other processes]"
#define TABLE_OTHER_FILES  "(other)"

/* Call now and then: when the table has outgrown its limit, the smallest rows lose their stack, and
 * then their process and file.  No byte is lost. 0 or -ENOMEM. */
int table_fit(struct table *t);

/* Row @row, of t->rows.n. */
const struct table_key *table_key(const struct table *t, uint32_t row);
const struct table_row *table_row(const struct table *t, uint32_t row);

/* Moves the names of @key from @from to @to. 0 or -ENOMEM. */
int table_copy_names(struct table *to, const struct table *from, struct table_key *key);

/* Removes the rows, their names and stacks. */
void table_clear(struct table *t);
void table_free(struct table *t);

#endif
