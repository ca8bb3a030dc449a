/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of user frames, by number; opens them, also below the root directories of containers;
 * reads /proc/PID/maps.
 */
#ifndef IOTRACE_CORE_SYMBOLS_CODE_FILES_H
#define IOTRACE_CORE_SYMBOLS_CODE_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/intern.h"
#include "core/isolation/open_regular.h"
#include "probes/unwind.h"

/* The files that contain frames of user stacks, by number; and where they are found: in our own
 * root directory, and in the roots of containers and chroots, which are kept open, since their
 * processes come and go. */
struct code_file {
	uint32_t number;  /* unwind_number() */
	uint32_t pid;	  /* a process that has, or had, it mapped */
	uint64_t address; /* at this address */
	struct unwind_file_key key;
};

/* Its path in the root directory of that process; "": unknown. */
static inline const char *code_file_path(const struct code_file *file)
{
	return (const char *)(file + 1);
}

#define CODE_FILES_ROOTS 64

struct code_root {
	struct root_id id;
	int fd; /* -errno: it cannot be opened */
};

struct code_files {
	struct intern all; /* struct code_file */
	struct code_root own;
	struct code_root roots[CODE_FILES_ROOTS];
	size_t n_roots, next_root;
	__u64 seed[4];				  /* of numbers */
	int find_key;				  /* descriptor of the program; -1: none */
	const struct unwind_file_key *mapped_key; /* its result */
	uint64_t full;				  /* files beyond CODE_FILES_MAX */
};

#define CODE_FILES_MAX 16384

/* The most descriptors that it holds. */
#define CODE_FILES_DESCRIPTORS (CODE_FILES_ROOTS + 1)

/* The caller sets the fields of the walker (seed, find_key, mapped_key). */
void code_files_open(struct code_files *f);
void code_files_close(struct code_files *f);

/* Forgets all files, but no root. */
void code_files_clear(struct code_files *f);

/* Adds file @number, which a stack was the first to pass through. 0 or -ENOMEM, -ENOSPC. */
int code_files_want(struct code_files *f, uint32_t number, const struct unwind_wanted *wanted);

/* NULL: unknown.  Valid until the next file is added. */
const struct code_file *code_files_get(const struct code_files *f, uint32_t number);

/* A mapping of code of a process. */
struct code_mapping {
	uint64_t start, end;
	dev_t dev;
	ino_t ino;
	bool in_file; /* false: memory, also of memfd_create() */
	const char *path;
};

/* Calls @each for each mapping of code in /proc/PID/maps, until it returns another value than 0.
 * -errno: the process is gone, or access is denied. */
int code_mappings_each(uint32_t pid, int (*each)(void *ctx, const struct code_mapping *m),
		       void *ctx);

/* Opens the file mapped there, if allowed, and adds it under *number. 0 with *@out, which
 * opened_file_close() closes, or -errno. */
int code_files_open_mapped(struct code_files *f, uint32_t pid, const struct code_mapping *m,
			   struct opened_file *out, uint32_t *number);

/* One search.  Files may be added during it. */
struct code_search {
	const struct code_files *files;
	struct code_file of;
	char path[PATH_MAX]; /* its path */
	int process_root;    /* -errno: it is our own root, or the process has ended */
	int kept_root;	     /* -errno; its own descriptor */
	int root;	     /* the root in which the file was found */
};

/*
 * Opens file @of: at its path in the root directory of the process, in ours, in the kept ones,
 * otherwise through the process's mapping.  In another root than ours it is untrusted. 0 with
 * *@out, which opened_file_close() closes, or -ENOENT. code_search_end() in both cases.
 */
int code_search(struct code_search *search, const struct code_files *files,
		const struct code_file *of, struct opened_file *out);
void code_search_end(struct code_search *search);

/* The roots to search for its debug file, in this order; their number.  Valid until
 * code_search_end(). */
size_t code_search_roots(const struct code_search *search, int roots[2]);

#endif
