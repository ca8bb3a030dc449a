// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace uring: what io_uring does with requests, by process, ring and opcode. */
#define URING_OWN
#define URING_IN_FLIGHT 32768
#define URING_NO_ROOM() count_loss(&losses[URING_LOSS_REQUESTS], 1)

#include "probes/kernel.h"
#include "probes/spare.bpf.h"
#include "probes/hist.bpf.h"
#include "probes/uring.h"

/* include/uapi/linux/io_uring.h and errno.h, the same in all kernels. */
#define OP_READ_FIXED	4
#define OP_WRITE_FIXED	5
#define OP_POLL_ADD	6
#define OP_TIMEOUT	11
#define OP_LINK_TIMEOUT 15
#define OP_READ		22
#define OP_WRITE	23
#define ETIME		62
#define ECANCELED	125

const volatile __u32 n_pids = 0; /* of -p; 0: all */
const volatile __u32 pids[URING_PIDS] = {};

/* The flag of a request that wanted no completion unless it failed, and has failed; 0: unknown. */
const volatile __u32 quiet_failed = 0;

/* The lowest bit is the buffer that programs write; user space swaps it. */
__u32 epoch = 0;
__u64 losses[URING_LOSSES] = {};

/* When all programs were attached; 0: not yet. */
__u64 begin_ns = 0;

#include "probes/uring_requests.bpf.h"

enum request_flags {
	REQUEST_WORKER = 1, /* given to a worker */
	REQUEST_POLLED = 2, /* waited until its file was ready */
	REQUEST_LINKED = 4, /* behind another one in a chain */
	REQUEST_IOPOLL = 8, /* of such a ring */
};

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

/* The descriptor of @ring in this process, if it is one of FD_PART from @first on, otherwise -1.  A
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

static __always_inline bool has_length(u32 opcode)
{
	return opcode == OP_READ || opcode == OP_WRITE || opcode == OP_READ_FIXED ||
	       opcode == OP_WRITE_FIXED;
}

static __always_inline void on_submit(struct io_kiocb *req, const bool direct,
				      struct io_uring_sqe *failed)
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
	/* The kernel sets an invalid one to 0. */
	request.opcode = failed ? BPF_CORE_READ(failed, opcode) : KREAD(direct, req, opcode);
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
	named = bpf_map_lookup_elem(&uring_names, &name);
	if (named && named->first.address == address) {
		named->first.flags |= flag;
		return;
	}
	request = has_request ? bpf_map_lookup_elem(&uring_requests, &address) : NULL;
	if (request)
		request->flags |= flag;
}

/* ---- completion ---- */

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

static __always_inline void count_unseen(const struct completion *c)
{
	struct io_kiocb *req = (void *)c->address;

	if (!req || !(BPF_CORE_READ(req, flags) & quiet_failed))
		count_loss(&losses[URING_LOSS_NO_START], 1);
	else if (losses[URING_LOSS_NO_CQE]) /* counted, unless it is older than the trace */
		count_loss(&losses[URING_LOSS_NO_CQE], -1);
}

static __always_inline void on_completion(const struct completion *c, struct io_ring_ctx *ctx,
					  const bool direct)
{
	bool note = c->flags & IORING_CQE_F_NOTIF, ends = ends_request(c);
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
		count_unseen(c);
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

/* ---- entry points ---- */

RAW_TP_PROGS(create_raw, io_uring_create, SEEN_URING_CREATE, 1,
	     on_create((s32)ctx[0], (u64)arg, (u32)ctx[4]))

TP_PROGS(fail, io_uring_req_failed, SEEN_URING_FAIL, 1, ({
		 struct io_uring_sqe *sqe = (void *)ctx[0];

		 __builtin_assume(sqe != NULL);
		 on_submit(arg, direct, sqe);
	 }))

RAW_TP_PROGS(work_old_raw, io_uring_queue_async_work, SEEN_URING_WORK, 2,
	     on_way(arg, direct, REQUEST_WORKER))
TP_PROGS(work, io_uring_queue_async_work, SEEN_URING_WORK, 0, on_way(arg, direct, REQUEST_WORKER))

RAW_TP_PROGS(poll_old_raw, io_uring_poll_arm, SEEN_URING_POLL, 1,
	     on_way(arg, direct, REQUEST_POLLED))
TP_PROGS(poll, io_uring_poll_arm, SEEN_URING_POLL, 0, on_way(arg, direct, REQUEST_POLLED))

char LICENSE[] SEC("license") = "GPL";
