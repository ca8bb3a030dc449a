/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A run of iotrace blame, shared by its files: two tools with one set of options and one view. */
#ifndef IOTRACE_CMD_BLAME_BLAME_H
#define IOTRACE_CMD_BLAME_BLAME_H

#include "cmd/blame/early.h"
#include "cmd/blame/held_rows.h"
#include "cmd/blame/options.h"
#include "cmd/blame/recorded.h"
#include "cmd/blame/rows.h"
#include "cmd/block/records.h"
#include "cmd/engine/tool.h"

struct known_owner;
struct unnamed;

/* --held: held.c. */
struct held {
	/* Functions of the kernel that hold: code from begin on, before end (0: unused); and their
	 * enum held_kind. */
	uint64_t begin[HELD_FUNCTIONS], end[HELD_FUNCTIONS];
	uint8_t kind[HELD_FUNCTIONS];
	uint64_t limit_work; /* address of the worker's function of io.max; 0: unknown */
	struct held_rows rows;
};

struct blame {
	struct blame_options o;
	struct tool_run *run;
	struct cgroups *cgroups;
	struct users *users;   /* with --by user */
	struct mounts *mounts; /* with --by file or dir */
	struct text_set files; /* of `unnamed` */
	struct blk_records records;
	struct early early;
	struct unnamed *unnamed;
	size_t n_unnamed;
	struct blk_owner *extra; /* of full records */
	size_t n_extra;
	struct known_owner *known; /* of BLK_OWNERS */
	struct blame_rows rows;
	uint64_t hidden_ns; /* the longest time until a request was visible, decreasing ... */
	uint64_t forgot_ns; /* ... once a second: since then */
	uint64_t hold;	    /* the oldest request in flight of an unknown disk */
	uint64_t lost_before, lost[2]; /* requests without a record: of this output, and the last */
	bool ending;
	bool no_memory;
	struct recorded recorded; /* --replay of slow */
	struct held held;	  /* --held */
};

extern const struct tool blame_held_tool;

/* blame.c */
extern const struct tool_view blame_view;
int blame_tool_options(struct tool_run *t, int argc, char **argv, struct error *err);
int blame_resolve(struct tool_run *t, struct error *err);

#endif
