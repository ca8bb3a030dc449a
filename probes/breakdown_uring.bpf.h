/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BREAKDOWN_URING_BPF_H
#define IOTRACE_PROBES_BREAKDOWN_URING_BPF_H

/* The layer uring of breakdown: reads, writes and syncs of io_uring, from submission to completion.
 */

#include "probes/calls.bpf.h"

#define URING_OWN	struct hist_key key; /* --by, without the disk */
#define URING_IN_FLIGHT 16384
#define URING_NO_ROOM() count_loss(&losses[LOSS_REQUESTS_FULL], 1)

#include "probes/uring_requests.bpf.h"

/* enum io_uring_op, include/uapi/linux/io_uring.h; enum call_op + 1, 0: not timed.  In memory, as
 * the classes of requests. */
static const volatile u8 uring_ops[64] = {
	[1] = CALL_READ + 1,			    /* READV */
	[2] = CALL_WRITE + 1,			    /* WRITEV */
	[3] = CALL_FSYNC + 1,  [4] = CALL_READ + 1, /* READ_FIXED */
	[5] = CALL_WRITE + 1,			    /* WRITE_FIXED */
	[8] = CALL_FSYNC + 1,			    /* SYNC_FILE_RANGE */
	[22] = CALL_READ + 1,			    /* READ */
	[23] = CALL_WRITE + 1,			    /* WRITE */
	[60] = CALL_READ + 1,			    /* READV_FIXED */
	[61] = CALL_WRITE + 1,			    /* WRITEV_FIXED */
};

static __always_inline u32 uring_op(u32 opcode)
{
	return opcode < sizeof(uring_ops) ? uring_ops[opcode & (sizeof(uring_ops) - 1)] : 0;
}

/* Where a completion only has user_data, each request with it matters. */
static __always_inline void on_submit(struct io_kiocb *req, const bool direct,
				      struct io_uring_sqe *failed)
{
	struct uring_request request = { .start_ns = bpf_ktime_get_ns() };
	struct blk_process process = {};
	struct uring_name name = {};

	(void)failed; /* such a request is no call */
	request.opcode = KREAD(direct, req, opcode);
	if ((has_request && !uring_op(request.opcode)) || !current_call_wanted(&process))
		return;
	if (KREAD(direct, req, flags) & IOSQE_CQE_SKIP_SUCCESS) {
		if (begin_ns)
			count_loss(&call_losses[CALL_LOSS_NO_CQE], 1);
		return;
	}
	name.ring = address_of(KREAD(direct, req, ctx), direct);
	name.user_data = user_data_of(req, direct);
	request.address = address_of(req, direct);
	if (keyed)
		key_current(&request.key, &process);
	put_request(&name, &request);
}

static __always_inline void on_completion(const struct completion *c, struct io_ring_ctx *ctx,
					  const bool direct)
{
	struct uring_request request = { .opcode = URING_UNKNOWN };
	u64 now = bpf_ktime_get_ns();
	bool ends = ends_request(c);
	struct io_kiocb *req;
	struct inode *inode;
	struct file *file;
	enum found found;
	u32 op;

	if (!ends)
		return;
	found = take_request(c, ends, ctx, &request);
	op = uring_op(request.opcode);
	if (found == FOUND_SHARED && (op || request.opcode == URING_UNKNOWN))
		count_loss(&call_losses[CALL_LOSS_SAME_NAME], 1);
	if (found != FOUND_KNOWN || !op)
		return;
	req = (void *)request.address;
	file = BPF_CORE_READ(req, file);
	if (!file)
		return;
	inode = file_inode(file, false);
	if (!inode_wanted(inode, false))
		return;
	if (keyed_dev)
		request.key.dev = inode_disk(inode);
	if (by_file)
		key_inode(&request.key.file, inode);
	op--;
	row_add(&request.key,
		combined ? table_row(class_of_op(op), IO_ASYNC, LAYER_URING)
			 : layer_row[LAYER_URING] + op,
		now > request.start_ns ? now - request.start_ns : 0, 0);
}

#endif
