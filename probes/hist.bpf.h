/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_HIST_BPF_H
#define IOTRACE_PROBES_HIST_BPF_H

#include "probes/kernel.h"
#include "probes/hist.h"

/* Counts one value.  @max_ns: the maximum of this CPU; @unit_ns: of the unit that is shown, a
 * constant for the verifier. */
static __always_inline void probe_hist_add_to(struct probe_hist *hist, u64 *max_ns, u64 ns,
					      const u64 unit_ns)
{
	u64 slot, log2;

	/* The verifiers of 5.10 and 6.1 know a bound only of the register that was compared;
	 * without this clang compares one copy and uses another. */
	slot = probe_fine_slot(ns);
	barrier_var(slot);
	if (slot < PROBE_FINE_SLOTS)
		__sync_fetch_and_add(&hist->fine[slot], 1);
	__sync_fetch_and_add(&hist->total_ns, ns);
	if (unit_ns != 1) {
		log2 = probe_log2(ns / unit_ns);
		barrier_var(log2);
		__sync_fetch_and_add(&hist->log2[log2 & 63], 1);
	}
	if (ns > *max_ns)
		*max_ns = ns;
}

/* The same, of a histogram that only this CPU writes to. */
static __always_inline void probe_hist_add(struct probe_hist *hist, u64 ns, const u64 unit_ns)
{
	probe_hist_add_to(hist, &hist->max_ns, ns, unit_ns);
}

#endif
