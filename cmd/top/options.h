/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_TOP_OPTIONS_H
#define IOTRACE_CMD_TOP_OPTIONS_H

#include "cmd/blk.h"

enum top_sort { SORT_BYTES, SORT_IO, SORT_TIME };

struct top_options {
	struct args args;
	struct blk_filters filters;
	bool no_clear;
	uint64_t max_rows; /* 0: all (the default of JSON and CSV) */
	enum top_sort sort;
	bool bio;
	bool cgroup_owner;
};

/* Parses @argv.  -errno with @err filled. */
int top_options(int argc, char **argv, struct top_options *o, struct error *err);

#endif
