/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLAME_HELD_H
#define IOTRACE_PROBES_BLAME_HELD_H

/* What iotrace blame --held and its programs share. */

#include <linux/types.h>

/* What held a bio, or the writer of pages: hist_key.row. */
enum held_kind {
	/* A thread slept with the bio, until it got a request. */
	HELD_TAG,
	HELD_WBT,
	HELD_IO_LATENCY,
	HELD_IO_COST,
	HELD_FROZEN,
	HELD_SLEEPS,
	/* HELD_TAG at a disk with a scheduler: it has the requests. */
	HELD_NR_REQUESTS = HELD_SLEEPS,
	/* The kernel had it in a queue; untimed: since when is unknown, each counts as 0 ns. */
	HELD_IO_MAX,
	HELD_IO_MAX_UNTIMED,
	HELD_DIRTY,
	HELD_KINDS,
};

#define HELD_FUNCTIONS 16 /* of the kernel, in which a thread sleeps */
#define HELD_FRAMES    24 /* innermost ones, in which such a function is */

enum held_loss {
	HELD_LOSS_THREADS, /* holds of threads beyond those in the map */
	HELD_LOSSES,
};

#endif
