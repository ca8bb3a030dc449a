/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Its options. */
#ifndef IOTRACE_TEST_SAMPLE_OPTIONS_H
#define IOTRACE_TEST_SAMPLE_OPTIONS_H

#include "cmd/cli/args.h"

struct sample_options {
	struct args args;
	uint64_t min_bytes; /* -m */
};

/* Its options, without their own. */
extern const struct args_spec sample_args;

/* Parses @argv.  -errno with @err filled. */
int sample_options(int argc, char **argv, struct sample_options *o, struct error *err);

#endif
