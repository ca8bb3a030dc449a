/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of iotrace report. */
#ifndef IOTRACE_CMD_REPORT_OPTIONS_H
#define IOTRACE_CMD_REPORT_OPTIONS_H

#include "cmd/cli/args.h"

struct report_options {
	struct args args;
	const char *dir;
	const char *at, *begin, *end; /* NULL: not given */
	const char *output;	      /* NULL: standard output */
	const char *bundle;	      /* --bundle; NULL: no */
	bool anonymous;
	/* For --begin and --end of a replay; "": its beginning, its end; of --at the time itself.
	 */
	char from[64], to[64];
};

extern const struct args_spec report_args;

/* Like args_parse(). */
int report_options(int argc, char **argv, struct report_options *o, struct error *err);

#endif
