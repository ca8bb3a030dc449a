/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of iotrace record, and what its collectors are. */
#ifndef IOTRACE_CMD_RECORD_OPTIONS_H
#define IOTRACE_CMD_RECORD_OPTIONS_H

#include "cmd/cli/args.h"
#include "cmd/record/collector.h"

struct record_options {
	struct args args;
	const char *dir;
	uint64_t size; /* of all segments, in bytes */
	uint64_t keep_ns;
	uint64_t interval_ns;
	bool sync; /* flushes each interval to the disk */
	struct collector_words collectors[RECORD_COLLECTORS]; /* none: the default ones */
	size_t n_collectors;
	struct triggers triggers;
	uint64_t before_ns, after_ns; /* a trigger, for details */
};

extern const struct args_spec record_args;

/* Like args_parse(). */
int record_options(int argc, char **argv, struct record_options *o, struct error *err);

#endif
