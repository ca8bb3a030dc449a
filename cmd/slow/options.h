/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of iotrace slow. */
#ifndef IOTRACE_CMD_SLOW_OPTIONS_H
#define IOTRACE_CMD_SLOW_OPTIONS_H

#include "cmd/block/blk.h"
#include "cmd/block/by.h"

struct slow_options {
	struct args args;
	struct blk_filters filters;
	uint64_t min_ns; /* -m; in a replay, the run's */
	uint64_t replay_min_ns;
	uint64_t most;	   /* -n: the slowest of an interval; 0: all that are slow */
	uint64_t limit;	   /* --limit: records per second; 0: all */
	by_keys by;	   /* --by */
	by_keys replay_by; /* the same, given with --replay */
	bool filtered;	   /* not all I/Os of a disk: -p, --cgroup, COMMAND, a partition */
	bool bio;	   /* --bio */
	bool stacks;	   /* -K */
	bool user;	   /* -U */
	bool fsync;	   /* --fsync: calls, not I/Os */
};

#define MAX_SLOWEST 10000

/* Its options, without their own. */
extern const struct args_spec slow_args;

/* Parses @argv.  -errno with @err filled. */
int slow_options(int argc, char **argv, struct slow_options *o, struct error *err);

/* Does an option not go with --fsync?  Then -EINVAL with @err. */
int slow_fsync_check(const struct slow_options *o, struct error *err);

#endif
