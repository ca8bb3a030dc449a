/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_INFLIGHT_BPF_H
#define IOTRACE_PROBES_BLK_INFLIGHT_BPF_H

/* The entries of requests in flight, and completions that no program saw. */

#include "probes/blk_hooks.bpf.h"
#include "probes/blk_submitters.bpf.h"

/*
 * By the request's address: an array is looked up by a few instructions, a hash map by a call.
 * Mapped, so that a place begins with a cache line: it is written by the CPUs that handle its
 * request.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, u32);
	__type(value, struct blk_place);
} places SEC(".maps");

/* Of the number of places; 0: there are none. */
const volatile __u32 place_bits = 0;

/* By address: requests whose place is another's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct blk_inflight);
} inflight SEC(".maps");

/*
 * Requests within 8 KB have places within one page (most are larger than 256 bytes), so that those
 * of a queue are in few: to find a page that the processor has not used for a while takes as long
 * as the rest of a program.
 */
static __always_inline struct blk_place *place_of(u64 rq)
{
	u32 index;

	if (!place_bits)
		return NULL;
	index = (rq >> 13) * 0x9e3779b97f4a7c15ull >> (64 - place_bits);
	index = (index ^ (rq >> 8 & 31)) & ((1u << place_bits) - 1);
	return bpf_map_lookup_elem(&places, &index);
}

/*
 * Another CPU has most likely written the place last.  A store is not waited for, unlike a load:
 * the cache line comes while the clock is read.
 */
static __always_inline void fetch_place(u64 rq)
{
	struct blk_place *place = place_of(rq);

	if (place)
		*(volatile u32 *)&place->pad = 0;
}

/* The entry of the request at address @rq; NULL: it has none. */
static __always_inline struct blk_inflight *entry_of(u64 rq)
{
	struct blk_place *place = place_of(rq);

	if (place && place->rq == rq)
		return &place->entry;
	if (place && !place->claims)
		return NULL;
	return bpf_map_lookup_elem(&inflight, &rq);
}

/*
 * At most one program takes a place, without an atomic instruction that returns a value, which 5.10
 * refuses.  The additions are atomic, and nobody takes any away: whoever reads 1 after his own was
 * the first, and the later ones read more.  Of several at the same moment perhaps nobody: then it
 * stays nobody's, and all use the hash map.
 */
static __always_inline bool take_claim(u32 *claims)
{
	if (*claims)
		return false;
	__sync_fetch_and_add(claims, 1);
	return *(volatile u32 *)claims == 1;
}

/* Makes the entry of a request that has none.  -errno: there is no room.  A request has one event
 * at a time, so that nobody else makes it meanwhile. */
static __always_inline long make_entry(u64 rq, struct blk_inflight *made)
{
	struct blk_place *place = place_of(rq);

	if (!place || !take_claim(&place->claims)) {
		made->hashed = 1;
		return bpf_map_update_elem(&inflight, &rq, made, BPF_ANY);
	}
	made->hashed = 0;
	place->entry = *made;
	place->rq = rq;
	return 0;
}

/* Writes @made over the entry of the same request. */
static __always_inline void remake_entry(struct blk_inflight *entry, struct blk_inflight *made)
{
	made->hashed = entry->hashed;
	*entry = *made;
}

/* The request at address @rq, whose entry this is, is complete, or is not counted. */
static __always_inline void free_entry(u64 rq, struct blk_inflight *entry)
{
	entry->known = 0;
	entry->issue_ns = 0;
	if (entry->hashed)
		bpf_map_delete_elem(&inflight, &rq);
}

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

/* See account_lost_completion(), which has looked already.  A global function: called rarely, and
 * the verifier checks it once, not on each path that leads there.  Always 0. */
__attribute__((noinline)) int lost_completion(u64 rq)
{
	struct blk_inflight *entry = entry_of(rq);

	if (!entry)
		return 0;
	if (!filters_submitters() || entry->known) {
		count_loss(&losses[LOSS_NO_END], 1);
		on_lost_completion(entry);
	}
	BLK_ON_LOST_COMPLETION(entry);
	entry->issue_ns = 0;
	entry->known = 0;
	return 0;
}

/*
 * The request at address @rq is used again; when its last use was issued, no program saw that
 * complete.  The kernel skips a program that is already running on the same CPU, and a vendor's
 * kernel runs none while pid 1 is current (docs/KERNEL-NOTES.md).  What was issued has been
 * completed, so that it is counted now, without a time.
 */
static __always_inline void account_lost_completion(u64 rq, const struct blk_inflight *entry)
{
	if (entry->issue_ns)
		lost_completion(rq);
}

#endif
