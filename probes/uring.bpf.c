// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace uring: the requests of io_uring, from the submission to the completion that the program
 * can see in the ring.
 *
 * A request is known by its struct io_kiocb, and to its program by user_data.  Completions have the
 * former since 5.17 (io_uring_complete), and lack it in the older kernels, in
 * io_uring_cqe_overflow, and if they do not end the request (multishot).  So entries are found by
 * user_data; a request whose user_data is in use already has an entry by its address.
 */
#include "probes/kernel.h"
#include "probes/spare.bpf.h"
#include "probes/hist.bpf.h"
#include "probes/uring.h"

/* include/uapi/linux/io_uring.h and errno.h, the same in all kernels. */
#define IOSQE_CQE_SKIP_SUCCESS (1U << 6) /* since 5.17 */
#define IORING_CQE_F_MORE      (1U << 1)
#define IORING_CQE_F_NOTIF     (1U << 3)
#define OP_READ_FIXED	       4
#define OP_WRITE_FIXED	       5
#define OP_POLL_ADD	       6
#define OP_TIMEOUT	       11
#define OP_LINK_TIMEOUT	       15
#define OP_READ		       22
#define OP_WRITE	       23
#define ETIME		       62
#define ECANCELED	       125

const volatile __u32 n_pids = 0; /* of -p; 0: all */
const volatile __u32 pids[URING_PIDS] = {};

/* Completions have the address of their request. */
const volatile bool has_request = true;

/* The lowest bit is the buffer that programs write; user space swaps it. */
__u32 epoch = 0;
__u64 losses[URING_LOSSES] = {};

/* When all programs were attached; 0: not yet. */
__u64 begin_ns = 0;

enum request_flags {
	REQUEST_WORKER = 1, /* given to a worker */
	REQUEST_POLLED = 2, /* waited until its file was ready */
	REQUEST_LINKED = 4, /* behind another one in a chain */
	REQUEST_IOPOLL = 8, /* of such a ring */
};

/* A request in flight. */
struct uring_request {
	u64 start_ns;
	u64 address; /* of its struct io_kiocb */
	u32 pid, thread;
	u32 len; /* of a read or write with one buffer; 0: unknown */
	u16 opcode;
	u16 flags;
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
	__uint(max_entries, 32768);
	__type(key, struct uring_name);
	__type(value, struct uring_named);
} names SEC(".maps");

/* Further requests of a name, by address; not used if completions lack it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct uring_request);
} requests SEC(".maps");

struct ring_key {
	u64 ring;
	u64 pid;
};

struct ring {
	s32 fd;
	u32 flags;
	char comm[URING_COMM];
};

/* What rows say of a ring; one that is dropped is looked up again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct ring_key);
	__type(value, struct ring);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct uring_key);
	__type(value, struct uring_value);
} rows0 SEC(".maps"), rows1 SEC(".maps");

/* An empty one: too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct uring_value);
} new_row SEC(".maps");

static __always_inline bool is_wanted(u32 pid)
{
	bool wanted = !n_pids;

	for (u32 i = 0; i < URING_PIDS; i++)
		wanted |= i < n_pids && pids[i] == pid;
	return wanted;
}

static __always_inline u32 this_process(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

/* ---- rings ---- */

/* Of a process: the descriptors that are searched for a ring, a part at a time. */
#define FDS	1024
#define FD_PART 32

/* The descriptor of @ring among those of this process from @first on; -1: not among FD_PART.  A
 * global function: the verifier walks its loop once, not for each part. */
__attribute__((noinline)) int fd_in_part(u64 ring, u32 first)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	u32 max = BPF_CORE_READ(table, max_fds);
	struct file **files = BPF_CORE_READ(table, fd), *file;

	for (u32 i = 0; i < FD_PART; i++) {
		if (first + i >= max)
			break;
		file = NULL;
		bpf_probe_read_kernel(&file, sizeof(file), &files[first + i]);
		if (file && (u64)BPF_CORE_READ(file, private_data) == ring)
			return (int)(first + i);
	}
	return -1;
}

/* The descriptor of @ring in this process; -1: none was found. */
__attribute__((noinline)) int ring_fd(u64 ring)
{
	int found = -1;

	for (u32 first = 0; first < FDS && found < 0; first += FD_PART)
		found = fd_in_part(ring, first);
	return found;
}

