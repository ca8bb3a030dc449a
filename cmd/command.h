/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_COMMAND_H
#define IOTRACE_CMD_COMMAND_H

/* A subcommand: what main.c knows of it. */
struct command {
	/* @argv[0] is "iotrace NAME".  Returns the exit status. */
	int (*run)(int argc, char **argv);
};

#define COMMAND(name, summary) extern const struct command command_##name;
#include "commands.inc"
#undef COMMAND

#endif
