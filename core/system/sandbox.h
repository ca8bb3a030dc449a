/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_SANDBOX_H
#define IOTRACE_CORE_SYSTEM_SANDBOX_H

#include <stddef.h>

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

#endif
