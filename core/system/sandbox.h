/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_SANDBOX_H
#define IOTRACE_CORE_SYSTEM_SANDBOX_H

#include <stddef.h>

/* What a process may use that has given up all else. */
struct sandbox {
	const char *name; /* in ps, at most 15 characters */
	size_t memory;	  /* bytes of address space beside what it has now */
	size_t files;	  /* descriptors */
	size_t file_size; /* bytes of a file that it writes: of one in memory */
};

/*
 * Leaves this process what parsing takes: descriptors that it has or is sent, memory, the clock.
 * No capability, no path, no new process, no code that is made; it cannot be traced, dumps no core,
 * and ends with its parent.  Another system call than those needed ends it (SIGSYS).  0, or -errno:
 * then it must not parse.
 */
int sandbox_enter(const struct sandbox *sandbox);

#endif
