/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_FLUSH_WAITERS_BPF_H
#define IOTRACE_PROBES_BLK_FLUSH_WAITERS_BPF_H

/* Requests that wait for a flush command. */

#include "probes/blk_bios.bpf.h"
#include "probes/blk_devices.bpf.h"
#include "probes/blk_inflight.bpf.h"

/*
 * The head of the list of requests that wait for a flush command (block/blk-flush.c).  It does not
 * change while the device has the command.  NULL if the kernel's BTF lacks the type, and for a
 * command that another driver passed on to this queue (dm multipath).
 */
static __always_inline struct list_head *flush_waiters(struct request *flush_rq)
{
	struct blk_flush_queue *fq;

	if (!bpf_core_field_exists(flush_rq->mq_hctx->fq->flush_queue))
		return NULL;
	fq = BPF_CORE_READ(flush_rq, mq_hctx, fq);
	if (!fq || BPF_CORE_READ(fq, flush_rq) != flush_rq)
		return NULL;
	if (BPF_CORE_READ_BITFIELD_PROBED(fq, flush_running_idx))
		return __builtin_preserve_access_index(&fq->flush_queue[1]);
	return __builtin_preserve_access_index(&fq->flush_queue[0]);
}

static __always_inline struct request *waiter_at(struct list_head *node)
{
	if (bpf_core_field_exists(((struct request *)0)->flush.list))
		return (void *)node - bpf_core_field_offset(struct request, flush.list);
	return (void *)node - bpf_core_field_offset(struct request, queuelist);
}

/* Copies the submitter of the first request that waits for a flush command to @to, an empty entry:
 * the command belongs to that submitter.  False: the submitter is unknown, and @to stays empty. */
static __always_inline bool read_flush_owner(struct request *flush_rq, struct blk_inflight *to)
{
	struct list_head *head = flush_waiters(flush_rq);
	struct blk_inflight *entry;
	struct request *first;

	if (!head)
		return false;
	first = waiter_at(BPF_CORE_READ(head, next));
	entry = entry_of((u64)first);
	if (!entry || !entry->known)
		return read_bio_owner(first, to);
	copy_submitter(to, entry);
	return true;
}

/*
 * The flush command that request @key waits for is issued.  An empty request only waits and is
 * never issued itself: it begins here, so that account_lost_completion() counts it if its end is
 * missed.  A global function, which the verifier checks once for all callers.
 */
__attribute__((noinline)) int on_waiter(u64 key)
{
	struct request *rq = (void *)key;
	struct blk_inflight made = {}, *owner, *entry;
	bool fresh;
	u64 since;

	entry = entry_of(key);
	owner = entry && entry->known ? entry : bio_owner(rq);
	if (owner && owner->known)
		BLK_ON_FLUSHING(owner);
	if (op_of_code(BPF_CORE_READ(rq, cmd_flags) & 0xff) != BLK_WRITE ||
	    BPF_CORE_READ(rq, nr_phys_segments))
		return 0;
	fresh = read_bio_owner(rq, &made);
	since = rq_made_ns(rq, false);
	if (!since && fresh)
		since = made.submit_ns;
	else if (!since && entry && (entry->known || entry->issue_ns))
		since = entry->submit_ns;
	if (entry && entry->issue_ns && entry->op == BLK_SYNC && entry->submit_ns == since)
		return 0; /* it still waits: the flush command was requeued */
	if (entry)
		account_lost_completion(key, entry);
	made.dev = rq_wanted_dev(rq, false);
	if (filter_dev && !made.dev)
		return 0;
	if (entry && entry->known) {
		copy_submitter(&made, entry);
	} else if (!fresh) {
		if (since ? !begin_ns || since < begin_ns
			  : unseen_start_predates_trace(rq, BLK_SYNC))
			return 0;
		count_lost_submitter(rq);
		if (filters_submitters())
			return 0;
	}
	made.op = BLK_SYNC;
	made.submit_ns = since ? since : made.submit_ns;
	made.issue_ns = bpf_ktime_get_ns();
	if (entry)
		remake_entry(entry, &made);
	else if (make_entry(key, &made))
		return 0; /* its completion is counted for the bio's owner */
	if (fresh)
		spend_bio_owner(rq);
	return 0;
}

/* Each takes the verifier 20 us. */
#define WAITERS_MAX 64

__attribute__((noinline)) int each_waiter(u64 flush_rq)
{
	struct request *rq = (void *)flush_rq;
	struct list_head *head = flush_waiters(rq), *node;

	if (!head)
		return 0;
	node = BPF_CORE_READ(head, next);
	for (int i = 0; i < WAITERS_MAX; i++) {
		if (!node || node == head)
			return 0;
		on_waiter((u64)waiter_at(node));
		node = BPF_CORE_READ(node, next);
	}
	return 0;
}

/* A flush command is issued. */
static __always_inline void on_flush(struct request *rq)
{
	each_waiter(load_scalar_rq(rq));
}

#endif
