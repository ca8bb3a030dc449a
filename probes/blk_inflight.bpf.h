/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_INFLIGHT_BPF_H
#define IOTRACE_PROBES_BLK_INFLIGHT_BPF_H

/* The entries of requests in flight, and completions that no program saw. */

#include "probes/blk_hooks.bpf.h"
#include "probes/blk_submitters.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct blk_inflight);
} inflight SEC(".maps");

/*
 * When a request was made, as the kernel notes it; 0: not noted.  From 6.12 on only accounted
 * requests (RQF_IO_STAT) and flush commands get a time, and others keep that of the request's last
 * use.  Before, the time is 0 where it is not noted.
 */
static __always_inline u64 rq_made_ns(struct request *rq, const bool direct)
{
	if (io_stat_mask && !(KREAD(direct, rq, rq_flags) & io_stat_mask) &&
	    (KREAD(direct, rq, cmd_flags) & 0xff) != 2)
		return 0;
	return KREAD(direct, rq, start_time_ns);
}

/* Was the request made before all programs were attached?  Then an unseen start is no loss. */
static __always_inline bool predates_trace(struct request *rq, const bool direct)
{
	u64 made = rq_made_ns(rq, direct);

	return !begin_ns || (made && made < begin_ns);
}

/*
 * The same for a request whose start no program saw.  On a queue without I/O statistics the kernel
 * does not tell when it was made; then it predates the trace, unless starts have been lost for want
 * of room.
 */
static __always_inline bool unseen_start_predates_trace(struct request *rq, u8 op,
							const bool direct)
{
	if (predates_trace(rq, direct))
		return true;
	return own_start && op != BLK_PASSTHROUGH && !rq_made_ns(rq, direct) &&
	       !losses[LOSS_REQUESTS_FULL];
}

/*
 * Request @entry is used again, though no program saw its last use complete.  The kernel skips a
 * program that is already running on the same CPU, and a vendor's kernel runs none while pid 1 is
 * current (docs/KERNEL-NOTES.md).  What was issued has been completed, so that it is counted now,
 * without a time.
 */
static __always_inline void account_lost_completion(struct blk_inflight *entry)
{
	if (!entry->issue_ns)
		return;
	if (!filters_submitters() || entry->known) {
		count_loss(&losses[LOSS_NO_END], 1);
		on_lost_completion(entry);
	}
	BLK_ON_LOST_COMPLETION(entry);
	entry->issue_ns = 0;
	entry->known = 0;
}

#endif
