/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_OPTIONS_H
#define IOTRACE_CMD_BREAKDOWN_OPTIONS_H

#include "cmd/blk.h"
#include "cmd/by.h"

/* The unit of the text; counts are in nanoseconds. */
struct breakdown_unit {
	const char *name; /* "nsecs" */
	uint64_t ns;	  /* in one of it */
};

struct breakdown_options {
	struct args args;
	struct blk_filters filters;
	const char *layer; /* -T; NULL: all of them */
	bool queued;	   /* -Q */
	bool hist;	   /* --hist */
	bool heatmap;	   /* --heatmap, as text */
	const char *svg;   /* --heatmap=FILE; NULL: none */
	by_keys by;	   /* --by; 0: not given */
	uint64_t max_keys; /* -r; 0: not given */
	const struct breakdown_unit *unit;
};

/* Its options, without their own. */
extern const struct args_spec breakdown_args;

/* The unit of so many nanoseconds; NULL: there is none. */
const struct breakdown_unit *breakdown_unit(uint64_t ns);

/* Parses @argv.  -errno with @err filled. */
int breakdown_options(int argc, char **argv, struct breakdown_options *o, struct error *err);

/* --hist where there is one layer only: -EINVAL with @err. */
int breakdown_hist_error(struct error *err);

/* --heatmap where there are all layers: -EINVAL with @err. */
int breakdown_heatmap_error(struct error *err);

/* -r without --by: -EINVAL with @err. */
int breakdown_keys_error(struct error *err);

/* How many keys are shown, beside (other). */
uint64_t breakdown_max_keys(const struct breakdown_options *o);

/* A disk that makes no requests would give an empty block layer: -ENOTSUP with @err. */
int breakdown_check_disk(const struct breakdown_options *o, struct error *err);

#endif
