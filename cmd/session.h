/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_SESSION_H
#define IOTRACE_CMD_SESSION_H

#include "cmd/blk.h"

/* The steps that every tracing subcommand takes before its own: checks of the
 * machine, the disks, the filters, the choice of hooks. */
struct session {
	struct disks *disks;
	const struct blk_filters *filters;
	bool disk_gone; /* that of -d */
	struct hooks *hooks;
	struct hook_kernel *kernel; /* --kernel */
	struct blk_flags flags;
	struct hook_event events[BLK_EVENTS_MAX];
	size_t n_events;
};

/*
 * Two steps, so that the second can depend on what the first found out; each
 * returns 0 when tracing can go on.  Else the subcommand ends with *status: an
 * error that has been reported, or --list-hooks done.  session_end() in any case.
 */

/* Resolves the filters. */
int session_begin(struct session *s, const struct args *args, struct blk_filters *filters,
		  int *status);

/* Checks the machine and chooses hooks for @wants (enum blk_wants). */
int session_choose(struct session *s, const struct args *args, unsigned int wants, int *status);

/* The same for @events, which outlive it: those of the block layer and others. */
int session_choose_events(struct session *s, const struct hook_event *events, size_t n,
			  const struct args *args, int *status);
void session_end(struct session *s);

/*
 * To be called before each turn of the buffers: devices come and go.  While the disk of -d is not
 * there nothing is counted (*@stopped), so that another one that gets its number is not taken for
 * it; @losses says so, once.  True if the table of disks was read again.
 */
bool session_look(struct session *s, __u32 *stopped, struct blk_loss_state *losses);

/* The same for a subcommand that follows no requests.  *hooks, and *kernel with --kernel,
 * are set whenever there is anything to free: the caller does, hooks first, in any case. */
int session_choose_hooks(const struct hook_event *events, size_t n, const struct args *args,
			 struct hooks **hooks, struct hook_kernel **kernel, int *status);

/* --ebpf: prints @text; returns the exit status. */
int session_source(const char *text);

/* "1", "0.2": seconds of @ns as people write them. */
char *session_seconds(uint64_t ns, char *buf, size_t size);

#endif
