/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_STACKS_USER_STACKS_H
#define IOTRACE_CMD_STACKS_USER_STACKS_H

#include "cmd/engine/check.h"
#include "cmd/engine/probe.h"
#include "core/symbols/symbolizer.h"
#include "cmd/engine/tool.h"
#include "core/symbols/unwinder.h"

/* The parts of a subcommand with -U: the files of frames, the helper process that reads them, and
 * the tables of the walker in its BPF object (probes/unwind.bpf.h). */
struct user_stacks {
	struct symbolizer symbolizer; /* its table is the caller's */
	struct code_files files;
	struct unwinder unwinder;
};

/* Files are found by PID: in a pid namespace the number would be another process's, or none.
 * -ENOTSUP with @err. */
int user_stacks_resolve(const struct tool_run *run, struct error *err);

/* Opens the sources of names; missing ones are noted.  @wait, @ctx: see struct
 * symbol_client_config. -errno with @err. */
int user_stacks_open(struct tool_run *run, struct user_stacks *u, bool (*wait)(void *ctx),
		     void *ctx, struct error *err);

/* Opens the kernel's symbols; notes if they are hidden. -errno with @err. */
int user_stacks_open_kernel(struct tool_run *run, struct kallsyms **out, struct error *err);

/* Sets the options of probes/stacks.bpf.h and probes/unwind.bpf.h in @object, and sizes their maps,
 * before it is loaded.  @u NULL: no user stacks. 0 or -errno. */
int user_stacks_configure(const struct user_stacks *u, struct tool_object *object);

/* The additional program to load: struct tool_run, helpers; and how many files -U may open. */
#define USER_STACKS_HELPER "unwind_find_key"
#define USER_STACKS_FILES  (CODE_FILES_DESCRIPTORS + SYMBOL_CLIENT_FILES)

/* Opens the tables of the loaded object.  -errno with @err. */
int user_stacks_attached(struct tool_run *run, struct user_stacks *u, struct error *err);

/* For struct tool: begin().  The files of COMMAND are read before it uses them. */
void user_stacks_begin(struct tool_run *run, struct user_stacks *u);

/* Adds missing requirements of -K to @check.  False if the kernel hides its addresses. */
bool user_stacks_check_kernel(struct check *check);
/* The same for -U; opens the sources that it checks. */
void user_stacks_check(struct check *check, struct user_stacks *u);

/* Prints which files of symbols were not read, on standard error. */
void user_stacks_show_unread(const struct user_stacks *u);

/* Losses: X(number, key, text).  Losses of the symbolizer, in this order, grow over the whole
 * run. */
enum user_stacks_loss {
	USER_STACKS_SYMBOLS,
	USER_STACKS_FILES_FULL,
	USER_STACKS_NAMES,
	USER_STACKS_LOSSES
};
#define USER_STACKS_EACH_LOSS(X)                                                                   \
	X(USER_STACKS_SYMBOLS, "symbols_unread",                                                   \
	  "files whose symbols were not fully read: damaged, too large or too slow")               \
	X(USER_STACKS_FILES_FULL, "files_full",                                                    \
	  "code files without names and unwind tables: too many files")                            \
	X(USER_STACKS_NAMES, "frames_unread",                                                      \
	  "frames without a name, or with an old one, to save time or memory")

/* The present value of each of these. */
uint64_t user_stacks_lost(const struct user_stacks *u, enum user_stacks_loss loss);

/* By enum unwind_stop. */
#define USER_STACKS_ENDS_EARLY "incomplete user stacks: "
#define USER_STACKS_EACH_STOP(X)                                                                   \
	X(UNWIND_STOP_NO_TABLE, "unwind_no_table",                                                 \
	  USER_STACKS_ENDS_EARLY "the unwind table of a file was not loaded yet (the program had " \
				 "just started)")                                                  \
	X(UNWIND_STOP_NO_ROOM, "unwind_no_room",                                                   \
	  USER_STACKS_ENDS_EARLY "no room for the unwind table of a file")                         \
	X(UNWIND_STOP_UNMAPPED, "unwind_unmapped",                                                 \
	  USER_STACKS_ENDS_EARLY "an address is not in code")                                      \
	X(UNWIND_STOP_EXPRESSION, "unwind_expression",                                             \
	  USER_STACKS_ENDS_EARLY "an unwind rule is not supported")                                \
	X(UNWIND_STOP_NO_RULE, "unwind_no_rule",                                                   \
	  USER_STACKS_ENDS_EARLY "code without unwind rules and without frame pointers")           \
	X(UNWIND_STOP_UNREAD, "unwind_unread",                                                     \
	  USER_STACKS_ENDS_EARLY "the stack was not in memory (swapped out, or not readable)")

void user_stacks_close(struct user_stacks *u);

#endif
