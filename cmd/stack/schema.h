/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The columns of iotrace stack. */
#ifndef IOTRACE_CMD_STACK_SCHEMA_H
#define IOTRACE_CMD_STACK_SCHEMA_H

#include <stdbool.h>

#include "cmd/stack/options.h"
#include "output/schema.h"

/* The columns of a struct stack_row for some options. */
#define STACK_COLUMNS 19
struct stack_schema {
	struct column columns[STACK_COLUMNS];
	struct schema schema; /* points to these */
};

/* Fills @to; returns &to->schema. */
const struct schema *stack_schema(struct stack_schema *to, const struct stack_options *o);

/* For struct tool: columns(). */
const struct schema *stack_schema_variant(size_t i, const char **with);

#endif
