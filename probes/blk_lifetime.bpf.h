/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_LIFETIME_BPF_H
#define IOTRACE_PROBES_BLK_LIFETIME_BPF_H

/* The life of a request: submitted, issued (requeued, issued again), completed. */

#include "probes/blk_bios.bpf.h"
#include "probes/blk_devices.bpf.h"
#include "probes/blk_flush_waiters.bpf.h"
#include "probes/blk_inflight.bpf.h"

/* A request was made of its first bio, in its submitter's context. */
static __always_inline void on_submit_rq(struct request *rq, const bool direct)
{
	u64 key = address_of(rq, direct);
	struct blk_inflight submitter = {}, *entry = entry_of(key);
	u8 op = op_of_code(KREAD(direct, rq, cmd_flags) & 0xff);
	bool wanted = !filter_dev || is_wanted_disk(disk_dev(rq_disk(rq, direct), direct));
	struct bio *bio = NULL;

	if (entry)
		account_lost_completion(key, entry);
	if (looks_at_cgroups())
		bio = BPF_CORE_READ(rq, bio);
	if (!wanted || !read_submitter(&submitter, bio, op)) {
		if (entry)
			free_entry(key, entry); /* of an earlier use */
		return;
	}
	if (own_start)
		submitter.submit_ns = bpf_ktime_get_ns();
	BLK_ON_SUBMITTED(&submitter, BLK_BIO_OF(rq, direct), false);
	if (!entry) {
		if (make_entry(key, &submitter) && (!filter_dev || rq_wanted_dev(rq, false)))
			count_loss(&losses[LOSS_SUBMITTERS], 1);
		return;
	}
	entry->process.start = submitter.process.start;
	entry->process.pid = submitter.process.pid;
	entry->process.uid = submitter.process.uid;
	entry->writeback = submitter.writeback;
	BLK_COPY_OWN(entry, &submitter);
	entry->known = 1;
	if (own_start)
		entry->submit_ns = submitter.submit_ns;
	if (want_cgroup)
		entry->cgroup = submitter.cgroup;
}

static __always_inline void mark_issued(struct blk_inflight *entry, u32 dev, u64 now, u8 op,
					u32 bytes)
{
	entry->dev = dev;
	entry->op = op;
	entry->bytes = bytes;
	entry->issue_ns = now;
}

/* Copies the submitter of a request that has had no entry since its submission to @to, an empty
 * entry.  False: the submitter is unknown, and @to stays empty. */
static __always_inline bool read_late_owner(struct request *rq, bool flush, struct blk_inflight *to)
{
	struct blk_inflight *owner;

	if (submit_mode == SUBMIT_NONE)
		return false;
	if (flush) {
		if (!read_flush_owner(rq, to))
			return false;
		to->stage = 0;
		return true;
	}
	owner = read_bio_owner(rq, to);
	if (owner)
		owner->known = 0; /* spent, see spend_bio_owner() */
	return owner;
}

/* Request @rq, which has no owner, is issued. */
static __always_inline void check_submitter(struct request *rq, u8 op)
{
	if (op != BLK_PASSTHROUGH && !unseen_start_predates_trace(rq, op))
		count_lost_submitter(rq);
}

/*
 * The request at address @key is issued.  It has no entry, or its entry has no submitter, or it is
 * a flush command.  A global function, like lost_completion().  Always 0.
 */
__attribute__((noinline)) int follow_unknown(u64 key, u32 dev, u64 now, u32 op, u32 bytes)
{
	bool flush = op == BLK_FLUSH;
	struct request *rq = (struct request *)key;
	struct blk_inflight made = {}, *entry;
	bool known = read_late_owner(rq, flush, &made);

	if (!known && !flush)
		check_submitter(rq, op);
	if (filters_submitters() && !known && !BLK_FOLLOWS_ALL)
		return 0;
	mark_issued(&made, dev, now, op, bytes);
	BLK_ON_RQ_ISSUED(&made, rq, false);
	entry = entry_of(key);
	if (entry) {
		remake_entry(entry, &made);
	} else if (make_entry(key, &made)) {
		count_loss(&losses[LOSS_REQUESTS_FULL], 1);
		BLK_ON_LOST_COMPLETION(&made); /* its completion will not be seen */
	}
	return 0;
}

/* A request is issued (again, after a requeue). */
static __always_inline void on_issue(struct request *rq, const bool direct)
{
	/*
	 * Before any branch: for each pointer read from the request the verifier searches the
	 * kernel's types by name (btf_nested_type_is_trusted, 6.3), some milliseconds on each path
	 * to it.
	 */
	u32 dev = filter_dev || BLK_WANTS_DEV ? rq_wanted_dev(rq, direct) : 0;
	u64 key = address_of(rq, direct), now = 0;
	u8 op = op_of_code(KREAD(direct, rq, cmd_flags) & 0xff);
	struct blk_inflight *entry;
	bool flush = op == BLK_FLUSH;
	u32 bytes;

	if (!filter_dev || dev)
		fetch_place(key);
	if (flush)
		on_flush(rq); /* before read_late_owner() reads the first waiter */
	BLK_ON_BIOS_ISSUED(rq);
	/* Before the entry is read: reading the clock waits for all outstanding loads, and another
	 * CPU may have written the entry last. */
	if (!filter_dev || dev)
		now = bpf_ktime_get_ns();
	entry = entry_of(key);
	if (entry)
		account_lost_completion(key, entry);
	if (filter_dev && !dev) {
		if (entry)
			free_entry(key, entry);
		return;
	}
	bytes = KREAD(direct, rq, __data_len);
	if (entry && (submit_mode == SUBMIT_NONE || (!flush && entry->known))) {
		mark_issued(entry, dev, now, op, bytes);
		BLK_ON_RQ_ISSUED(entry, rq, direct);
		return;
	}
	follow_unknown(key, dev, now, op, bytes);
}

