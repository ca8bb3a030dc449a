// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/uring/options.h"

#include <string.h>

#include "core/base/clock.h"

#define OWN struct uring_options

static const struct args_option options[] = {
	{ "pid", 'p', "PID", "only requests submitted by process PID, or by PID,PID", ARGS_COUNTED,
	  ARGS_TAKEN(blk_take_pid), .at = ARGS_AT(struct blk_filters, filters),
	  .columns = { "pid" } },
	ARGS_SCREEN,
	{ 0 },
};

static const struct args_example examples[] = {
	{ "5 10", "ten outputs, one every five seconds" },
	{ "-p 1234 --screen", "one process, full-screen" },
	{ "--json 1 60", "a minute, for a program to read" },
	{ 0 },
};

const struct args_spec uring_args = {
	.options = options,
	.doc = "What io_uring does with requests, every INTERVAL seconds (1), COUNT times.",
	.notes = "Requests that completed in the interval, by process, ring (its descriptor; sq: "
		 "with SQPOLL, io: with IOPOLL) and operation. Times are from submission to "
		 "completion. INLINE: completed while they were submitted; POLLED: the file was "
		 "not ready; WORKER: by a kernel thread, since they could block; the others "
		 "completed later without a thread. With -- COMMAND it runs as long as COMMAND "
		 "does, and counts all rings.",
	.counts_all = true,
	.examples = examples,
};

int uring_options(int argc, char **argv, struct uring_options *o, struct error *err)
{
	memset(o, 0, sizeof(*o));
	o->args.interval_ns = NS_PER_SEC;
	return args_parse(&uring_args, o, argc, argv, &o->args, err);
}
