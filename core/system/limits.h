/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Descriptors and memory, and errors when they run out. */
#ifndef IOTRACE_CORE_SYSTEM_LIMITS_H
#define IOTRACE_CORE_SYSTEM_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

/*
 * The resource limits of the process: descriptors and memory.  A shortage of either is an error of
 * its own (STATUS_FAILED): it says nothing about the kernel's abilities, and must not be the reason
 * for another hook. libbpf does not always report it: it tests the kernel's features by loading
 * small programs and maps, and takes EMFILE for "not supported".  So the needed amounts are checked
 * before (limits_need()).
 */

/* Raises the soft limit of descriptors (RLIMIT_NOFILE) to the hard one; limits_restore() sets it
 * back, for a command that is about to be executed: a command that uses select(2) relies on it. */
void limits_raise(void);
void limits_restore(void);

/* Descriptors that are open only for a moment, and address space: the needs of any run. */
#define LIMITS_FILES  24
#define LIMITS_MEMORY (16UL << 20)

/* Are @files further descriptors and @memory further bytes available? 0, or -EMFILE, -ENOMEM with
 * @err filled. */
int limits_need(size_t files, size_t memory, struct error *err);

/* Does -errno @r mean that descriptors or memory ran out? */
bool limits_is_shortage(int r);

/* The same, or that the call was interrupted (a program's verification by a signal: EAGAIN): the
 * result may differ the next time. */
bool limits_is_passing(int r);

/* Adds the remedy for @r to @err, if it is a shortage. */
void limits_hint(int r, struct error *err);

/* The error of a shortage @r while @doing ("load the BPF programs"): fills @err, returns @r. */
int limits_error(int r, const char *doing, struct error *err);

/* Keeps all memory of the process, also what comes, where it is: it waits for no disk any more.
 * Exceptions: the BPF objects and their sources, which are needed at the start only.  Memory under
 * a limit (`ulimit -l`) that cannot be raised is not locked if it comes later. 0 or -errno. */
int limits_lock_memory(void);

#endif
