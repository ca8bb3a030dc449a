/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_BUDGET_H
#define IOTRACE_CORE_SYMBOLS_BUDGET_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Memory with an upper bound, for data that other users can make grow. */
struct budget {
	size_t used, limit; /* bytes */
};

#define BUDGET_OVERHEAD 16 /* of the allocator, per block */

/* @size bytes of zeroes; NULL: there is no memory, or it would be more than the limit. */
static inline void *budget_alloc(struct budget *b, size_t size)
{
	void *block = NULL;

	if (size + BUDGET_OVERHEAD <= b->limit - b->used)
		block = calloc(1, size);
	if (block)
		b->used += size + BUDGET_OVERHEAD;
	return block;
}

/* @size: as in budget_alloc(). */
static inline void budget_free(struct budget *b, void *block, size_t size)
{
	if (!block)
		return;
	b->used -= size + BUDGET_OVERHEAD;
	free(block);
}

#endif
