/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the time of an fsync was spent on: its call, and the commits of its file system. */
#ifndef IOTRACE_CMD_SLOW_FSYNC_PARTS_H
#define IOTRACE_CMD_SLOW_FSYNC_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "probes/slow_fsync.h"

#define FSYNC_PHASES 64

/* A piece of a part. */
struct fsync_phase {
	size_t part; /* its offset in struct fsync_parts */
	uint64_t ns;
};

/* The parts of a call's time (docs/COUNTING.md), in ns: their sum is exit_ns - enter_ns. */
struct fsync_parts {
	uint64_t data, previous, locking, ordered, log, flush, rest;
	/* One after the other, from enter_ns on; n_phases may be more than there is room for. */
	struct fsync_phase phases[FSYNC_PHASES];
	size_t n_phases;
	const struct fsync_commit *commit; /* that the call waited for; NULL: none */
	uint64_t
	    from_ns; /* from here to the beginning of its own flush, or to its end, commits count */
	uint64_t to_ns;
};

/* Sets @out for @call.  @commits: the @n commits of its file system that may concern it, in the
 * order of their ends. */
void fsync_parts(const struct fsync_call *call, const struct fsync_commit *commits, size_t n,
		 struct fsync_parts *out);

/*
 * How long the ordered data of one file was part of @parts: from @begin_ns (struct
 * fsync_file_record) to @next_ns, the begin_ns of the next file, or UINT64_MAX.
 */
uint64_t fsync_file_ns(const struct fsync_call *call, const struct fsync_parts *parts,
		       uint64_t begin_ns, uint64_t next_ns);

#endif
