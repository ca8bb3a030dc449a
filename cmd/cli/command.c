// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/cli/command.h"

#include <string.h>

const struct command_entry commands[] = {
#define TOOL(name, summary)    { #name, summary, &name##_args, &tool_##name, NULL },
#define COMMAND(name, summary) { #name, summary, &name##_args, NULL, name##_main },
#include "commands.inc"
#include "core/base/array.h"
#undef TOOL
#undef COMMAND
};

static const struct args_option main_options[] = {
	{ "check", MAIN_CHECK, NULL,
	  "test which subcommands work on this machine, and what is missing", ARGS_MAIN },
	{ "json", MAIN_JSON, NULL, "with --check: JSON instead of text", ARGS_MAIN },
	{ "verbose", 'v', NULL,
	  "with --check: also the hooks, and the capabilities that a run keeps; with --version: as "
	  "--build-info",
	  ARGS_MAIN },
	{ "help", 'h', NULL, "print this help; for a subcommand: `iotrace SUBCOMMAND --help`",
	  ARGS_MAIN },
	{ "version", 'V', NULL, "print the version", ARGS_MAIN },
	{ "build-info", MAIN_BUILD_INFO, NULL,
	  "print the version, and the versions of the libraries that the binary contains",
	  ARGS_MAIN },
	{ 0 },
};

static const struct args_example main_examples[] = {
	{ "--check", "what works on this machine" },
	{ "top 5 10", "block I/O by process, ten times" },
	{ "breakdown -- make -j8", "in which layer a command waits" },
	{ 0 },
};

const struct args_spec main_args = { .options = main_options, .examples = main_examples };

const size_t n_commands = ARRAY_SIZE(commands);

const struct command_entry *command_find(const char *name)
{
	for (size_t i = 0; i < n_commands; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}
