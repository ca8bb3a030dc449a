/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_STUCK_OPTIONS_H
#define IOTRACE_CMD_STUCK_OPTIONS_H

/* The options of iotrace stuck. */

#include "cmd/block/blk.h"
#include "cmd/cli/args.h"
#include "core/base/error.h"

struct stuck_options {
	struct args args;
	uint64_t min_ns;	    /* requests and threads that wait for less are not shown */
	uint64_t replay_min_ns;	    /* -m; of a recording min_ns is what it was made with */
	bool apart;		    /* names are looked up by a thread of its own */
	struct blk_filters filters; /* -d */
};

extern const struct args_spec stuck_args;

/* 0, or -errno with @err. */
int stuck_options(int argc, char **argv, struct stuck_options *o, struct error *err);

#endif
