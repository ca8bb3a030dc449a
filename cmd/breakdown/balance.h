/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_BALANCE_H
#define IOTRACE_CMD_BREAKDOWN_BALANCE_H

#include <stdint.h>

#include "cmd/blk.h"
#include "core/base/intern.h"

/*
 * Completions that no program saw: those that the kernel's I/O statistics have less those that the
 * programs have.  Both cannot be read at one moment.  They are read in such an order that what
 * completes meanwhile never looks like a loss, but can hide as many until a later look; at the
 * beginning and the end until nothing has completed meanwhile, for some milliseconds at most.  So
 * does the I/O of a disk between the last look and its removal.
 */
struct balance {
	struct intern disks; /* their blk_stat_files() */
	uint64_t *last;	     /* by disk: its completions when they were read last, or unknown;
			      * NULL: it has not begun */
	uint64_t completed;  /* by all disks since the first reading */
	uint64_t look_ns;    /* when the last look was, by clock_mono_ns() */
	uint64_t missed;     /* found so far */
	int64_t ahead;	     /* how much `completed` had more than the programs when it began */
};

/* How many completions the programs have seen; only grows. */
typedef uint64_t balance_seen(void *ctx);

/* Begins on the disks of @f, on an all-zero @b.  0 or -ENOMEM. */
int balance_begin(struct balance *b, const struct blk_filters *f, balance_seen *seen, void *ctx);

/* The table of disks was read again: disks may have come or gone. */
void balance_disks(struct balance *b, const struct blk_filters *f);

/* A look: one reading, if the last one was some time ago.  How many were missed that no earlier
 * look has found; 0 if @b has not begun. */
uint64_t balance_missed(struct balance *b, balance_seen *seen, void *ctx);

/* The same for the last time, and patiently. */
uint64_t balance_end(struct balance *b, balance_seen *seen, void *ctx);

/* As if it had not begun.  Also of one that has not. */
void balance_free(struct balance *b);

#endif
