/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opens ELF files, in the helper process only. */
#ifndef IOTRACE_CORE_SYMBOLS_ELF_FILE_H
#define IOTRACE_CORE_SYMBOLS_ELF_FILE_H

#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>

#include "core/symbols/elf_symbols.h"

/* Opens an ELF file that may be hostile: in the helper process only. */

/* NULL: not an ELF file, or it cannot be unpacked (*unread).  It is read, not mapped: its owner may
 * truncate it, which would be a fault in mapped memory. elf_end() closes it, not @fd. */
Elf *elf_file_open(int fd, enum unread *unread);

/* The first section @name with contents, and its *@header; NULL: none. */
Elf_Scn *elf_file_section(Elf *elf, const char *name, GElf_Shdr *header);

/* *out: size 0 if it has none. */
void elf_file_build_id(Elf *elf, struct build_id *out);

/* Is @has the wanted @id?  Size 0: any. */
bool elf_file_is(const struct build_id *has, const struct build_id *id);

#endif
