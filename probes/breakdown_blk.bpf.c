// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace breakdown -T blk: one latency histogram per operation, or (--by) per key and operation.
 * Without -Q the time is from issue to completion.  With -Q it is from when the request was made,
 * which the kernel notes (start_time_ns): no request is followed, and losses show in the balance
 * with the kernel's I/O statistics.
 */
#include "probes/keyed_hist.bpf.h"

#define BLK_WANTS_DEV keyed_dev

#include "probes/blk.bpf.h"
#include "probes/breakdown_blk.h"
#include "probes/hist.bpf.h"

const volatile bool queued = false;
const volatile __u64 unit_ns = 1; /* the unit that is shown */

const volatile __u32 n_cpus = 1; /* possible CPUs */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * 2 * BLK_OPS); /* for n_cpus and one more, set before loading */
	__type(key, u32);
	__type(value, struct blk_hist);
} hists SEC(".maps");

static __always_inline struct blk_hist *hist_of(u32 cpu, u8 op)
{
	u32 index = HIST_INDEX(cpu, epoch, op);

	return bpf_map_lookup_elem(&hists, &index);
}

/* For a program that finds the histogram of its CPU busy.  A global function, like
 * lost_completion().  Always 0. */
__attribute__((noinline)) int hist_add_interrupting(u32 op, u64 ns)
{
	struct blk_hist *own = hist_of(bpf_get_smp_processor_id(), op);
	struct blk_hist *shared = hist_of(n_cpus, op);

	if (own && shared)
		probe_hist_add_to(&shared->hist, &own->interrupting_max_ns, ns, unit_ns, false);
	return 0;
}

static __always_inline void hist_add(u8 op, u64 ns)
{
	struct blk_hist *hist = hist_of(bpf_get_smp_processor_id(), op);

	if (!hist)
		return;
	if (has_backups) {
		probe_hist_add(&hist->hist, ns, unit_ns, false);
	} else if (begin_alone(&hist->busy)) {
		probe_hist_add(&hist->hist, ns, unit_ns, true);
		end_alone(&hist->busy);
	} else {
		hist_add_interrupting(op, ns);
	}
}

/* False: there is no room for the key. */
static __always_inline bool keyed_add(u8 op, u32 dev, const struct blk_inflight *entry, u64 ns)
{
	struct hist_key key = { .row = op, .dev = dev };
	struct keyed_hist *hist;

	key_submitter(&key, entry);
	hist = keyed_hist_of(&key);
	if (hist)
		keyed_hist_add(hist, ns, unit_ns);
	return hist;
}

/* By disk, the one that the request counts for.  @dev: if it has been read. */
static __always_inline u32 key_dev(struct request *rq, const struct blk_inflight *entry, u32 dev)
{
	if (!keyed_dev)
		return 0;
	return dev ? dev : completing_dev(rq, entry);
}

/* A completion that is not in `hists`.  One that the kernel's I/O statistics do not count has no
 * time; up to 6.11 a passthrough command has one. */
static __always_inline void count_unlisted(struct request *rq, u8 op, const bool direct)
{
	struct blk_cpu *cpu;

	if (!balance || !rq_made_ns(rq, direct) || (op == BLK_PASSTHROUGH && !io_stat_mask))
		return;
	cpu = this_cpu();
	if (cpu)
		__sync_fetch_and_add(&cpu->unlisted, 1);
}

/* Without a time there is nothing to count but the loss. */
static __always_inline void on_lost_completion(struct blk_inflight *entry)
{
}

static __always_inline void on_complete(struct request *rq, bool failed, u32 bytes,
					const bool direct)
{
	/* First, as in on_issue(). */
	u32 dev = keyed_dev && balance ? rq_wanted_dev(rq, direct) : 0;
	struct blk_inflight of_bio, *entry = NULL;
	struct blk_done done;
	u64 now, ns;

	if (!balance)
		fetch_place(address_of(rq, direct));
	now = bpf_ktime_get_ns();
	done = classify(rq, bytes, direct);
	if (!done.final || done.none)
		return;
	if (!balance)
		entry = completing_entry(rq, &of_bio, direct);
	if ((filters_submitters() && !(entry && entry->known)) ||
	    (filter_dev && !completing_dev(rq, entry))) {
		release_entry(rq, entry, &of_bio, direct);
		return;
	}
	if ((balance && predates_trace(rq, direct)) ||
	    !rq_latency(rq, entry, done.op, queued, now, &ns, direct) ||
	    (keyed && keyed_add(done.op, key_dev(rq, entry, dev), entry, ns)))
		count_unlisted(rq, done.op, direct);
	else
		hist_add(done.op, ns);
	release_entry(rq, entry, &of_bio, direct);
}

#include "probes/blk_cgroups.bpf.h"
#include "probes/blk_entry.bpf.h"

char LICENSE[] SEC("license") = "GPL";
