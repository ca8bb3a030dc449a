/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_URING_REQUESTS_BPF_H
#define IOTRACE_PROBES_URING_REQUESTS_BPF_H

/*
 * The requests of io_uring in flight, from the submission to the completion that the program can
 * see in the ring.
 *
 * A request is known by its struct io_kiocb, and to its program by user_data.  Completions have the
 * former since 5.17 (io_uring_complete), and lack it in the older kernels, in
 * io_uring_cqe_overflow, and if they do not end the request (multishot).  So entries are found by
 * user_data; a request whose user_data is in use already has an entry by its address.
 *
 * An object defines before it includes this: URING_OWN, its own fields of an entry,
 * URING_IN_FLIGHT, the number of entries, and URING_NO_ROOM(), for a request without one; after it
 * on_submit() and on_completion().
 */
#include "probes/kernel.h"
#include "probes/spare.bpf.h"
#include "probes/uring.h"

/* include/uapi/linux/io_uring.h, the same in all kernels. */
#define IOSQE_CQE_SKIP_SUCCESS (1U << 6) /* since 5.17 */
#define IORING_CQE_F_MORE      (1U << 1)
#define IORING_CQE_F_NOTIF     (1U << 3)

/* Completions have the address of their request. */
const volatile bool has_request = true;

/* A request in flight. */
struct uring_request {
	u64 start_ns;
	u64 address; /* of its struct io_kiocb */
	u32 pid, thread;
	u32 len; /* of a read or write with one buffer; 0: unknown */
	u16 opcode;
	u16 flags;
	URING_OWN
};

struct uring_name {
	u64 ring, user_data;
};

/* The requests in flight with a name. */
struct uring_named {
	struct uring_request first;
	u32 pending; /* how many */
	u32 shared;  /* there were several at a time */
	u32 mixed;   /* of several opcodes */
	u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, URING_IN_FLIGHT);
	__type(key, struct uring_name);
	__type(value, struct uring_named);
} uring_names SEC(".maps");

/* Further requests of a name, by address; not used if completions lack it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, URING_IN_FLIGHT);
	__type(key, u64);
	__type(value, struct uring_request);
} uring_requests SEC(".maps");

/* ---- submission ---- */

static __always_inline u64 user_data_of(struct io_kiocb *req, const bool direct)
{
	if (bpf_core_field_exists(req->cqe))
		return KREAD(direct, req, cqe.user_data);
	return KREAD(direct, req, user_data);
}

static __always_inline void put_request(const struct uring_name *name,
					const struct uring_request *request)
{
	struct uring_named *named = bpf_map_lookup_elem(&uring_names, name), made = {};

	if (!named) {
		made.first = *request;
		made.pending = 1;
		if (!bpf_map_update_elem(&uring_names, name, &made, BPF_NOEXIST))
			return;
		named = bpf_map_lookup_elem(&uring_names, name);
		if (!named) {
			URING_NO_ROOM();
			return;
		}
	}
	if (named->first.address == request->address) {
		named->first = *request; /* its completion was not seen */
		return;
	}
	if (named->first.opcode != request->opcode)
		named->mixed = 1;
	named->shared = 1;
	__sync_fetch_and_add(&named->pending, 1);
	if (has_request &&
	    bpf_map_update_elem(&uring_requests, &request->address, request, BPF_ANY))
		URING_NO_ROOM();
}

/* A request was read from the ring; @failed: its entry, if it is invalid, and its completion
 * follows. */
static __always_inline void on_submit(struct io_kiocb *req, const bool direct,
				      struct io_uring_sqe *failed);

/* ---- completion ---- */

/* One of the requests of @name, the @first or another one, has ended. */
static __always_inline void drop_name(const struct uring_name *name, struct uring_named *named,
				      bool first)
{
	if (named->pending <= 1) {
		bpf_map_delete_elem(&uring_names, name);
		return;
	}
	__sync_fetch_and_add(&named->pending, -1);
	if (first && has_request)
		named->first.address = 0;
}

/* Does the thread that submits to @ctx have entries of which the ring's head says that they are
 * still to be read?  The head is moved when all requests have been submitted, and the completions
 * so far have been posted. */
static __always_inline bool is_submitting(struct io_ring_ctx *ctx, const bool direct)
{
	u32 head = BPF_CORE_READ(ctx, rings, sq.head);

	return KREAD(direct, ctx, cached_sq_head) != head;
}

/*
 * Before 5.17 no event reports a request that could not be submitted.  Its entry is the last one
 * that was read.
 */
static __always_inline u32 failed_opcode(struct io_ring_ctx *ctx, u64 user_data)
{
	u32 last = BPF_CORE_READ(ctx, cached_sq_head) - 1, index = 0;
	u32 *array = BPF_CORE_READ(ctx, sq_array);
	struct io_uring_sqe *sqe;

	if (!is_submitting(ctx, false) || !array)
		return URING_UNKNOWN;
	array += last & (BPF_CORE_READ(ctx, sq_entries) - 1);
	bpf_probe_read_kernel(&index, sizeof(index), array);
	sqe = (void *)((u64)BPF_CORE_READ(ctx, sq_sqes) + (u64)index * 64);
	return BPF_CORE_READ(sqe, user_data) == user_data ? BPF_CORE_READ(sqe, opcode)
							  : URING_UNKNOWN;
}

/* What is known of a completion. */
struct completion {
	u64 ring, user_data;
	u64 address; /* of the request that ends; 0: not known, or none ends */
	s32 res;
	u32 flags; /* IORING_CQE_F_* */
	bool overflow;
};

