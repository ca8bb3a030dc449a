/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_HIST_H
#define IOTRACE_OUTPUT_HIST_H

#include <stdint.h>
#include <stdio.h>

/*
 * A latency histogram in two resolutions:
 * - fine: every power of two cut into 8 equal slots (values below 8 have a slot each), for
 *   percentiles that are accurate to 1/16;
 * - log2: for display.  Slot 0 is 0..1, slot i is 2^i .. 2^(i+1)-1.
 */
#define HIST_FINE_BITS	3
#define HIST_FINE_SLOTS 336 /* msb 0..43: up to 4.8 hours in ns; above that the last slot */
#define HIST_LOG2_SLOTS 64

struct hist {
	uint64_t count;
	uint64_t total;			/* ns */
	uint64_t max;			/* ns */
	uint64_t fine[HIST_FINE_SLOTS]; /* by ns */
	uint64_t log2[HIST_LOG2_SLOTS]; /* by the displayed unit */
};

/* The slot of a value; the probes compute the same (probes/hist.h). */
unsigned int hist_fine_slot(uint64_t value);
unsigned int hist_log2_slot(uint64_t value);
/* Bounds of a slot, both inclusive. */
void hist_fine_bounds(unsigned int slot, uint64_t *lo, uint64_t *hi);
void hist_log2_bounds(unsigned int slot, uint64_t *lo, uint64_t *hi);

/* Adds the difference between @now and @before, an earlier state of it, to @h; @before NULL: all of
 * @now.  The maximum of the difference is unknown: it is at most @now's, and at most the end of the
 * highest slot in use. */
void hist_add_growth(struct hist *h, const struct hist *now, const struct hist *before);

/*
 * Corrects the maximum.  If two times were stored at the same moment it may be the shorter one: a
 * program stores it after a comparison, and may be preempted in between (7.0).  Raised to the
 * longest time's slot, it is accurate to 1/8.
 */
void hist_raise_max(struct hist *h);

/* Fills log2[] from fine[]: exact only for unit 1 (nanoseconds), its purpose. */
void hist_log2_from_fine(struct hist *h);

/* The value (ns) at or below which @permille of 1000 of the counts lie, accurate to 1/16: the
 * middle of its fine slot, never above max; max itself if the last of the counts is requested. 0
 * for an empty histogram. */
uint64_t hist_percentile(const struct hist *h, unsigned int permille);

/* The same, but the lowest value of the slot; max itself if the last of the counts is requested. */
uint64_t hist_percentile_low(const struct hist *h, unsigned int permille);

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

/* The same of numbers that are no times: 0 has a line of its own, and the picture begins at the
 * first line that is not empty. */
int hist_print_plain(const struct hist *h, const char *unit, FILE *stream);

#endif
