// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/compare/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/compare/rows.h"
#include "cmd/engine/segments.h"
#include "core/base/parse.h"
#include "core/base/text.h"

#define OWN struct compare_options

#define KEY_WORDS "disk|unit|container|cgroup|user|comm|file|dir|layer|user_stack|kernel_stack"

enum { KEY_VALUE = 0x100, KEY_SHARES };

static int take_rows(void *own, const char *arg, struct error *err)
{
	OWN *o = own;

	for (size_t len; *arg; arg += len + (arg[len] == ',')) {
		enum compare_key key = COMPARE_LAYER;

		len = strcspn(arg, ",");
		while (key < COMPARE_KEYS && (strlen(compare_keys[key]) != len ||
					      strncmp(compare_keys[key], arg, len) != 0))
			key++;
		if (key == COMPARE_KEYS) {
			error_set(err, STATUS_USAGE, -EINVAL, "unknown key '%s' of --rows",
				  text_shown(arg).text);
			error_hint(err, "keys: disk, unit, container, cgroup, user, comm, file, "
					"dir, layer, user_stack, kernel_stack");
			return -EINVAL;
		}
		o->keys |= 1U << key;
	}
	return 0;
}

static const struct args_option options[] = {
	{ "rows", 0, "KEY[,KEY]",
	  "add up rows that are the same by these keys: disk, unit, container, cgroup, user, comm "
	  "(a name), file, dir, layer, user_stack, kernel_stack (the recorded ones)",
	  ARGS_SHOWN, ARGS_TAKEN(take_rows), .words = KEY_WORDS },
	{ "least", 0, "PERCENT", "smaller changes count as none (1)", ARGS_SHOWN,
	  ARGS_NUMBER(least, 0, 1000000) },
	{ "json", 0, NULL, "one line of JSON, with every comparison", ARGS_OUTPUT,
	  ARGS_FLAG(json) },
	{ "svg", 0, "FILE", "of stack: also write a flame graph of the difference to FILE",
	  ARGS_OUTPUT, ARGS_FILE(svg) },
	{ "value", KEY_VALUE, "bytes|ios|time|wait",
	  "with --svg: what frames show (bytes, or wait if that was recorded)", ARGS_OUTPUT,
	  ARGS_WORD(enum stack_unit, value) },
	{ "shares", KEY_SHARES, NULL,
	  "with --svg: compare shares of the sum instead of amounts per second", ARGS_OUTPUT,
	  ARGS_FLAG(shares) },
	{ 0 },
};

static const struct args_example examples[] = {
	{ "before.rec after.rec", "did a change make I/O slower?" },
	{ "@03:00..03:10 @-10m..", "last night and now" },
	{ "--rows unit a.rec b.rec", "by service" },
	{ "--svg diff.svg a.rec b.rec", "of stack: which code paths" },
	{ 0 },
};

static int take_time(const char *text, size_t len, char to[64], struct error *err)
{
	struct moment unused;

	if (len >= 64)
		return error_set(err, STATUS_USAGE, -EINVAL, "the time '%s' is too long",
				 text_shown(text).text);
	snprintf(to, 64, "%.*s", (int)len, text);
	return len ? parse_moment("time", to, &unused, err) : 0;
}

/* "PATH", "PATH@BEGIN..END" or "@BEGIN..END". */
static int take_source(const char *arg, void *own, struct error *err)
{
	OWN *o = own;
	struct compare_source *source = &o->sources[o->n_sources];
	const char *at = strrchr(arg, '@'), *dots = at ? strstr(at, "..") : NULL;
	const char *path = arg;
	size_t len = strlen(arg);
	int r;

	if (o->n_sources == 2)
		return error_set(err, STATUS_USAGE, -E2BIG,
				 "compare takes two recordings or times, not more");
	if (at && !dots && access(arg, F_OK)) {
		error_set(err, STATUS_USAGE, -EINVAL, "'%s' has no time after @",
			  text_shown(arg).text);
		error_hint(err, "two times: @03:00..03:10, or one and the beginning or the end: "
				"@03:00..");
		return -EINVAL;
	}
	if (dots && access(arg, F_OK)) {
		r = take_time(at + 1, (size_t)(dots - at) - 1, source->begin, err);
		r = r ?: take_time(dots + 2, strlen(dots + 2), source->end, err);
		if (r)
			return r;
		len = (size_t)(at - arg);
		if (!len)
			path = SEGMENTS_DIR, len = strlen(path);
	}
	if (!len || len >= sizeof(source->path))
		return error_set(err, STATUS_USAGE, -EINVAL, "'%s' cannot be a recording's name",
				 text_shown(arg).text);
	memcpy(source->path, path, len);
	source->name = arg;
	o->n_sources++;
	return 0;
}

const struct args_spec compare_args = {
	.options = options,
	.doc = "What has changed beyond chance between two recordings, or times of one: latencies, "
	       "requests and bytes of disks, layers, units and processes. Exit status 1 if "
	       "something got worse.",
	.notes = "A and B are recordings (--record) of breakdown, top or stack, or directories of "
		 "`iotrace record`; with @BEGIN..END only the intervals of that time, without a "
		 "name before @ of " SEGMENTS_DIR
		 ". Exit status: 0 nothing got worse, 1 something got worse, 2 they cannot be "
		 "compared.",
	.argument = take_source,
	.arguments = "A B",
	.examples = examples,
};

int compare_options(int argc, char **argv, struct compare_options *o, struct error *err)
{
	int r;

	*o = (struct compare_options){ .least = 1 };
	r = args_parse(&compare_args, o, argc, argv, &o->args, err);
	o->value_given = args_given(&o->args, KEY_VALUE);
	if (r || o->args.help)
		return r;
	if ((o->value_given || o->shares) && !o->svg)
		return error_set(err, STATUS_USAGE, -EINVAL, "%s requires --svg",
				 o->shares ? "--shares" : "--value");
	if (o->n_sources == 2)
		return 0;
	error_set(err, STATUS_USAGE, -EINVAL, "compare needs two recordings or times");
	error_hint(err, "iotrace compare A.rec B.rec, or iotrace compare @03:00..03:10 @-10m..");
	return -EINVAL;
}
