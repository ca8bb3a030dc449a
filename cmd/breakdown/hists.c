// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/hists.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(HIST_FINE_SLOTS == PROBE_FINE_SLOTS && HIST_LOG2_SLOTS == PROBE_LOG2_SLOTS,
	       "the probes and output/ count in the same slots");

int hists_map(int fd, size_t size, struct mapped_array *out, struct error *err)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (size + page - 1) / page * page;
	void *mapped = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (mapped == MAP_FAILED)
		return error_set(err, STATUS_FAILED, -errno, "cannot map the histograms: %s",
				 strerror(errno));
	*out = (struct mapped_array){ .at = mapped, .size = whole };
	return 0;
}

void hists_add(struct hist *to, const struct probe_hist *from, bool unit_slots)
{
	for (size_t i = 0; i < HIST_FINE_SLOTS; i++) {
		to->fine[i] += from->fine[i];
		to->count += from->fine[i];
	}
	for (size_t i = 0; unit_slots && i < HIST_LOG2_SLOTS; i++)
		to->log2[i] += from->log2[i];
	to->total += from->total_ns;
	if (from->max_ns > to->max)
		to->max = from->max_ns;
	hist_raise_max(to);
}

void hists_merge(struct hist_row *to, const struct hist_row *from)
{
	hist_add_growth(&to->hist, &from->hist, NULL);
	to->self_ns += from->self_ns;
}

void hists_take(struct hist *to, struct probe_hist *from, bool unit_slots)
{
	hists_add(to, from, unit_slots);
	memset(from, 0, sizeof(*from));
}

bool hists_unit_slots(const struct breakdown_options *o)
{
	return o->unit->ns != 1 && (!o->args.for_programs || o->args.record);
}