/* @fd: -2: not known yet. */
static __always_inline void put_ring(const struct ring_key *key, s32 fd, u32 flags)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct ring made = { .fd = fd, .flags = flags };

	if (fd == -2)
		made.fd = ring_fd(key->ring);
	BPF_CORE_READ_INTO(&made.comm, task, group_leader, comm);
	bpf_map_update_elem(&rings, key, &made, BPF_ANY);
}

static __always_inline void on_create(s32 fd, u64 ring, u32 flags)
{
	struct ring_key key = { .ring = ring, .pid = this_process() };

	/* With it @fd is no descriptor (6.5). */
	if (is_wanted(key.pid))
		put_ring(&key, flags & URING_REGISTERED_FD ? -1 : fd, flags);
}

/* ---- rows ---- */

static __always_inline struct uring_value *make_row(void *rows, const struct uring_key *key)
{
	struct ring_key ring_key = { .ring = key->ring, .pid = key->pid };
	struct io_ring_ctx *ctx = (void *)key->ring;
	struct uring_value *row, *empty;
	struct ring *ring;
	u32 zero = 0;

	empty = bpf_map_lookup_elem(&new_row, &zero);
	if (!empty)
		return NULL;
	bpf_map_update_elem(rows, key, empty, BPF_NOEXIST);
	row = bpf_map_lookup_elem(rows, key);
	if (!row)
		return NULL;
	ring = bpf_map_lookup_elem(&rings, &ring_key);
	if (!ring && key->pid == this_process()) { /* its first request was not seen */
		put_ring(&ring_key, -2, BPF_CORE_READ(ctx, flags));
		ring = bpf_map_lookup_elem(&rings, &ring_key);
	}
	if (!ring) {
		row->fd = -1;
		return row;
	}
	row->flags = ring->flags;
	__builtin_memcpy(row->comm, ring->comm, sizeof(row->comm));
	row->fd = ring->fd;
	return row;
}

static __always_inline struct uring_value *row_of(u64 ring, u32 pid, u32 opcode)
{
	struct uring_key key = { .ring = ring, .pid = pid, .opcode = opcode };
	struct uring_value *row;
	void *rows = &rows0;

	key.cpu = bpf_get_smp_processor_id();
	if (epoch & 1) {
		row = bpf_map_lookup_elem(&rows1, &key);
		return row ? row : make_row(&rows1, &key);
	}
	row = bpf_map_lookup_elem(&rows0, &key);
	return row ? row : make_row(rows, &key);
}

