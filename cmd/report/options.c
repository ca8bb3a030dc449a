// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/report/options.h"

#include <errno.h>
#include <stdio.h>

#include "cmd/engine/segments.h"

#define OWN struct report_options

static const struct args_option options[] = {
	{ "dir", 0, "DIR", "the directory of `iotrace record` (" SEGMENTS_DIR ")", ARGS_COUNTED,
	  ARGS_FILE(dir) },
	{ "at", 0, "TIME", "the five minutes around TIME (03:12, 2026-11-28 03:12, -90m)",
	  ARGS_COUNTED, ARGS_TEXT(at) },
	{ "begin", 0, "TIME", "from TIME on (one hour before the end)", ARGS_COUNTED,
	  ARGS_TEXT(begin) },
	{ "end", 0, "TIME", "up to TIME", ARGS_COUNTED, ARGS_TEXT(end) },
	{ "output", 'o', "FILE", "write a web page to FILE, with everything in it", ARGS_OUTPUT,
	  ARGS_FILE(output) },
	{ "bundle", 0, "FILE", "write the recordings of that time to FILE (.tar.gz), for a ticket",
	  ARGS_OUTPUT, ARGS_FILE(bundle) },
	{ "anonymous", 0, NULL,
	  "--bundle without names of files, processes, units, users, the machine", ARGS_OUTPUT,
	  ARGS_FLAG(anonymous) },
	{ 0 },
};

static const struct args_example examples[] = {
	{ "--at 03:12", "what happened then?" },
	{ "--begin 03:00 --end 03:30 -o n.html", "a page for a ticket" },
	{ "--at 03:12 --bundle n.tar.gz", "all data for a ticket" },
	{ 0 },
};

static int no_argument(const char *arg, void *own, struct error *err)
{
	(void)arg;
	(void)own;
	error_set(err, STATUS_USAGE, -EINVAL, "report takes no arguments");
	error_hint(err, "give the time with --at, or --begin and --end");
	return -EINVAL;
}

const struct args_spec report_args = {
	.options = options,
	.doc =
	    "What happened at a time that `iotrace record` has recorded: who used the disks, how "
	    "long requests took, whose I/O delayed whose, which I/Os took longest, and what hung.",
	.argument = no_argument,
	.arguments = "",
	.examples = examples,
};

int report_options(int argc, char **argv, struct report_options *o, struct error *err)
{
	int r;

	*o = (struct report_options){ .dir = SEGMENTS_DIR };
	r = args_parse(&report_args, o, argc, argv, &o->args, err);
	if (r || o->args.help)
		return r;
	if (o->bundle && o->output)
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "--bundle and -o are mutually exclusive");
	if (o->anonymous && !o->bundle)
		return error_set(err, STATUS_USAGE, -EINVAL, "--anonymous requires --bundle");
	if (o->at && (o->begin || o->end))
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "--at and --begin or --end are mutually exclusive");
	snprintf(o->from, sizeof(o->from), "%s", o->at ?: o->begin ?: o->end ? "" : "-60m");
	snprintf(o->to, sizeof(o->to), "%s", o->end ?: "");
	return 0;
}
