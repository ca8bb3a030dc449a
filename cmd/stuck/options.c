// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stuck/options.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/parse.h"

#define AT_ONCE (NS_PER_SEC / 1000) /* without INTERVAL: one output */

#define OWN struct stuck_options

static int take_ms(void *own, const char *arg, struct error *err)
{
	OWN *o = own;
	int r = parse_ms("-m", arg, &o->min_ns, err);

	o->replay_min_ns = o->min_ns;
	return r;
}

static const struct args_option options[] = {
	{ "min", 'm', "MS",
	  "only requests and threads that have waited for at least MS milliseconds (1000)",
	  ARGS_COUNTED, ARGS_TAKEN(take_ms), .columns = { "age_ns", "device_ns" },
	  .chooses = ARGS_UNLESS_YOUNGER },
	{ "disk", 'd', "DISK", "only this disk, such as nvme0n1, or several: sda,sdb", ARGS_COUNTED,
	  ARGS_TAKEN(blk_take_disk), .at = ARGS_AT(struct blk_filters, filters),
	  .columns = { "disk" } },
	{ "apart", 0, NULL,
	  "files are opened by a thread of its own, for which no output waits long", ARGS_COUNTED,
	  ARGS_FLAG(apart), .flags = ARGS_HIDDEN },
	ARGS_SCREEN,
	{ 0 },
};

static const struct args_example examples[] = {
	{ "", "what has hung for a second or longer" },
	{ "-m 0", "everything in flight" },
	{ "-m 100 1", "every second" },
	{ 0 },
};

const struct args_spec stuck_args = {
	.options = options,
	.doc = "Requests that are in flight now, although nothing was traced before; their disks; "
	       "and the threads in uninterruptible sleep, with what they wait for. One output, or "
	       "one every INTERVAL seconds, COUNT times.",
	.notes =
	    "WHERE a request is: device, completed, scheduler, dispatch (the driver had no room "
	    "for it), requeue (the driver gave it back), flush (waits for a flush command), or "
	    "queued. AGE is from when it was made, DEVICE from when it was issued; >= means at "
	    "least.",
	.examples = examples,
	.no_command = true,
	.counts_all = true, /* no --all */
};

int stuck_options(int argc, char **argv, struct stuck_options *o, struct error *err)
{
	int r;

	memset(o, 0, sizeof(*o));
	o->min_ns = NS_PER_SEC;
	o->args.interval_ns = AT_ONCE;
	r = args_parse(&stuck_args, o, argc, argv, &o->args, err);
	if (!r && o->args.interval_ns == AT_ONCE)
		o->args.count = 1;
	return r;
}
