/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Binary search in an array sorted by address. */
#ifndef IOTRACE_CORE_BASE_SEARCH_H
#define IOTRACE_CORE_BASE_SEARCH_H

#include <stddef.h>
#include <stdint.h>

/* The index of the first of the @n elements of @array, of @size bytes each, whose address is
 * @address or above; @n if there is no such element.  Sorted by address, which is the first
 * member. */
static inline size_t search_first_at(const void *array, size_t n, size_t size, uint64_t address)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (*(const uint64_t *)((const char *)array + mid * size) < address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

#endif
