// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/report.h"
#include "core/base/clock.h"
#include "output/render.h"

_Static_assert(sizeof(sigset_t) <= sizeof(((struct run *)0)->old_mask), "room for a signal mask");

/* ---- signals ---- */

/*
 * Signals are held back and read between outputs.  While an output is written they are let in:
 * a write that blocks for good, because nobody reads, must not keep SIGTERM away.
 */
static volatile sig_atomic_t came;	    /* number of the signal that came meanwhile */
static volatile sig_atomic_t from_terminal; /* sent by the kernel: a key */

static void on_signal(int signo, siginfo_t *info, void *context)
{
	(void)context;
	if (signo != SIGALRM) {
		came = signo;
		from_terminal = info->si_code == SI_KERNEL;
	}
	/* stdio tries again after a write that was cut short: wake it until it gives up. */
	alarm(1);
}

/*
 * The signals that end a run.  SIGHUP is left ignored: that is nohup's way to say so.  SIGINT is
 * not: shells without job control start a background job with SIGINT ignored, so that a key does
 * not end it, but who sends a signal to us means it.
 */
static void watch_signals(sigset_t *watched)
{
	struct sigaction hangup;

	sigemptyset(watched);
	sigaddset(watched, SIGINT);
	sigaddset(watched, SIGTERM);
	if (!sigaction(SIGHUP, NULL, &hangup) && hangup.sa_handler != SIG_IGN)
		sigaddset(watched, SIGHUP);
}

/* After COMMAND was forked: a signal that it holds back until its exec must not run our handler. */
static void handle_signals(const sigset_t *watched)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	came = 0;
	/* The alarm ends a blocked write; the signal itself leaves it a second. */
	sigaction(SIGALRM, &action, NULL);
	action.sa_flags |= SA_RESTART;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigismember(watched, signals[i]) == 1)
			sigaction(signals[i], &action, NULL);
}

int run_begin(struct run *run, const struct args *args, struct error *err)
{
	sigset_t watched, mask, old_mask;
	int r;

	memset(run, 0, sizeof(*run));
	run->args = args;
	run->collect_ms = 1000;
	run->child.release_fd = run->child.exec_fd = run->timer_fd = -1;
	child_set_signal(SIGCHLD,
			 SIG_DFL); /* inherited as ignored, it would never tell of COMMAND's end */
	watch_signals(&watched);
	mask = watched;
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, &old_mask);
	memcpy(run->old_mask, &old_mask, sizeof(old_mask));
	run->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (run->signal_fd < 0)
		return error_set(err, STATUS_FAILED, -errno, "signalfd: %s", strerror(errno));
	r = args->command
		? child_start(args->command, &old_mask, args->stdout_is_data, &run->child, err)
		: 0;
	handle_signals(&watched);
	sigaddset(&watched,
		  SIGALRM); /* let in with the others: it may be held back by who started us */
	memcpy(run->watched, &watched, sizeof(watched));
	return r;
}

/*
 * Does this signal end the trace?  With a COMMAND, the end is COMMAND's: a key was sent to both of
 * us, and COMMAND knows what it means; what was sent to us alone is passed on, the first time.
 */
static bool stops(struct run *run, int signo, bool key)
{
	if (signo == SIGHUP && run->hangup) {
		run->hung_up = true;
		return false;
	}
	if (!run->child.pid)
		return true;
	if (key)
		return false;
	if (run->asked++ == 0) {
		kill(run->child.pid, signo);
		return false;
	}
	fprintf(stderr, "iotrace: the command (pid %d) is still running\n", (int)run->child.pid);
	run->status = 128 + signo;
	return true;
}

