/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_BALANCE_H
#define IOTRACE_CMD_BREAKDOWN_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/blk.h"
#include "core/base/intern.h"

/*
 * Completions that no program saw: those that the kernel's I/O statistics have less those that the
 * programs have.  Both cannot be read at one moment.  They are read in such an order that what
 * completes meanwhile never looks like a loss, but can hide as many until a later look; at the
 * beginning and the end until nothing has completed meanwhile, for some milliseconds at most.  The
 * I/O of a disk that is gone hides losses, too.
 */
struct balance {
	struct intern disks; /* their blk_stat_files(), when it began */
	uint64_t *completed; /* by disk; NULL: it has not begun */
	uint64_t seen;	     /* by the programs, when it began */
	uint64_t missed;     /* found so far */
};

/* How many completions the programs have seen; only grows. */
typedef uint64_t balance_seen(void *ctx);

/* Begins on the disks of @f, on an all-zero @b.  0 or -ENOMEM. */
int balance_begin(struct balance *b, const struct blk_filters *f, balance_seen *seen, void *ctx);

/* A look: one reading; with @last the patient one of the end.  How many were missed that no earlier
 * look has found; 0 as well if @b has not begun, and for want of memory. */
uint64_t balance_missed(struct balance *b, const struct blk_filters *f, balance_seen *seen,
			void *ctx, bool last);

/* As if it had not begun.  Also of one that has not. */
void balance_free(struct balance *b);

#endif
