/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of iotrace breakdown. */
#ifndef IOTRACE_CMD_BREAKDOWN_OPTIONS_H
#define IOTRACE_CMD_BREAKDOWN_OPTIONS_H

#include "cmd/block/blk.h"
#include "cmd/block/by.h"
#include "probes/breakdown_value.h"

/* The unit of the text; times are counted in nanoseconds. */
struct breakdown_unit {
	const char *name; /* "nsecs" */
	uint64_t ns;	  /* in one of it; 1 if it is not a time */
	bool plain;	  /* it is not a time: --value */
	bool no_sum;	  /* the sum says nothing */
};

struct breakdown_options {
	struct args args;
	struct blk_filters filters;
	const char *layer; /* -T; NULL: all of them */
	bool queued;	   /* -Q */
	enum breakdown_value value;
	bool hist;	   /* --hist */
	bool heatmap;	   /* --heatmap, as text */
	const char *svg;   /* --heatmap=FILE; NULL: none */
	by_keys by;	   /* --by; 0: not given */
	uint64_t max_keys; /* -r; 0: not given */
	const struct breakdown_unit *unit;
};

/* Its options, without their own. */
extern const struct args_spec breakdown_args;

/* The unit with this number of nanoseconds; NULL: none. */
const struct breakdown_unit *breakdown_unit(uint64_t ns);

/* Parses @argv.  -errno with @err filled. */
int breakdown_options(int argc, char **argv, struct breakdown_options *o, struct error *err);

/* --hist with only one layer: -EINVAL with @err. */
int breakdown_hist_error(struct error *err);

/* --heatmap with all layers: -EINVAL with @err. */
int breakdown_heatmap_error(struct error *err);

/* -r without --by: -EINVAL with @err. */
int breakdown_keys_error(struct error *err);

/* How many keys are displayed, in addition to (other). */
uint64_t breakdown_max_keys(const struct breakdown_options *o);

/* A disk without requests would give an empty block layer: -ENOTSUP with @err. */
int breakdown_check_disk(const struct breakdown_options *o, struct error *err);

#endif
