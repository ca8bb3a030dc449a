/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_INFLIGHT_BPF_H
#define IOTRACE_PROBES_BLK_INFLIGHT_BPF_H

/* The entries of requests in flight, and missed completions. */

#include "probes/blk_hooks.bpf.h"
#include "probes/blk_submitters.bpf.h"

/*
 * By the request's address: an array lookup takes a few instructions, a hash map lookup a call.
 * Mapped, so that each slot begins at a cache line: the CPUs that handle the request write to it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, u32);
	__type(value, struct blk_place);
} places SEC(".maps");

/* Derived from the number of slots; 0: there are no slots. */
const volatile __u32 place_bits = 0;

/* By address: requests whose slot belongs to another request. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct blk_inflight);
} inflight SEC(".maps");

/*
 * Requests within 8 KB have slots within one page (most requests are larger than 256 bytes), so
 * that a queue's requests are in few pages: accessing a page that the processor has not used for a
 * while takes as long as the rest of a program.
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
 * Another CPU has most likely written the slot last.  Unlike a load, a store does not wait: the
 * cache line arrives while the clock is read.
 */
static __always_inline void fetch_place(u64 rq)
{
	struct blk_place *place = place_of(rq);

	if (place)
		*(volatile u32 *)&place->pad = 0;
}

/* The entry of the request at address @rq; NULL: none. */
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
 * At most one program claims a slot, without an atomic instruction that returns a value, which 5.10
 * rejects.  The additions are atomic, and the value only grows: the program that reads 1 after its
 * own addition was first, and later programs read more.  If several add at the same moment,
 * possibly none reads 1: then the slot stays free, and all use the hash map.
 */
static __always_inline bool take_claim(u32 *claims)
{
	if (*claims)
		return false;
	__sync_fetch_and_add(claims, 1);
	return *(volatile u32 *)claims == 1;
}

/* Makes the entry of a request that has none. -errno: no room.  A request has one event at a time,
 * so that no other program makes the entry at the same time. */
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

/* The request at address @rq, the owner of this entry, is complete or is not counted. */
static __always_inline void free_entry(u64 rq, struct blk_inflight *entry)
{
	entry->known = 0;
	entry->issue_ns = 0;
	if (entry->hashed)
		bpf_map_delete_elem(&inflight, &rq);
}

/* Was the request made before all programs were attached?  Then a missed start is not a loss. */
static __always_inline bool predates_trace(struct request *rq, const bool direct)
{
	u64 made = rq_made_ns(rq, direct);

	return !begin_ns || (made && made < begin_ns);
}

/*
 * The same for the request at address @key, whose start was missed.  On a queue without I/O
 * statistics the kernel does not store when it was made; then it is older than the trace, unless
 * starts have been lost for want of room.  A global function: called rarely, and the verifier
 * checks it once, not on each path to it.  0 or 1.
 */
__attribute__((noinline)) int unseen_start_is_older(u64 key, u32 op)
{
	struct request *rq = (struct request *)key;

	if (predates_trace(rq, false))
		return 1;
	return own_start && op != BLK_PASSTHROUGH && !rq_made_ns(rq, false) &&
	       !losses[LOSS_REQUESTS_FULL];
}

/* See load_scalar_arg(). */
static __always_inline u64 load_scalar_rq(struct request *rq)
{
	return load_scalar_arg(&rq);
}

static __always_inline bool unseen_start_predates_trace(struct request *rq, u8 op)
{
	return unseen_start_is_older(load_scalar_rq(rq), op);
}

/* See account_lost_completion(), which has checked already.  A global function, like
 * unseen_start_is_older().  Always 0. */
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
 * The request at address @rq is used again, but its last completion was missed.  The kernel skips a
 * program that is already running on the same CPU, and a vendor's kernel runs no program while pid
 * 1 is current (docs/KERNEL-NOTES.md).  The I/O was issued and is complete, so that it is counted
 * now, without a time.
 */
static __always_inline void account_lost_completion(u64 rq, const struct blk_inflight *entry)
{
	if (entry->issue_ns)
		lost_completion(rq);
}

#endif
