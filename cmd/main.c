// SPDX-License-Identifier: GPL-2.0-or-later
/* Dispatch to the subcommands of cmd/commands.cmake. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/command.h"
#include "cmd/report.h"
#include "core/error.h"
#include "core/text.h"

static const struct entry {
	const char *name;
	const char *summary;
	const struct command *command;
} entries[] = {
#define COMMAND(name, summary) { #name, summary, &command_##name },
#include "commands.inc"
#undef COMMAND
};

#define N_ENTRIES (sizeof(entries) / sizeof(entries[0]))

static void print_help(FILE *stream)
{
	fputs("Usage: iotrace SUBCOMMAND [OPTION...] [INTERVAL [COUNT]] [-- COMMAND [ARG...]]\n"
	      "Shows where this machine's I/O goes and where its latency comes from.\n\n",
	      stream);
	for (size_t i = 0; i < N_ENTRIES; i++)
		fprintf(stream, "  %-12s %s\n", entries[i].name, entries[i].summary);
	fputs("\n  -h, --help     this help; `iotrace SUBCOMMAND --help` for a subcommand's\n"
	      "  -V, --version  the version\n",
	      stream);
}

static int unknown(const char *arg)
{
	struct error err;

	error_set(&err, STATUS_USAGE, 0, "unknown %s '%s'", arg[0] == '-' ? "option" : "subcommand",
		  text_shown(arg).text);
	error_hint(&err, "`iotrace --help` lists what there is");
	return report_error(&err);
}

/*
 * A standard stream that was closed (`iotrace top >&-`) must not become the
 * number of some map or socket of ours: it is opened so that using it fails.
 */
static void hold_standard_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
	char name[64];

	hold_standard_streams();
	signal(SIGPIPE, SIG_IGN); /* a reader that goes away ends the run, quietly */
	if (argc < 2) {
		print_help(stderr);
		return STATUS_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_help(stdout);
		return report_stdout();
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		puts("iotrace " IOTRACE_VERSION);
		return report_stdout();
	}
	for (size_t i = 0; i < N_ENTRIES; i++) {
		if (strcmp(argv[1], entries[i].name) != 0)
			continue;
		snprintf(name, sizeof(name), "iotrace %s", entries[i].name);
		argv[1] = name;
		return entries[i].command->run(argc - 1, argv + 1);
	}
	return unknown(argv[1]);
}
