/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_USER_STACKS_H
#define IOTRACE_CMD_USER_STACKS_H

#include "cmd/check.h"
#include "cmd/probe.h"
#include "cmd/symbolizer.h"
#include "cmd/tool.h"
#include "cmd/unwinder.h"

/* What a subcommand with -U has: the mappings of processes, the helper process that reads files,
 * and the tables of the walker in its BPF object (probes/unwind.bpf.h). */
struct user_stacks {
	struct symbolizer symbolizer; /* its table is the caller's */
	struct unwinder unwinder;
	uint64_t drained_ns; /* CLOCK_MONOTONIC, the caller's: what ended before is not asked for */
};

/* Mappings are found by PID: in a pid namespace they would be of another process, or of none.
 * -ENOTSUP with @err. */
int user_stacks_resolve(const struct tool_run *run, struct error *err);

/* Opens what names are looked up in; what is missing is noted.  @wait, @ctx: as of struct
 * symbol_client_config.  -errno with @err. */
int user_stacks_open(struct tool_run *run, struct user_stacks *u, bool (*wait)(void *ctx),
		     void *ctx, struct error *err);

/* Opens the kernel's symbols; where they are hidden that is noted.  -errno with @err. */
int user_stacks_open_kernel(struct tool_run *run, struct kallsyms **out, struct error *err);

/* Sets the options of probes/stacks.bpf.h and probes/unwind.bpf.h in @object, and sizes their maps,
 * before it is loaded.  @u NULL: no user stacks.  0 or -errno. */
int user_stacks_configure(const struct user_stacks *u, struct tool_object *object);

/* The program to load beside: struct tool_run, helpers; and how many files -U may open. */
#define USER_STACKS_HELPER "unwind_find_key"
#define USER_STACKS_FILES  (ADDRESS_SPACES_FILES + SYMBOL_CLIENT_FILES)

/* Opens the tables of the loaded object.  -errno with @err. */
int user_stacks_attached(struct tool_run *run, struct user_stacks *u, struct error *err);

/* For struct tool: begin().  What COMMAND is made of is read before it uses it. */
void user_stacks_begin(struct tool_run *run, struct user_stacks *u);

/* Adds to @check what -K would lack.  False if the kernel hides its addresses. */
bool user_stacks_check_kernel(struct check *check);
/* The same of -U; opens what it looks at. */
void user_stacks_check(struct check *check, struct user_stacks *u);

/* Says which files of symbols were not read, on standard error. */
void user_stacks_show_unread(const struct user_stacks *u);

/* Losses: X(number, key, text).  Those of the symbolizer, in this order, grow over all of a run. */
enum user_stacks_loss {
	USER_STACKS_RECORDS,
	USER_STACKS_SYMBOLS,
	USER_STACKS_MAPPINGS,
	USER_STACKS_NAMES,
	USER_STACKS_LOSSES
};
#define USER_STACKS_EACH_LOSS(X)                                                                   \
	X(USER_STACKS_RECORDS, "mappings_lost", "process and mapping records")                     \
	X(USER_STACKS_SYMBOLS, "symbols_unread",                                                   \
	  "files whose symbols were not fully read: damaged, too large or too slow")               \
	X(USER_STACKS_MAPPINGS, "mappings_full",                                                   \
	  "mappings or processes beyond the tracking limits, or too slow to read")                 \
	X(USER_STACKS_NAMES, "frames_unread",                                                      \
	  "frames left without a name, or with an old one, to save time or memory")

/* What each of these has come to. */
uint64_t user_stacks_lost(const struct user_stacks *u, enum user_stacks_loss loss);

/* By enum unwind_stop. */
#define USER_STACKS_ENDS_EARLY "I/Os whose user stack ends early: "
#define USER_STACKS_EACH_STOP(X)                                                                   \
	X(UNWIND_STOP_NO_TABLE, "unwind_no_table",                                                 \
	  USER_STACKS_ENDS_EARLY "a file's table was not there yet")                               \
	X(UNWIND_STOP_NO_ROOM, "unwind_no_room",                                                   \
	  USER_STACKS_ENDS_EARLY "no room for a file's table")                                     \
	X(UNWIND_STOP_UNMAPPED, "unwind_unmapped",                                                 \
	  USER_STACKS_ENDS_EARLY "at an address that is no code")                                  \
	X(UNWIND_STOP_EXPRESSION, "unwind_expression",                                             \
	  USER_STACKS_ENDS_EARLY "at a rule that is not understood")                               \
	X(UNWIND_STOP_NO_RULE, "unwind_no_rule",                                                   \
	  USER_STACKS_ENDS_EARLY "at code without a rule or frame pointer")                        \
	X(UNWIND_STOP_UNREAD, "unwind_unread", USER_STACKS_ENDS_EARLY "the stack was not in memory")

void user_stacks_close(struct user_stacks *u);

#endif
