/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_MAPPINGS_H
#define IOTRACE_CORE_SYMBOLS_MAPPINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/symbols/modules.h"

/*
 * The mappings at one moment: they do not overlap, sorted by address.  A set is a balanced tree
 * (a treap) whose nodes are shared with other sets and copied before they are changed: a changed
 * set costs O(log n) nodes per change, and a copy costs nothing.
 * NULL is the empty set.
 */
struct mapping {
	uint64_t start, end; /* addresses */
	uint64_t offset;     /* of start, in the file; 0 where there is none */
	struct module *module;
};

struct mapping_node;

/* The memory of the nodes of all sets. */
struct mapping_pool {
	struct budget budget;
	struct modules modules;
	uint64_t random;
	uint64_t versions; /* made so far, by mapping_history.c */
	size_t nodes;
	bool failed; /* there was no room for a node */
};

void mapping_pool_init(struct mapping_pool *pool, size_t limit);

/* Another reference to @set. */
struct mapping_node *mappings_share(struct mapping_node *set);
void mappings_drop(struct mapping_pool *pool, struct mapping_node *set);

/* @set with @m; mappings that it overlaps are cut.  Takes over the reference to @set.
 * 0, or -ENOMEM: *set is left without some of its mappings. */
int mappings_set(struct mapping_pool *pool, struct mapping_node **set, const struct mapping *m);

/* The mapping at @address; NULL: none. */
const struct mapping *mappings_find(const struct mapping_node *set, uint64_t address);

/* One of the mappings of a set that is not empty: the only one, if it has just one. */
const struct mapping *mappings_top(const struct mapping_node *set);

size_t mappings_count(const struct mapping_node *set);

/* Calls @each for all, by address, until it returns something else than 0, which is returned. */
int mappings_each(const struct mapping_node *set, int (*each)(void *ctx, const struct mapping *m),
		  void *ctx);

bool mapping_same(const struct mapping *a, const struct mapping *b);
bool mappings_same(const struct mapping_node *a, const struct mapping_node *b);

#endif
