// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "cmd/report.h"
#include "core/clock.h"

_Static_assert(sizeof(sigset_t) <= sizeof(((struct run *)0)->old_mask), "room for a signal mask");

int run_begin(struct run *run, const struct args *args, struct error *err)
{
	sigset_t mask;
	int r;

	memset(run, 0, sizeof(*run));
	run->args = args;
	run->child.release_fd = run->child.exec_fd = run->timer_fd = -1;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL); /* inherited as ignored, it would never tell of COMMAND's end */
	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, (sigset_t *)run->old_mask);
	run->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (run->signal_fd < 0)
		return error_set(err, STATUS_FAILED, -errno, "signalfd: %s", strerror(errno));
	if (args->command) {
		r = child_start(args->command, run->old_mask, &run->child, err);
		if (r)
			return r;
	}
	return 0;
}

static int start_timer(struct run *run)
{
	uint64_t ns = run->args->interval_ns;
	struct itimerspec spec = {
		.it_interval = { (time_t)(ns / NS_PER_SEC), (long)(ns % NS_PER_SEC) },
	};

	spec.it_value = spec.it_interval;
	run->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (run->timer_fd < 0)
		return -errno;
	/* A value of 0 leaves it disarmed: one output, at the end. */
	return timerfd_settime(run->timer_fd, 0, &spec, NULL) ? -errno : 0;
}

enum wake { WAKE_TIMER, WAKE_STOP, WAKE_CHILD };

/*
 * A signal to end.  With a COMMAND, the end is COMMAND's: what was sent to us alone is passed on
 * (a terminal sends SIGINT to both); the second one ends the trace anyhow.
 */
static bool stops(struct run *run, const struct signalfd_siginfo *info, int *asked)
{
	if (!run->child.pid || ++*asked > 1)
		return true;
	if (info->ssi_signo != SIGINT || info->ssi_code != SI_KERNEL)
		kill(run->child.pid, (int)info->ssi_signo);
	return false;
}

static enum wake wait_event(struct run *run, int *asked)
{
	struct pollfd fds[] = { { run->signal_fd, POLLIN, 0 }, { run->timer_fd, POLLIN, 0 } };
	struct signalfd_siginfo info;
	uint64_t ticks;

	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return WAKE_STOP;
		while (read(run->signal_fd, &info, sizeof(info)) == sizeof(info)) {
			if (info.ssi_signo == SIGCHLD) {
				if (child_ended(&run->child, &run->status))
					return WAKE_CHILD;
			} else if (stops(run, &info, asked)) {
				return WAKE_STOP;
			}
		}
		if (read(run->timer_fd, &ticks, sizeof(ticks)) == sizeof(ticks))
			return WAKE_TIMER;
	}
}

/* All outputs.  0 or -errno as of run_emit. */
static int produce(struct run *run, const struct run_emit *emit, struct error *err)
{
	uint64_t done = 0;
	bool last = false;
	int asked = 0, r = 0;

	while (!r && !last) {
		enum wake wake = wait_event(run, &asked);

		run->stopped = wake == WAKE_STOP;
		last = wake != WAKE_TIMER || ++done == run->args->count;
		r = emit->emit(emit->ctx, last, err);
	}
	return r;
}

/* The outputs are through, COMMAND may not be: its status is ours. */
static void await_command(struct run *run)
{
	struct pollfd fd = { run->signal_fd, POLLIN, 0 };
	struct signalfd_siginfo info;

	while (!run->stopped && run->child.pid && !child_ended(&run->child, &run->status)) {
		poll(&fd, 1, 1000);
		while (read(run->signal_fd, &info, sizeof(info)) == sizeof(info))
			if (info.ssi_signo != SIGCHLD)
				return;
	}
}

int run_loop(struct run *run, const struct run_emit *emit)
{
	struct error err = { .status = STATUS_OK };
	int r = start_timer(run), failed;

	if (r) {
		error_set(&err, STATUS_FAILED, r, "cannot set a timer: %s", strerror(-r));
		return report_error(&err);
	}
	if (run->child.pid &&
	    child_release(&run->child, run->args->command[0], &run->status, &err)) {
		report_error(&err);
		return run->status;
	}
	r = produce(run, emit, &err);
	if (r && err.status != STATUS_OK)
		return report_error(&err);
	failed = r ? report_output(r) : STATUS_OK;
	await_command(run);
	return failed ? failed : run->status;
}

void run_end(struct run *run)
{
	if (run->child.release_fd >= 0)
		child_discard(&run->child);
	if (run->signal_fd >= 0)
		close(run->signal_fd);
	if (run->timer_fd >= 0)
		close(run->timer_fd);
}
