/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A process that answers iotrace stuck while disks hang. */
#ifndef IOTRACE_CMD_EXPORT_RESIDENT_H
#define IOTRACE_CMD_EXPORT_RESIDENT_H

#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"

/*
 * When the root file system hangs, no program can be started any more: even one that is in the page
 * cache has its time of access written.  So a process of its own ("iotrace-stuck") has the programs
 * of iotrace stuck loaded, and all its memory locked.  It answers with their text
 * - at a named pipe, which a shell reads by itself: while read -r line; do echo "$line"; done <PIPE
 * - at a unix socket, PIPE.sock: connecting is the question.
 * It waits for nothing else than its readers, neither for this process nor for standard error; for
 * names, which are in files, half a second.
 */
struct resident {
	pid_t pid;    /* 0: none */
	int lifeline; /* it ends when this is closed, by whatever end of this process */
	int ended;    /* POLLHUP: it has ended, or was killed */
	struct server *server;
};

/* Only root and this user may ask; at the same time: */
#define RESIDENT_CLIENTS 4
#define RESIDENT_TEXT	 (1U << 20) /* bytes of an answer; the rest is cut off */
#define RESIDENT_SECONDS 10	    /* for a reader to take it */

/* @path: of the pipe; NULL: none.  @log_ns: a line goes to the kernel's log when a request is
 * older; 0: none.  Call before anything is opened. 0, or -errno with @err. */
int resident_start(const char *path, uint64_t log_ns, struct resident *out, struct error *err);
void resident_end(struct resident *r);

#endif
