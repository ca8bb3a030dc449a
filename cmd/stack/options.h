/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_STACK_OPTIONS_H
#define IOTRACE_CMD_STACK_OPTIONS_H

#include "cmd/blk.h"
#include "cmd/by.h"
#include "output/stacks.h"

enum { STACK_KEY_VALUE = 0x2100 };

struct stack_options {
	struct args args; /* interval_ns: -D */
	struct blk_filters filters;
	bool kernel, user, per_pid, folded;
	bool reads, writes;
	enum stack_order order; /* of folded lines */
	enum stack_unit unit;	/* --value */
	by_keys by;		/* --by; 0: not given */
	bool ios;		/* I/Os and their time are counted, too */
	bool waits;		/* waits are counted, and nothing else */
	uint64_t max_rows;	/* -r; 0: all */
	const char *svg;	/* NULL: none */
};

/* What rows are about: --by, or what -P says. */
by_keys stack_keys(const struct stack_options *o);

/* "bytes", "ios": what --value takes. */
const char *stack_value_name(enum stack_unit unit);

/* Its options, without their own. */
extern const struct args_spec stack_args;

/* Parses @argv; -io is taken as --iodir.  -errno with @err filled. */
int stack_options(int argc, char **argv, struct stack_options *o, struct error *err);

#endif
