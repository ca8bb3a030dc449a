/* SPDX-License-Identifier: GPL-2.0-or-later */
/* COMMAND, forked and held until it may exec. */
#ifndef IOTRACE_CORE_ISOLATION_CHILD_H
#define IOTRACE_CORE_ISOLATION_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"

/* Sets our disposition of @signo to SIG_IGN or SIG_DFL; commands get the disposition that we were
 * started with. */
void child_set_signal(int signo, void (*disposition)(int));

/* A command that is held just before its exec until tracing runs. */
struct child {
	pid_t pid;	/* 0: none */
	int release_fd; /* writing a byte lets it go */
	int exec_fd;	/* a failed exec writes its errno here */
};

/* Forks; the new process waits.  @argv ends with NULL.  The command gets the signal mask @mask (may
 * be NULL).  @to_stderr: its standard output is standard error. -errno with @err filled. */
int child_start(char *const *argv, const void *mask, bool to_stderr, struct child *out,
		struct error *err);

/* Lets it exec. -errno with @err (the exec failed: no such file, not executable), then it is
 * already gone. *status gets 127 or 126 like env(1). */
int child_release(struct child *c, const char *name, int *status, struct error *err);

/*
 * Follows the command through the work of its dynamic loader. child_seize() before child_release():
 * false if that is not possible, or would change the command (set-user-ID, or traced by a process
 * without CAP_SYS_PTRACE). child_follow() afterwards: calls @look when the command has begun, and
 * after each system call that mapped code, while the command is stopped; then lets it go, when
 * @look returns true, and after CHILD_FOLLOW_MS in any case.  @ip: its instruction pointer.
 */
#define CHILD_FOLLOW_MS 5000
bool child_seize(const struct child *c);
void child_follow(const struct child *c,
		  bool (*look)(void *ctx, pid_t pid, uint64_t ip, bool mapped), void *ctx);

/* Has it ended?  Then true, and *status is its exit status, 128 + N for signal N. */
bool child_ended(struct child *c, int *status);

/* Kills a command that was not released.  NULL and an unused one are fine. */
void child_discard(struct child *c);

#endif
