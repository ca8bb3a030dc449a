/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_COMMAND_H
#define IOTRACE_CMD_COMMAND_H

#include "cmd/args.h"
#include "output/schema.h"

struct check;

/* A subcommand: what the main command knows of it. */
struct command {
	/* @argv[0] is "iotrace NAME".  Returns the exit status. */
	int (*run)(int argc, char **argv);
	/* Would it work here?  Fills @check, which is all zero (cmd/check.h). */
	void (*check)(struct check *check);
	const struct args_spec *args;
	/* The columns of variant @i, with the options that *@with names: "" for the first, which is
	 * what there is without any.  NULL behind the last. */
	const struct schema *(*columns)(size_t i, const char **with);
};

#define COMMAND(name, summary) extern const struct command command_##name;
#include "commands.inc"
#undef COMMAND

/* All of them, in the order of cmd/commands.cmake. */
struct command_entry {
	const char *name;
	const char *summary;
	const struct command *command;
};

extern const struct command_entry commands[];
extern const size_t n_commands;

/* The options of `iotrace` itself; the keys of those without a letter are these. */
enum { MAIN_CHECK = 0x100, MAIN_COMPLETION, MAIN_JSON };
extern const struct args_spec main_args;

#endif
