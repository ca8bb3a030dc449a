// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace breakdown -T blk: one latency histogram per operation, or (--by) per key and operation.
 * Without -Q the time is from issue to completion.  With -Q it is from the creation of the request,
 * as stored by the kernel (start_time_ns): no request is followed, and losses are found by
 * comparing with the kernel's I/O statistics.
 */
#include "probes/keyed_hist.bpf.h"

#define BLK_WANTS_DEV keyed_dev

#include "probes/blk.bpf.h"
#include "probes/breakdown_hists.bpf.h"

const volatile bool queued = false;

/* By disk: the disk that the request is counted for.  @dev: if it has been read. */
static __always_inline u32 key_dev(struct request *rq, const struct blk_inflight *entry, u32 dev)
{
	if (!keyed_dev)
		return 0;
	return dev ? dev : completing_dev(rq, entry);
}

/* A completion that is not in `hists`.  Completions that the kernel's I/O statistics do not count
 * have no time, except passthrough commands up to 6.11. */
static __always_inline void count_unlisted(struct request *rq, u8 op, const bool direct)
{
	struct blk_cpu *cpu;

	if (!balance || !rq_made_ns(rq, direct) || (op == BLK_PASSTHROUGH && !io_stat_mask))
		return;
	cpu = this_cpu();
	if (cpu)
		__sync_fetch_and_add(&cpu->unlisted, 1);
}

/* Without a time only the loss is counted. */
static __always_inline void on_lost_completion(struct blk_inflight *entry)
{
}

/* Not inline: as a part of on_complete() it would cost a quarter of what the verifier follows
 * there, also without --by. */
static __noinline bool add_of_key(struct request *rq, u8 op, u32 dev,
				  const struct blk_inflight *entry, u64 ns)
{
	struct hist_key key = {};

	key_file(&key, op, rq);
	return keyed_add(&key, op, dev, entry, ns);
}

static __always_inline void on_complete(struct request *rq, bool failed, u32 bytes,
					const bool direct)
{
	/* First, see on_issue(). */
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
	    (keyed && add_of_key(rq, done.op, key_dev(rq, entry, dev), entry, ns)))
		count_unlisted(rq, done.op, direct);
	else
		hist_add(done.op, ns);
	release_entry(rq, entry, &of_bio, direct);
}

#include "probes/blk_cgroups.bpf.h"
#include "probes/blk_entry.bpf.h"

char LICENSE[] SEC("license") = "GPL";