/* Atomic: an interrupt, or on 7.0 another task, may complete a request meanwhile. */
static __always_inline void add(u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

/* ---- submission ---- */

static __always_inline u64 user_data_of(struct io_kiocb *req, const bool direct)
{
	if (bpf_core_field_exists(req->cqe))
		return KREAD(direct, req, cqe.user_data);
	return KREAD(direct, req, user_data);
}

static __always_inline bool has_length(u32 opcode)
{
	return opcode == OP_READ || opcode == OP_WRITE || opcode == OP_READ_FIXED ||
	       opcode == OP_WRITE_FIXED;
}

static __always_inline void put_request(const struct uring_name *name,
					const struct uring_request *request)
{
	struct uring_named *named = bpf_map_lookup_elem(&names, name), made = {};

	if (!named) {
		made.first = *request;
		made.pending = 1;
		if (!bpf_map_update_elem(&names, name, &made, BPF_NOEXIST))
			return;
		named = bpf_map_lookup_elem(&names, name);
		if (!named) {
			count_loss(&losses[URING_LOSS_REQUESTS], 1);
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
	if (has_request && bpf_map_update_elem(&requests, &request->address, request, BPF_ANY))
		count_loss(&losses[URING_LOSS_REQUESTS], 1);
}

/* A request was read from the ring; @failed: it is invalid, and its completion follows. */
static __always_inline void on_submit(struct io_kiocb *req, const bool direct, const bool failed)
{
	struct uring_request request = { .start_ns = bpf_ktime_get_ns() };
	struct uring_name name = {};
	struct ring_key ring_key = {};
	struct io_ring_ctx *ctx;
	u64 thread = bpf_get_current_pid_tgid();
	u32 ring_flags;

	request.pid = thread >> 32;
	request.thread = (u32)thread;
	if (!is_wanted(request.pid))
		return;
	if (!failed && (KREAD(direct, req, flags) & IOSQE_CQE_SKIP_SUCCESS)) {
		if (begin_ns)
			count_loss(&losses[URING_LOSS_NO_CQE], 1);
		return;
	}
	ctx = KREAD(direct, req, ctx);
	name.ring = address_of(ctx, direct);
	name.user_data = user_data_of(req, direct);
	ring_flags = KREAD(direct, ctx, flags);
	ring_key.ring = name.ring;
	ring_key.pid = request.pid;
	if (!bpf_map_lookup_elem(&rings, &ring_key))
		put_ring(&ring_key, -2, ring_flags);
	request.address = address_of(req, direct);
	request.opcode = KREAD(direct, req, opcode);
	if (!failed && has_length(request.opcode))
		bpf_core_read(&request.len, sizeof(request.len), &((struct io_rw *)req)->len);
	if (KREAD(direct, ctx, submit_state.link.head))
		request.flags |= REQUEST_LINKED;
	if (ring_flags & URING_IOPOLL)
		request.flags |= REQUEST_IOPOLL;
	put_request(&name, &request);
}

/* ---- on its way ---- */

static __always_inline void on_way(struct io_kiocb *req, const bool direct, u16 flag)
{
	struct uring_name name = {};
	struct uring_request *request;
	struct uring_named *named;
	u64 address = address_of(req, direct);

	name.ring = address_of(KREAD(direct, req, ctx), direct);
	name.user_data = user_data_of(req, direct);
	named = bpf_map_lookup_elem(&names, &name);
	if (named && named->first.address == address) {
		named->first.flags |= flag;
		return;
	}
	request = has_request ? bpf_map_lookup_elem(&requests, &address) : NULL;
	if (request)
		request->flags |= flag;
}

/* ---- completion ---- */

/* One of the requests of @name, the @first or another one, has ended. */
static __always_inline void drop_name(const struct uring_name *name, struct uring_named *named,
				      bool first)
{
	if (named->pending <= 1) {
		bpf_map_delete_elem(&names, name);
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

static __always_inline bool is_failure(u32 opcode, s32 res)
{
	if (opcode == OP_TIMEOUT || opcode == OP_LINK_TIMEOUT)
		return res < 0 && res != -ETIME && (opcode == OP_TIMEOUT || res != -ECANCELED);
	return res < 0;
}

static __always_inline void count_way(struct uring_value *row, const struct uring_request *request,
				      struct io_ring_ctx *ctx, const bool direct)
{
	bool inlined;

	if (request->flags & REQUEST_WORKER) {
		add(&row->workers);
		return;
	}
	if (request->flags & REQUEST_POLLED) {
		add(&row->polled);
		return;
	}
	inlined = request->thread == (u32)bpf_get_current_pid_tgid() && is_submitting(ctx, direct);
	if (inlined)
		add(&row->inlined);
	else if (request->flags & REQUEST_IOPOLL || request->opcode == OP_POLL_ADD)
		add(&row->polled);
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
	struct uring_named *named = bpf_map_lookup_elem(&names, &name);
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
		other = bpf_map_lookup_elem(&requests, &c->address);
		if (!other) {
			req = (void *)c->address;
			request->opcode = BPF_CORE_READ(req, opcode);
			return FOUND_NONE;
		}
		*request = *other;
		bpf_map_delete_elem(&requests, &c->address);
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

static __always_inline void count_request(struct uring_value *row, const struct completion *c,
					  const struct uring_request *request, bool known,
					  struct io_ring_ctx *ctx, const bool direct)
{
	u64 now;

	add(&row->count);
	if (is_failure(request->opcode, c->res))
		add(&row->failed);
	if (!known)
		return;
	if (c->res >= 0 && (u32)c->res < request->len)
		add(&row->shorts);
	if (request->flags & REQUEST_LINKED)
		add(&row->linked);
	count_way(row, request, ctx, direct);
	now = bpf_ktime_get_ns();
	add(&row->timed);
	probe_hist_add(&row->latency, now > request->start_ns ? now - request->start_ns : 0, 1,
		       false);
}

static __always_inline void on_completion(const struct completion *c, struct io_ring_ctx *ctx,
					  const bool direct)
{
	/* A message of another ring, or the end of a registered buffer, ends no request; nor does
	 * the note that a buffer sent without a copy may be used again. */
	bool note = c->flags & IORING_CQE_F_NOTIF;
	bool ends = (c->address || !has_request || c->overflow) && !note &&
		    (c->address || !(c->flags & IORING_CQE_F_MORE));
	struct uring_request request = { .opcode = URING_UNKNOWN };
	struct uring_value *row;
	enum found found = FOUND_NONE;

	if (note)
		request.opcode = URING_NO_REQUEST;
	else
		found = take_request(c, ends, ctx, &request);
	if (!request.pid)
		request.pid = this_process();
	if (!begin_ns || !is_wanted(request.pid))
		return;
	if (ends && found == FOUND_SHARED)
		count_loss(&losses[URING_LOSS_SAME_NAME], 1);
	if (ends && found == FOUND_NONE)
		count_loss(&losses[URING_LOSS_NO_START], 1);
	row = row_of(c->ring, request.pid, request.opcode);
	if (!row) {
		count_loss(&losses[URING_LOSS_ROWS], 1);
		return;
	}
	if (c->overflow)
		add(&row->overflow);
	if (ends)
		count_request(row, c, &request, found == FOUND_KNOWN, ctx, direct);
	else
		add(&row->more);
}

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

static __always_inline void on_complete(u64 ring, u64 address, u64 user_data, s32 res, u32 flags)
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

RAW_TP_PROGS(create_raw, io_uring_create, SEEN_URING_CREATE, 1,
	     on_create((s32)ctx[0], (u64)arg, (u32)ctx[4]))

/* 5.10.y with 5.15's io_uring, since 5.10.162: (ring, request, ...); in 6.1 (request, ...). */
RAW_TP_PROGS(submit_old_raw, io_uring_submit_sqe, SEEN_URING_SUBMIT, 1,
	     on_submit(arg, direct, false))
TP_PROGS(submit_sqe, io_uring_submit_sqe, SEEN_URING_SUBMIT, 0, on_submit(arg, direct, false))
TP_PROGS(submit_req, io_uring_submit_req, SEEN_URING_SUBMIT, 0, on_submit(arg, direct, false))

TP_PROGS(fail, io_uring_req_failed, SEEN_URING_FAIL, 1, on_submit(arg, direct, true))

RAW_TP_PROGS(work_old_raw, io_uring_queue_async_work, SEEN_URING_WORK, 2,
	     on_way(arg, direct, REQUEST_WORKER))
TP_PROGS(work, io_uring_queue_async_work, SEEN_URING_WORK, 0, on_way(arg, direct, REQUEST_WORKER))

RAW_TP_PROGS(poll_old_raw, io_uring_poll_arm, SEEN_URING_POLL, 1,
	     on_way(arg, direct, REQUEST_POLLED))
TP_PROGS(poll, io_uring_poll_arm, SEEN_URING_POLL, 0, on_way(arg, direct, REQUEST_POLLED))

RAW_TP_PROGS(complete_old_raw, io_uring_complete, SEEN_URING_COMPLETE, 0,
	     on_complete_unnamed(arg, ctx[1], (s32)ctx[2], (u32)ctx[3]))
RAW_TP_PROGS(complete_args_raw, io_uring_complete, SEEN_URING_COMPLETE, 1,
	     on_complete(ctx[0], (u64)arg, ctx[2], (s32)ctx[3], (u32)ctx[4]))
TP_PROGS(complete_cqe, io_uring_complete, SEEN_URING_COMPLETE, 0,
	 on_complete_cqe(arg, ctx[1], (void *)ctx[2], direct))

RAW_TP_PROGS(overflow_raw, io_uring_cqe_overflow, SEEN_URING_OVERFLOW, 0,
	     on_overflow((u64)arg, ctx[1], (s32)ctx[2], (u32)ctx[3]))

char LICENSE[] SEC("license") = "GPL";