/* The device did not accept the request, or returned it: it will be issued again. */
static __always_inline void on_requeue(struct request *rq)
{
	struct blk_inflight *entry;

	BLK_ON_BIOS_REQUEUED(rq);
	entry = entry_of((u64)rq);
	if (entry) {
		BLK_ON_REQUEUED(entry);
		entry->issue_ns = 0;
	}
}

/* ---- completion ---- */

/* What one completion event says about a request. */
struct blk_done {
	u32 bytes; /* transferred by this step */
	u8 op;
	bool final; /* the request is complete: count it */
	bool none;  /* to be ignored */
};

/*
 * block_rq_complete fires for each part that a driver completes, and twice for a request that went
 * through a flush sequence: for its data, with RQF_FLUSH_SEQ set, and with 0 bytes at the end of
 * the sequence.  Request-based dm reports its own request twice, the second time without a bio.
 */
static __always_inline struct blk_done classify(struct request *rq, u32 bytes, const bool direct)
{
	struct blk_done done = { .bytes = bytes };
	u32 code = KREAD(direct, rq, cmd_flags) & 0xff;
	bool sequence = KREAD(direct, rq, rq_flags) & flush_seq_mask;

	done.op = op_of_code(code);
	if (done.op == BLK_FLUSH) {
		done.final = true;
		return done;
	}
	if (sequence)
		return done;
	done.final = bytes >= KREAD(direct, rq, __data_len);
	if (bytes || done.op == BLK_PASSTHROUGH)
		return done;
	if (!BPF_CORE_READ(rq, bio))
		done.none = true;
	else if (done.op == BLK_WRITE && !KREAD(direct, rq, nr_phys_segments))
		done.op = BLK_SYNC;
	return done;
}

/* The entry of a request that completes.  If bios are followed, and the request was neither issued
 * nor marked as waiting for a flush command: @of_bio, with the bio's submitter. */
static __always_inline struct blk_inflight *
completing_entry(struct request *rq, struct blk_inflight *of_bio, const bool direct)
{
	struct blk_inflight *entry = entry_of(address_of(rq, direct));

	if (submit_mode == SUBMIT_BIO && (!entry || !(entry->known || entry->issue_ns))) {
		*of_bio = (struct blk_inflight){};
		entry = read_bio_owner(rq, of_bio) ? of_bio : NULL;
	}
	/* Otherwise clang computes addresses of fields before the NULL check of the entry. */
	barrier_var(entry);
	return entry;
}

/* See completing_dev().  A global function, like unseen_start_is_older(). */
__attribute__((noinline)) int unissued_dev(u64 rq)
{
	return rq_wanted_dev((struct request *)rq, false);
}

/* The device that a completing request is counted for: the one stored at its issue, if the issue
 * was seen. */
static __always_inline u32 completing_dev(struct request *rq, const struct blk_inflight *entry)
{
	return entry && entry->issue_ns ? entry->dev : unissued_dev(load_scalar_rq(rq));
}

/* The bytes to count for this step of a completion.  The last step includes the bytes of missed
 * steps. */
static __always_inline u32 step_bytes(struct blk_inflight *entry, const struct blk_done *done)
{
	u32 left;

	if (!entry || !entry->issue_ns)
		return done->bytes;
	left = entry->bytes;
	if (done->final)
		return left > done->bytes ? left : done->bytes;
	entry->bytes = left > done->bytes ? left - done->bytes : 0;
	return done->bytes;
}

/* Request @rq has completed; @entry is what completing_entry() found, which may be NULL. */
static __always_inline void release_entry(struct request *rq, struct blk_inflight *entry,
					  const struct blk_inflight *of_bio, const bool direct)
{
	if (!entry)
		return;
	if (submit_mode == SUBMIT_BIO && entry == of_bio)
		spend_bio_owner(rq);
	else
		free_entry(address_of(rq, direct), entry);
}

/*
 * The time of a request that completes at @now, from its issue (with @queued: from its creation).
 * False and 0, and the loss counted, if the start is unknown.  An empty request that waits for a
 * flush command is never issued itself: its time is from its creation.  @now is read before the
 * entry, see on_issue().
 */
static __always_inline bool rq_latency(struct request *rq, const struct blk_inflight *entry, u8 op,
				       bool queued, u64 now, u64 *ns, const bool direct)
{
	bool known = true;
	u64 start;

	if (queued || op == BLK_SYNC) {
		start = rq_made_ns(rq, direct);
		if (!start && entry)
			start = entry->submit_ns;
	} else {
		start = entry ? entry->issue_ns : 0;
	}
	if (!start) {
		if (!unseen_start_predates_trace(rq, op))
			count_loss(&losses[LOSS_NO_START], 1);
		known = false;
	} else if (now < start) {
		count_loss(&losses[LOSS_CLOCK], 1);
		known = false;
	}
	if (!known)
		start = now; /* not *ns = 0, a value that the verifier follows separately */
	*ns = now - start;
	return known;
}

#endif