/* FOUND_FAILED: it was not submitted; otherwise, unless it is known, its time and way are not. */
enum found { FOUND_KNOWN, FOUND_SHARED, FOUND_FAILED, FOUND_NONE };

/* Finds the request of @c, and its entry is gone if it has ended. */
static __always_inline enum found take_request(const struct completion *c, bool ends,
					       struct io_ring_ctx *ctx,
					       struct uring_request *request)
{
	struct uring_name name = { .ring = c->ring, .user_data = c->user_data };
	struct uring_named *named = bpf_map_lookup_elem(&uring_names, &name);
	struct uring_request *other;
	struct io_kiocb *req;
	bool first;

	if (c->address) {
		first = named && named->first.address == c->address;
		if (first) {
			*request = named->first;
			drop_name(&name, named, true);
			return FOUND_KNOWN;
		}
		other = bpf_map_lookup_elem(&uring_requests, &c->address);
		if (!other) {
			req = (void *)c->address;
			request->opcode = BPF_CORE_READ(req, opcode);
			return FOUND_NONE;
		}
		*request = *other;
		bpf_map_delete_elem(&uring_requests, &c->address);
		if (named)
			drop_name(&name, named, false);
		return FOUND_KNOWN;
	}
	if (!named && has_request) {
		request->opcode =
		    ends || c->flags & IORING_CQE_F_MORE ? URING_UNKNOWN : URING_NO_REQUEST;
		return FOUND_NONE;
	}
	if (!named) {
		request->opcode = c->res < 0 ? failed_opcode(ctx, c->user_data) : URING_UNKNOWN;
		return request->opcode == URING_UNKNOWN ? FOUND_NONE : FOUND_FAILED;
	}
	*request = named->first;
	if (named->mixed)
		request->opcode = URING_UNKNOWN;
	first = !named->shared;
	if (ends)
		drop_name(&name, named, first);
	return first ? FOUND_KNOWN : FOUND_SHARED;
}

/* A message of another ring, or the end of a registered buffer, ends no request; nor does the note
 * that a buffer sent without a copy may be used again. */
static __always_inline bool ends_request(const struct completion *c)
{
	return (c->address || !has_request || c->overflow) && !(c->flags & IORING_CQE_F_NOTIF) &&
	       (c->address || !(c->flags & IORING_CQE_F_MORE));
}

static __always_inline void on_completion(const struct completion *c, struct io_ring_ctx *ctx,
					  const bool direct);

/* Up to 5.16: (ring, user_data, res, flags), before it is known whether it fits into the ring. */
static __always_inline void on_complete_unnamed(struct io_ring_ctx *ctx, u64 user_data, s32 res,
						u32 flags)
{
	u32 head = BPF_CORE_READ(ctx, rings, cq.head);
	const struct completion c = {
		.ring = (u64)ctx,
		.user_data = user_data,
		.res = res,
		.flags = flags,
		.overflow =
		    BPF_CORE_READ(ctx, cached_cq_tail) - head == BPF_CORE_READ(ctx, cq_entries),
	};

	on_completion(&c, ctx, false);
}

static __always_inline void on_complete_args(u64 ring, u64 address, u64 user_data, s32 res,
					     u32 flags)
{
	const struct completion c = {
		.ring = ring,
		.address = address,
		.user_data = user_data,
		.res = res,
		.flags = flags,
	};

	on_completion(&c, (void *)ring, false);
}

/* By 6.18, not yet in 6.12: (ring, request, cqe). */
static __always_inline void on_complete_cqe(struct io_ring_ctx *ctx, u64 address,
					    struct io_uring_cqe *cqe, const bool direct)
{
	const struct completion c = {
		.ring = address_of(ctx, direct),
		.address = address,
		.user_data = KREAD(direct, cqe, user_data),
		.res = KREAD(direct, cqe, res),
		.flags = KREAD(direct, cqe, flags),
	};

	on_completion(&c, ctx, direct);
}

static __always_inline void on_overflow(u64 ring, u64 user_data, s32 res, u32 flags)
{
	const struct completion c = {
		.ring = ring,
		.user_data = user_data,
		.res = res,
		.flags = flags,
		.overflow = true,
	};

	on_completion(&c, (void *)ring, false);
}

/* ---- entry points ---- */

/* 5.10.y with 5.15's io_uring, since 5.10.162: (ring, request, ...); in 6.1 (request, ...). */
RAW_TP_PROGS(submit_old_raw, io_uring_submit_sqe, SEEN_URING_SUBMIT, 1,
	     on_submit(arg, direct, NULL))
TP_PROGS(submit_sqe, io_uring_submit_sqe, SEEN_URING_SUBMIT, 0, on_submit(arg, direct, NULL))
TP_PROGS(submit_req, io_uring_submit_req, SEEN_URING_SUBMIT, 0, on_submit(arg, direct, NULL))

RAW_TP_PROGS(complete_old_raw, io_uring_complete, SEEN_URING_COMPLETE, 0,
	     on_complete_unnamed(arg, ctx[1], (s32)ctx[2], (u32)ctx[3]))
RAW_TP_PROGS(complete_args_raw, io_uring_complete, SEEN_URING_COMPLETE, 1,
	     on_complete_args(ctx[0], (u64)arg, ctx[2], (s32)ctx[3], (u32)ctx[4]))
TP_PROGS(complete_cqe, io_uring_complete, SEEN_URING_COMPLETE, 0,
	 on_complete_cqe(arg, ctx[1], (void *)ctx[2], direct))

RAW_TP_PROGS(overflow_raw, io_uring_cqe_overflow, SEEN_URING_OVERFLOW, 0,
	     on_overflow((u64)arg, ctx[1], (s32)ctx[2], (u32)ctx[3]))

#endif
