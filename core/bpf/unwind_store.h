/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_UNWIND_STORE_H
#define IOTRACE_CORE_BPF_UNWIND_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probes/unwind.h"

/* The tables that probes/unwind.bpf.h walks by, in its maps.  They stay as long as the maps. */
struct unwind_store;

/* Descriptors of the maps, the caller's, as long as the store. */
struct unwind_maps {
	int tables, rules, files;
};

/* 0 or -errno. */
int unwind_store_open(const struct unwind_maps *maps, struct unwind_store **out);
void unwind_store_close(struct unwind_store *s);

/* Stores a table: rows of core/symbols/elf_unwind.h, which grow, and their rules.  *out is where it
 * is.  0; -ENOSPC: there is no room; -EFBIG: nor would there be in an empty store; or -errno. */
int unwind_store_add(struct unwind_store *s, const uint64_t *rows, size_t n_rows,
		     const struct unwind_rule *rules, size_t n_rules, struct unwind_file *out);

/* From now on the walker uses @file for what is mapped from @key.  0; -E2BIG: there are too many.
 */
int unwind_store_set(struct unwind_store *s, const struct unwind_file_key *key,
		     const struct unwind_file *file);

/* Has it been set? */
bool unwind_store_has(const struct unwind_store *s, const struct unwind_file_key *key);

/* Forgets all tables and files; the memory is used again.  It waits for walks that are under way.
 * 0 or -errno. */
int unwind_store_empty(struct unwind_store *s);

/* Bytes of the tables, in whole segments. */
size_t unwind_store_size(const struct unwind_store *s);

#endif
