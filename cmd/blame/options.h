/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of iotrace blame. */
#ifndef IOTRACE_CMD_BLAME_OPTIONS_H
#define IOTRACE_CMD_BLAME_OPTIONS_H

#include "cmd/block/blk.h"
#include "cmd/block/by.h"

/* How requests that are at a disk at the same time share what others wait for them. */
enum blame_weight_by { WEIGHT_REQUESTS, WEIGHT_BYTES };

/* For args_given(). */
enum { BLAME_KEY_BY = 0x100, BLAME_KEY_WEIGHT };

struct blame_options {
	struct args args;
	struct blk_filters filters;  /* -d alone */
	by_keys by;		     /* --by */
	enum blame_weight_by weight; /* --weight */
	const char *victim;	     /* --victim; NULL: all */
	by_keys given_by;	     /* in a replay by and weight are the recording's */
	enum blame_weight_by given_weight;
	bool held;	   /* --held */
	const char *fsync; /* --fsync; NULL: none */
};

/* Its options, without their own. */
extern const struct args_spec blame_args;

/* Parses @argv.  -errno with @err filled. */
int blame_options(int argc, char **argv, struct blame_options *o, struct error *err);

/* -EINVAL with @err: an option does not go with --held, which a recording may have. */
int blame_check_held(const struct blame_options *o, struct error *err);

#endif
