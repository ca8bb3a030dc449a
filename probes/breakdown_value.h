/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BREAKDOWN_VALUE_H
#define IOTRACE_PROBES_BREAKDOWN_VALUE_H

/* iotrace breakdown -T blk --value, in the kernel and in user space. */

#include "probes/breakdown_blk.h"

/* The histograms: of the time, or of a property that a request has when it is issued. */
enum breakdown_value {
	VALUE_LATENCY,
	VALUE_SIZE,	/* bytes */
	VALUE_DISTANCE, /* sectors to the nearest of the last STREAM_ENDS requests */
	VALUE_DEPTH,	/* requests at the disk, including it */
	VALUE_GAP,	/* ns since the request before it was issued */
	VALUES,
};

/* The rows of an operation: distances forward from the end of the earlier request, or backward;
 * other values are in the first one. */
#define VALUE_ROW(op, backward) ((op)*2 + (backward))
#define VALUE_ROWS		(2 * BLK_OPS)

#define STREAM_ENDS 16	  /* a power of two */
#define STREAMS	    16384 /* at least; 4 MB of kernel memory */

/* The last requests of one operation, disk and key. */
struct value_stream {
	__u64 last_ns; /* when the last one was issued; 0: none yet */
	__u32 next;    /* of ends[], modulo STREAM_ENDS */
	__u32 pad;
	__u64 ends[STREAM_ENDS]; /* the sectors behind them; all are set */
};

/*
 * The distance from the nearest of the @ends to sector @at, times two, plus 1 if @at is before that
 * end; of two as near the one that @at is behind.  Sectors are below 2^62.  Without branches: they
 * would cost the verifier states.
 */
static __always_inline __u64 value_nearest(const __u64 *ends, __u64 at)
{
	__u64 best = ~0ULL >> 1;

#pragma GCC unroll 16
	for (int i = 0; i < STREAM_ENDS; i++) {
		__u64 distance = at - ends[i], before = (__u64)((__s64)distance >> 63);
		__u64 coded = (((distance ^ before) - before) << 1) | (before & 1);

		best += (coded - best) & (__u64)((__s64)(coded - best) >> 63);
	}
	return best;
}

#endif
