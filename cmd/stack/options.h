/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of iotrace stack. */
#ifndef IOTRACE_CMD_STACK_OPTIONS_H
#define IOTRACE_CMD_STACK_OPTIONS_H

#include "cmd/block/blk.h"
#include "cmd/block/by.h"
#include "output/stacks.h"

enum { STACK_KEY_VALUE = 0x200 };

struct stack_options {
	struct args args;
	struct blk_filters filters;
	bool kernel, user, per_pid, folded;
	bool reads, writes;
	enum stack_order order; /* of folded lines */
	enum stack_unit unit;	/* --value */
	by_keys by;		/* --by; 0: not given */
	bool ios;		/* I/Os and their time are counted, too */
	bool several;		/* outputs: INTERVAL */
	bool waits;		/* only waits are counted */
	uint64_t duration_ns;	/* -D; 0: not given */
	uint64_t max_rows;	/* -r; 0: all */
	const char *svg;	/* NULL: none */
};

/* The keys of rows: --by, or implied by -P. */
by_keys stack_keys(const struct stack_options *o);

/* "bytes", "ios": the values of --value. */
const char *stack_value_name(enum stack_unit unit);

/* Its options, without their own. */
extern const struct args_spec stack_args;

/* Parses @argv; -io is taken as --iodir.  -errno with @err filled. */
int stack_options(int argc, char **argv, struct stack_options *o, struct error *err);

#endif
