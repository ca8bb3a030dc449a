/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_ENTRY_BPF_H
#define IOTRACE_PROBES_BLK_ENTRY_BPF_H

/*
 * The entry points of every program that follows block requests: one per attach method of an event,
 * each a thin shell around the event's body (on_submit_rq(), on_submit_bio(), on_issue(), and
 * on_complete() of the program that includes this).  The attach table of cmd/blk.c says which is
 * used when.  Those for kernels that preempt tracepoints have backups (probes/backup.bpf.h).
 */

#include "probes/blk_lifetime.bpf.h"

TP_BTF_PROGS(io_start_btf, block_io_start, SEEN_SUBMIT, rq, on_submit_rq(rq, true),
	     struct request *rq)

RAW_TP_PROGS(io_start_raw, block_io_start, SEEN_SUBMIT, ctx[0], on_submit_rq((void *)ctx[0], false))

SEC("kprobe/blk_account_io_start")
int BPF_KPROBE(io_start_kp, struct request *rq)
{
	if (!stopped)
		on_submit_rq(rq, false);
	return 0;
}

/* block_getrq(bio) since 5.11; (queue, bio, rw) before. */
TP_BTF_PROGS(getrq_btf, block_getrq, SEEN_SUBMIT, bio, on_submit_bio(bio, false, true),
	     struct bio *bio)

RAW_TP_PROGS(getrq_raw, block_getrq, SEEN_SUBMIT, ctx[0],
	     on_submit_bio((void *)ctx[0], false, false))

SEC("raw_tp/block_getrq")
int getrq_raw_q(u64 *ctx)
{
	if (!stopped)
		on_submit_bio((void *)ctx[1], false, false);
	return 0;
}

/* block_bio_frontmerge(bio) since 5.11; (queue, request, bio) before. */
TP_BTF_PROGS(frontm_btf, block_bio_frontmerge, SEEN_FRONT_MERGE, bio,
	     on_submit_bio(bio, true, true), struct bio *bio)

RAW_TP_PROGS(frontm_raw, block_bio_frontmerge, SEEN_FRONT_MERGE, ctx[0],
	     on_submit_bio((void *)ctx[0], true, false))

SEC("raw_tp/block_bio_frontmerge")
int frontm_raw_q(u64 *ctx)
{
	if (!stopped)
		on_submit_bio((void *)ctx[2], true, false);
	return 0;
}

/* block_rq_issue(rq) since 5.11 and in late 5.10.y; (queue, rq) before. */
TP_BTF_PROGS(issue_btf, block_rq_issue, SEEN_ISSUE, rq, on_issue(rq, true), struct request *rq)

RAW_TP_PROGS(issue_raw, block_rq_issue, SEEN_ISSUE, ctx[0], on_issue((void *)ctx[0], false))

SEC("raw_tp/block_rq_issue")
int issue_raw_q(u64 *ctx)
{
	if (!stopped)
		on_issue((void *)ctx[1], false);
	return 0;
}

/* block_rq_requeue(rq) since 5.11 and in late 5.10.y; (queue, rq) before. */
RAW_TP_PROGS(requeue_raw, block_rq_requeue, SEEN_REQUEUE, ctx[0], on_requeue((void *)ctx[0]))

SEC("raw_tp/block_rq_requeue")
int requeue_raw_q(u64 *ctx)
{
	if (!stopped)
		on_requeue((void *)ctx[1]);
	return 0;
}

/* Not attached; user space runs it to find out whether a request is idle (0) or in flight (1).  The
 * state of a request that only waits for a flush command (ctx[1]) is always idle: then a reference
 * to it says that it is in flight. */
SEC("raw_tp")
int rq_busy(u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	unsigned int state = 1;

	if (!ctx[1]) {
		bpf_core_read(&state, sizeof(state), &rq->state);
		return state != MQ_RQ_IDLE;
	}
	if (bpf_core_field_exists(rq->ref))
		bpf_core_read(&state, sizeof(state), &rq->ref);
	return state != 0;
}

TP_BTF_PROGS(complete_btf, block_rq_complete, SEEN_COMPLETE, rq,
	     on_complete(rq, error, bytes, true), struct request *rq, int error, unsigned int bytes)

RAW_TP_PROGS(complete_raw, block_rq_complete, SEEN_COMPLETE, ctx[0],
	     on_complete((void *)ctx[0], (u32)ctx[1], ctx[2], false))

#include "probes/process_entry.bpf.h"

#endif
