/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_CHILD_H
#define IOTRACE_CORE_SYSTEM_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/base/error.h"

/* Sets what @signo does to us, by SIG_IGN or SIG_DFL; commands get what we were started with. */
void child_set_signal(int signo, void (*disposition)(int));

/* A command that is held just before its exec until tracing runs. */
struct child {
	pid_t pid;	/* 0: none */
	int release_fd; /* writing a byte lets it go */
	int exec_fd;	/* the errno of an exec that failed is read from it */
};

/* Forks; the new process waits.  @argv ends with NULL. The signal mask @mask (may be NULL) is
 * what the command gets.  @to_stderr: its standard output is standard error.  -errno with @err
 * filled. */
int child_start(char *const *argv, const void *mask, bool to_stderr, struct child *out,
		struct error *err);

/* Lets it exec.  -errno with @err (the exec failed: no such file, not
 * executable), then it is gone already.  *status gets 127 or 126 as in env(1). */
int child_release(struct child *c, const char *name, int *status, struct error *err);

/* Has it ended?  Then true, and *status is its exit status, 128 + N for signal N. */
bool child_ended(struct child *c, int *status);

/* Ends one that was not released.  NULL and an unused one are fine. */
void child_discard(struct child *c);

#endif
