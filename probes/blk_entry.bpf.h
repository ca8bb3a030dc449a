/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_ENTRY_BPF_H
#define IOTRACE_PROBES_BLK_ENTRY_BPF_H

/*
 * The entry points of every program that follows block requests: one per way
 * to hook an event, each a thin shell around the one body (on_submit_rq,
 * on_submit_bio, on_issue of probes/blk.bpf.h, and on_complete of the program
 * that includes this).  cmd/blk.c says which is used when.
 */

SEC("tp_btf/block_io_start")
int BPF_PROG(io_start_btf, struct request *rq)
{
	on_submit_rq(rq, true);
	return 0;
}

SEC("raw_tp/block_io_start")
int io_start_raw(u64 *ctx)
{
	on_submit_rq((void *)ctx[0], false);
	return 0;
}

SEC("kprobe/blk_account_io_start")
int BPF_KPROBE(io_start_kp, struct request *rq)
{
	on_submit_rq(rq, false);
	return 0;
}

/* block_getrq(bio) since 5.11; (queue, bio, rw) before. */
SEC("raw_tp/block_getrq")
int getrq_raw(u64 *ctx)
{
	on_submit_bio((void *)ctx[0], false);
	return 0;
}

SEC("raw_tp/block_getrq")
int getrq_raw_q(u64 *ctx)
{
	on_submit_bio((void *)ctx[1], false);
	return 0;
}

SEC("tp_btf/block_getrq")
int BPF_PROG(getrq_btf, struct bio *bio)
{
	on_submit_bio(bio, true);
	return 0;
}

/* block_bio_frontmerge(bio) since 5.11; (queue, request, bio) before. */
SEC("raw_tp/block_bio_frontmerge")
int frontm_raw(u64 *ctx)
{
	on_submit_bio((void *)ctx[0], false);
	return 0;
}

SEC("raw_tp/block_bio_frontmerge")
int frontm_raw_q(u64 *ctx)
{
	on_submit_bio((void *)ctx[2], false);
	return 0;
}

SEC("tp_btf/block_bio_frontmerge")
int BPF_PROG(frontm_btf, struct bio *bio)
{
	on_submit_bio(bio, true);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(issue_btf, struct request *rq)
{
	on_issue(rq, true);
	return 0;
}

/* block_rq_issue(rq) since 5.11 and in late 5.10.y; (queue, rq) before. */
SEC("raw_tp/block_rq_issue")
int issue_raw(u64 *ctx)
{
	on_issue((void *)ctx[0], false);
	return 0;
}

SEC("raw_tp/block_rq_issue")
int issue_raw_q(u64 *ctx)
{
	on_issue((void *)ctx[1], false);
	return 0;
}

/* block_rq_requeue(rq) since 5.11 and in late 5.10.y; (queue, rq) before. */
SEC("raw_tp/block_rq_requeue")
int requeue_raw(u64 *ctx)
{
	on_requeue((void *)ctx[0]);
	return 0;
}

SEC("raw_tp/block_rq_requeue")
int requeue_raw_q(u64 *ctx)
{
	on_requeue((void *)ctx[1]);
	return 0;
}

/* Not attached: user space runs it to learn whether a request is idle (0) or
 * in flight (1). */
SEC("raw_tp")
int rq_busy(u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	unsigned int state = 1;

	bpf_core_read(&state, sizeof(state), &rq->state);
	return state != MQ_RQ_IDLE;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(complete_btf, struct request *rq, int error, unsigned int bytes)
{
	on_complete(rq, bytes, true);
	return 0;
}

SEC("raw_tp/block_rq_complete")
int complete_raw(u64 *ctx)
{
	on_complete((void *)ctx[0], ctx[2], false);
	return 0;
}

SEC("raw_tp/sched_process_fork")
int fork_raw(u64 *ctx)
{
	on_fork((void *)ctx[0], (void *)ctx[1], false);
	return 0;
}

SEC("raw_tp/sched_process_free")
int free_raw(u64 *ctx)
{
	on_free((void *)ctx[0], false);
	return 0;
}

SEC("raw_tp/task_rename")
int rename_raw(u64 *ctx)
{
	on_rename((void *)ctx[0], (const char *)ctx[1], false);
	return 0;
}

#endif
