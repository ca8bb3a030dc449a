/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_INFLIGHT_BPF_H
#define IOTRACE_PROBES_BLK_INFLIGHT_BPF_H

/* Requests in flight: their entries, when they were made, and ends that no program saw. */

#include "probes/blk_hooks.bpf.h"
#include "probes/blk_options.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct blk_inflight);
} inflight SEC(".maps");

/*
 * When a request was made, as the kernel notes it; 0 when it did not.  From 6.12 on it
 * does so for requests that are accounted (RQF_IO_STAT) and for flush commands;
 * others still have the time of the request's last use.  Before, what is not set is 0.
 */
static __always_inline u64 rq_made_ns(struct request *rq, const bool direct)
{
	if (io_stat_mask && !(KREAD(direct, rq, rq_flags) & io_stat_mask) &&
	    (KREAD(direct, rq, cmd_flags) & 0xff) != 2)
		return 0;
	return KREAD(direct, rq, start_time_ns);
}

/* A request that was made before tracing began is not ours: that its start was
 * not seen is no loss. */
static __always_inline bool predates_trace(struct request *rq, const bool direct)
{
	u64 made = rq_made_ns(rq, direct);

	return !begin_ns || (made && made < begin_ns);
}

/*
 * Of a request whose start was not seen: was it made before tracing began?  On a
 * queue whose statistics are off the kernel does not say; then it was, unless a start can have gone
 * by for want of room.
 */
static __always_inline bool unseen_start_predates_trace(struct request *rq, u8 op,
							const bool direct)
{
	if (predates_trace(rq, direct))
		return true;
	return own_start && op != BLK_PASSTHROUGH && !rq_made_ns(rq, direct) &&
	       !losses[LOSS_REQUESTS_FULL];
}

static __always_inline void account_lost_completion(struct blk_inflight *entry)
{
	if (!entry->issue_ns)
		return;
	if (filter_mode == FILTER_NONE || entry->known) {
		count_loss(&losses[LOSS_NO_END], 1);
		on_lost_completion(entry);
	}
	BLK_ON_LOST_COMPLETION(entry);
	entry->issue_ns = 0;
	entry->known = 0;
}

#endif
