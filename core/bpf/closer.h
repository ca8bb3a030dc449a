/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_CLOSER_H
#define IOTRACE_CORE_BPF_CLOSER_H

#include <sys/types.h>

/*
 * To detach a program takes 10 to 100 ms: the kernel waits for all CPUs, for one program after the
 * other.  The closer is a process that shares our descriptors and does nothing but close them.  So
 * whatever ends us, an output that is complete, a signal while programs are being attached, a
 * SIGKILL, ends us at once; the closer then closes what is left, standard streams and files first,
 * and ends.  Its capabilities are those that @after needs.
 *
 * One per process; processes that we fork have descriptors of their own.
 */

/*
 * Starts it, if it does not run yet, before anything is attached.  @after (may be NULL) is called
 * in it when all is closed, with our process id.  If no process can be made there is none: then
 * closing takes its time.
 */
void closer_start(void (*after)(pid_t of));

/* Closes @fd, which is the caller's no more: later, if there is a closer. */
void closer_close(int fd);

/* The last thing before exit(): the standard streams are flushed and, with a closer, closed, which
 * is what their readers wait for. */
void closer_end(void);

#endif
