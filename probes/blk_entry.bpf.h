/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_ENTRY_BPF_H
#define IOTRACE_PROBES_BLK_ENTRY_BPF_H

/*
 * The entry points of every program that follows block requests: one per attach method of an event,
 * each a thin shell around the event's body (on_submit_rq(), on_submit_bio(), on_issue(), and
 * on_complete() of the program that includes this).  The attach table in cmd/block/blk.c says which
 * is used when.  The entry points for kernels that preempt tracepoints have spares
 * (probes/spare.bpf.h).
 */

#include "probes/blk_lifetime.bpf.h"

TP_PROGS(io_start, block_io_start, SEEN_SUBMIT, 0, on_submit_rq(arg, direct))

SEC("kprobe/blk_account_io_start")
int BPF_KPROBE(io_start_kp, struct request *rq)
{
	if (!stopped)
		on_submit_rq(rq, false);
	return 0;
}

/* block_getrq(bio) since 5.11; (queue, bio, rw) before. */
TP_PROGS(getrq, block_getrq, SEEN_SUBMIT, 0, on_submit_bio(arg, false, direct))
QUEUE_PROG(getrq, block_getrq, 1, on_submit_bio(arg, false, direct))

/* block_bio_frontmerge(bio) since 5.11; (queue, request, bio) before. */
TP_PROGS(frontm, block_bio_frontmerge, SEEN_FRONT_MERGE, 0, on_submit_bio(arg, true, direct))
QUEUE_PROG(frontm, block_bio_frontmerge, 2, on_submit_bio(arg, true, direct))

/* block_rq_issue(rq) since 5.11 and in late 5.10.y; (queue, rq) before. */
TP_PROGS(issue, block_rq_issue, SEEN_ISSUE, 0, on_issue(arg, direct))
QUEUE_PROG(issue, block_rq_issue, 1, on_issue(arg, direct))

/* block_rq_requeue(rq) since 5.11 and in late 5.10.y; (queue, rq) before. */
RAW_TP_PROGS(requeue_raw, block_rq_requeue, SEEN_REQUEUE, 0, on_requeue(arg))
QUEUE_PROG(requeue, block_rq_requeue, 1, on_requeue(arg))

/* Not attached; user space runs it to check whether a request is idle (0) or in flight (1).  The
 * state of a request that only waits for a flush command (ctx[1]) is always idle: it is in flight
 * if its reference count is not 0. */
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

TP_PROGS(complete, block_rq_complete, SEEN_COMPLETE, 0,
	 on_complete(arg, (u32)ctx[1], ctx[2], direct))

#include "probes/process_entry.bpf.h"

#endif
