// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stack/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"

enum { KEY_ORDER = 0x100 };

#define OWN struct stack_options

static const char *const units[] = { "bytes", "ios", "time", "wait" }; /* enum stack_unit */

static int take_direction(void *own, const char *arg, struct error *err)
{
	OWN *o = own;
	bool r = strcmp(arg, "r") == 0, w = strcmp(arg, "w") == 0;

	if (!r && !w && strcmp(arg, "rw") != 0)
		return error_set(err, STATUS_USAGE, -EINVAL, "invalid direction '%s': r, w or rw",
				 text_shown(arg).text);
	o->reads = !w;
	o->writes = !r;
	return 0;
}

const char *stack_value_name(enum stack_unit unit)
{
	return units[unit];
}

by_keys stack_keys(const struct stack_options *o)
{
	return o->by ? o->by : (KEY_DISK + 1) | ((o->per_pid ? KEY_PROCESS : KEY_COMM) + 1) << 8;
}

static const struct args_option options[] = {
	{ "duration", 'D', "SECS", "one output, after SECS seconds", ARGS_COUNTED,
	  ARGS_SECONDS(duration_ns) },
	{ "kernel-stack", 'K', NULL, "group by kernel stack", ARGS_SHOWN, ARGS_FLAG(kernel) },
	{ "user-stack", 'U', NULL, "group by user stack", ARGS_SHOWN, ARGS_FLAG(user) },
	{ "perpid", 'P', NULL, "one row per PID instead of per name", ARGS_SHOWN,
	  ARGS_FLAG(per_pid) },
	KEYS_OPTION("group by stack and KEY: disk, process, comm (a name), cgroup, unit, "
		    "container, user, file, dir[:DEPTH] (disk,comm)"),
	{ "folded", 'f', NULL, "folded lines, one per stack, for flame graphs", ARGS_SHOWN,
	  ARGS_FLAG(folded), .flags = ARGS_REPLAY },
	{ "order", KEY_ORDER, "process|disk", "with -f: first field of a line (default: process)",
	  ARGS_SHOWN, ARGS_WORD(enum stack_order, order), .flags = ARGS_REPLAY },
	{ "iodir", 0, "r|w|rw", "count reads, writes or both (default: rw); also -io", ARGS_COUNTED,
	  ARGS_TAKEN(take_direction) },
	BLK_FILTER_OPTIONS,
	{ "value", STACK_KEY_VALUE, "bytes|ios|time|wait",
	  "what to count: bytes (default), completed I/Os, their time, or the time that threads "
	  "wait for I/O",
	  ARGS_COUNTED, ARGS_WORD(enum stack_unit, unit), .flags = ARGS_REPLAY },
	{ "rows", 'r', "ROWS", "only the ROWS largest, and the sum of the others", ARGS_SHOWN,
	  ARGS_NUMBER(max_rows, 1, UINT64_MAX), .flags = ARGS_REPLAY },
	{ "svg", 0, "FILE", "also write a flame graph to FILE", ARGS_SHOWN, ARGS_FILE(svg),
	  .flags = ARGS_REPLAY },
	{ 0 },
};

/* "-io" and "-io=w" are long options with one dash, like in the script: getopt would read -i -o.
 * Not after "--", where COMMAND's options begin. */
static void name_iodir(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		static char with_value[16];

		if (strcmp(argv[i], "-io") == 0) {
			static char plain[] = "--iodir";

			argv[i] = plain;
		} else if (strncmp(argv[i], "-io=", 4) == 0) {
			/* A word too long for a direction stays invalid when it is cut. */
			snprintf(with_value, sizeof(with_value), "--iodir=%s", argv[i] + 4);
			argv[i] = with_value;
		}
	}
}

static int check(struct stack_options *o, struct error *err)
{
	const struct args_rule rules[] = {
		{ o->folded && o->args.for_programs,
		  "-f and --json or --csv are mutually exclusive" },
		{ args_given(&o->args, KEY_ORDER) && !o->folded, "--order requires -f" },
		{ o->duration_ns && o->args.interval_ns, "-D and INTERVAL are mutually exclusive",
		  "-D SECONDS is INTERVAL SECONDS with a COUNT of 1" },
		{ o->svg && !o->args.replay && !o->duration_ns && o->args.interval_ns &&
		      o->args.count != 1,
		  "--svg shows one output",
		  "use -D instead of INTERVAL, or --record and then --replay FILE --sum --svg" },
		{ o->waits && keys_of_file(o->by),
		  "--value wait has no files: --by file and dir are for I/O" },
		{ o->by && o->per_pid,
		  "-P and --by are mutually exclusive: -P is --by disk,process" },
	};
	int r = args_check(rules, ARRAY_SIZE(rules), err);

	return r ? r : blk_check_options(&o->filters, &o->args, err);
}

static const struct args_example examples[] = {
	{ "-P -io w -D 86400", "who writes, over a day" },
	{ "-K -U --svg io.svg -- make -j8", "a flame graph of a command" },
	{ "-K -U --value wait -D 10", "who waits for I/O, and where" },
	{ "-K -f -o io.folded -D 10", "folded lines for other tools" },
	{ 0 },
};

const struct args_spec stack_args = {
	.options = options,
	.doc = "Bytes by disk, process and stack, counted where I/O is submitted: "
	       "on md and dm devices and on the disks below them.",
	.notes = "Without -K and -U: by disk and process. Without INTERVAL the output comes at the "
		 "end (SIGUSR1: also now). Fewest bytes first.",
	.examples = examples,
};

int stack_options(int argc, char **argv, struct stack_options *o, struct error *err)
{
	int r;

	memset(o, 0, sizeof(*o));
	o->reads = o->writes = true;
	name_iodir(argc, argv);
	r = args_parse(&stack_args, o, argc, argv, &o->args, err);
	if (r)
		return r;
	/* For a replay the recording decides. */
	o->ios = !o->args.replay && (o->unit == STACK_IOS || o->unit == STACK_TIME);
	o->waits = !o->args.replay && o->unit == STACK_WAIT;
	if (o->folded && !o->args.output)
		o->args.stdout_is_data = true;
	r = check(o, err);
	if (o->duration_ns) {
		o->args.interval_ns = o->duration_ns;
		o->args.count = 1;
	}
	o->several = o->args.interval_ns && o->args.count != 1;
	return r;
}
