// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/engine/guard.h"
#include "cmd/cli/report.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "output/render.h"

_Static_assert(sizeof(sigset_t) <= sizeof(((struct run *)0)->watched), "room for a signal mask");

/* ---- signals ---- */

/*
 * The signals that end a run.  SIGHUP stays ignored if it was: this is how nohup works.  SIGINT
 * does not: shells without job control start a background job with SIGINT ignored, so that a key
 * does not end it, but a signal sent to us is meant for us.
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

/*
 * Does this signal end the trace?  With a COMMAND, the trace ends with COMMAND: a key was sent to
 * both, and COMMAND decides; a signal sent to us alone is passed on, the first time.
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
	report_line("the command (pid %d) is still running", (int)run->child.pid);
	run->status = 128 + signo;
	return true;
}

/* Handles the signal: true if the trace must end. */
static bool take_signals(struct run *run)
{
	struct signalfd_siginfo info;
	bool stop = false, key;
	int signo;

	if (guard_take(&signo, &key))
		stop = stops(run, signo, key);
	while (!stop && read(run->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGCHLD)
			stop = stops(run, (int)info.ssi_signo, info.ssi_code == SI_KERNEL);
	if (stop)
		guard_ends();
	return stop;
}

/* ---- outputs ---- */

/* A value of 0 leaves a timer disarmed. */
static struct itimerspec timer_spec(uint64_t first_ns, uint64_t ns)
{
	return (struct itimerspec){
		.it_interval = { (time_t)(ns / NS_PER_SEC), (long)(ns % NS_PER_SEC) },
		.it_value = { (time_t)(first_ns / NS_PER_SEC), (long)(first_ns % NS_PER_SEC) },
	};
}

/* A descriptor, or -errno with @err. */
static int make_timer(uint64_t first_ns, uint64_t ns, struct error *err)
{
	const struct itimerspec spec = timer_spec(first_ns, ns);
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), r;

	if (fd >= 0 && timerfd_settime(fd, 0, &spec, NULL) == 0)
		return fd;
	r = -errno;
	if (fd >= 0)
		close(fd);
	return error_set(err, STATUS_FAILED, r, "cannot set a timer: %s", strerror(-r));
}

static int start_timer(struct run *run, struct error *err)
{
	/* Without an interval: one output, at the end. */
	int fd = make_timer(run->interval_ns, run->interval_ns, err);

	run->timer_fd = fd;
	return fd < 0 ? fd : 0;
}

void run_set_timer(int fd, uint64_t first_ns, uint64_t ns)
{
	const struct itimerspec spec = timer_spec(first_ns, ns);

	timerfd_settime(fd, 0, &spec, NULL);
}

