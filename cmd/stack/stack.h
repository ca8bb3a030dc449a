/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_STACK_STACK_H
#define IOTRACE_CMD_STACK_STACK_H

/* One run of iotrace stack, shared by its parts: its declaration (stack.c), reading its maps
 * (collect.c), and display (show.c). */

#include "cmd/block/base.h"
#include "cmd/engine/tool.h"
#include "cmd/stacks/user_stacks.h"
#include "cmd/block/call_disks.h"
#include "cmd/block/file_names.h"
#include "cmd/stack/options.h"
#include "cmd/stack/paths.h"
#include "cmd/stack/table.h"
#include "cmd/stack/schema.h"
#include "core/naming/cgroups.h"
#include "core/isolation/outfile.h"
#include "core/naming/users.h"
#include "output/stacks.h"

/* Losses of its own, in addition to the common losses of block subcommands. */
enum {
	STACK_LOSS_EVICTED = STACK_LOSSES,
	STACK_LOSS_USER, /* by enum user_stacks_loss */
	STACK_LOSS_STOPS =
	    STACK_LOSS_USER + USER_STACKS_LOSSES, /* by enum unwind_stop, from 1 on */
	STACK_LOSS_BTRFS = STACK_LOSS_STOPS + UNWIND_STOPS - 1,
	STACK_LOSS_ROWS_ALL
};

struct stack {
	struct stack_options o;
	struct tool_run *run;
	struct table table;
	struct user_stacks stacks;
	const char *helpers[3];	  /* tool_run.helpers */
	struct cgroups *cgroups;  /* with --by cgroup, unit or container; otherwise NULL */
	struct users *users;	  /* with --by user; otherwise NULL */
	struct file_names *files; /* with --by file or dir; otherwise NULL */
	struct stack_schema schema;
	struct stack_paths paths; /* with o.ios or o.waits */
	/* Drained rows; their stacks are numbers of stacks.symbolizer.now and
	 * stacks.symbolizer.next. */
	struct table now, next;
	bool is_last;		 /* nothing is counted any more */
	int failed;		 /* -errno of work done while files were read */
	uint32_t names_taken;	 /* from the maps, last, */
	uint32_t files_taken;	 /* the same */
	uint32_t done_taken;	 /* rows of completed I/Os, like above */
	uint64_t begin_ns;	 /* CLOCK_MONOTONIC */
	uint64_t drained_ns;	 /* the same: the last time */
	uint64_t stop_ns;	 /* waits in progress are counted up to here; the same */
	struct call_disks disks; /* with o.waits */
	uint64_t sum;		 /* so far: bytes, or ns of waits */
	uint64_t progress_ns;	 /* when progress was shown last; 0: never */
	struct stack_row *rows;	 /* of the output */
	/* Losses in user space up to the last output, by their number. */
	uint64_t lost_before[STACK_LOSS_ROWS_ALL];
	bool shown, again; /* an output; one before the present one */
};

/* collect.c: the drain of tool_drain(). */
int stack_drain(struct tool_run *run, int inactive, struct error *err);

/* An I/O whose completion was missed.  For block_sweep(), with a struct stack. */
void stack_account_lost_completion(void *stack, const struct blk_inflight *entry);

/* Names the rows that were drained now, or while files were read the last time, and adds them to
 * the table.  Rows drained while files are read wait for the next call; after the last drain
 * nothing is left. -errno with @err. */
int stack_name(struct stack *s, struct error *err);

/* Opens the sources of names. */
int stack_open_symbolizer(struct stack *s, struct error *err);

/* show.c */
extern const struct tool_view stack_view;

/* Sets s->rows to all rows of the table, in the order of the output. -ENOMEM with @err. */
int stack_make_rows(struct stack *s, struct error *err);

/* Progress, on standard error if it is a terminal; and erases it. */
void stack_show_progress(struct stack *s);
void stack_wipe_progress(struct stack *s);

/* The ten largest rows, on standard error if it is a terminal and there were more. */
void stack_show_largest(const struct stack *s);

#endif
