// SPDX-License-Identifier: GPL-2.0-or-later
/* J.-P. Aumasson, D. J. Bernstein: SipHash: a fast short-input PRF (2012). */
#include "core/base/siphash.h"

static uint64_t rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void rounds(uint64_t v[4], int n)
{
	while (n--) {
		v[0] += v[1];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[0] = rotate(v[0], 32);
		v[2] += v[3];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

static void add_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
}

uint64_t siphash(const struct siphash_key *key, const void *data, size_t size)
{
	const unsigned char *bytes = data;
	uint64_t v[4] = { key->k[0] ^ 0x736f6d6570736575, key->k[1] ^ 0x646f72616e646f6d,
			  key->k[0] ^ 0x6c7967656e657261, key->k[1] ^ 0x7465646279746573 };
	uint64_t word = 0;

	for (size_t i = 0; i < size; i++) {
		word |= (uint64_t)bytes[i] << i % 8 * 8;
		if (i % 8 != 7)
			continue;
		add_word(v, word);
		word = 0;
	}
	add_word(v, word | (uint64_t)size << 56);
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