void run_set_interval(struct run *run, uint64_t first_ns, uint64_t ns)
{
	run_set_timer(run->timer_fd, first_ns, ns);
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

/* ---- descriptors ---- */

/* The loop's own descriptors come first in the polled set. */
enum { FD_SIGNAL, FD_TIMER, OWN_FDS };

struct run_watcher {
	run_callback *callback; /* NULL: gone */
	void *ctx;
	size_t message; /* of a timer or signal, read before the call; the descriptor is ours */
};

static struct run_watcher *find_watcher(const struct run *run, int fd, size_t *at)
{
	for (*at = OWN_FDS; *at < run->n_fds; ++*at)
		if (run->watchers[*at].callback && run->fds[*at].fd == fd)
			return &run->watchers[*at];
	return NULL;
}

/* Room for @n descriptors.  0 or -ENOMEM. */
static int grow_fds(struct run *run, size_t n)
{
	size_t room = 2 * n;
	struct run_watcher *watchers;
	struct pollfd *fds;

	if (n <= run->room_fds)
		return 0;
	fds = reallocarray(run->fds, room, sizeof(*fds));
	if (!fds)
		return -ENOMEM;
	run->fds = fds;
	watchers = reallocarray(run->watchers, room, sizeof(*watchers));
	if (!watchers)
		return -ENOMEM;
	run->watchers = watchers;
	run->room_fds = room;
	return 0;
}

static int watch(struct run *run, int fd, short events, const struct run_watcher *watcher,
		 struct error *err)
{
	size_t n = run->n_fds, at;

	if (find_watcher(run, fd, &at))
		return error_set(err, STATUS_FAILED, -EEXIST, "descriptor %d is watched already",
				 fd);
	if (grow_fds(run, n + 1))
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	run->fds[n] = (struct pollfd){ fd, events, 0 };
	run->watchers[n] = *watcher;
	run->n_fds = n + 1;
	return 0;
}

int run_watch(struct run *run, int fd, short events, run_callback *callback, void *ctx,
	      struct error *err)
{
	return watch(run, fd, events, &(struct run_watcher){ callback, ctx, 0 }, err);
}

/* Takes ownership of @fd, which may be -errno with @err. */
static int watch_own(struct run *run, int fd, const struct run_watcher *watcher, struct error *err)
{
	int r = fd < 0 ? fd : watch(run, fd, POLLIN, watcher, err);

	if (r && fd >= 0)
		close(fd);
	return r ? r : fd;
}

int run_watch_timer(struct run *run, uint64_t first_ns, uint64_t ns, run_callback *callback,
		    void *ctx, struct error *err)
{
	const struct run_watcher watcher = { callback, ctx, sizeof(uint64_t) };

	return watch_own(run, make_timer(first_ns, ns, err), &watcher, err);
}

int run_watch_signal(struct run *run, int signo, run_callback *callback, void *ctx,
		     struct error *err)
{
	const struct run_watcher watcher = { callback, ctx, sizeof(struct signalfd_siginfo) };
	sigset_t mask;
	int fd;

	sigemptyset(&mask);
	sigaddset(&mask, signo);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		fd = error_set(err, STATUS_FAILED, -errno, "signalfd: %s", strerror(errno));
	return watch_own(run, fd, &watcher, err);
}

void run_unwatch(struct run *run, int fd)
{
	size_t at;
	struct run_watcher *watcher = find_watcher(run, fd, &at);

	if (!watcher)
		return;
	if (watcher->message)
		close(fd);
	/* Other indexes are unchanged: a caller may be iterating over the set. */
	watcher->callback = NULL;
	run->fds[at].fd = -1;
}

static int on_no_reader(void *ctx, short events, struct error *err)
{
	(void)ctx;
	(void)events;
	(void)err;
	return RUN_STOP;
}

/* A write would notice, but there may be nothing to write for hours. */
int run_watch_reader(struct run *run, int fd, struct error *err)
{
	struct stat st;
	size_t at;

	if (fstat(fd, &st) || (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)) ||
	    find_watcher(run, fd, &at))
		return 0;
	/* POLLERR or POLLHUP, always reported */
	return run_watch(run, fd, 0, on_no_reader, NULL, err);
}

/* The set is as long as needed. */
static void prepare_fds(struct run *run)
{
	size_t n = OWN_FDS;

	for (size_t i = OWN_FDS; i < run->n_fds; i++) {
		if (!run->watchers[i].callback)
			continue;
		run->watchers[n] = run->watchers[i];
		run->fds[n++] = run->fds[i];
	}
	run->n_fds = n;
	run->fds[FD_SIGNAL] = (struct pollfd){ run->signal_fd, POLLIN, 0 };
	run->fds[FD_TIMER] = (struct pollfd){ run->timer_fd, POLLIN, 0 };
}

struct dispatch {
	struct run *run;
	struct error *err;
};

static int call_watcher(struct run *run, size_t i, struct error *err)
{
	const struct run_watcher *watcher = &run->watchers[i];
	const struct pollfd *fd = &run->fds[i];
	struct signalfd_siginfo message;

	if (fd->revents & POLLNVAL)
		return error_set(err, STATUS_FAILED, -EBADF, "descriptor %d was closed", fd->fd);
	/* A timer that was set again in between has not expired. */
	if (watcher->message && read(fd->fd, &message, watcher->message) < 0)
		return RUN_GO_ON;
	return watcher->callback(watcher->ctx, fd->revents, err);
}

/* Calls every watcher that is ready, once.  Returns the highest of their results, or -errno. */
static int dispatch(void *ctx)
{
	const struct dispatch *d = ctx;
	const size_t n = d->run->n_fds; /* others may be added */
	int most = RUN_GO_ON;

	for (size_t i = OWN_FDS; i < n; i++) {
		int r = RUN_GO_ON;

		if (d->run->watchers[i].callback && d->run->fds[i].revents)
			r = call_watcher(d->run, i, d->err);
		if (r < 0)
			return r;
		if (r > most)
			most = r;
	}
	return most;
}

/* ---- the loop ---- */

enum wake {
	WAKE_OUTPUT,
	WAKE_COLLECT,
	WAKE_WATCHER,
	WAKE_HANGUP,
	WAKE_STOP,
	WAKE_CHILD,
};

/* poll()'s timeout until the next collect, 0 if it is due. */
static int collect_timeout(const struct run *run)
{
	uint64_t at = run->collected_ns + run->collect_ms * (NS_PER_SEC / 1000);
	uint64_t now = clock_mono_ns();

	if (at <= now)
		return 0;
	return (int)((at - now + NS_PER_SEC / 1000 - 1) / (NS_PER_SEC / 1000));
}

