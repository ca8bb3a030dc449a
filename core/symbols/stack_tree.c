// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/stack_tree.h"

uint32_t stack_tree_name(struct stack_tree *t, const char *name)
{
	return intern_text(&t->names, name);
}

uint32_t stack_tree_node(struct stack_tree *t, uint32_t caller, uint32_t name)
{
	const struct stack_node node = { caller, name };
	uint32_t number;

	if (caller == INTERN_NONE || name == INTERN_NONE)
		return INTERN_NONE;
	number = intern_bytes(&t->nodes, &node, sizeof(node), NULL);
	return number == INTERN_NONE ? number : number + 1;
}

const char *stack_tree_text(const struct stack_tree *t, uint32_t name)
{
	return intern_key(&t->names, name);
}

const struct stack_node *stack_tree_at(const struct stack_tree *t, uint32_t node)
{
	return intern_key(&t->nodes, node - 1);
}

static const char *next_frame(const void *owner, uint32_t *at)
{
	const struct stack_tree *t = owner;
	const struct stack_node *node;

	if (!*at)
		return NULL;
	node = stack_tree_at(t, *at);
	*at = node->caller;
	return stack_tree_text(t, node->name);
}

struct frames stack_tree_frames(const struct stack_tree *t, uint32_t node)
{
	return (struct frames){ next_frame, t, node };
}

size_t stack_tree_memory(const struct stack_tree *t)
{
	return intern_memory(&t->names) + intern_memory(&t->nodes) + t->owners;
}

void stack_tree_clear(struct stack_tree *t)
{
	stack_tree_free(t);
	t->rebuilt++;
}

void stack_tree_free(struct stack_tree *t)
{
	intern_free(&t->names);
	intern_free(&t->nodes);
}
