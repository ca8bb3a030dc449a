/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_ISOLATION_SANDBOX_H
#define IOTRACE_CORE_ISOLATION_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

/* The resources of a sandboxed process. */
struct sandbox {
	const char *name; /* in ps, at most 15 characters */
	size_t memory;	  /* bytes of address space beside what it has now */
	size_t files;	  /* descriptors */
	size_t file_size; /* bytes of a file that it writes: of one in memory */
};

/*
 * Restricts this process to what parsing needs: its descriptors, those that it is sent, memory, the
 * clock.  No capabilities, no opening of paths, no new files or shared memory, no new processes, no
 * signals, leases or locks, no new executable code; it cannot be traced, dumps no core, and ends
 * with its parent.  Another system call than those needed ends it (SIGSYS).
 * 0, or -errno: then it must not parse.
 */
int sandbox_enter(const struct sandbox *sandbox);

/* Nobody but root may trace this process or read its memory: it may have capabilities that its
 * user has not. */
void sandbox_hide(void);

/*
 * Restricts this process, which goes on to show what others have written, to its open files, files
 * that all may read, and the terminal: no capabilities, no other file to write to, no programs,
 * processes, sockets; other system calls fail.  Root becomes nobody, unless it @finishes_files: to
 * rename a file it may need its rights.  -errno with @err: then it must not be shown.
 */
int sandbox_view(bool finishes_files, struct error *err);

#endif
