/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of iotrace top. */
#ifndef IOTRACE_CMD_TOP_OPTIONS_H
#define IOTRACE_CMD_TOP_OPTIONS_H

#include "cmd/block/blk.h"
#include "cmd/block/by.h"

enum top_sort { SORT_BYTES, SORT_IO, SORT_TIME };

struct top_options {
	struct args args;
	struct blk_filters filters;
	bool no_clear;
	uint64_t max_rows; /* -r; 0: not given, see top_max_rows() */
	enum top_sort sort;
	bool bio;
	bool cgroup_owner;
	bool extended;
	by_keys by; /* --by; 0: not given */
};

/* Its options, without their own. */
extern const struct args_spec top_args;

/* Parses @argv.  -errno with @err filled. */
int top_options(int argc, char **argv, struct top_options *o, struct error *err);

/* The most rows to display: -r, otherwise 20 in text and all in other formats. */
uint64_t top_max_rows(const struct top_options *o);

#endif
