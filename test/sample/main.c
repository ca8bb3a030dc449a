// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace-sample: the sample subcommand alone, or
 *
 *     iotrace-sample --both DISK FILE INTERVAL
 *
 * with `iotrace top -d DISK -o FILE` in the same process: JSON of both.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cli/command.h"
#include "cmd/cli/report.h"
#include "cmd/engine/setup.h"

extern const struct tool tool_sample;

#define N_TOOLS 2

static int attach_all(struct tool_run **tools, struct run *run, struct error *err)
{
	int r = run_begin(run, tools[0]->args, err);

	for (size_t i = 0; !r && i < N_TOOLS; i++)
		r = tool_attach(tools[i], run, err);
	return r;
}

static int run_both(char **argv)
{
	char json[] = "--json", d[] = "-d", o[] = "-o";
	char *sample[] = { json, json, argv[2], NULL };
	char *top[] = { json, json, d, argv[0], o, argv[1], NULL };
	struct tool_run *tools[N_TOOLS] = { NULL };
	struct error err;
	struct run run;
	int status;

	if (tool_open(&tool_sample, 3, sample, &tools[0], &err) ||
	    tool_open(&tool_top, 6, top, &tools[1], &err)) {
		status = report_error(&err);
	} else {
		status = attach_all(tools, &run, &err) ? report_error(&err)
						       : tools_loop(tools, N_TOOLS, &run);
		for (size_t i = 0; i < N_TOOLS; i++)
			status = show_close(&tools[i]->show, status);
		run_end(&run);
	}
	for (size_t i = 0; i < N_TOOLS; i++)
		tool_close(tools[i]);
	return status;
}

int main(int argc, char **argv)
{
	setup_process();
	if (argc == 5 && strcmp(argv[1], "--both") == 0)
		return run_both(&argv[2]);
	return tool_main(&tool_sample, argc, argv);
}