/* Handles what came: true when the trace is to end. */
static bool take_signals(struct run *run)
{
	struct signalfd_siginfo info;
	bool stop = false;

	if (came) {
		stop = stops(run, came, from_terminal);
		came = 0;
	}
	while (!stop && read(run->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGCHLD)
			stop = stops(run, (int)info.ssi_signo, info.ssi_code == SI_KERNEL);
	return stop;
}

/* ---- outputs ---- */

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

void run_set_interval(struct run *run, uint64_t first_ns, uint64_t ns)
{
	const struct itimerspec spec = {
		.it_interval = { (time_t)(ns / NS_PER_SEC), (long)(ns % NS_PER_SEC) },
		.it_value = { (time_t)(first_ns / NS_PER_SEC), (long)(first_ns % NS_PER_SEC) },
	};

	timerfd_settime(run->timer_fd, 0, &spec, NULL);
}

#define COLLECT_LEAST_MS 20

void run_adapt(struct run *run, unsigned int longest_ms, const struct run_fill *fills, size_t n)
{
	bool full = false, empty = true;
	unsigned int ms = run->collect_ms;

	for (size_t i = 0; i < n; i++) {
		full |= fills[i].used > fills[i].room / 2;
		empty &= fills[i].used < fills[i].room / 8;
	}
	if (full)
		ms = ms / 2 > COLLECT_LEAST_MS ? ms / 2 : COLLECT_LEAST_MS;
	else if (empty)
		ms = ms < longest_ms / 2 ? ms * 2 : longest_ms;
	run->collect_ms = ms;
}

enum wake {
	WAKE_OUTPUT,
	WAKE_COLLECT,
	WAKE_INPUT,
	WAKE_HANGUP,
	WAKE_STOP,
	WAKE_CHILD,
	WAKE_NO_READER,
};

/* Standard output if somebody reads it who may go away, else -1.  A write would tell, but there
 * may be nothing to write for hours. */
static int reader_fd(const struct run *run)
{
	struct stat st;

	if (run->stdout_unused || fstat(STDOUT_FILENO, &st))
		return -1;
	return S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) ? STDOUT_FILENO : -1;
}

static enum wake wait_event(struct run *run, const struct run_emit *emit)
{
	const int reader = reader_fd(run);
	struct pollfd fds[] = { { run->signal_fd, POLLIN, 0 },
				{ run->timer_fd, POLLIN, 0 },
				{ run->input ? STDIN_FILENO : -1, POLLIN, 0 },
				{ reader, 0, 0 } }; /* POLLERR or POLLHUP, unasked for */
	uint64_t ticks;

	for (;;) {
		int n;

		if (take_signals(run))
			return WAKE_STOP;
		if (child_ended(&run->child, &run->status))
			return WAKE_CHILD;
		if (run->hung_up)
			return WAKE_HANGUP;
		if (reader >= 0 && render_nobody_reads(stdout))
			return WAKE_NO_READER;
		if (read(run->timer_fd, &ticks, sizeof(ticks)) == sizeof(ticks))
			return WAKE_OUTPUT;
		n = poll(fds, 4, emit->collect ? (int)run->collect_ms : -1);
		if (n == 0)
			return WAKE_COLLECT;
		if (n < 0 && errno != EINTR)
			return WAKE_STOP;
		/* A signal that is let in: the terminal has another size. */
		if (run->input && (n < 0 || fds[2].revents))
			return WAKE_INPUT;
	}
}

bool run_is_due(const struct run *run)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct pollfd timer = { run->timer_fd, POLLIN, 0 };
	sigset_t watched, pending;
	siginfo_t ended = { 0 };

	memcpy(&watched, run->watched, sizeof(watched));
	if (sigpending(&pending) == 0)
		for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
			if (sigismember(&watched, signals[i]) == 1 &&
			    sigismember(&pending, signals[i]) == 1)
				return true;
	if (run->child.pid &&
	    !waitid(P_PID, (id_t)run->child.pid, &ended, WEXITED | WNOHANG | WNOWAIT) &&
	    ended.si_pid)
		return true;
	return poll(&timer, 1, 0) > 0 || (reader_fd(run) >= 0 && render_nobody_reads(stdout));
}

int run_guarded(struct run *run, int (*output)(void *ctx), void *ctx)
{
	sigset_t watched, before;
	int r;

	memcpy(&watched, run->watched, sizeof(watched));
	sigprocmask(SIG_UNBLOCK, &watched, &before);
	r = output(ctx);
	sigprocmask(SIG_SETMASK, &before, NULL);
	alarm(0); /* not before: one more signal would set it again */
	if (r != -EINTR || !came)
		return r;
	/* What is still buffered would block again when the program ends. */
	__fpurge(stdout);
	run->stuck = true;
	return 0;
}

