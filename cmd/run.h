/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_RUN_H
#define IOTRACE_CMD_RUN_H

#include "cmd/args.h"
#include "core/system/child.h"
#include "core/system/privileges.h"

/* What input() and hangup() want: nothing, an output now (which counts as none), the last one. */
enum { RUN_GO_ON, RUN_OUTPUT, RUN_STOP };

/*
 * The one run loop: signals, the timer, COMMAND, outputs.
 *
 *   run_begin()   before anything is attached: signals are held back, COMMAND
 *                 is forked and waits
 *   run_loop()    when everything is attached: the first line, lets COMMAND go, then one
 *                 output per interval and one for the last, partial interval
 *   run_end()     always
 */
struct run {
	const struct args *args;
	struct child child;
	int signal_fd;
	int timer_fd;
	int status;   /* of COMMAND */
	int asked;    /* signals to end that were passed on to COMMAND */
	bool hung_up; /* SIGHUP came, and is not to end the run: hangup() */
	bool stopped; /* by a signal: COMMAND is not waited for */
	bool partial; /* the last output comes before its time, and not as COMMAND ended */
	/* What attaching leaves to be done takes, beside COMMAND and --record: run_loop() gives up
	 * the other capabilities. */
	uint64_t keeps;
	unsigned int collect_ms;    /* between two collects, a second; may be set at any time */
	bool stdout_unused;	    /* the output goes elsewhere: who reads it does not matter */
	bool stuck;		    /* a signal came while nobody read our output: it is given up */
	unsigned char watched[128]; /* sigset_t: signals that end a run and were not ignored */
	unsigned char old_mask[128]; /* sigset_t */
	/*
	 * Set by a subcommand between run_begin() and run_loop(); NULL where it has none.  Called
	 * with the context of run_emit; what is to follow, or as its emit().
	 */
	/* For a full-screen view: there is something to read on standard input, or the terminal has
	 * changed its size. */
	int (*input)(void *ctx, struct error *err);
	/* What SIGHUP means if it is not the end. */
	int (*hangup)(void *ctx, struct error *err);
};

/* One output: drains what came since the last one and renders it; @last: there
 * will be no other.  0, or -errno of standard output, or -errno with @err filled. */
struct run_emit {
	int (*emit)(void *ctx, bool last, struct error *err);
	/* Called every second between outputs, where they are further apart: empties
	 * what would fill up in the kernel.  May be NULL.  As emit(). */
	int (*collect)(void *ctx, struct error *err);
	void *ctx;
	/* What comes before all outputs, and before COMMAND is let go; with -o after that, so that
	 * the file is emptied for a COMMAND that can be run.  May be NULL.  As emit(), with
	 * start_ctx. */
	int (*start)(void *start_ctx, struct error *err);
	void *start_ctx;
};

int run_begin(struct run *run, const struct args *args, struct error *err);

/*
 * Calls @output, which writes to standard output, with signals let in: a write that blocks
 * because nobody reads ends a second after one came.  Then 0, and run->stuck is set: whatever
 * is left to be written is to be dropped.  Else what @output returned.
 */
int run_guarded(struct run *run, int (*output)(void *ctx), void *ctx);

/* What was in a map when it was drained, and what it holds. */
struct run_fill {
	uint32_t used, room;
};

/* Sets run->collect_ms by how full maps had become: sooner if one was half full, later, up to
 * @longest_ms, if all were nearly empty. */
void run_adapt(struct run *run, unsigned int longest_ms, const struct run_fill *fills, size_t n);

/* Is there something that run_loop() would do now, beside a collect: a signal, the end of COMMAND,
 * an output?  For who keeps it from that; nothing is taken notice of. */
bool run_is_due(const struct run *run);

/* From now on an output every @ns, the first after @first_ns; within run_loop(). */
void run_set_interval(struct run *run, uint64_t first_ns, uint64_t ns);

/* Returns the exit status; errors are reported. */
int run_loop(struct run *run, const struct run_emit *emit);

void run_end(struct run *run);

#endif
