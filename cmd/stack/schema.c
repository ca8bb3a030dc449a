// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stack/schema.h"

#include "output/stacks.h"

static const struct column columns[] = {
	{ "disk", NULL, COLUMN_STR, ROLE_LABEL, "", "disk, or partition with -d",
	  offsetof(struct stack_row, disk), 0, false, NULL },
	{ "comm", NULL, COLUMN_STR, ROLE_LABEL, "", "name of the process that submitted it",
	  offsetof(struct stack_row, comm), 0, false, NULL },
	{ "pid", NULL, COLUMN_U32, ROLE_LABEL, "", "its number, with -P; else 0",
	  offsetof(struct stack_row, pid), 0, false, NULL },
	{ "kernel", NULL, COLUMN_FRAMES, ROLE_STACK, "", "kernel stack, leaf first (-K)",
	  offsetof(struct stack_row, kernel), 0, false, NULL },
	{ "user", NULL, COLUMN_FRAMES, ROLE_STACK, "", "user stack, leaf first (-U)",
	  offsetof(struct stack_row, user), 0, false, NULL },
	{ "read_bytes", NULL, COLUMN_U64, ROLE_COUNTER, "bytes", "bytes read",
	  offsetof(struct stack_row, read_bytes), 0, false, NULL },
	{ "write_bytes", NULL, COLUMN_U64, ROLE_COUNTER, "bytes", "bytes written",
	  offsetof(struct stack_row, write_bytes), 0, false, NULL },
	{ "read_ios", NULL, COLUMN_U64, ROLE_COUNTER, "", "reads that are complete",
	  offsetof(struct stack_row, read_ios), 0, false, NULL },
	{ "write_ios", NULL, COLUMN_U64, ROLE_COUNTER, "", "writes that are complete",
	  offsetof(struct stack_row, write_ios), 0, false, NULL },
	{ "read_time_ns", NULL, COLUMN_U64, ROLE_COUNTER, "ns",
	  "time of these reads, from submission to completion",
	  offsetof(struct stack_row, read_time_ns), 0, false, NULL },
	{ "write_time_ns", NULL, COLUMN_U64, ROLE_COUNTER, "ns",
	  "time of these writes, from submission to completion",
	  offsetof(struct stack_row, write_time_ns), 0, false, NULL },
};

#define N_COLUMNS  (sizeof(columns) / sizeof(columns[0]))
#define IO_COLUMNS 4 /* the last ones */

static const struct schema schemas[] = {
	{ columns, N_COLUMNS - IO_COLUMNS, sizeof(struct stack_row) },
	{ columns, N_COLUMNS, sizeof(struct stack_row) },
};

const struct schema *stack_schema(bool ios)
{
	return &schemas[ios];
}
