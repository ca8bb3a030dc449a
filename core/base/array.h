/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A growing array. */
#ifndef IOTRACE_CORE_BASE_ARRAY_H
#define IOTRACE_CORE_BASE_ARRAY_H

#include <stdlib.h>
#include <string.h>

/* The number of items of an array. */
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/*
 * ARRAY_ADD(items, n) makes room for one more item after the @n items of the array @items (NULL:
 * none yet) and increments @n; returns the new item, all zero.  NULL: out of memory; then both are
 * unchanged.  @n may be decreased at any time.  Free the array with free().  Nothing else may
 * allocate it: there must be room for the next power of two.
 */
#define ARRAY_ADD(items, n) ((__typeof__(items))array_add(&(items), &(n), sizeof(*(items))))

/* @array: the address of a pointer to items of @size bytes each. */
static inline void *array_add(void *array, size_t *n, size_t size)
{
	char *items, *more;

	memcpy(&items, array, sizeof(items));
	if ((*n & (*n - 1)) == 0) {
		more = reallocarray(items, *n ? 2 * *n : 1, size);
		if (!more)
			return NULL;
		memcpy(array, &more, sizeof(more));
		items = more;
	}
	return memset(items + size * (*n)++, 0, size);
}

#endif
