// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/command.h"

const struct command_entry commands[] = {
#define COMMAND(name, summary) { #name, summary, &tool_##name },
#include "commands.inc"
#undef COMMAND
};

static const struct argp_option main_options[] = {
	{ "check", MAIN_CHECK, NULL, 0,
	  "test which subcommands work on this machine, and with which hooks", 0 },
	{ "json", MAIN_JSON, NULL, 0, "with --check: JSON instead of text", 0 },
	{ "verbose", 'v', NULL, 0,
	  "with --check: also why better hooks were rejected; with --version: also the libraries "
	  "that the binary contains",
	  0 },
	{ "help", 'h', NULL, 0, "print this help; `iotrace SUBCOMMAND --help` for a subcommand's",
	  0 },
	{ "version", 'V', NULL, 0, "print the version", 0 },
	{ 0 },
};

static const struct args_example main_examples[] = {
	{ "--check", "what works on this machine" },
	{ "top 5 10", "block I/O by process, ten times" },
	{ "breakdown -- make -j8", "in which layer a command waits" },
	{ 0 },
};

const struct args_spec main_args = { .options = main_options, .examples = main_examples };

const size_t n_commands = sizeof(commands) / sizeof(commands[0]);
