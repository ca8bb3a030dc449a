/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of iotrace uring. */
#ifndef IOTRACE_CMD_URING_OPTIONS_H
#define IOTRACE_CMD_URING_OPTIONS_H

#include "cmd/block/blk.h"
#include "cmd/cli/args.h"

struct uring_options {
	struct args args;
	struct blk_filters filters; /* -p */
};

/* Its options, without their own. */
extern const struct args_spec uring_args;

/* Parses @argv.  -errno with @err filled. */
int uring_options(int argc, char **argv, struct uring_options *o, struct error *err);

#endif
