// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/guard.h"
#include "core/base/array.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t pending_signal; /* its number, 0: none */
static volatile sig_atomic_t from_terminal;  /* sent by the kernel: a key */
static volatile sig_atomic_t gave_up_output;
static volatile sig_atomic_t guards_output;

static struct {
	bool active;
	unsigned int depth;
	int null_fd;
	sigset_t watched; /* and SIGALRM, which our parent process may have blocked */
	sigset_t before;
} guard = { .null_fd = -1 };

/* True if @fd accepts nothing now: then it is /dev/null. */
static bool give_up(int fd)
{
	struct pollfd full = { fd, POLLOUT, 0 };

	return poll(&full, 1, 0) == 0 && dup2(guard.null_fd, fd) >= 0;
}

void guard_ends(void)
{
	signal(SIGTTOU, SIG_IGN);
}

static void on_signal(int signo, siginfo_t *info, void *context)
{
	const int saved = errno;

	(void)context;
	if (signo != SIGALRM) {
		pending_signal = signo;
		from_terminal = info->si_code == SI_KERNEL;
		guard_ends();
	} else {
		give_up(STDERR_FILENO);
		if (guards_output && give_up(STDOUT_FILENO))
			gave_up_output = true;
	}
	/* stdio tries again after a write that was cut short: wake it until it gives up. */
	alarm(1);
	errno = saved;
}

void guard_init(const sigset_t *watched)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	guard_end();
	pending_signal = gave_up_output = guards_output = 0;
	/* The alarm ends a blocked write; the signal itself leaves it a second. */
	sigaction(SIGALRM, &action, NULL);
	action.sa_flags |= SA_RESTART;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (sigismember(watched, signals[i]) == 1)
			sigaction(signals[i], &action, NULL);
	guard.null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	guard.watched = *watched;
	sigaddset(&guard.watched, SIGALRM);
	guard.active = true;
}

void guard_enter(enum guard_what what)
{
	if (!guard.active || guard.depth++)
		return;
	guards_output = what == GUARD_OUTPUT;
	/* A signal before this write cannot interrupt it: SIGALRM does, in a second. */
	if (pending_signal)
		alarm(1);
	sigprocmask(SIG_UNBLOCK, &guard.watched, &guard.before);
}

void guard_leave(void)
{
	if (!guard.active || --guard.depth)
		return;
	sigprocmask(SIG_SETMASK, &guard.before, NULL);
	alarm(0); /* not before: one more signal would set it again */
}

bool guard_take(int *signo, bool *key)
{
	if (!pending_signal)
		return false;
	*signo = pending_signal;
	*key = from_terminal;
	pending_signal = 0;
	return true;
}

bool guard_is_interrupted(void)
{
	return pending_signal;
}

bool guard_gave_up_output(void)
{
	return gave_up_output;
}

void guard_end(void)
{
	if (!guard.active)
		return;
	guard.active = false;
	guard.depth = 0;
	sigprocmask(SIG_UNBLOCK, &guard.watched, NULL);
	if (guard.null_fd >= 0)
		close(guard.null_fd);
	guard.null_fd = -1;
}
