/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_STACK_TABLE_H
#define IOTRACE_CMD_STACK_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/intern.h"
#include "output/stacks.h"

/*
 * What has been counted so far, in memory that does not grow beyond a limit: names, stacks as
 * paths in a tree that share what they have in common from the root on, and rows.
 */

/* One frame and those that called it.  Node 0 is above all roots. */
struct table_node {
	uint32_t caller; /* node */
	uint32_t name;
};

/* What a row is about. */
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
	struct intern names;
	struct intern nodes; /* struct table_node; node i has number i - 1 */
	struct intern keys;  /* struct table_key */
	struct table_row *rows;
	uint32_t rows_room;
	enum stack_unit unit; /* what makes a row large */
	size_t limit;	      /* bytes of memory */
	unsigned int rebuilt; /* changes when numbers of names and nodes become invalid */
	uint64_t evicted;     /* rows whose stack or process was given up for want of memory */
};

/* The numbers of a name and of a node; 0: none; INTERN_NONE: -ENOMEM. */
uint32_t table_name(struct table *t, const char *name);
uint32_t table_node(struct table *t, uint32_t caller, uint32_t name);

/* Adds @more to a row.  0 or -ENOMEM. */
int table_add(struct table *t, const struct table_key *key, const struct table_row *more);

/* The name of the stack that stands for those that were given up. */
#define TABLE_LOST_STACK   "[lost stack]"
#define TABLE_LOST_PROCESS "[other processes]"

/* To be called now and then: when the table has outgrown its limit, the smallest rows give up
 * their stack, and then their process.  No byte is lost.  0 or -ENOMEM. */
int table_fit(struct table *t);

const struct table_key *table_key(const struct table *t, uint32_t row);
const char *table_text(const struct table *t, uint32_t name);

/* The labels of @key, which are names of @from, are names of @to from now on.  0 or -ENOMEM. */
int table_copy_labels(struct table *to, const struct table *from, struct table_key *key);

/* The frames from @node on; @t must not change while they are in use. */
struct frames table_frames(const struct table *t, uint32_t node);

size_t table_memory(const struct table *t);
void table_free(struct table *t);

#endif
