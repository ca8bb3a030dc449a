/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_HIST_H
#define IOTRACE_PROBES_HIST_H

#include <linux/types.h>

/* A latency histogram of the probes; counts only grow.  The slots equal output/hist.h; a unit test
 * compares them. */
#define PROBE_FINE_BITS	 3
#define PROBE_FINE_SLOTS 336
#define PROBE_LOG2_SLOTS 64

struct probe_hist {
	__u64 total_ns;
	__u64 max_ns;
	__u64 fine[PROBE_FINE_SLOTS]; /* by nanoseconds */
	__u64 log2[PROBE_LOG2_SLOTS]; /* by the displayed unit, if it is not nanoseconds */
};

/* Floor of the logarithm to base 2; 0 for 0.  Without branches and loops: both cost the verifier
 * states. */
static __always_inline __u32 probe_log2(__u64 v)
{
	__u32 r, shift;

	r = (v > 0xffffffffULL) << 5;
	v >>= r;
	shift = (v > 0xffff) << 4;
	v >>= shift;
	r |= shift;
	shift = (v > 0xff) << 3;
	v >>= shift;
	r |= shift;
	shift = (v > 0xf) << 2;
	v >>= shift;
	r |= shift;
	shift = (v > 0x3) << 1;
	v >>= shift;
	r |= shift;
	return r | (__u32)(v >> 1);
}

static __always_inline __u32 probe_fine_slot(__u64 v)
{
	__u32 msb, slot;

	if (v < (1 << PROBE_FINE_BITS))
		return v;
	msb = probe_log2(v);
	slot = ((msb - PROBE_FINE_BITS + 1) << PROBE_FINE_BITS) +
	       ((v >> (msb - PROBE_FINE_BITS)) & ((1 << PROBE_FINE_BITS) - 1));
	return slot < PROBE_FINE_SLOTS ? slot : PROBE_FINE_SLOTS - 1;
}

#endif
