/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_ELF_SYMBOLS_H
#define IOTRACE_CORE_SYMBOLS_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/symbols/unread.h"

/*
 * Function names in executables and libraries.  Many places are looked up at once, in one walk over
 * the symbols, and nothing is kept in memory afterwards: a browser's 500,000 symbols are not worth
 * an index for a few hundred frames.
 *
 * The files may be hostile, and libelf, libdw and libiberty are not made for this: it runs in the
 * helper process only (core/symbols/symbol_server.h).
 */
struct elf_place {
	uint64_t address; /* in the file's own numbering; UINT64_MAX: not mapped from it; must be
			     first, for core/base/search.h */
	uint64_t offset;  /* in the file, like in mappings */
	char *name;	  /* NULL; then demangled and the caller's to free, if it is known */
	size_t tag;	  /* the caller's: places change their order */
	/* of the search */
	const char *symbol;
	uint64_t start;
	int rank;
};

/* Limit of a name in bytes.  A longer symbol is cut; if the demangled form is longer, the symbol
 * itself is used. */
#define MAX_SYMBOL	4096
#define MAX_SYMBOL_NAME 16384

#define MAX_UNPACKED  (96U << 20) /* bytes; libdw needs some more memory for it */
#define MAX_DEBUGDATA (32U << 20) /* bytes of .gnu_debugdata, compressed */
#define MAX_CHECKED   (1LL << 30) /* bytes of a file whose checksum is computed */

/* The longest build id (a SHA-1 has 20). */
#define BUILD_ID_SIZE 32

struct build_id {
	uint8_t size; /* 0: no id */
	uint8_t bytes[BUILD_ID_SIZE];
};

/* Where a debug file is looked up, below one of the roots that the opener knows. */
enum debug_where {
	DEBUG_BY_BUILD_ID, /* in /usr/lib/debug/.build-id */
	/* by the name of .gnu_debuglink */
	DEBUG_IN_DIR,	 /* of the file itself */
	DEBUG_IN_SUBDIR, /* .debug, in that directory */
	DEBUG_IN_TREE,	 /* the same path below /usr/lib/debug */
	DEBUG_WHERES,
};

#define DEBUG_LINK_SIZE 256

struct debug_query {
	uint32_t root, where; /* number of the root; enum debug_where */
	struct build_id id;
	char link[DEBUG_LINK_SIZE]; /* a file name, ended by 0; "": none */
};

/* May the text of .gnu_debuglink be a file's name? */
bool debug_link_is_name(const char *link);

/* Opens debug files; a descriptor for us to close, or -errno. */
struct debug_opener {
	int (*open)(void *ctx, const struct debug_query *query);
	void *ctx;
	uint32_t n_roots; /* tried in this order; from the second on by build id only */
	int scratch;	  /* an empty file for .gnu_debugdata, left empty; -1: none */
};

/*
 * Names the @n @places of the ELF file @fd.  Sources, in this order: .symtab, the debug file by
 * build id, the one that .gnu_debuglink names, .gnu_debugdata, .dynsym.  Places change their order.
 * @id: the build id that the file must have; size 0: any. 0 or -errno; -ENOEXEC: not an ELF file;
 * -ESTALE: another build id. *unread says why a source was skipped, if it is not set yet.
 */
int elf_symbols(int fd, const struct build_id *id, const struct debug_opener *opener,
		struct elf_place *places, size_t n, enum unread *unread);

/* The symbol's name in its source form: C++ and Rust names without arguments and hashes, no symbol
 * version.  The caller's to free; NULL: out of memory. */
char *elf_demangle(const char *symbol);

#endif
