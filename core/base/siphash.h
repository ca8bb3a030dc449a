/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SipHash-2-4: a hash that cannot be guessed without its key. */
#ifndef IOTRACE_CORE_BASE_SIPHASH_H
#define IOTRACE_CORE_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
	uint64_t k[2];
};

uint64_t siphash(const struct siphash_key *key, const void *data, size_t size);

#endif
