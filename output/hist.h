/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_HIST_H
#define IOTRACE_OUTPUT_HIST_H

#include <stdint.h>
#include <stdio.h>

/*
 * A latency histogram.  Two resolutions:
 * - fine: every power of two cut into 8 equal slots (values below 8 have a slot each), for
 *   percentiles that are right to 1/16;
 * - log2: what people read.  Slot 0 is 0..1, slot i is 2^i .. 2^(i+1)-1.
 */
#define HIST_FINE_BITS	3
#define HIST_FINE_SLOTS 336 /* msb 0..43: up to 4.8 hours in ns; above that the last slot */
#define HIST_LOG2_SLOTS 64

struct hist {
	uint64_t count;
	uint64_t total;			/* ns */
	uint64_t max;			/* ns */
	uint64_t fine[HIST_FINE_SLOTS]; /* by ns */
	uint64_t log2[HIST_LOG2_SLOTS]; /* by the unit it is shown in */
};

/* The slot of a value; the probes compute the same (probes/hist.h). */
unsigned int hist_fine_slot(uint64_t value);
unsigned int hist_log2_slot(uint64_t value);
/* Bounds of a slot, both inclusive. */
void hist_fine_bounds(unsigned int slot, uint64_t *lo, uint64_t *hi);
void hist_log2_bounds(unsigned int slot, uint64_t *lo, uint64_t *hi);

/* Adds one value of @ns nanoseconds, shown in units of @unit_ns (1, 1000, 1000000). */
void hist_add(struct hist *h, uint64_t ns, uint64_t unit_ns);

/* Adds to @h what @now has more than @before, an earlier state of it; NULL: all.  The maximum of
 * what came in between is not known: it is no more than @now's, and than its highest slot holds. */
void hist_add_growth(struct hist *h, const struct hist *now, const struct hist *before);

/*
 * The maximum may be one of two times that were noted at the same moment, and not the longer one: a
 * program stores it after a comparison, and may be preempted in between (7.0).  No less than the
 * longest time's slot, it is right to 1/8.
 */
void hist_raise_max(struct hist *h);

/* Fills log2[] from fine[]: exact only for unit 1 (nanoseconds), which is what it is for. */
void hist_log2_from_fine(struct hist *h);

/* The value (ns) at or below which @permille of 1000 of the counts lie, right to 1/16: the middle
 * of its fine slot, never above max; max itself when it is the last of the counts that is asked
 * for.  0 for an empty histogram. */
uint64_t hist_percentile(const struct hist *h, unsigned int permille);

/* Sum of log2[]. */
uint64_t hist_slots_total(const struct hist *h);

/*
 * The picture, as bcc prints it: a heading ("     nsecs               : count     distribution";
 * @unit is "nsecs", "usecs" or "msecs"), then one line per slot from 0 to the last that is not
 * empty, with bars relative to the largest.  Bounds are 10 wide, and 20 once a slot above 32 bits
 * is in use; bars are always 40 wide (bcc halves them there).  Nothing for an empty histogram.
 * Returns 0 or -errno of the stream; errors of buffered data come later (render_flush()).
 */
int hist_print(const struct hist *h, const char *unit, FILE *stream);

#endif
