// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace breakdown -T blk: one latency histogram per operation.  Without -Q the time is from issue
 * to completion.  With -Q it is from when the request was made, which the kernel notes
 * (start_time_ns): no request is followed, and losses show in the balance of issues and
 * completions.
 */
#include "probes/blk.bpf.h"
#include "probes/breakdown_blk.h"
#include "probes/hist.bpf.h"

const volatile bool queued = false;
const volatile __u64 unit_ns = 1; /* the unit that is shown */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * BLK_OPS); /* times the possible CPUs, set before loading */
	__type(key, u32);
	__type(value, struct probe_hist);
} hists SEC(".maps");

static __always_inline void hist_add(u8 op, u64 ns)
{
	u32 cpu = bpf_get_smp_processor_id();
	u32 index = HIST_INDEX(cpu, epoch, op);
	struct probe_hist *hist = bpf_map_lookup_elem(&hists, &index);

	if (hist)
		probe_hist_add(hist, ns, unit_ns);
}

/* Without a time there is nothing to count but the loss. */
static __always_inline void on_lost_completion(struct blk_inflight *entry)
{
}

static __always_inline void on_complete(struct request *rq, u32 bytes, const bool direct)
{
	struct blk_done done = classify(rq, bytes, direct);
	struct blk_inflight *entry = NULL;
	u64 ns;

	if (!done.final || done.none)
		return;
	if (!balance || done.op == BLK_SYNC)
		entry = completing_entry(rq);
	if (filters_submitters() && !(entry && entry->known))
		return;
	if (filter_dev && !completing_dev(rq, entry))
		return;
	if (balance) {
		if (predates_trace(rq, direct))
			return;
		if (done.op != BLK_SYNC)
			count_completed();
	}
	if (rq_latency(rq, entry, done.op, queued, &ns, direct))
		hist_add(done.op, ns);
	if (entry)
		release_entry(entry);
}

#include "probes/blk_entry.bpf.h"

char LICENSE[] SEC("license") = "GPL";
