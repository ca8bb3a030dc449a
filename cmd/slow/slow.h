/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A run of iotrace slow, shared by its files: two tools with one set of options and one view. */
#ifndef IOTRACE_CMD_SLOW_SLOW_H
#define IOTRACE_CMD_SLOW_SLOW_H

#include "cmd/block/call_disks.h"
#include "cmd/block/records.h"
#include "cmd/engine/tool.h"
#include "cmd/slow/fsync_rows.h"
#include "cmd/slow/options.h"
#include "cmd/slow/rows.h"
#include "cmd/slow/summary.h"
#include "cmd/stacks/user_stacks.h"

struct ring_buffer;

/* --fsync: fsync.c. */
struct slow_fsync {
	struct ring_buffer *ring;
	struct call_disks disks;
	struct fsync_rows rows;
	uint64_t oldest_ns; /* of the last drain: see fsync_rows_clear() */
};

struct slow {
	struct slow_options o;
	struct tool_run *run;
	struct cgroups *cgroups;
	struct mounts *mounts;
	struct users *users;	   /* with --by user */
	struct kallsyms *kallsyms; /* with -K */
	struct slow_stacks *stacks;
	struct blk_records records;
	struct user_stacks user;	   /* with -U */
	struct stack_tree tree;		   /* of their names */
	const char *helpers[3];		   /* tool_run.helpers */
	uint64_t lost[USER_STACKS_LOSSES]; /* position at the last output */
	struct slow_rows rows;
	struct slow_summary summary;
	size_t since_heading; /* rows */
	bool headed;
	struct slow_fsync fsync; /* --fsync */
};

extern const struct tool slow_fsync_tool;

/* slow.c */
extern const struct tool_view slow_view;
int slow_tool_options(struct tool_run *run, int argc, char **argv, struct error *err);

#endif
