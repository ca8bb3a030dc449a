/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BREAKDOWN_HISTS_BPF_H
#define IOTRACE_PROBES_BREAKDOWN_HISTS_BPF_H

/* The histograms of breakdown -T blk: one per row, or (--by) per key and row. */

#include "probes/file_names.bpf.h"
#include "probes/keyed_hist.bpf.h"
#include "probes/breakdown_blk.h"
#include "probes/hist.bpf.h"

/* The rows of a key: operations, unless the program defines more of them. */
#ifndef HISTS_ROWS
#define HISTS_ROWS BLK_OPS
#endif

const volatile __u64 unit_ns = 1; /* the unit that is shown */

const volatile __u32 n_cpus = 1; /* possible CPUs */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * 2 * HISTS_ROWS); /* for n_cpus and one more, set before loading */
	__type(key, u32);
	__type(value, struct blk_hist);
} hists SEC(".maps");

static __always_inline struct blk_hist *hist_of(u32 cpu, u8 row)
{
	u32 index = HIST_INDEX(HISTS_ROWS, cpu, epoch, row);

	return bpf_map_lookup_elem(&hists, &index);
}

/* For a program that finds the histogram of its CPU busy.  A global function, like
 * lost_completion().  Always 0. */
__attribute__((noinline)) int hist_add_interrupting(u32 row, u64 ns)
{
	struct blk_hist *own = hist_of(bpf_get_smp_processor_id(), row);
	struct blk_hist *shared = hist_of(n_cpus, row);

	if (own && shared)
		probe_hist_add_to(&shared->hist, &own->interrupting_max_ns, ns, unit_ns, false);
	return 0;
}

static __always_inline void hist_add(u8 row, u64 ns)
{
	struct blk_hist *hist = hist_of(bpf_get_smp_processor_id(), row);

	if (!hist)
		return;
	if (has_spares) {
		probe_hist_add(&hist->hist, ns, unit_ns, false);
	} else if (begin_alone(&hist->busy)) {
		probe_hist_add(&hist->hist, ns, unit_ns, true);
		end_alone(&hist->busy);
	} else {
		hist_add_interrupting(row, ns);
	}
}

/* The file of request @rq, if --by needs it. */
static __always_inline void key_file(struct hist_key *key, u8 op, struct request *rq)
{
	if (by_file && has_data(op))
		find_id_now(BPF_CORE_READ(rq, bio), &key->file);
}

/* @key: has its file.  False: no room for it. */
static __always_inline bool keyed_add(struct hist_key *key, u8 row, u32 dev,
				      const struct blk_inflight *entry, u64 ns)
{
	struct keyed_hist *hist;

	if (by_file && key->file.kind == FILE_OTHERS)
		return false;
	key->row = row;
	key->dev = dev;
	key_submitter(key, entry);
	hist = keyed_hist_of(key);
	if (hist)
		keyed_hist_add(hist, ns, unit_ns);
	return hist;
}

#endif
