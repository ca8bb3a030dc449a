// SPDX-License-Identifier: GPL-2.0-or-later
/* Dispatch to the subcommands of cmd/commands.cmake, and the main command's own options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/check.h"
#include "cmd/command.h"
#include "cmd/old_names.h"
#include "cmd/report.h"
#include "cmd/setup.h"
#include "core/base/error.h"
#include "core/symbols/symbol_server.h"
#include "core/bpf/closer.h"
#include "core/isolation/sandbox.h"
#include "core/base/text.h"

#define OPTION_WIDTH 24

static void print_option(FILE *stream, const struct argp_option *option)
{
	char text[64];

	snprintf(text, sizeof(text), "%c%c%s--%s%s%s", option->key < 0x100 ? '-' : ' ',
		 option->key < 0x100 ? option->key : ' ', option->key < 0x100 ? ", " : "  ",
		 option->name, option->arg ? " " : "", option->arg ? option->arg : "");
	fprintf(stream, "  %-*s %s\n", OPTION_WIDTH, text, option->doc);
}

static void print_help(FILE *stream)
{
	fputs("Usage: iotrace SUBCOMMAND [OPTION...] [INTERVAL [COUNT]] [-- COMMAND [ARG...]]\n"
	      "Shows where this machine's I/O goes and where its latency comes from.\n\n",
	      stream);
	for (size_t i = 0; i < n_commands; i++)
		fprintf(stream, "  %-12s %s\n", commands[i].name, commands[i].summary);
	fputs("\n", stream);
	for (const struct argp_option *option = main_args.options; option->name; option++)
		print_option(stream, option);
	args_print_examples(stream, "iotrace", main_args.examples);
}

static int usage_error(const char *before, const char *arg, const char *after, const char *hint)
{
	struct error err;

	error_set(&err, STATUS_USAGE, 0, "%s'%s'%s", before, text_shown(arg).text, after);
	error_hint(&err, "%s", hint);
	return report_error(&err);
}

static int unknown(const char *arg)
{
	return usage_error(arg[0] == '-' ? "unknown option " : "unknown subcommand ", arg, "",
			   "see `iotrace --help`");
}

/* The main option that @arg is, or NULL. */
static const struct argp_option *main_option(const char *arg)
{
	for (const struct argp_option *option = main_args.options; option->name; option++)
		if ((strncmp(arg, "--", 2) == 0 && strcmp(arg + 2, option->name) == 0) ||
		    (arg[0] == '-' && arg[1] == option->key && !arg[2]))
			return option;
	return NULL;
}

/* @argv begins with what it was called by. */
static int run_subcommand(const char *subcommand, int argc, char **argv)
{
	char name[64];

	for (size_t i = 0; i < n_commands; i++) {
		if (strcmp(subcommand, commands[i].name) != 0)
			continue;
		snprintf(name, sizeof(name), "iotrace %s", commands[i].name);
		argv[0] = name;
		return tool_main(commands[i].command, argc, argv);
	}
	return unknown(subcommand);
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

/* What there is without a subcommand: @argv begins with an option. */
static int run_main(int argc, char **argv)
{
	bool check = false, version = false, verbose = false, json = false;

	for (int i = 0; i < argc; i++) {
		const struct argp_option *option = main_option(argv[i]);

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

/* Called by the name of the tool whose work @subcommand takes over. */
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
