/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_STACK_SCHEMA_H
#define IOTRACE_CMD_STACK_SCHEMA_H

#include <stdbool.h>

#include "output/schema.h"

/* The columns of a struct stack_row; with --value ios or time also @ios and their time. */
const struct schema *stack_schema(bool ios);

#endif