/* Waits for an event.  However much is due, every ready watcher is called once before the next
 * output: work that takes longer than the interval must not delay keys or signals. *wanted: the
 * result of dispatch(). */
static enum wake wait_event(struct run *run, const struct run_emit *emit, int *wanted,
			    struct error *err)
{
	uint64_t ticks;

	for (*wanted = RUN_GO_ON;;) {
		bool tick;
		int n;

		if (take_signals(run))
			return WAKE_STOP;
		if (child_ended(&run->child, &run->status))
			return WAKE_CHILD;
		if (run->hung_up)
			return WAKE_HANGUP;
		prepare_fds(run);
		n = poll(run->fds, run->n_fds, emit->collect ? collect_timeout(run) : -1);
		if (n < 0 && errno != EINTR) {
			*wanted =
			    error_set(err, STATUS_FAILED, -errno, "poll: %s", strerror(errno));
			return WAKE_WATCHER;
		}
		if (n < 0 || run->fds[FD_SIGNAL].revents)
			continue;
		tick = run->fds[FD_TIMER].revents;
		if (n > 0)
			*wanted = run_guarded(run, dispatch, &(struct dispatch){ run, err });
		if (*wanted < 0 || *wanted == RUN_STOP || run->stuck)
			return WAKE_WATCHER;
		if (tick && read(run->timer_fd, &ticks, sizeof(ticks)) == sizeof(ticks))
			return WAKE_OUTPUT;
		if (*wanted != RUN_GO_ON)
			return WAKE_WATCHER;
		if (emit->collect && collect_timeout(run) == 0)
			return WAKE_COLLECT;
	}
}

static bool is_ready(int fd, short events)
{
	struct pollfd one = { fd, events, 0 };

	return poll(&one, 1, 0) > 0;
}

static bool signal_is_due(const struct run *run)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	sigset_t watched, pending;

	memcpy(&watched, run->watched, sizeof(watched));
	if (sigpending(&pending) == 0)
		for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
			if (sigismember(&watched, signals[i]) == 1 &&
			    sigismember(&pending, signals[i]) == 1)
				return true;
	return guard_is_interrupted();
}

bool run_is_due(const struct run *run)
{
	siginfo_t ended = { 0 };

	if (signal_is_due(run))
		return true;
	if (run->child.pid &&
	    !waitid(P_PID, (id_t)run->child.pid, &ended, WEXITED | WNOHANG | WNOWAIT) &&
	    ended.si_pid)
		return true;
	for (size_t i = OWN_FDS; i < run->n_fds; i++)
		if (is_ready(run->fds[i].fd, run->fds[i].events))
			return true;
	return is_ready(run->timer_fd, POLLIN);
}

static enum guard_what guarded_output(const struct run *run)
{
	return run->stdout_unused ? GUARD_WRITE : GUARD_OUTPUT;
}

