/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BLOCK_BASE_H
#define IOTRACE_CMD_BLOCK_BASE_H

#include "cmd/block/blk.h"
#include "cmd/block/in_flight.h"
#include "cmd/engine/tool.h"

/* The common part of the subcommands that follow block I/O (probes/blk.bpf.h): filters, options,
 * the disk of -d, losses. */

extern const struct tool_base block_base;

/* For a tool_view: its losses that are not events. */
extern const char *const block_not_events[];

/* For the declaration of such a subcommand: in the options @o of its structure struct blk_filters
 * comes after struct args. */
/* NOLINTBEGIN(bugprone-macro-parentheses): @o names a member */
#define BLOCK_TOOL(type, o)                                                                        \
	TOOL_CTX(type, o.args),                                                                    \
	    .waits = &in_flight,                                                                   \
	    .base = &block_base +                                                                  \
		    0 * sizeof(char[offsetof(type, o.filters) == sizeof(struct args) ? 1 : -1])
/* NOLINTEND(bugprone-macro-parentheses) */

struct block_run {
	struct blk_filters *filters; /* in the tool's ctx */
	struct blk_flags flags;	     /* from the choice of hooks on */
	bool disk_gone;		     /* the disk of -d is gone: nothing is counted */
};

struct block_run *block_of(const struct tool_run *t);

/* tool_detach() with blk_sweep(): finds missed completions, and counts them as lost.  @account is
 * called with the tool's ctx for each; NULL: not called. */
void block_sweep(struct tool_run *t, void (*account)(void *ctx, const struct blk_inflight *entry));

#endif
