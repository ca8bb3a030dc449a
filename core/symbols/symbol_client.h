/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opens files, asks the helper for names, checks its answers. */
#ifndef IOTRACE_CORE_SYMBOLS_SYMBOL_CLIENT_H
#define IOTRACE_CORE_SYMBOLS_SYMBOL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/symbols/elf_symbols.h"
#include "core/symbols/elf_unwind.h"
#include "core/isolation/open_regular.h"

/*
 * Names of functions, read by a helper process (core/symbols/symbol_server.h): files are opened
 * here and read there.  A file may take control of the helper.  Its answers are checked; a helper
 * that sends an invalid answer, takes too long or dies is ended, and another is started.  It is
 * also ended after each file that is not root's own, so that such a file cannot give names to
 * another file's functions.
 */
struct symbol_client;

struct symbol_client_config {
	/* Starts a helper that serves on @socket, which stays the caller's: its pid, or -errno. */
	pid_t (*start)(int socket);
	uint64_t cpu_ns, wall_ns; /* limit of a request; CPU time of the helper */
	/* When files that are not root's own have failed for this long in total, each of them
	 * may take only a 20th of the limits above, so that one user's files do not block the
	 * others'. */
	uint64_t failed_ns;
	/* Near the deadline: the time for all files that are not root's own, and how long the
	 * helper may make no progress with a file of root's. */
	uint64_t hurry_ns;
	/* Called while waiting for the helper, about every 20 ms: does urgent work, and returns
	 * whether the deadline is near.  It must not use the client.  NULL: none. */
	bool (*wait)(void *ctx);
	void *ctx;
};

/* The configuration that symbol_client_open() uses for NULL. */
extern const struct symbol_client_config symbol_client_default;

/* 0, or -errno: no helper, or no sandbox for it. */
int symbol_client_open(const struct symbol_client_config *config, struct symbol_client **out);
void symbol_client_close(struct symbol_client *c);

/* The most descriptors that it holds. */
#define SYMBOL_CLIENT_FILES 8

struct symbol_place {
	uint64_t at;	  /* offset in the file; address in a perf map */
	uint64_t address; /* in the file's own numbering; UINT64_MAX: not mapped from it */
	const char *name; /* NULL; or valid until the next request */
};

/* An ELF file, opened by core/isolation/open_regular.h, and possible places of its debug file. */
struct symbol_file {
	struct opened_file file; /* the caller's */
	struct build_id id;	 /* required build id; size 0: any */
	const char *path;	 /* absolute, in each of @roots (O_PATH) */
	const int *roots;
	size_t n_roots; /* at most 4 */
};

/* Names the @n @places. 0, or -errno with nothing named: -ENOEXEC: not an ELF file; -ESTALE:
 * another build id; -EAGAIN: the deadline is near, and other files used up the time; -EIO: it could
 * not be read. */
int symbol_client_elf(struct symbol_client *c, const struct symbol_file *file,
		      struct symbol_place *places, size_t n);

/* The same for perf map @file, whose path is @path, from its position on; @places are sorted. */
int symbol_client_perf_map(struct symbol_client *c, const struct opened_file *file,
			   const char *path, struct symbol_place *places, size_t n);

/* The table of @file, which unwind_table_free() frees. -errno like symbol_client_elf(); -ENOENT: it
 * has none; -E2BIG: it is too large for a table. */
int symbol_client_unwind(struct symbol_client *c, const struct symbol_file *file,
			 struct unwind_table *out);

/* CPU time of helpers for requests so far, and for their start. */
uint64_t symbol_client_cpu_ns(const struct symbol_client *c);

/* Files that were not fully read: damaged, too large, or hostile; each is counted once. */
uint64_t symbol_client_unread(const struct symbol_client *c);

struct symbol_unread {
	char *path;   /* chosen by another user: escape it */
	char why[96]; /* "reading it took more than 5 s of CPU time" */
};

#define SYMBOL_UNREAD_FILES 16

/* The first of them, SYMBOL_UNREAD_FILES at most; their number.  Valid until the next request. */
size_t symbol_client_unread_files(const struct symbol_client *c, const struct symbol_unread **out);

#endif
