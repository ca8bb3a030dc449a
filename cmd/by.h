/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BY_H
#define IOTRACE_CMD_BY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"
#include "output/schema.h"

/* The keys of --by: what a row is about, beside its operation and layer. */
enum by_key {
	KEY_DISK,
	KEY_PROCESS,
	KEY_COMM,
	KEY_CGROUP,
	KEY_UNIT,
	KEY_CONTAINER,
	KEY_USER,
	BY_KEYS
};

/* Some of them, in the order given, a byte each from the lowest on: the key and 1.  0: none. */
typedef uint64_t by_keys;

/* "disk,cgroup": *keys.  -EINVAL with @err (STATUS_USAGE). */
int keys_parse(const char *arg, by_keys *keys, struct error *err);

/* All there are. */
by_keys keys_all(void);

bool keys_have(by_keys keys, enum by_key key);

/* Do they tell more of a submitter than a disk does? */
bool keys_of_submitter(by_keys keys);
bool keys_of_process(by_keys keys);
bool keys_of_cgroup(by_keys keys);

/* What the columns of the keys show; those of no key are not looked at. */
struct key_labels {
	const char *disk, *comm, *cgroup, *unit, *container, *user;
	uint64_t start; /* of process @pid */
	uint32_t pid;
};

/* Less than, equal to or greater than 0, as qsort() wants it. */
int keys_compare(by_keys keys, const struct key_labels *a, const struct key_labels *b);

/* Whose submission no program saw. */
#define KEYS_UNKNOWN "[unknown]"

/* Labels of the row of all the others. */
extern const struct key_labels keys_other;

/* Text before a name: "disk = sda, pid = 12, comm = dd, "; nothing without keys.  0 or -errno. */
int keys_print(by_keys keys, const struct key_labels *labels, FILE *stream);

#define KEYS_TEXT_SIZE 64

/* As --by has them: "disk,cgroup". */
void keys_text(by_keys keys, char out[KEYS_TEXT_SIZE]);

/* The names alone, not escaped: "sda, 12, dd"; the caller frees it.  NULL: no memory. */
char *keys_name(by_keys keys, const struct key_labels *labels);

#define KEY_COLUMNS_MAX 8

/* Fills @to (room for KEY_COLUMNS_MAX) with the columns of @keys, of a struct key_labels that is at
 * @at in the row; returns how many. */
size_t keys_columns(by_keys keys, size_t at, struct column *to);

/* Those of all keys. */
extern const struct schema keys_schema;

#endif
