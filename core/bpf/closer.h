/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_CLOSER_H
#define IOTRACE_CORE_BPF_CLOSER_H

#include <sys/types.h>

/*
 * Detaching a program takes 10 to 100 ms: the kernel waits for all CPUs, for one program after the
 * other.  The closer is a process that shares our descriptors and only closes them.
 *
 * So whatever ends us (a complete output, a signal while programs are being attached, a SIGKILL)
 * ends us at once; the closer then closes the remaining descriptors, standard streams and files
 * first, and ends.  Its capabilities are the ones that @after needs.  One per process; processes
 * that we fork have descriptors of their own.
 */

/*
 * Starts the closer, if it does not run yet, before anything is attached.  @after (may be NULL) is
 * called in it when all is closed, with our process id.  If fork fails there is no closer: then
 * closing takes its time.
 */
void closer_start(void (*after)(pid_t of));

/* Closes @fd, which the caller must not use any more: later, if there is a closer. */
void closer_close(int fd);

/* Called last before exit(): the standard streams are flushed and, with a closer, closed, since
 * their readers wait for that. */
void closer_end(void);

#endif
