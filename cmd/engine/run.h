/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_ENGINE_RUN_H
#define IOTRACE_CMD_ENGINE_RUN_H

#include <poll.h>

#include "cmd/cli/args.h"
#include "core/isolation/child.h"
#include "core/isolation/privileges.h"

/* The wish of a callback: nothing, an output now (which is not counted), the last output. */
enum { RUN_GO_ON, RUN_OUTPUT, RUN_STOP };

struct run_watcher;

/*
 * The one run loop: signals, timers, descriptors, COMMAND, outputs.
 *
 *   run_begin()   before anything is attached: COMMAND is forked and waits; until run_loop() a
 *                 signal ends the program at once, like without handlers
 *   run_loop()    when everything is attached: signals are held back, the first line, lets COMMAND
 *                 go, then one output per interval and one for the last, partial interval
 *   run_end()     always
 */
struct run {
	const struct args *args;
	uint64_t interval_ns, count; /* of outputs, see @args; may be set before run_loop() */
	struct child child;
	int signal_fd;
	int timer_fd;
	int status;   /* of COMMAND */
	int asked;    /* signals to end that were passed on to COMMAND */
	bool hung_up; /* SIGHUP came, and does not end the run: hangup() */
	bool stopped; /* by a signal: COMMAND is not waited for */
	bool partial; /* the last output is early, and not because COMMAND ended */
	/* Capabilities needed after attaching, in addition to the ones for COMMAND: run_loop()
	 * gives up the others. */
	uint64_t keeps;
	unsigned int collect_ms; /* between two collects, one second; may be set at any time */
	bool stdout_unused;	 /* no output is written to standard output */
	bool stuck; /* a signal came while a write was blocked: the output is dropped */
	unsigned char watched[128]; /* sigset_t: signals that end a run and were not ignored */
	/*
	 * The action for SIGHUP if it does not end the run: set by a subcommand between run_begin()
	 * and run_loop(), otherwise NULL.  Returns the next step, or like emit().
	 */
	int (*hangup)(void *hangup_ctx, struct error *err);
	void *hangup_ctx;
	/* SIGUSR1 came, which ends an interval early; NULL, or set like hangup. */
	void (*signalled)(void *signalled_ctx);
	void *signalled_ctx;
	/* COMMAND has begun, or mapped code, and is stopped: child_follow(). */
	bool (*look)(void *look_ctx, pid_t pid, uint64_t ip, bool mapped);
	void *look_ctx;
	/* run_watch() */
	struct pollfd *fds;
	struct run_watcher *watchers; /* same indexes as fds */
	size_t n_fds, room_fds;
	uint64_t collected_ns; /* time of the last collect or output */
};

/* One output: drains the counts since the last one and renders them; @last: no other follows. 0, or
 * -errno of standard output, or -errno with @err filled. */
struct run_emit {
	int (*emit)(void *ctx, bool last, struct error *err);
	/* Called every run->collect_ms between outputs, if they are further apart: empties maps
	 * that would fill up.  May be NULL.  Like emit(). */
	int (*collect)(void *ctx, struct error *err);
	void *ctx;
	/* Writes the beginning, before all outputs and before COMMAND is released; with -o after
	 * that, so that the file is only emptied for a COMMAND that can be run.  May be NULL.  Like
	 * emit(), with start_ctx. */
	int (*start)(void *start_ctx, struct error *err);
	void *start_ctx;
};

int run_begin(struct run *run, const struct args *args, struct error *err);

/* From now on signals are blocked for the loop: the first step of run_loop(), for callers that need
 * it earlier. 0, or -errno with @err. */
int run_hold(struct run *run, struct error *err);

/*
 * Calls @output, which writes to standard output, with signals unblocked (cmd/engine/guard.h): a
 * write that blocks without a reader ends a second after a signal.  Then returns 0, and run->stuck
 * is set: all remaining output must be dropped.  Otherwise the result of @output.
 */
int run_guarded(struct run *run, int (*output)(void *ctx), void *ctx);

/* @events: result of poll().  Called like by run_guarded().  Returns the next step (RUN_GO_ON,
 * ...), or like emit(). */
typedef int run_callback(void *ctx, short events, struct error *err);

/*
 * From now on run_loop() calls @callback when poll() finds @events (POLLIN, POLLOUT) on @fd, which
 * stays the caller's, and open until run_unwatch().  POLLERR and POLLHUP are always reported, and
 * repeatedly.  Between two outputs every ready watcher is called once, however late the next output
 * is.  The only limits are memory and open files. 0, or -errno with @err: -EEXIST if @fd is watched
 * already.
 */
int run_watch(struct run *run, int fd, short events, run_callback *callback, void *ctx,
	      struct error *err);

/*
 * The same with descriptors of the loop's own, which are read before the call and closed by
 * run_unwatch() or run_end(): a timer that ends after @first_ns (0: not before run_set_timer()) and
 * then every @ns (0: not again), missed expirations count as one call; and a signal, which is
 * blocked from now on, and which must not be one that ends a run.  The descriptor, or -errno with
 * @err.
 */
int run_watch_timer(struct run *run, uint64_t first_ns, uint64_t ns, run_callback *callback,
		    void *ctx, struct error *err);
int run_watch_signal(struct run *run, int signo, run_callback *callback, void *ctx,
		     struct error *err);
void run_set_timer(int fd, uint64_t first_ns, uint64_t ns);

/* Output is written to @fd: if it is a pipe or a socket, the run ends when its reader has gone.
 * Fine for one that is watched already. 0, or -errno with @err. */
int run_watch_reader(struct run *run, int fd, struct error *err);

/* Stops watching @fd; callbacks may call it.  Fine for descriptors that are not watched. */
void run_unwatch(struct run *run, int fd);

/* The entries of a map when it was drained, and its size. */
struct run_fill {
	uint32_t used, room;
};

/* Adapts run->collect_ms to the fill level of maps: sooner if one was half full, later, up to
 * @longest_ms, if all were nearly empty. */
void run_adapt(struct run *run, unsigned int longest_ms, const struct run_fill *fills, size_t n);

/* Is work pending for run_loop(), other than a collect: a signal, the end of COMMAND, an output, a
 * watched descriptor?  For callers that delay the loop; nothing is consumed. */
bool run_is_due(const struct run *run);

/* From now on an output every @ns, the first after @first_ns; within run_loop(). */
void run_set_interval(struct run *run, uint64_t first_ns, uint64_t ns);

/* Returns the exit status; errors are reported.  Afterwards signals are unblocked: the remaining
 * writes may block. */
int run_loop(struct run *run, const struct run_emit *emit);

void run_end(struct run *run);

#endif
