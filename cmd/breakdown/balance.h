/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_BALANCE_H
#define IOTRACE_CMD_BREAKDOWN_BALANCE_H

#include <stdint.h>

#include "cmd/blk.h"
#include "core/base/intern.h"

/*
 * Completions that no program saw: those that the kernel's I/O statistics have less those that the
 * programs have.  Both cannot be read at one moment, and the order in which they are read is such
 * that I/O meanwhile never looks like a loss, but can hide as many: as much as there is within some
 * microseconds per disk.  So can that of a disk which is gone at the end.
 */
struct balance {
	struct intern disks; /* struct balance_disk: when it began */
	uint64_t completed;  /* by all of them */
	uint64_t seen;	     /* by the programs */
};

/* How many completions the programs have seen; only grows. */
typedef uint64_t balance_seen(void *ctx);

/* Begins on the disks of @f, on an all-zero @b.  0 or -ENOMEM. */
int balance_begin(struct balance *b, const struct blk_filters *f, balance_seen *seen, void *ctx);

/* How many were missed since. */
uint64_t balance_missed(const struct balance *b, const struct blk_filters *f, balance_seen *seen,
			void *ctx);

/* Also of one that never began. */
void balance_free(struct balance *b);

#endif
