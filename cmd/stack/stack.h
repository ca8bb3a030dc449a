/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_STACK_STACK_H
#define IOTRACE_CMD_STACK_STACK_H

/* One run of iotrace stack, shared by its parts: what it is (stack.c), what is taken out of its
 * maps (collect.c), and what is shown (show.c). */

#include "cmd/tool.h"
#include "cmd/user_stacks.h"
#include "cmd/call_disks.h"
#include "cmd/stack/options.h"
#include "cmd/stack/paths.h"
#include "cmd/stack_table.h"
#include "cmd/stack/schema.h"
#include "core/naming/cgroups.h"
#include "core/isolation/outfile.h"
#include "core/naming/users.h"
#include "output/stacks.h"

/* Losses of its own, beside those that all block subcommands have. */
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
	const char *helpers[3];	 /* tool_run.helpers */
	struct cgroups *cgroups; /* with --by cgroup, unit or container; else NULL */
	struct users *users;	 /* with --by user; else NULL */
	struct stack_schema schema;
	struct stack_paths paths; /* with o.ios or o.waits */
	/* Rows that have been drained; their stacks are numbers of stacks.symbolizer.now and
	 * stacks.symbolizer.next. */
	struct table now, next;
	bool is_last;	      /* nothing is counted any more */
	int failed;	      /* -errno of what was done while files were read */
	uint32_t names_taken; /* from the maps, last, */
	uint32_t done_taken;  /* as the rows of complete I/Os */
	struct outfile svg;
	struct renderer svg_renderer;
	bool shown;		 /* its output */
	uint64_t begin_ns;	 /* CLOCK_MONOTONIC */
	uint64_t stop_ns;	 /* waits that go on count up to here; the same */
	struct call_disks disks; /* with o.waits */
	uint64_t sum;		 /* so far: bytes, or ns of waits */
	uint64_t progress_ns;	 /* when progress was shown last; 0: never */
	struct stack_row *rows;	 /* of the output */
};

/* collect.c: what tool_drain() takes. */
int stack_drain(struct tool_run *run, int inactive, struct error *err);

/* An I/O that was complete, though no program saw that.  For tool_sweep(), with a struct stack. */
void stack_account_lost_completion(void *stack, const struct blk_inflight *entry);

/* Names what was drained now, or while files were read the last time, and adds it to the table.
 * What is drained while files are read waits for the next call; after the last drain nothing is
 * left. -errno with @err. */
int stack_name(struct stack *s, struct error *err);

/* Opens what names are looked up in. */
int stack_open_symbolizer(struct stack *s, struct error *err);

/* show.c */
extern const struct tool_view stack_view;

/* All rows of the table, in the order of the output, are s->rows.  -ENOMEM with @err. */
int stack_make_rows(struct stack *s, struct error *err);

/* Progress, on standard error if that is a terminal; and wiped off again. */
void stack_show_progress(struct stack *s);
void stack_wipe_progress(struct stack *s);

/* The ten largest rows, on standard error if that is a terminal and there were more. */
void stack_show_largest(const struct stack *s);

/* Opens the flame graph's file, if there is to be one.  -errno with @err. */
int stack_open_svg(struct tool_run *run, struct error *err);

#endif