struct one_output {
	const struct run_emit *emit;
	bool last;
	struct error *err;
};

static int emit_one(void *ctx)
{
	struct one_output *one = ctx;

	return one->emit->emit(one->emit->ctx, one->last, one->err);
}

/* Whether there is an output now: RUN_GO_ON, RUN_OUTPUT, RUN_STOP (the last one), or -errno. */
static int handle(struct run *run, const struct run_emit *emit, enum wake wake, struct error *err)
{
	switch (wake) {
	case WAKE_COLLECT:
		return emit->collect ? emit->collect(emit->ctx, err) : 0;
	case WAKE_INPUT:
		return run->input(emit->ctx, err);
	case WAKE_HANGUP:
		run->hung_up = false;
		return run->hangup(emit->ctx, err);
	case WAKE_OUTPUT:
	case WAKE_STOP:
	case WAKE_CHILD:
	case WAKE_NO_READER:
		break;
	}
	return RUN_OUTPUT;
}

/* All outputs.  0 or -errno as of run_emit. */
static int produce(struct run *run, const struct run_emit *emit, struct error *err)
{
	uint64_t done = 0;
	bool last = false;
	int r = 0;

	while (r >= 0 && !last && !run->stuck) {
		enum wake wake = wait_event(run, emit);

		r = handle(run, emit, wake, err);
		if (r < 0 || r == RUN_GO_ON)
			continue;
		run->stopped = wake == WAKE_STOP;
		last = r == RUN_STOP || wake == WAKE_STOP || wake == WAKE_CHILD ||
		       wake == WAKE_NO_READER ||
		       (wake == WAKE_OUTPUT && ++done == run->args->count);
		run->partial = last && wake != WAKE_OUTPUT && wake != WAKE_CHILD;
		r = run_guarded(run, emit_one, &(struct one_output){ emit, last, err });
	}
	return r;
}

/* The outputs are through, COMMAND may not be: its status is ours. */
static void await_command(struct run *run)
{
	struct pollfd fd = { run->signal_fd, POLLIN, 0 };

	for (;;) {
		/* one that was let in during the last output is not in the descriptor */
		run->stopped = run->stopped || take_signals(run);
		if (run->stopped || !run->child.pid || child_ended(&run->child, &run->status))
			return;
		poll(&fd, 1, 1000);
	}
}

struct one_start {
	const struct run_emit *emit;
	struct error *err;
};

static int start_one(void *ctx)
{
	struct one_start *one = ctx;

	return one->emit->start ? one->emit->start(one->emit->start_ctx, one->err) : 0;
}

/* Lets COMMAND go, if there is one: false if it cannot be run, which is reported. */
static bool let_go(struct run *run)
{
	struct error err;

	if (!run->child.pid || run->child.release_fd < 0 ||
	    !child_release(&run->child, run->args->command[0], &run->status, &err))
		return true;
	report_error(&err);
	return false;
}

/* COMMAND was forked before, and has what it would have without us. */
static int drop_privileges(const struct run *run, struct error *err)
{
	uint64_t keeps = run->keeps;

	if (run->args->command)
		keeps |= PRIVILEGES_COMMAND;
	if (run->args->record)
		keeps |= PRIVILEGES_FILE;
	return privileges_drop(keeps, err);
}

static int report_failure(int r, const struct error *err)
{
	return !r ? STATUS_OK : err->status != STATUS_OK ? report_error(err) : report_output(r);
}

int run_loop(struct run *run, const struct run_emit *emit)
{
	struct error err = { .status = STATUS_OK };
	int r = start_timer(run), failed;

	if (r) {
		error_set(&err, STATUS_FAILED, r, "cannot set a timer: %s", strerror(-r));
		return report_error(&err);
	}
	if (run->args->output && !let_go(run))
		return run->status;
	r = run_guarded(run, start_one, &(struct one_start){ emit, &err });
	if ((r || run->stuck) && run->child.release_fd >= 0)
		return report_failure(r, &err); /* COMMAND is not run */
	if (!let_go(run))
		return run->status;
	if (!r)
		r = drop_privileges(run, &err);
	if (!r)
		r = produce(run, emit, &err);
	failed = report_failure(r, &err);
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
