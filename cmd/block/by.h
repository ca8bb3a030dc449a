/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The keys of --by, and their columns. */
#ifndef IOTRACE_CMD_BLOCK_BY_H
#define IOTRACE_CMD_BLOCK_BY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"
#include "output/schema.h"

/* The keys of --by, which group rows in addition to operation and layer. */
enum by_key {
	KEY_DISK,
	KEY_PROCESS,
	KEY_COMM,
	KEY_CGROUP,
	KEY_UNIT,
	KEY_CONTAINER,
	KEY_USER,
	KEY_FILE,
	KEY_DIR,
	BY_KEYS
};

/* A list of keys, in the order given, a byte each from the lowest on: the key plus 1; of KEY_DIR in
 * the upper half its DEPTH, 0: none. 0: no keys. */
typedef uint64_t by_keys;

/* "disk,dir:2": fills @to, by_keys.  -EINVAL with @err (STATUS_USAGE). */
int keys_parse(void *to, const char *arg, struct error *err);

/* The row of the option --by, which sets the member `by` of OWN; @help: what it is for. */
#define KEYS_KEY 0x300
#define KEYS_OPTION(help)                                                                          \
	{                                                                                          \
		"by", KEYS_KEY, "KEY[,KEY]", help, ARGS_SHOWN, ARGS_TAKEN(keys_parse),             \
		    .at = ARGS_AT(by_keys, by),                                                    \
		    .words = "disk|process|comm|cgroup|unit|container|user|file|dir",              \
		    .flags = ARGS_REPLAY | ARGS_REGROUPS                                           \
	}

/* All keys but KEY_DIR, which follows from KEY_FILE; without the latter. */
by_keys keys_all(void);
by_keys keys_all_but_file(void);

/* Does it have all of the latter? */
bool keys_are_all(by_keys keys);

bool keys_have(by_keys keys, enum by_key key);

/* Do they identify more of a submitter than a disk does? */
bool keys_of_submitter(by_keys keys);
bool keys_of_process(by_keys keys);
bool keys_of_cgroup(by_keys keys);
bool keys_of_file(by_keys keys);

/* The DEPTH of KEY_DIR, 0: none given. */
unsigned int keys_dir_depth(by_keys keys);

/* The values of the keys' columns; other fields are unused. */
struct key_labels {
	const char *disk, *comm, *cgroup, *unit, *container, *user;
	uint64_t start; /* of process @pid */
	uint32_t pid;
	const char *file, *dir;
};

/* Less than, equal to or greater than 0, like for qsort(). */
int keys_compare(by_keys keys, const struct key_labels *a, const struct key_labels *b);

/* Labels of I/O whose submission was missed. */
#define KEYS_UNKNOWN "[unknown]"

/* Labels of the row of all the others. */
extern const struct key_labels keys_other;

/* Text before a name: "disk = sda, pid = 12, comm = dd, "; empty without keys. 0 or -errno. */
int keys_print(by_keys keys, const struct key_labels *labels, FILE *stream);

#define KEYS_TEXT_SIZE 64

/* In the syntax of --by: "disk,cgroup". */
void keys_text(by_keys keys, char out[KEYS_TEXT_SIZE]);

/* The names alone, not escaped: "sda, 12, dd"; the caller frees it.  NULL: out of memory. */
char *keys_name(by_keys keys, const struct key_labels *labels);

#define KEY_COLUMNS_MAX 10

/* Fills @to (room for KEY_COLUMNS_MAX) with the columns of @keys, of a struct key_labels at offset
 * @at in the row; returns how many. */
size_t keys_columns(by_keys keys, size_t at, struct column *to);

/* The columns of all keys but KEY_FILE and KEY_DIR. */
extern const struct schema keys_schema;

#endif
