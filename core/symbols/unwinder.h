/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Provides the walker with files and their tables. */
#ifndef IOTRACE_CORE_SYMBOLS_UNWINDER_H
#define IOTRACE_CORE_SYMBOLS_UNWINDER_H

#include <stdbool.h>

#include "core/base/intern.h"
#include "core/bpf/unwind_store.h"
#include "core/symbols/code_files.h"
#include "core/symbols/symbol_client.h"

/* On other processors the kernel reads user stacks by frame pointers. */
#if defined(__x86_64__) || defined(__aarch64__)
#define UNWINDER_HAS_TABLES 1
#else
#define UNWINDER_HAS_TABLES 0
#endif

/* A file that could not be read: its process had ended, or there was no room. */
struct unwind_retry {
	uint32_t tries;
	uint64_t drain; /* the round from which it is tried again */
};

/* Provides the files that the walker of user stacks passes through, and their tables: files are
 * opened here, and read in the helper process. */
struct unwinder {
	struct unwind_store *store; /* NULL: no tables */
	struct code_files *files;   /* the caller's, like the next; NULL: no user stacks */
	struct symbol_client *symbols;
	int wanted, known;    /* descriptors of the walker's maps */
	struct intern seen;   /* mappings that were read for a process: device, inode */
	struct intern unread; /* numbers of files */
	struct unwind_retry retries[UNWIND_WANTED]; /* by number in it */
	uint64_t drain;				    /* number of calls of unwinder_serve() */
	uint64_t emptied_ns;			    /* CLOCK_MONOTONIC; 0: never */
	bool is_full;
	/* COMMAND's dynamic loader, where it is mapped; dev and ino 0: unknown */
	struct code_mapping loader;
};

/* @wanted: descriptor of the map; @tables: the walker needs them. 0 or -errno. */
int unwinder_open(struct unwinder *u, const struct unwind_maps *maps, int wanted, bool tables);

/* Reads the requested files.  Files beyond the time limit are requested again. */
void unwinder_serve(struct unwinder *u);

/* For child_follow(): reads the files of process @pid, until the first system call that does not
 * come from its dynamic loader. */
bool unwinder_look(struct unwinder *u, uint32_t pid, uint64_t ip, bool mapped);

void unwinder_close(struct unwinder *u);

#endif
