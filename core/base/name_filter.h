/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A hash of a name, and a filter that selects the few names to compare with a set. */
#ifndef IOTRACE_CORE_BASE_NAME_FILTER_H
#define IOTRACE_CORE_BASE_NAME_FILTER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A hash of @name from its length, beginning and end: the kernel has 100,000 names, and hashing all
 * their bytes takes longer than the lookups.  Different names seldom share a hash. */
static inline uint32_t name_hash(const char *name)
{
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio */
	size_t len = strlen(name), some = len < sizeof(uint64_t) ? len : sizeof(uint64_t);
	uint64_t first = 0, last = 0;

	memcpy(&first, name, some);
	memcpy(&last, name + len - some, some);
	return (uint32_t)(((first * factor ^ last ^ len) * factor) >> 32);
}

/* A filter for names of a set.  All zero: empty. */
struct name_filter {
	uint64_t bits[64]; /* one for each name of the set, by the upper bits of its hash */
};

static inline void name_filter_add(struct name_filter *f, uint32_t hash)
{
	f->bits[hash >> 26] |= UINT64_C(1) << (hash >> 20 & 63);
}

/* False: @name is not in the set. */
static inline bool name_filter_may_have(const struct name_filter *f, uint32_t hash)
{
	return f->bits[hash >> 26] >> (hash >> 20 & 63) & 1;
}

#endif
