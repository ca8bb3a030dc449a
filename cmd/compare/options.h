/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of iotrace compare. */
#ifndef IOTRACE_CMD_COMPARE_OPTIONS_H
#define IOTRACE_CMD_COMPARE_OPTIONS_H

#include <limits.h>

#include "cmd/cli/args.h"
#include "output/stacks.h"

/* What is compared with what: A and B. */
struct compare_source {
	const char *name;    /* as given */
	char path[PATH_MAX]; /* for --replay */
	char begin[64];	     /* for --begin; "": from the beginning */
	char end[64];
};

struct compare_options {
	struct args args;
	struct compare_source sources[2];
	size_t n_sources;
	uint64_t keys;	/* --rows: of enum compare_key, a bit each; 0: as recorded */
	uint64_t least; /* --least: percent */
	bool json;
	const char *svg;       /* --svg: a file; NULL: none */
	enum stack_unit value; /* --value, of the flame graph */
	bool value_given;
	bool shares; /* --shares */
};

extern const struct args_spec compare_args;

/* Like args_parse(). */
int compare_options(int argc, char **argv, struct compare_options *o, struct error *err);

#endif
