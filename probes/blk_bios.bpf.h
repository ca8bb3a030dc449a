/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_BIOS_BPF_H
#define IOTRACE_PROBES_BLK_BIOS_BPF_H

/* Finds submitters by bio, on kernels where no hook sees the request in its submitter's context. */

#include "probes/blk_hooks.bpf.h"
#include "probes/blk_operations.bpf.h"
#include "probes/blk_submitters.bpf.h"

/* By the address of a bio.  The entry of a bio that a filter excludes, or whose submitter was lost,
 * is not `known`. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384); /* blk_owners_room() */
	__type(key, u64);
	__type(value, struct blk_inflight);
} bio_owners SEC(".maps");

/* The next request will be made of @bio, or @bio becomes the first bio of its request (a front
 * merge). */
static __always_inline void on_submit_bio(struct bio *bio, bool front_merge, const bool direct)
{
	struct blk_inflight submitter = {};
	u64 key = (u64)bio;

	if (read_submitter(&submitter, bio, op_of_code(KREAD(direct, bio, bi_opf) & 0xff))) {
		if (own_start)
			submitter.submit_ns = bpf_ktime_get_ns();
		BLK_ON_SUBMITTED(&submitter, bio, front_merge);
	}
	/* No room: count_lost_submitter(). */
	bpf_map_update_elem(&bio_owners, &key, &submitter, BPF_ANY);
}

/* The entry of the first bio of @rq, NULL: none.  The map is an LRU: another CPU may evict the
 * entry at any time and use it for another bio. read_bio_owner() reads a submitter safely. */
static __always_inline struct blk_inflight *bio_owner(struct request *rq)
{
	u64 key;

	if (submit_mode != SUBMIT_BIO)
		return NULL;
	key = (u64)BPF_CORE_READ(rq, bio);
	return key ? bpf_map_lookup_elem(&bio_owners, &key) : NULL;
}

/* A later request of this bio, whose submission is missed, has no owner. */
static __always_inline void spend_bio_owner(struct request *rq)
{
	struct blk_inflight *owner = bio_owner(rq);

	if (owner)
		owner->known = 0;
}

static __always_inline void copy_submitter(struct blk_inflight *to, const struct blk_inflight *from)
{
	to->process = from->process;
	to->cgroup = from->cgroup;
	to->writeback = from->writeback;
	to->submit_ns = from->submit_ns;
	BLK_COPY_OWN(to, from);
	to->known = 1;
}

/*
 * Copies the submitter of the first bio of @rq to @to, an empty entry.  Returns the bio's entry,
 * only to be marked as spent; NULL: the submitter is unknown, and @to stays empty.  An entry that
 * is still the bio's own after it was read was the bio's own all the time.
 */
static __always_inline struct blk_inflight *read_bio_owner(struct request *rq,
							   struct blk_inflight *to)
{
	struct blk_inflight *owner = bio_owner(rq);

	if (!owner || !owner->known)
		return NULL;
	copy_submitter(to, owner);
	to->issue_ns = owner->issue_ns; /* breakdown: of the flush command */
	to->dev = owner->dev;
	barrier();
	if (bio_owner(rq) == owner)
		return owner;
	*to = (struct blk_inflight){};
	return NULL;
}

/* Request @rq, made while all programs were attached, has no owner: did the map lose it?  Counted
 * once per request, which may be issued again. */
static __always_inline void count_lost_submitter(struct request *rq)
{
	const struct blk_inflight none = {};
	u64 key;

	if (submit_mode != SUBMIT_BIO)
		return;
	key = (u64)BPF_CORE_READ(rq, bio);
	if (!key || bpf_map_lookup_elem(&bio_owners, &key))
		return;
	count_loss(&losses[LOSS_SUBMITTERS], 1);
	bpf_map_update_elem(&bio_owners, &key, &none, BPF_ANY);
}

#endif
