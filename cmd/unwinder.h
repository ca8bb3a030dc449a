/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_UNWINDER_H
#define IOTRACE_CMD_UNWINDER_H

#include <stdbool.h>

#include "core/base/intern.h"
#include "core/bpf/unwind_store.h"
#include "core/symbols/address_spaces.h"
#include "core/symbols/symbol_client.h"

/* On other processors user stacks are those that the kernel finds by frame pointers. */
#if defined(__x86_64__) || defined(__aarch64__)
#define UNWINDER_HAS_TABLES 1
#else
#define UNWINDER_HAS_TABLES 0
#endif

/* What there is of the walker, the caller's. */
struct unwind_probe {
	struct unwind_maps maps;
	int wanted;				  /* descriptor of the map */
	int find_key;				  /* descriptor of the program */
	const struct unwind_file_key *mapped_key; /* its answer */
};

/* A file that could not be read: its process had ended, or there was no room. */
struct unwind_retry {
	uint32_t tries;
	uint64_t drain; /* the first one at which it is tried again */
};

/* Makes the tables that the walker of user stacks asks for: files are opened here, and read in the
 * helper process. */
struct unwinder {
	struct unwind_store *store;    /* NULL: there is none */
	struct address_spaces *spaces; /* the caller's, as the next */
	struct symbol_client *symbols;
	struct unwind_probe probe;
	struct intern ids;    /* struct known_table: by build id, of files of root's own */
	uint64_t loader;      /* number of the module of COMMAND's dynamic loader; 0: not known */
	struct intern seen;   /* numbers of modules that were read for a process */
	struct intern unread; /* struct unwind_file_key */
	struct unwind_retry retries[UNWIND_WANTED]; /* by number in it */
	uint64_t drain;				    /* number of calls of unwinder_serve() */
	uint64_t emptied_ns;			    /* CLOCK_MONOTONIC; 0: never */
	bool is_full;
};

/* 0 or -errno. */
int unwinder_open(struct unwinder *u, const struct unwind_probe *probe);

/* Reads the files that are asked for.  What there is no time for is asked for again. */
void unwinder_serve(struct unwinder *u);

/* Reads the files of all that process @pid has mapped: its stacks are whole from now on. */
void unwinder_read_process(struct unwinder *u, uint32_t pid);

/* For child_follow(): reads the files of process @pid, until the first system call that its dynamic
 * loader does not make. */
bool unwinder_look(struct unwinder *u, uint32_t pid, uint64_t ip, bool mapped);

void unwinder_close(struct unwinder *u);

#endif
