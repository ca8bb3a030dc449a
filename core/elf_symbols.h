/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_ELF_SYMBOLS_H
#define IOTRACE_CORE_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Function names in executables and libraries.  Many places are asked for at
 * once, in one walk over the symbols, and nothing is kept in memory afterwards: a browser's
 * 500,000 symbols are not worth an index for a few hundred frames.
 */
struct elf_place {
	uint64_t address; /* in the file's own numbering; UINT64_MAX: not mapped from it; it comes
			     first, for core/search.h */
	uint64_t offset;  /* in the file, as mappings have it */
	char *name;	  /* NULL; then demangled and the caller's to free, if it is known */
	size_t tag;	  /* the caller's: places change their order */
	/* of the search */
	uint64_t start;
	int rank;
};

/* Longest build id that there is (a SHA-1 has 20). */
#define BUILD_ID_SIZE 32

struct build_id {
	uint8_t size; /* 0: none */
	uint8_t bytes[BUILD_ID_SIZE];
};

/* Where files with debug symbols are looked for. */
struct elf_debug_dirs {
	const char *const *roots; /* "/proc/4711/root", ""; @n of them, tried in this order */
	size_t n;
};

/* The build id of the ELF file @fd; size 0 when it has none (or is no ELF file). */
void elf_build_id(int fd, struct build_id *out);

/*
 * Names the @n @places of the ELF file @fd, which was opened as @path in each of the
 * roots of @dirs (where its debug file may be beside it).  Sources, in this order: .symtab, the
 * debug file by build id, the one that .gnu_debuglink names, .gnu_debugdata, .dynsym.  Places are
 * sorted.  0 or -errno; -ENOEXEC: not an ELF file.
 */
int elf_symbols(int fd, const char *path, const struct elf_debug_dirs *dirs,
		struct elf_place *places, size_t n);

/* The symbol as the source has it: C++ and Rust names without arguments and hashes, no symbol
 * version.  The caller's to free; NULL: out of memory. */
char *elf_demangle(const char *symbol);

#endif
