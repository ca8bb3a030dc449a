/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BASE_INTERN_H
#define IOTRACE_CORE_BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>

/* Keys of bytes, each stored once and numbered 0, 1, 2, ... in the order in which they came:
 * text, or structs without holes.  { 0 } is an empty set.  One set holds whole keys or records. */
struct intern {
	char *bytes;
	size_t used, room;
	size_t *at; /* by number: where it begins; [n] is where the last ends */
	uint32_t n, at_room;
	uint32_t *slots; /* number + 1; 0: free */
	uint32_t n_slots;
	size_t key_size; /* 0: the whole of an entry is its key */
};

/* The number of @key, @size bytes, which are copied when they are new.  *is_new may be NULL.
 * INTERN_NONE: out of memory. */
uint32_t intern_bytes(struct intern *set, const void *key, size_t size, int *is_new);
#define INTERN_NONE UINT32_MAX

/* A record whose first @key_size bytes are its key; those of one that is there already stay. */
uint32_t intern_keyed(struct intern *set, const void *record, size_t size, size_t key_size);

/* The number of @key (of the record with that key), INTERN_NONE if it is not there. */
uint32_t intern_find(const struct intern *set, const void *key, size_t size);

/* The same for text, whose NUL is stored too. */
uint32_t intern_text(struct intern *set, const char *text);

/* What has number @number; lives until the set changes. */
const void *intern_key(const struct intern *set, uint32_t number);

/* Bytes of memory in use. */
size_t intern_memory(const struct intern *set);

/* Empties the set and frees its memory. */
void intern_free(struct intern *set);

#endif
