/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Named stacks, as paths in a tree: they share their common part from the root on. */
#ifndef IOTRACE_CORE_SYMBOLS_STACK_TREE_H
#define IOTRACE_CORE_SYMBOLS_STACK_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/frames.h"
#include "core/base/intern.h"

/* One frame and its callers.  Node 0 is above all roots. */
struct stack_node {
	uint32_t caller; /* node */
	uint32_t name;
};

/* { 0 } is empty. */
struct stack_tree {
	struct intern names;
	struct intern nodes;  /* struct stack_node; node i has number i - 1 */
	size_t limit;	      /* bytes of memory: for the owner, and for the symbolizer */
	size_t owners;	      /* of these: memory of the owner's rows */
	unsigned int rebuilt; /* changes when numbers of names and nodes become invalid */
};

/* The name of the stack that replaces dropped stacks. */
#define STACK_TREE_LOST "[lost stack]"

/* The numbers of a name and of a node; 0: none; INTERN_NONE: -ENOMEM. */
uint32_t stack_tree_name(struct stack_tree *t, const char *name);
uint32_t stack_tree_node(struct stack_tree *t, uint32_t caller, uint32_t name);

const char *stack_tree_text(const struct stack_tree *t, uint32_t name);
const struct stack_node *stack_tree_at(const struct stack_tree *t, uint32_t node);

/* The frames from @node on; @t must not change while they are in use. */
struct frames stack_tree_frames(const struct stack_tree *t, uint32_t node);

size_t stack_tree_memory(const struct stack_tree *t);

/* Removes all names and nodes; their numbers become invalid. */
void stack_tree_clear(struct stack_tree *t);
/* Frees the memory. */
void stack_tree_free(struct stack_tree *t);

#endif
