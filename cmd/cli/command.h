/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The generated table of subcommands. */
#ifndef IOTRACE_CMD_CLI_COMMAND_H
#define IOTRACE_CMD_CLI_COMMAND_H

#include "cmd/cli/args.h"
#include "cmd/engine/tool.h"

#define TOOL(name, summary)                                                                        \
	extern const struct args_spec name##_args;                                                 \
	extern const struct tool tool_##name;
#define COMMAND(name, summary)                                                                     \
	extern const struct args_spec name##_args;                                                 \
	int name##_main(int argc, char **argv);
#include "commands.inc"
#undef TOOL
#undef COMMAND

/* All of them, in the order of cmd/commands.cmake.  One with BPF programs is a tool, which the
 * engine runs (tool_main()); another has a function of its own, NAME_main(), which returns the exit
 * status. */
struct command_entry {
	const char *name;
	const char *summary;
	const struct args_spec *args;
	const struct tool *tool; /* NULL: run() */
	int (*run)(int argc, char **argv);
};

extern const struct command_entry commands[];
extern const size_t n_commands;

/* The subcommand @name; NULL: none has that name. */
const struct command_entry *command_find(const char *name);

/* The options of `iotrace` itself; these are the keys of options without a letter. */
enum { MAIN_CHECK = 0x100, MAIN_JSON, MAIN_BUILD_INFO };
extern const struct args_spec main_args;

#endif
