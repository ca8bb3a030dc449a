/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Byte strings, stored once and numbered. */
#ifndef IOTRACE_CORE_BASE_INTERN_H
#define IOTRACE_CORE_BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>

/* Byte strings as keys, each stored once and numbered 0, 1, 2, ... in the order of arrival: text,
 * or structs without holes. { 0 } is an empty set.  One set holds either whole keys or records. */
struct intern {
	char *bytes;
	size_t used, room;
	size_t *at; /* by number: where it begins; [n] is the end of the last */
	uint32_t n, at_room;
	uint32_t *slots; /* number + 1; 0: free */
	uint32_t n_slots;
	size_t key_size; /* 0: the whole entry is its key */
};

/* The number of @key, @size bytes, which are copied if they are new. *is_new may be NULL.
 * INTERN_NONE: out of memory. */
uint32_t intern_bytes(struct intern *set, const void *key, size_t size, int *is_new);
#define INTERN_NONE UINT32_MAX

/* Adds a record whose first @key_size bytes are its key; an existing record stays. */
uint32_t intern_keyed(struct intern *set, const void *record, size_t size, size_t key_size);

/* The number of @key (of the record with that key), INTERN_NONE if it is not in the set. */
uint32_t intern_find(const struct intern *set, const void *key, size_t size);

/* The same for text, whose NUL is stored too. */
uint32_t intern_text(struct intern *set, const char *text);

/* The entry with number @number; valid until the set changes. */
const void *intern_key(const struct intern *set, uint32_t number);

/* What follows the key of record @number, to be changed; valid like the result of intern_key(). */
void *intern_value(struct intern *set, uint32_t number);

/* Bytes of memory in use. */
size_t intern_memory(const struct intern *set);

/* Empties the set and frees its memory. */
void intern_free(struct intern *set);

#endif
