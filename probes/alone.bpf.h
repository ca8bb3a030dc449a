/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_ALONE_BPF_H
#define IOTRACE_PROBES_ALONE_BPF_H

/*
 * Adding to the counters of one CPU.  A program may be interrupted by one that adds to the same
 * counters: another one, or, before 6.1 (05b24ff9b2cf), itself.  Atomic additions would be right
 * then, but wait for the stores before them (3 to 4 ns each).  So a program notes that it is
 * adding, and one that interrupts it meanwhile counts elsewhere.
 */

#include "probes/backup.bpf.h"

/*
 * True: until end_alone() nobody else adds to the counters that @busy is for.  Not where programs
 * are preempted: an interrupt is over before what it interrupted goes on, but a task that preempts
 * another is not, and both may have found @busy 0.  So has_backups must be true there, and only
 * programs at tracepoints and kprobes may use this, not those at functions (fentry).
 */
static __always_inline bool begin_alone(u64 *busy)
{
	if (has_backups || *busy)
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

/* @alone: begin_alone() was true. */
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
