/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table for user stacks of an ELF file, from its .eh_frame. */
#ifndef IOTRACE_CORE_SYMBOLS_ELF_UNWIND_H
#define IOTRACE_CORE_SYMBOLS_ELF_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "core/symbols/elf_symbols.h"
#include "probes/unwind.h"

/* Limits of one file: a file beyond them has no table. */
#define MAX_UNWIND_ROWS	 (2U << 20)
#define MAX_UNWIND_RULES 4096U

#define UNWIND_MAX_OFFSET (1ULL << 32) /* code beyond this offset in its file has no rows */

/* A row: from offset row >> 16 in the file on, rule row & 0xffff applies. */
struct unwind_table {
	uint64_t *rows; /* by ascending offset */
	struct unwind_rule *rules;
	size_t n_rows, n_rules;
	struct build_id id; /* of the file */
};

void unwind_table_free(struct unwind_table *t);

/* Is this a possible rule?  (Check for data from an untrusted process.) */
int unwind_rule_is_valid(const struct unwind_rule *rule);

/*
 * The table of ELF file @fd, for this processor, from .eh_frame.  The file may be hostile: this
 * runs in the helper process only.  @id: see elf_symbols(). 0 with *out, which unwind_table_free()
 * frees, or -errno: -ENOENT: the file has no .eh_frame; -E2BIG: beyond the limits above.
 */
int elf_unwind(int fd, const struct build_id *id, struct unwind_table *out, enum unread *unread);

#endif
