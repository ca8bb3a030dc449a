/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_STACK_PATHS_H
#define IOTRACE_CMD_STACK_PATHS_H

#include <stdint.h>

#include "core/symbols/symbolizer.h"
#include "core/base/intern.h"
#include "probes/stack.h"

/*
 * The stacks of the last drains, for I/Os that complete after the drain that has their frames.  The
 * most recently used are kept, in bounded memory. { 0 } is empty.
 */
struct stack_paths {
	struct intern recent, older; /* by stack_path() */
	uint64_t lost;		     /* I/Os whose stacks were not kept */
};

/* Stores the stacks of a row of this drain. 0 or -ENOMEM. */
int stack_paths_keep(struct stack_paths *p, const struct stack_id *kernel,
		     const struct stack_id *user, const struct symbolizer *n);

/* The stacks with number @path; their frames are passed to @n, like frames of this drain. 0,
 * -ENOENT, -ENOMEM. *kernel and *user live until the next call. */
int stack_paths_find(struct stack_paths *p, uint64_t path, struct symbolizer *n,
		     const struct stack_id **kernel, const struct stack_id **user);

/* A drain is done: forgets the stacks that have not been used for long, if they take too much
 * memory. */
void stack_paths_age(struct stack_paths *p);

void stack_paths_free(struct stack_paths *p);

#endif
