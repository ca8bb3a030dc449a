// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/mappings.h"

#include <errno.h>
#include <sys/random.h>

struct mapping_node {
	struct mapping m;
	struct mapping_node *left, *right;
	uint32_t refs;
	uint32_t count;	   /* of this subtree */
	uint32_t priority; /* random; no child has a higher one */
};

void mapping_pool_init(struct mapping_pool *pool, size_t limit)
{
	memset(pool, 0, sizeof(*pool));
	pool->budget.limit = limit;
	pool->modules.budget = &pool->budget;
	if (getrandom(&pool->random, sizeof(pool->random), GRND_NONBLOCK) < 0 || !pool->random)
		pool->random = 0x9e3779b97f4a7c15ULL;
}

/* xorshift64: processes that map files cannot observe the numbers. */
static uint32_t next_random(struct mapping_pool *pool)
{
	pool->random ^= pool->random << 13;
	pool->random ^= pool->random >> 7;
	pool->random ^= pool->random << 17;
	return (uint32_t)(pool->random >> 32);
}

size_t mappings_count(const struct mapping_node *set)
{
	return set ? set->count : 0;
}

struct mapping_node *mappings_share(struct mapping_node *set)
{
	if (set)
		set->refs++;
	return set;
}

void mappings_drop(struct mapping_pool *pool, struct mapping_node *set)
{
	if (!set || --set->refs)
		return;
	mappings_drop(pool, set->left);
	mappings_drop(pool, set->right);
	modules_put(&pool->modules, set->m.module);
	pool->nodes--;
	budget_free(&pool->budget, set, sizeof(*set));
}

static struct mapping_node *new_node(struct mapping_pool *pool, const struct mapping *m,
				     uint32_t priority)
{
	struct mapping_node *node = budget_alloc(&pool->budget, sizeof(*node));

	if (!node) {
		pool->failed = true;
		return NULL;
	}
	*node = (struct mapping_node){ .m = *m, .refs = 1, .count = 1, .priority = priority };
	module_get(m->module);
	pool->nodes++;
	return node;
}

/* @node as one that may be changed. */
static struct mapping_node *own(struct mapping_pool *pool, struct mapping_node *node)
{
	struct mapping_node *copy;

	if (!node || node->refs == 1)
		return node;
	copy = new_node(pool, &node->m, node->priority);
	if (copy) {
		copy->count = node->count;
		copy->left = mappings_share(node->left);
		copy->right = mappings_share(node->right);
	}
	mappings_drop(pool, node);
	return copy;
}

static void recount(struct mapping_node *node)
{
	node->count = 1 + (uint32_t)(mappings_count(node->left) + mappings_count(node->right));
}

/* Cuts the mapping of @node at @at; what is above begins *above. */
static void cut(struct mapping_pool *pool, struct mapping_node *node, uint64_t at,
		struct mapping_node **above)
{
	struct mapping rest = node->m;

	if (rest.module->is_file)
		rest.offset += at - rest.start;
	rest.start = at;
	node->m.end = at;
	*above = new_node(pool, &rest, node->priority);
	if (!*above)
		return;
	(*above)->right = node->right;
	node->right = NULL;
	recount(*above);
}

/* Takes @set apart: what is below and what is above @at. */
static void split(struct mapping_pool *pool, struct mapping_node *set, uint64_t at,
		  struct mapping_node **below, struct mapping_node **above)
{
	struct mapping_node *node = own(pool, set), *part = NULL;

	*below = *above = node;
	if (!node)
		return;
	if (node->m.end <= at) {
		split(pool, node->right, at, &part, above);
		node->right = part;
	} else if (node->m.start >= at) {
		split(pool, node->left, at, below, &part);
		node->left = part;
	} else {
		cut(pool, node, at, above);
	}
	recount(node);
}

/* All of @below lies below @above. */
static struct mapping_node *join(struct mapping_pool *pool, struct mapping_node *below,
				 struct mapping_node *above)
{
	struct mapping_node *top;
	bool is_below;

	if (!below || !above)
		return below ? below : above;
	is_below = below->priority >= above->priority;
	top = own(pool, is_below ? below : above);
	if (!top) {
		mappings_drop(pool, is_below ? above : below);
		return NULL;
	}
	if (is_below)
		top->right = join(pool, top->right, above);
	else
		top->left = join(pool, below, top->left);
	recount(top);
	return top;
}

int mappings_set(struct mapping_pool *pool, struct mapping_node **set, const struct mapping *m)
{
	struct mapping_node *below, *replaced, *above, *node;

	pool->failed = false;
	node = new_node(pool, m, next_random(pool));
	if (!node)
		return -ENOMEM;
	split(pool, *set, m->start, &below, &above);
	split(pool, above, m->end, &replaced, &above);
	mappings_drop(pool, replaced);
	*set = join(pool, join(pool, below, node), above);
	return pool->failed ? -ENOMEM : 0;
}

const struct mapping *mappings_find(const struct mapping_node *set, uint64_t address)
{
	while (set && (address < set->m.start || address >= set->m.end))
		set = address < set->m.start ? set->left : set->right;
	return set ? &set->m : NULL;
}

int mappings_each(const struct mapping_node *set, int (*each)(void *ctx, const struct mapping *m),
		  void *ctx)
{
	int r;

	if (!set)
		return 0;
	r = mappings_each(set->left, each, ctx);
	if (!r)
		r = each(ctx, &set->m);
	return r ? r : mappings_each(set->right, each, ctx);
}

const struct mapping *mappings_top(const struct mapping_node *set)
{
	return &set->m;
}

bool mapping_same(const struct mapping *a, const struct mapping *b)
{
	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->module == b->module;
}

static int is_missing(void *ctx, const struct mapping *m)
{
	const struct mapping *other = mappings_find(ctx, m->start);

	return !other || !mapping_same(m, other);
}

bool mappings_same(const struct mapping_node *a, const struct mapping_node *b)
{
	if (a == b)
		return true;
	return mappings_count(a) == mappings_count(b) &&
	       !mappings_each(a, is_missing, (void *)(uintptr_t)b);
}
