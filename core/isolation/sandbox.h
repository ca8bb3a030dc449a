/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Confines the helper process, and a replay: resources, capabilities, system calls. */
#ifndef IOTRACE_CORE_ISOLATION_SANDBOX_H
#define IOTRACE_CORE_ISOLATION_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

/* The resources of a sandboxed process. */
struct sandbox {
	const char *name; /* name in ps, at most 15 characters */
	size_t memory;	  /* bytes of address space in addition to the present ones */
	size_t files;	  /* descriptors */
	size_t file_size; /* bytes of a file that it writes, including files in memory */
};

/*
 * Restricts this process to the needs of parsing: its descriptors, descriptors sent to it, memory,
 * the clock.  No capabilities, no opening of paths, no new files or shared memory, no new
 * processes, no signals, leases or locks, no new executable code; it cannot be traced, dumps no
 * core, and ends with its parent.  Any other system call ends it (SIGSYS). 0, or -errno: then it
 * must not parse.
 */
int sandbox_enter(const struct sandbox *sandbox);

/* Only root may trace this process or read its memory: it may have capabilities that its user does
 * not have. */
void sandbox_hide(void);

/*
 * Restricts this process, which goes on to show other users' data, to its open files, files that
 * all may read, and the terminal: no capabilities, no other file to write to, no programs,
 * processes, sockets; other system calls fail.  Root changes to the user nobody, unless it
 * @finishes_files: to rename a file it may need its rights. -errno with @err: then the data must
 * not be shown.
 */
int sandbox_view(bool finishes_files, struct error *err);

#endif
