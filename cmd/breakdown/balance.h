/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_BALANCE_H
#define IOTRACE_CMD_BREAKDOWN_BALANCE_H

#include <stdint.h>

#include "cmd/block/blk.h"
#include "core/base/intern.h"

/*
 * Missed completions: the difference between the kernel's I/O statistics and the programs' counts.
 * Both cannot be read at one moment.  They are read in such an order that completions in between
 * never look like a loss, but can hide as many losses until a later check; at the beginning and the
 * end the readings are repeated until nothing completes in between, for some milliseconds at most.
 * I/O of a disk between the last check and its removal can hide losses too.
 */
struct balance {
	struct intern disks; /* their blk_stat_files() */
	uint64_t
	    *last; /* by disk: its completions at the last reading, or unknown; NULL: not begun */
	uint64_t completed; /* by all disks since the first reading */
	uint64_t look_ns;   /* time of the last check, by clock_mono_ns() */
	uint64_t missed;    /* found so far */
	int64_t ahead;	    /* excess of `completed` over the programs' count at the beginning */
};

/* How many completions the programs have seen; only grows. */
typedef uint64_t balance_seen(void *ctx);

/* Begins on the disks of @f, on an all-zero @b. 0 or -ENOMEM. */
int balance_begin(struct balance *b, const struct blk_filters *f, balance_seen *seen, void *ctx);

/* The table of disks was read again: disks may have come or gone. */
void balance_disks(struct balance *b, const struct blk_filters *f);

/* A check: one reading, if the last one was some time ago.  How many were missed that no earlier
 * check has found; 0 if @b has not begun. */
uint64_t balance_missed(struct balance *b, balance_seen *seen, void *ctx);

/* The same for the last time, with repeated readings. */
uint64_t balance_end(struct balance *b, balance_seen *seen, void *ctx);

/* Resets @b.  Fine if it has not begun. */
void balance_free(struct balance *b);

#endif
