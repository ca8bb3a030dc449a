/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stores the tables for user stacks in maps. */
#ifndef IOTRACE_CORE_BPF_UNWIND_STORE_H
#define IOTRACE_CORE_BPF_UNWIND_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probes/unwind.h"

/* The tables that probes/unwind.bpf.h uses, in its maps.  They stay as long as the maps. */
struct unwind_store;

/* Descriptors of the maps, owned by the caller, which must outlive the store. */
struct unwind_maps {
	int tables, rules, files;
};

/* 0 or -errno. */
int unwind_store_open(const struct unwind_maps *maps, struct unwind_store **out);
void unwind_store_close(struct unwind_store *s);

/* Stores a table: rows of core/symbols/elf_unwind.h, in ascending order, and their rules. *out is
 * its location. 0; -ENOSPC: no room; -EFBIG: too large even for an empty store; or -errno. */
int unwind_store_add(struct unwind_store *s, const uint64_t *rows, size_t n_rows,
		     const struct unwind_rule *rules, size_t n_rules, struct unwind_file *out);

/* From now on the walker uses @file, with its key, for mappings of file @number. 0; -E2BIG: too
 * many files. */
int unwind_store_set(struct unwind_store *s, uint32_t number, const struct unwind_file *file);

/* Is it set? */
bool unwind_store_has(const struct unwind_store *s, uint32_t number);

/* Forgets all tables; no file has one any more, and the memory is used again.  Waits for walks in
 * progress. 0 or -errno. */
int unwind_store_empty(struct unwind_store *s);

#endif
