/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_HIST_BPF_H
#define IOTRACE_PROBES_HIST_BPF_H

#include "probes/alone.bpf.h"
#include "probes/hist.h"

/* Counts one value.  @max_ns: the maximum of this CPU; @unit_ns: the displayed unit, a constant for
 * the verifier; @alone: see add64(). */
static __always_inline void probe_hist_add_to(struct probe_hist *hist, u64 *max_ns, u64 ns,
					      const u64 unit_ns, const bool alone)
{
	u64 slot, log2;

	/* The verifiers of 5.10 and 6.1 know a bound only for the compared register; without this
	 * clang compares one copy and uses another. */
	slot = probe_fine_slot(ns);
	barrier_var(slot);
	if (slot < PROBE_FINE_SLOTS)
		add64(&hist->fine[slot], 1, alone);
	add64(&hist->total_ns, ns, alone);
	if (unit_ns != 1) {
		log2 = probe_log2(ns / unit_ns);
		barrier_var(log2);
		add64(&hist->log2[log2 & 63], 1, alone);
	}
	if (ns > *max_ns)
		*max_ns = ns;
}

/* The same, with the maximum in @hist: only this CPU writes to it. */
static __always_inline void probe_hist_add(struct probe_hist *hist, u64 ns, const u64 unit_ns,
					   const bool alone)
{
	probe_hist_add_to(hist, &hist->max_ns, ns, unit_ns, alone);
}

#endif
