/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_ELF_FILE_H
#define IOTRACE_CORE_SYMBOLS_ELF_FILE_H

#include <libelf.h>
#include <stdbool.h>

#include "core/symbols/elf_symbols.h"

/* Opening an ELF file that may be hostile: in the helper process only. */

/* NULL: no ELF file, or it cannot be unpacked (*unread).  It is read, not mapped: its owner may cut
 * it short, which is a fault in what is mapped.  elf_end() closes it, not @fd. */
Elf *elf_file_open(int fd, enum unread *unread);

/* *out: size 0 if it has none. */
void elf_file_build_id(Elf *elf, struct build_id *out);

/* Is @has the wanted @id?  Size 0: any. */
bool elf_file_is(const struct build_id *has, const struct build_id *id);

#endif
