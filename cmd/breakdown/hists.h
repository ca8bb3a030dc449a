/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads histograms from the BPF maps. */
#ifndef IOTRACE_CMD_BREAKDOWN_HISTS_H
#define IOTRACE_CMD_BREAKDOWN_HISTS_H

#include "cmd/breakdown/options.h"
#include "cmd/engine/maps.h"
#include "output/hist.h"
#include "probes/hist.h"

/* Maps @size bytes, rounded up to whole pages, of the array @fd: *out, for maps_unmap().  -errno
 * with @err. */
int hists_map(int fd, size_t size, struct mapped_array *out, struct error *err);

/* One drained row: the times and, for the layers above blk, the time in that layer alone. */
struct hist_row {
	struct hist hist;
	uint64_t self_ns;
};

/* Adds @from to @to.  @unit_slots: log2[] too. */
void hists_add(struct hist *to, const struct probe_hist *from, bool unit_slots);
void hists_merge(struct hist_row *to, const struct hist_row *from);

/* Adds @from to @to and empties it: no program may be writing to it.  @unit_slots: log2[] too. */
void hists_take(struct hist *to, struct probe_hist *from, bool unit_slots);

/* Text in micro- or milliseconds has slots of its own, and a recording may become text; otherwise
 * nanoseconds are displayed. */
bool hists_unit_slots(const struct breakdown_options *o);

#endif
