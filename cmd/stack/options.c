// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stack/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/parse.h"
#include "core/base/text.h"

enum { KEY_IODIR = 0x2000, KEY_ORDER, KEY_SVG, KEY_BY };

static const char *const units[] = { "bytes", "ios", "time", "wait" }; /* enum stack_unit */

static const struct argp_option options[] = {
	{ "duration", 'D', "SECS", 0, "stop after SECS seconds", 1 },
	{ "kernel-stack", 'K', NULL, 0, "group by kernel stack", 1 },
	{ "user-stack", 'U', NULL, 0, "group by user stack", 1 },
	{ "perpid", 'P', NULL, 0, "one row per PID instead of per name", 1 },
	{ "by", KEY_BY, "KEY[,KEY]", 0,
	  "what a row is about beside its stack: disk, process, comm (processes of one name), "
	  "cgroup, unit, container or user (default: disk,comm)",
	  1 },
	{ "folded", 'f', NULL, 0, "folded lines, one per stack, for flame graphs", 1 },
	{ "order", KEY_ORDER, "process|disk", 0,
	  "with -f: first field of each line (default: process)", 1 },
	{ "iodir", KEY_IODIR, "r|w|rw", 0, "count reads, writes or both (default: rw); also -io",
	  1 },
	BLK_FILTER_OPTIONS,
	{ "value", STACK_KEY_VALUE, "bytes|ios|time|wait", 0,
	  "what is added up: bytes, complete I/Os, their time from submission to completion, or "
	  "the time that threads were off the CPU in reads, writes, syncs and page faults "
	  "(default: bytes)",
	  1 },
	{ "rows", 'r', "ROWS", 0, "only the ROWS largest rows, and the sum of the others", 1 },
	{ "svg", KEY_SVG, "FILE", 0, "also write a flame graph to FILE", 1 },
	{ 0 },
};

static int parse_direction(const char *arg, struct stack_options *o, struct error *err)
{
	bool r = strcmp(arg, "r") == 0, w = strcmp(arg, "w") == 0;

	if (!r && !w && strcmp(arg, "rw") != 0)
		return error_set(err, STATUS_USAGE, -EINVAL, "invalid direction '%s': r, w or rw",
				 text_shown(arg).text);
	o->reads = !w;
	o->writes = !r;
	return 0;
}

static int parse_order(const char *arg, struct stack_options *o, struct error *err)
{
	o->order = strcmp(arg, "disk") == 0 ? STACK_ORDER_DISK : STACK_ORDER_PROCESS;
	if (o->order == STACK_ORDER_PROCESS && strcmp(arg, "process") != 0)
		return error_set(err, STATUS_USAGE, -EINVAL, "invalid order '%s': process or disk",
				 text_shown(arg).text);
	return 0;
}

static int parse_value(const char *arg, struct stack_options *o, struct error *err)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(arg, units[i]) != 0)
			continue;
		o->unit = (enum stack_unit)i;
		o->ios = o->unit == STACK_IOS || o->unit == STACK_TIME;
		o->waits = o->unit == STACK_WAIT;
		return 0;
	}
	return error_set(err, STATUS_USAGE, -EINVAL, "invalid value '%s': bytes, ios, time or wait",
			 text_shown(arg).text);
}

const char *stack_value_name(enum stack_unit unit)
{
	return units[unit];
}

by_keys stack_keys(const struct stack_options *o)
{
	return o->by ? o->by : (KEY_DISK + 1) | ((o->per_pid ? KEY_PROCESS : KEY_COMM) + 1) << 8;
}

static const struct args_member members[] = {
	{ 'K', offsetof(struct stack_options, kernel), false },
	{ 'U', offsetof(struct stack_options, user), false },
	{ 'P', offsetof(struct stack_options, per_pid), false },
	{ 'f', offsetof(struct stack_options, folded), false },
	{ 0 },
};

static error_t parse(int key, char *arg, void *own, struct error *err)
{
	struct stack_options *o = own;

	switch (key) {
	case 'D':
		return parse_seconds("-D", arg, &o->args.interval_ns, err);
	case KEY_IODIR:
		return parse_direction(arg, o, err);
	case KEY_ORDER:
		return parse_order(arg, o, err);
	case KEY_BY:
		return keys_parse(arg, &o->by, err);
	case STACK_KEY_VALUE:
		return parse_value(arg, o, err);
	case 'r':
		return parse_u64("-r", arg, 1, UINT64_MAX, &o->max_rows, err);
	case KEY_SVG:
		return args_file("--svg", arg, &o->svg, err);
	}
	return blk_filter_option(key, arg, &o->filters);
}

/* "-io" and "-io=w" are long options with one dash, as the script had them: getopt would read
 * -i -o.  Not behind "--", where COMMAND's own begin. */
static void name_iodir(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		static char with_value[16];

		if (strcmp(argv[i], "-io") == 0) {
			static char plain[] = "--iodir";

			argv[i] = plain;
		} else if (strncmp(argv[i], "-io=", 4) == 0) {
			/* What is too long to be a direction is not one when cut either. */
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
		{ o->by && o->per_pid,
		  "-P and --by are mutually exclusive: -P is --by disk,process" },
	};
	int r = args_check(rules, sizeof(rules) / sizeof(rules[0]), err);

	return r ? r : blk_check_options(&o->filters, &o->args, err);
}

/* What only shapes the output. */
static const int shown[] = { 'f', 'r', KEY_ORDER, KEY_SVG, STACK_KEY_VALUE, 0 };

static const struct args_values values[] = {
	{ "KEY[,KEY]", "disk|process|comm|cgroup|unit|container|user" },
	{ 0 },
};

static const struct args_example examples[] = {
	{ "-P -io w -D 86400", "who writes, over a day" },
	{ "-K -U --svg io.svg -- make -j8", "a flame graph of a command" },
	{ "-K -U --value wait -D 10", "who waits for I/O, and where" },
	{ "-K -f -o io.folded -D 10", "folded lines for other tools" },
	{ 0 },
};

const struct args_spec stack_args = {
	.options = options,
	.parse = parse,
	.members = members,
	.doc = "Bytes by disk, process and stack, counted where I/O is submitted: through md "
	       "and dm, and on what lies below them.\vWithout -K and -U: by disk and "
	       "process. Output comes at the end, fewest bytes first.",
	.no_interval = "the time to trace is -D SECONDS",
	.examples = examples,
	.values = values,
	.replay = shown,
	.filters = (const int[]){ BLK_FILTER_KEYS, 0 },
};

int stack_options(int argc, char **argv, struct stack_options *o, struct error *err)
{
	struct args_spec spec = stack_args;
	int r;

	memset(o, 0, sizeof(*o));
	o->reads = o->writes = true;
	name_iodir(argc, argv);
	spec.own = o;
	r = args_parse(&spec, argc, argv, &o->args, err);
	if (r)
		return r;
	if (o->args.replay)
		o->ios = o->waits = false; /* the recording says */
	o->args.count = o->args.interval_ns ? 1 : 0;
	if (o->folded && !o->args.output)
		o->args.stdout_is_data = true;
	return check(o, err);
}
