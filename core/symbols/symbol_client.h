/* SPDX-License-Identifier: GPL-2.0-or-later */
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
 * Names of functions, as a helper process reads them (core/symbols/symbol_server.h): files are
 * opened here and read there.  The helper may be taken over by a file that it reads.  Its
 * answers are checked; a helper that answers wrongly, takes too long or dies is ended, and another
 * is started.  It is also ended after each file that is not root's own, so that such a file can
 * name no other file's functions.
 */
struct symbol_client;

struct symbol_client_config {
	/* Starts a helper that serves on @socket, which stays the caller's: its pid, or -errno. */
	pid_t (*start)(int socket);
	uint64_t cpu_ns, wall_ns; /* that a request may take; CPU time of the helper */
	/* When files that are not root's own have failed for this long in total, each of them may
	 * take only a 20th of the above, so that one user's files do not block the others'. */
	uint64_t failed_ns;
	/* In a hurry: the time for all files that are not root's own, and how long the helper may
	 * make no progress with one of root's. */
	uint64_t hurry_ns;
	/* Called while the helper is waited for, about every 20 ms: does urgent work, and returns
	 * whether there is a hurry.  It must not use the client.  NULL: there is none. */
	bool (*wait)(void *ctx);
	void *ctx;
};

/* The configuration that symbol_client_open() uses for NULL. */
extern const struct symbol_client_config symbol_client_default;

/* 0, or -errno: there is no helper, or no sandbox for it. */
int symbol_client_open(const struct symbol_client_config *config, struct symbol_client **out);
void symbol_client_close(struct symbol_client *c);

/* Descriptors that it may come to hold. */
#define SYMBOL_CLIENT_FILES 8

struct symbol_place {
	uint64_t at;	  /* offset in the file; address in a perf map */
	uint64_t address; /* in the file's own numbering; UINT64_MAX: not mapped from it */
	const char *name; /* NULL; or good until the next request */
};

/* An ELF file, opened by core/isolation/open_regular.h, and where its debug file may be. */
struct symbol_file {
	struct opened_file file; /* the caller's */
	struct build_id id;	 /* that it must have; size 0: any */
	const char *path;	 /* absolute, in each of @roots (O_PATH) */
	const int *roots;
	size_t n_roots; /* at most 4 */
};

/* Names the @n @places.  0, or -errno with nothing named: -ENOEXEC: no ELF file; -ESTALE: another
 * build id; -EAGAIN: there is a hurry, and other files used up the time; -EIO: it could not be
 * read. */
int symbol_client_elf(struct symbol_client *c, const struct symbol_file *file,
		      struct symbol_place *places, size_t n);

/* The same for perf map @file, which is called @path, from where it stands; @places are sorted. */
int symbol_client_perf_map(struct symbol_client *c, const struct opened_file *file,
			   const char *path, struct symbol_place *places, size_t n);

/* The table of @file, which unwind_table_free() frees.  -errno as symbol_client_elf(); -ENOENT: it
 * has none; -E2BIG: it is larger than a table may be. */
int symbol_client_unwind(struct symbol_client *c, const struct symbol_file *file,
			 struct unwind_table *out);

/* CPU time that helpers have used for requests so far, and for their start. */
uint64_t symbol_client_cpu_ns(const struct symbol_client *c);

/* Files that were not fully read: damaged, too large, or hostile; each is counted once. */
uint64_t symbol_client_unread(const struct symbol_client *c);

struct symbol_unread {
	char *path;   /* chosen by another user: escape it */
	char why[96]; /* "reading it took more than 5 s of CPU time" */
};

#define SYMBOL_UNREAD_FILES 16

/* The first of them, SYMBOL_UNREAD_FILES at most; their number.  Good until the next request. */
size_t symbol_client_unread_files(const struct symbol_client *c, const struct symbol_unread **out);

#endif
