/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arithmetic of blame: who was at a disk while whom waited.  No other input than times.
 *
 * Each nanosecond of a request's life, from arrival to completion, is divided among the other
 * requests that are at the disk in it, in equal parts or by their weights.  Without any other the
 * request is alone at the disk, or if it is not at the disk itself, waits for no request: the disk
 * is idle.  So the parts of a request add up to its time.
 */
#ifndef IOTRACE_CMD_BLAME_SWEEP_H
#define IOTRACE_CMD_BLAME_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "output/hist.h"

/* A complete request.  Times are nanoseconds of one clock. */
struct blame_io {
	uint64_t arrival;
	uint64_t admit, queue, device; /* one after the other, from the arrival on */
	uint32_t owner;		       /* below BLAME_OWNERS */
	uint32_t weight; /* of its share while it is at the disk; 0: it never is, and only waits */
	bool uncounted;	 /* it is a culprit only, and in no sum of victims */
};

/* Owners of requests that one disk tells apart at a time. */
#define BLAME_OWNERS 256

/* What an owner's requests, its victims, waited for a culprit: behind its requests before they were
 * issued, and beside them at the disk.  In parts of a nanosecond, see blame_settle(). */
__extension__ typedef unsigned __int128 blame_parts;

struct blame_pair {
	blame_parts behind, beside;
	struct blame_times *with; /* of victims that arrived while it had a request in flight */
	uint64_t behind_ns, beside_ns; /* of blame_settle() */
};

/* The sums of an owner's requests that were swept. */
struct blame_victim {
	uint64_t ios;
	uint64_t admit_ns, queue_ns, device_ns;
	uint64_t alone_ns, idle_ns;
	uint64_t unknown_ns; /* of their times: see blame_sweep_to() */
	struct blame_times *times;
	struct blame_pair *by; /* of BLAME_OWNERS; NULL: none */
};

/* A disk. */
struct blame_sweep;

/* What all disks together have in use; each has a limit. */
struct blame_room {
	size_t kept;  /* requests */
	size_t slots; /* bytes for requests in flight */
	size_t times; /* struct blame_times */
	size_t clocks;
	size_t owners; /* for the caller: names */
};

/* @room, initially zero, must outlive *out. */
int blame_sweep_open(struct blame_room *room, struct blame_sweep **out);
void blame_sweep_free(struct blame_sweep *s);

/* Adds a request: one that ends at UINT64_MAX never does, and is in no sum of victims.  0 or
 * -ENOMEM. */
int blame_sweep_add(struct blame_sweep *s, const struct blame_io *io);

/*
 * Sweeps up to @until: no request that is added later should have been at the disk before it.  What
 * such a request waited before it is unknown_ns, as are the times of requests without room.
 * Requests that end later are kept.  0 or -ENOMEM.
 */
int blame_sweep_to(struct blame_sweep *s, uint64_t until);

/* The time up to which it was swept; 0: not yet. */
uint64_t blame_swept(const struct blame_sweep *s);

/* What could not be done, since the last call. */
struct blame_losses {
	uint64_t
	    missed; /* requests that were at the disk before @until: others' shares lack them */
	uint64_t unknown; /* requests with unknown_ns */
	uint64_t untimed; /* requests that are in no percentile for want of room */
};

struct blame_losses blame_sweep_losses(struct blame_sweep *s);

/* The sums of owner @owner so far; NULL: no request of it has been swept. */
struct blame_victim *blame_victim(struct blame_sweep *s, uint32_t owner);

/*
 * Rounds what @v waited for each culprit to nanoseconds, so that the sum of behind_ns, beside_ns,
 * alone_ns, idle_ns and unknown_ns is exactly its time: the largest remainders are rounded up.
 */
void blame_settle(struct blame_victim *v);

/* Sets all sums to 0. */
void blame_sweep_clear(struct blame_sweep *s);

/* May the number @owner be given to another owner: has it no request, and has no kept one been in
 * flight with one? */
bool blame_owner_unused(const struct blame_sweep *s, uint32_t owner);

/* The @permille-th of 1000 of the times, accurate to 1/16; of all except the times in @less, if not
 * NULL.  0: no such times.  *count: how many there are. */
uint64_t blame_percentile(const struct blame_times *of, const struct blame_times *less,
			  unsigned int permille, uint64_t *count);

#endif
