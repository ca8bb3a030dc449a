// SPDX-License-Identifier: GPL-2.0-or-later
/* Dispatch to the subcommands of cmd/commands.cmake, and the main command's own options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/engine/check.h"
#include "cmd/cli/command.h"
#include "cmd/cli/old_names.h"
#include "cmd/cli/report.h"
#include "cmd/engine/setup.h"
#include "core/base/error.h"
#include "core/symbols/symbol_server.h"
#include "core/bpf/closer.h"
#include "core/isolation/sandbox.h"
#include "core/base/text.h"

static void print_help(FILE *stream)
{
	fputs("Usage: iotrace SUBCOMMAND [OPTION...] [INTERVAL [COUNT]] [-- COMMAND [ARG...]]\n"
	      "Shows where this machine's I/O goes and where its latency comes from.\n\n",
	      stream);
	for (size_t i = 0; i < n_commands; i++)
		fprintf(stream, "  %-12s %s\n", commands[i].name, commands[i].summary);
	args_print_options(stream, main_args.options);
	args_print_examples(stream, "iotrace", main_args.examples);
}

static int usage_error(const char *before, const char *arg, const char *after, const char *hint)
{
	struct error err;

	error_set(&err, STATUS_USAGE, 0, "%s'%s'%s", before, text_shown(arg).text, after);
	error_hint(&err, "%s", hint);
	return report_error(&err);
}

/* The name closest to @arg, a subcommand or an option; NULL: none. */
static const char *closest(const char *arg, struct text_close *close)
{
	*close = (struct text_close){ .wanted = arg };
	if (arg[0] == '-') {
		close->wanted = arg + strspn(arg, "-");
		for (const struct args_option *o = main_args.options; o->name; o++)
			text_close_add(close, o->name);
	}
	for (size_t i = 0; arg[0] != '-' && i < n_commands; i++)
		text_close_add(close, commands[i].name);
	return close->names[0][0] ? close->names[0] : NULL;
}

static int unknown(const char *arg)
{
	struct text_close close;
	const char *name = closest(arg, &close);
	char hint[128];

	if (name)
		snprintf(hint, sizeof(hint), "did you mean `iotrace %s%.32s`? See `iotrace --help`",
			 arg[0] == '-' ? "--" : "", name);
	return usage_error(arg[0] == '-' ? "unknown option " : "unknown subcommand ", arg, "",
			   name ? hint : "see `iotrace --help`");
}

/* @argv begins with the name of the call. */
static int run_subcommand(const char *subcommand, int argc, char **argv)
{
	const struct command_entry *command = command_find(subcommand);
	char name[64];

	if (!command)
		return unknown(subcommand);
	snprintf(name, sizeof(name), "iotrace %s", command->name);
	argv[0] = name;
	return command->tool ? tool_main(command->tool, argc, argv) : command->run(argc, argv);
}

/* "help [SUBCOMMAND]", "version": options that are given as words. */
static char **as_options(int argc, char **argv)
{
	static char help[] = "--help", version[] = "--version";
	static char *words[] = { NULL, NULL, help, NULL };

	if (strcmp(argv[1], "version") == 0) {
		argv[1] = version;
	} else if (strcmp(argv[1], "help") == 0 && argc == 2) {
		argv[1] = help;
	} else if (strcmp(argv[1], "help") == 0 && argc == 3) {
		words[0] = argv[0];
		words[1] = argv[2];
		return words;
	}
	return argv;
}

static int print_version(bool verbose)
{
	static const struct {
		const char *package, *version;
	} libraries[] = {
#define LIBRARY(package, version) { package, version },
#include "libraries.inc"
#undef LIBRARY
		{ NULL, NULL },
	};

	puts("iotrace " IOTRACE_VERSION);
	if (verbose && !libraries[0].package)
		puts("linked with shared libraries");
	for (size_t i = 0; verbose && libraries[i].package; i++)
		printf("%s %s\n", libraries[i].package, libraries[i].version);
	return report_stdout();
}

/* The command without a subcommand: @argv begins with an option. */
static int run_main(int argc, char **argv)
{
	bool check = false, version = false, verbose = false, json = false;

	for (int i = 0; i < argc; i++) {
		const struct args_option *option = args_find(main_args.options, argv[i]);

		if (!option && i)
			return usage_error("", argv[i], " cannot be used here",
					   "see `iotrace --help`");
		if (!option)
			return unknown(argv[i]);
		switch (option->key) {
		case 'h':
			print_help(stdout);
			return report_stdout();
		case 'V':
			version = true;
			break;
		case MAIN_BUILD_INFO:
			version = verbose = true;
			break;
		case MAIN_CHECK:
			check = true;
			break;
		case MAIN_JSON:
			json = true;
			break;
		case 'v':
			verbose = true;
			break;
		}
	}
	if (version)
		return print_version(verbose);
	if (!check)
		return usage_error("", argv[0], " requires --check or a subcommand",
				   "see `iotrace --help`");
	return check_run(json ? FORMAT_JSON : FORMAT_TEXT, verbose);
}

/* Called by the name of the tool that @subcommand replaces. */
static int run_old(const char *subcommand, const char *option, int argc, char **argv)
{
	char **more;
	int status;

	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return run_main(1, argv + 1);
	if (!option)
		return run_subcommand(subcommand, argc, argv);
	more = calloc((size_t)argc + 2, sizeof(*more));
	if (!more)
		return STATUS_FAILED;
	more[0] = argv[0];
	more[1] = (char *)option;
	memcpy(more + 2, argv + 1, (size_t)(argc - 1) * sizeof(*argv));
	status = run_subcommand(subcommand, argc + 1, more);
	free(more);
	return status;
}

static int run_command(int argc, char **argv)
{
	const char *option = NULL;
	const char *old = argc ? old_names_command(argv[0], argv + 1, &option) : NULL;

	if (old)
		return run_old(old, option, argc, argv);
	if (argc < 2) {
		print_help(stderr);
		return STATUS_USAGE;
	}
	argv = as_options(argc, argv);
	return argv[1][0] == '-' ? run_main(argc - 1, argv + 1)
				 : run_subcommand(argv[1], argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int status;

	sandbox_hide();
	if (symbol_server_is(argc, argv))
		symbol_server_run();
	setup_process();
	status = run_command(argc, argv);
	closer_end();
	return status;
}
