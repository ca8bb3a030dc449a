// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/slow/options.h"

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/array.h"
#include "core/base/parse.h"

#define DEFAULT_MIN_NS (10 * NS_PER_SEC / 1000)
#define DEFAULT_LIMIT  10000

enum { KEY_LIMIT = 0x100, KEY_FORMAT };

#define OWN struct slow_options

static int take_ms(void *own, const char *arg, struct error *err)
{
	OWN *o = own;
	int r = parse_ms("-m", arg, &o->min_ns, err);

	o->replay_min_ns = o->min_ns;
	return r;
}

static int take_format(void *own, const char *arg, struct error *err)
{
	OWN *o = own;

	return args_trace(&o->args, arg, err);
}

static const struct args_option options[] = {
	{ "min", 'm', "MS", "I/Os of MS milliseconds and more (10; with -n: 0)", ARGS_COUNTED,
	  ARGS_TAKEN(take_ms), .columns = { "total_ns" }, .chooses = ARGS_AT_LEAST },
	{ "slowest", 'n', "IOS", "only the IOS slowest I/Os of each interval", ARGS_COUNTED,
	  ARGS_NUMBER(most, 1, MAX_SLOWEST), .flags = ARGS_ONCE },
	BLK_FILTER_OPTIONS,
	{ "kernel-stack", 'K', NULL, "also show the kernel stack that submitted the I/O",
	  ARGS_SHOWN, ARGS_FLAG(stacks) },
	{ "user-stack", 'U', NULL, "also show the user stack that submitted the I/O", ARGS_SHOWN,
	  ARGS_FLAG(user) },
	KEYS_OPTION(
	    "at the end also show who has most of the slow time: disk, process, comm (a name), cgroup, "
	    "unit, container, user, file, dir or dir:2"),
	{ "fsync", 0, NULL, "not I/Os: fsyncs, and what they waited for", ARGS_COUNTED,
	  ARGS_FLAG(fsync) },
	{ "bio", 0, NULL, "also follow bio-based devices (dm, md, zram, ...)", ARGS_COUNTED,
	  ARGS_FLAG(bio) },
	{ "limit", KEY_LIMIT, "IOS", "file, stack of IOS I/Os per second (10000; 0: all)",
	  ARGS_COUNTED, ARGS_NUMBER(limit, 0, UINT32_MAX) },
	ARGS_SCREEN,
	{ "format", KEY_FORMAT, "FORMAT", "perfetto: a trace for ui.perfetto.dev", ARGS_OUTPUT,
	  ARGS_TAKEN(take_format), .flags = ARGS_REPLAY, .words = "perfetto" },
	{ 0 },
};

static const struct args_example examples[] = {
	{ "-m 50", "I/Os of 50 ms and more" },
	{ "-n 5 -d nvme0n1 10", "the slowest of each ten seconds" },
	{ "--by unit,disk 3600 1", "an hour, summed up by unit, disk" },
	{ "--fsync -m 100", "fsyncs of 100 ms and more" },
	{ 0 },
};

const struct args_spec slow_args = {
	.options = options,
	.doc = "I/Os that took long, one line each: from the arrival of the bio at the block layer "
	       "to the completion of its request, in ms before the request was made (ADMIT), in "
	       "its queue (QUEUE) and at the device (DEVICE).",
	.notes = "D: as in `iotrace top`. FLAGS: S sync (a caller waits), M "
		 "metadata, F forced to the medium (FUA), P after a flush, A read "
		 "ahead. DEPTH: requests at the device when it was issued, "
		 "including itself. FILE in [brackets]: why the file is unknown, or "
		 "which processes wait for a flush.",
	.examples = examples,
};

int slow_fsync_check(const struct slow_options *o, struct error *err)
{
	const struct {
		bool given;
		const char *option;
	} others[] = {
		{ o->stacks, "-K" },
		{ o->user, "-U" },
		{ o->by, "--by" },
		{ o->bio, "--bio" },
		{ args_given(&o->args, KEY_LIMIT), "--limit" },
		{ o->args.screen, "--screen" },
		{ args_given(&o->args, KEY_FORMAT), "--format" },
	};

	for (size_t i = 0; o->fsync && i < ARRAY_SIZE(others); i++)
		if (others[i].given)
			return error_set(
			    err, STATUS_USAGE, -EINVAL,
			    "%s is about I/Os: it does not go with --fsync, which shows calls",
			    others[i].option);
	return 0;
}

int slow_options(int argc, char **argv, struct slow_options *o, struct error *err)
{
	int r;

	memset(o, 0, sizeof(*o));
	o->args.interval_ns = NS_PER_SEC;
	o->limit = DEFAULT_LIMIT;
	r = args_parse(&slow_args, o, argc, argv, &o->args, err);
	if (r)
		return r;
	if (!args_given(&o->args, 'm') && !o->most)
		o->min_ns = DEFAULT_MIN_NS;
	/* User space selects the slowest, among all that may be one of them. */
	if (o->most && !args_given(&o->args, KEY_LIMIT))
		o->limit = 0;
	o->replay_by = o->by;
	if (o->args.replay)
		o->by = 0; /* unless the recording has it */
	r = slow_fsync_check(o, err);
	return r ? r : blk_check_options(&o->filters, &o->args, err);
}
