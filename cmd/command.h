/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_COMMAND_H
#define IOTRACE_CMD_COMMAND_H

#include "cmd/args.h"
#include "cmd/tool.h"

#define COMMAND(name, summary) extern const struct tool tool_##name;
#include "commands.inc"
#undef COMMAND

/* All of them, in the order of cmd/commands.cmake. */
struct command_entry {
	const char *name;
	const char *summary;
	const struct tool *command;
};

extern const struct command_entry commands[];
extern const size_t n_commands;

/* The options of `iotrace` itself; the keys of those without a letter are these. */
enum { MAIN_CHECK = 0x100, MAIN_JSON };
extern const struct args_spec main_args;

#endif
