/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_ALONE_BPF_H
#define IOTRACE_PROBES_ALONE_BPF_H

/*
 * Adds to the counters of one CPU.  A program may be interrupted by another program that adds to
 * the same counters or, before 6.1 (05b24ff9b2cf), by itself.  Atomic additions would be correct,
 * but they wait for earlier stores (3 to 4 ns each).  So a program marks the counters as busy, and
 * a program that interrupts it counts elsewhere.
 */

#include "probes/spare.bpf.h"

/*
 * True: no other program adds to the counters of @busy until end_alone().  Does not work where
 * programs are preempted: an interrupt ends before the interrupted program goes on, but a
 * preempting task may not, and both may have found @busy 0.  So has_spares must be true on such
 * kernels, and only programs at tracepoints and kprobes may use this, not programs at functions
 * (fentry).
 */
static __always_inline bool begin_alone(u64 *busy)
{
	if (has_spares || *busy)
		return false;
	*busy = 1;
	barrier();
	return true;
}

static __always_inline void end_alone(u64 *busy)
{
	barrier();
	*busy = 0;
}

/* @alone: the result of begin_alone(). */
static __always_inline void add64(u64 *counter, u64 n, const bool alone)
{
	if (alone)
		*counter += n;
	else
		__sync_fetch_and_add(counter, n);
}

static __always_inline void add32(u32 *counter, u32 n, const bool alone)
{
	if (alone)
		*counter += n;
	else
		__sync_fetch_and_add(counter, n);
}

#endif
