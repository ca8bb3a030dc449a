/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Histograms made of values, as the kernel side makes them. */
#ifndef IOTRACE_TEST_UNIT_HIST_ADD_H
#define IOTRACE_TEST_UNIT_HIST_ADD_H

#include "output/hist.h"

/* Adds one value of @ns nanoseconds, shown in units of @unit_ns (1, 1000, 1000000). */
static inline void hist_add(struct hist *h, uint64_t ns, uint64_t unit_ns)
{
	h->count++;
	h->total += ns;
	if (ns > h->max)
		h->max = ns;
	h->fine[hist_fine_slot(ns)]++;
	h->log2[hist_log2_slot(ns / unit_ns)]++;
}

#endif
