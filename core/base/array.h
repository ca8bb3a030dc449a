/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BASE_ARRAY_H
#define IOTRACE_CORE_BASE_ARRAY_H

#include <stdlib.h>
#include <string.h>

/* How many items an array has. */
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/*
 * ARRAY_ADD(items, n) makes room for one more behind the @n items of the array @items (NULL: none
 * yet) and increments @n; returns the new item, all zero.  NULL without memory; then both are as
 * they were.  The array is freed with free().
 */
#define ARRAY_ADD(items, n) ((__typeof__(items))array_add(&(items), &(n), sizeof(*(items))))

/* @array: the address of a pointer to items of @size bytes each. */
static inline void *array_add(void *array, size_t *n, size_t size)
{
	void *items;
	char *more;

	memcpy(&items, array, sizeof(items));
	more = reallocarray(items, *n + 1, size);
	if (!more)
		return NULL;
	memcpy(array, &more, sizeof(more));
	return memset(more + size * (*n)++, 0, size);
}

#endif
