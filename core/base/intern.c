// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/base/intern.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const void *key, size_t size)
{
	const unsigned char *at = key;
	uint64_t hash = 0x9e3779b97f4a7c15ULL ^ size, word;

	for (; size >= 8; size -= 8, at += 8) {
		memcpy(&word, at, 8);
		hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
		hash ^= hash >> 32;
	}
	word = 0;
	memcpy(&word, at, size);
	hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
	hash ^= hash >> 32;
	return hash * 0xc4ceb9fe1a85ec53ULL >> 16;
}

static size_t size_of(const struct intern *set, uint32_t number)
{
	return set->key_size ? set->key_size : set->at[number + 1] - set->at[number];
}

/* The slot of @key, or the free slot where it belongs. */
static uint32_t *slot_of(const struct intern *set, const void *key, size_t size)
{
	uint32_t mask = set->n_slots - 1, i = (uint32_t)hash_of(key, size) & mask;

	for (; set->slots[i]; i = (i + 1) & mask) {
		uint32_t number = set->slots[i] - 1;

		if (size_of(set, number) == size &&
		    memcmp(set->bytes + set->at[number], key, size) == 0)
			break;
	}
	return &set->slots[i];
}

static int more_slots(struct intern *set)
{
	uint32_t n_slots = set->n_slots ? 2 * set->n_slots : 256;
	uint32_t *slots = calloc(n_slots, sizeof(*slots)), *old = set->slots;

	if (!slots)
		return -1;
	set->slots = slots;
	set->n_slots = n_slots;
	for (uint32_t i = 0; i < set->n; i++)
		*slot_of(set, set->bytes + set->at[i], size_of(set, i)) = i + 1;
	free(old);
	return 0;
}

/* Grows by half: doubling would waste too much memory. */
static size_t larger(size_t room, size_t least)
{
	room += room / 2 + 256;
	return room < least ? least : room;
}

static int make_room(struct intern *set, size_t size)
{
	if (set->used + size > set->room || !set->bytes) {
		size_t room = larger(set->room, set->used + size);
		char *bytes = realloc(set->bytes, room);

		if (!bytes)
			return -1;
		set->bytes = bytes;
		set->room = room;
	}
	if (set->n + 2 > set->at_room) {
		size_t room = larger(set->at_room, set->n + 2);
		size_t *at = realloc(set->at, room * sizeof(*at));

		if (!at)
			return -1;
		set->at = at;
		set->at_room = (uint32_t)room;
		at[set->n] = set->used;
	}
	/* At most three quarters full. */
	if (set->n + 1 > set->n_slots / 4 * 3)
		return more_slots(set);
	return 0;
}

static uint32_t find(const struct intern *set, const void *key, size_t size)
{
	uint32_t *slot = set->n_slots ? slot_of(set, key, size) : NULL;

	return slot && *slot ? *slot - 1 : INTERN_NONE;
}

static uint32_t add(struct intern *set, const void *record, size_t size, size_t key_size)
{
	uint32_t *slot;

	if (make_room(set, size))
		return INTERN_NONE;
	slot = slot_of(set, record, key_size);
	memcpy(set->bytes + set->used, record, size);
	set->used += size;
	*slot = ++set->n;
	set->at[set->n] = set->used;
	return set->n - 1;
}

uint32_t intern_bytes(struct intern *set, const void *key, size_t size, int *is_new)
{
	uint32_t number = find(set, key, size);

	if (is_new)
		*is_new = number == INTERN_NONE;
	return number != INTERN_NONE ? number : add(set, key, size, size);
}

uint32_t intern_keyed(struct intern *set, const void *record, size_t size, size_t key_size)
{
	uint32_t number;

	set->key_size = key_size;
	number = find(set, record, key_size);
	return number != INTERN_NONE ? number : add(set, record, size, key_size);
}

uint32_t intern_find(const struct intern *set, const void *key, size_t size)
{
	return find(set, key, size);
}

uint32_t intern_text(struct intern *set, const char *text)
{
	return intern_bytes(set, text, strlen(text) + 1, NULL);
}

const void *intern_key(const struct intern *set, uint32_t number)
{
	return set->bytes + set->at[number];
}

void *intern_value(struct intern *set, uint32_t number)
{
	return set->bytes + set->at[number] + set->key_size;
}

size_t intern_memory(const struct intern *set)
{
	return set->room + set->at_room * sizeof(*set->at) + set->n_slots * sizeof(*set->slots);
}

void intern_free(struct intern *set)
{
	free(set->bytes);
	free(set->at);
	free(set->slots);
	memset(set, 0, sizeof(*set));
}