int run_guarded(struct run *run, int (*output)(void *ctx), void *ctx)
{
	bool stuck;
	int r;

	guard_enter(guarded_output(run));
	r = output(ctx);
	guard_leave();
	stuck = guard_gave_up_output() || (r == -EINTR && guard_is_interrupted());
	if (!stuck || (r < 0 && r != -EINTR))
		return r;
	/* Buffered data would block again when the program ends. */
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

struct one_hangup {
	struct run *run;
	struct error *err;
};

static int hang_up(void *ctx)
{
	struct one_hangup *one = ctx;

	return one->run->hangup(one->run->hangup_ctx, one->err);
}

/* Whether there is an output now: RUN_GO_ON, RUN_OUTPUT, RUN_STOP (the last one), or -errno. */
static int handle(struct run *run, const struct run_emit *emit, enum wake wake, struct error *err)
{
	struct one_hangup one = { run, err };
	int r;

	switch (wake) {
	case WAKE_COLLECT:
		r = emit->collect(emit->ctx, err);
		run->collected_ns = clock_mono_ns();
		return r;
	case WAKE_HANGUP:
		run->hung_up = false;
		return run_guarded(run, hang_up, &one);
	case WAKE_WATCHER:
	case WAKE_OUTPUT:
	case WAKE_STOP:
	case WAKE_CHILD:
		break;
	}
	return RUN_OUTPUT;
}

/* All outputs. 0 or -errno, see run_emit. */
static int produce(struct run *run, const struct run_emit *emit, struct error *err)
{
	uint64_t done = 0;
	bool last = false;
	int r = 0;

	run->collected_ns = clock_mono_ns();
	while (r >= 0 && !last && !run->stuck) {
		int wanted;
		enum wake wake = wait_event(run, emit, &wanted, err);

		r = wake == WAKE_WATCHER ? wanted : handle(run, emit, wake, err);
		if (r < 0 || r == RUN_GO_ON)
			continue;
		run->stopped = wake == WAKE_STOP;
		last = r == RUN_STOP || wake == WAKE_STOP || wake == WAKE_CHILD ||
		       (wake == WAKE_OUTPUT && ++done == run->count);
		run->partial = last && wake != WAKE_OUTPUT && wake != WAKE_CHILD;
		r = run_guarded(run, emit_one, &(struct one_output){ emit, last, err });
		run->collected_ns = clock_mono_ns();
	}
	return r;
}

/* The outputs are done, COMMAND may still run: its status is ours. */
static void await_command(struct run *run)
{
	struct pollfd fd = { run->signal_fd, POLLIN, 0 };

	for (;;) {
		/* a signal delivered during the last output is not in the descriptor */
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

/* Releases COMMAND, if there is one: false if it cannot be run, which is reported. */
static bool let_go(struct run *run)
{
	struct error err;
	bool seized;

	if (!run->child.pid || run->child.release_fd < 0)
		return true;
	seized = run->look && child_seize(&run->child);
	if (child_release(&run->child, run->args->command[0], &run->status, &err)) {
		report_error(&err);
		return false;
	}
	if (seized)
		child_follow(&run->child, run->look, run->look_ctx);
	return true;
}

/* COMMAND was forked before, and has the same state as without iotrace. */
static int drop_privileges(const struct run *run, struct error *err)
{
	uint64_t keeps = run->keeps;

	if (run->args->command)
		keeps |= PRIVILEGES_COMMAND;
	return privileges_drop(keeps, err);
}

static int report_failure(int r, const struct error *err)
{
	return !r ? STATUS_OK : err->status != STATUS_OK ? report_error(err) : report_output(r);
}

/* ---- the run ---- */

/*
 * Attaching takes seconds: until the loop begins a signal ends the program like without handlers.
 * *before: the mask for COMMAND.
 */
static void let_signals_in(sigset_t *before)
{
	sigset_t watched;

	watch_signals(&watched);
	child_set_signal(SIGINT, SIG_DFL);
	child_set_signal(SIGTERM, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &watched, before);
}

int run_hold(struct run *run, struct error *err)
{
	sigset_t watched, mask;

	if (run->signal_fd >= 0)
		return 0;
	watch_signals(&watched);
	mask = watched;
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	memcpy(run->watched, &watched, sizeof(watched));
	run->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (run->signal_fd < 0)
		return error_set(err, STATUS_FAILED, -errno, "signalfd: %s", strerror(errno));
	guard_init(&watched);
	return 0;
}

/* SIGUSR1 ends an interval early: what there is by now is shown. Without a handler the
 * signal would end a service, to which it may be sent by a name. */
static int output_now(void *ctx, short events, struct error *err)
{
	const struct run *run = ctx;

	(void)events;
	(void)err;
	if (run->signalled)
		run->signalled(run->signalled_ctx);
	return RUN_OUTPUT;
}

int run_begin(struct run *run, const struct args *args, struct error *err)
{
	sigset_t before;
	int r = 0;

	memset(run, 0, sizeof(*run));
	run->args = args;
	run->interval_ns = args->interval_ns;
	run->count = args->count;
	run->collect_ms = 1000;
	run->child.release_fd = run->child.exec_fd = run->signal_fd = run->timer_fd = -1;
	if (grow_fds(run, OWN_FDS))
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	run->n_fds = OWN_FDS;
	/* If inherited as ignored, it would not report COMMAND's end. */
	child_set_signal(SIGCHLD, SIG_DFL);
	let_signals_in(&before);
	if (args->command)
		r = child_start(args->command, &before, args->stdout_is_data, &run->child, err);
	if (!r)
		r = run_watch_signal(run, SIGUSR1, output_now, run, err);
	return r < 0 ? r : 0;
}

static int loop(struct run *run, const struct run_emit *emit)
{
	struct error err = { .status = STATUS_OK };
	int r = run_hold(run, &err), failed;

	if (!r)
		r = start_timer(run, &err);
	if (r)
		return report_error(&err);
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

int run_loop(struct run *run, const struct run_emit *emit)
{
	int status = loop(run, emit);

	/* For the remaining writes, to files as well: no code waits for a signal any more. */
	guard_enter(guarded_output(run));
	return status;
}

void run_end(struct run *run)
{
	if (run->child.release_fd >= 0)
		child_discard(&run->child);
	for (size_t i = OWN_FDS; i < run->n_fds; i++)
		run_unwatch(run, run->fds[i].fd);
	free(run->fds);
	free(run->watchers);
	if (run->signal_fd >= 0)
		close(run->signal_fd);
	if (run->timer_fd >= 0)
		close(run->timer_fd);
	guard_end();
}
