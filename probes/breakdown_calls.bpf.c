// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace breakdown: the time that calls take in a layer of the I/O stack (-T syscall, vfs, ext4
 * and so on), or in all of them at once with the requests that the calls wait for.
 */
#define BLK_ON_SUBMITTED(entry, front_merge) call_submitted(entry, front_merge)
#define BLK_ON_ISSUED(entry)		     call_issued(entry)
#define BLK_ON_REQUEUED(entry)		     call_requeued(entry)
#define BLK_ON_SETTLED(entry)		     ((entry)->stage = STAGE_NONE)

#include "probes/kernel.h"
#include "probes/breakdown_calls.h"

static __always_inline void call_submitted(struct blk_inflight *entry, bool front_merge);
static __always_inline void call_issued(struct blk_inflight *entry);
static __always_inline void call_requeued(struct blk_inflight *entry);

#include "probes/blk.bpf.h"
#include "probes/understudy.bpf.h"
#include "probes/calls.bpf.h"

/* Bios that a driver without requests (dm, md) has, for calls that wait for them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct call_bio);
} stacked SEC(".maps");

/* ---- requests ---- */

/* The current thread, if it is in a system call that waits for its requests. */
static __always_inline struct call_thread *waiting_thread(u32 tid)
{
	struct call_thread *t = bpf_map_lookup_elem(&threads, &tid);

	return t && t->open ? t : NULL;
}

static __always_inline void call_submitted(struct blk_inflight *entry, bool front_merge)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct call_thread *t = waiting_thread(tid);
	struct call_io *io;

	if (!t)
		return;
	entry->call = (u64)tid << 32 | t->number;
	io = io_of(t);
	io->any = 1;
	if (front_merge)
		return; /* into a request that is counted already */
	io_charge(io, entry->submit_ns);
	__sync_fetch_and_add(&io->queued, 1);
	io->requests = 1;
	entry->stage = STAGE_QUEUED;
}

static __always_inline void call_leaves_stage(struct blk_inflight *entry, struct call_io *io)
{
	if (entry->stage == STAGE_QUEUED)
		__sync_fetch_and_add(&io->queued, -1);
	else if (entry->stage == STAGE_DEVICE)
		__sync_fetch_and_add(&io->in_device, -1);
}

static __always_inline void call_issued(struct blk_inflight *entry)
{
	struct call_thread *t = thread_of_call(entry->call);
	struct call_io *io;

	if (!t)
		return;
	io = io_of(t);
	io_charge(io, entry->issue_ns);
	call_leaves_stage(entry, io);
	__sync_fetch_and_add(&io->in_device, 1);
	entry->stage = STAGE_DEVICE;
}

static __always_inline void call_requeued(struct blk_inflight *entry)
{
	struct call_thread *t = thread_of_call(entry->call);
	struct call_io *io;

	if (!t)
		return;
	io = io_of(t);
	io_charge(io, bpf_ktime_get_ns());
	call_leaves_stage(entry, io);
	__sync_fetch_and_add(&io->queued, 1);
	entry->stage = STAGE_QUEUED;
}

/* The request is over, or part of another one. */
static __always_inline void call_finished(struct blk_inflight *entry, u64 now)
{
	struct call_thread *t = thread_of_call(entry->call);
	struct call_io *io;

	if (t) {
		io = io_of(t);
		io_charge(io, now);
		call_leaves_stage(entry, io);
	}
	entry->stage = STAGE_NONE;
	entry->call = 0;
}

/* A request that was merged into the one before it. */
static __always_inline void on_merge(struct request *rq)
{
	u64 key = (u64)rq;
	struct blk_inflight *entry = bpf_map_lookup_elem(&inflight, &key);

	if (submit_mode == SUBMIT_BIO)
		entry = bio_owner(rq);
	if (entry && entry->stage == STAGE_QUEUED)
		call_finished(entry, bpf_ktime_get_ns());
}

static __always_inline bool sleeps(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state) & TASK_SLEEPS;
	return BPF_CORE_READ(task, state) & TASK_SLEEPS;
}

/*
 * A request that an earlier call left behind (read-ahead) is over: does its thread wait for it in
 * another one, then the time since that call's last event was the device's.
 */
static __always_inline void on_left_behind(u64 call, u64 now)
{
	u32 tid = call >> 32;
	struct call_thread *t;
	struct call_io *io;

	if (!call)
		return;
	t = waiting_thread(tid);
	if (!t || !sleeps((void *)t->task))
		return;
	io = io_of(t);
	if ((s64)io->in_device > 0 || (s64)io->queued > 0)
		return;
	if (now > io->since_ns) {
		__sync_fetch_and_add(&io->device_ns, now - io->since_ns);
		io->since_ns = now;
	}
	io->any = 1;
}

static __always_inline u32 class_of_request(u8 op)
{
	if (op == BLK_READ)
		return CLASS_READ;
	return op == BLK_FLUSH || op == BLK_SYNC ? CLASS_SYNC : CLASS_WRITE;
}

static __always_inline void on_unseen(struct blk_inflight *entry)
{
}

/* Counts a request that is over in the rows of the queue and the device. */
static __always_inline void count_request(struct request *rq, struct blk_inflight *entry, u8 op,
					  const bool direct)
{
	u32 class = class_of_request(op), way = WAY_ASYNC;
	struct call_thread *t = entry ? thread_of_call(entry->call) : NULL;
	u64 ns, made;

	if (t) {
		class = t->class;
		way = WAY_DISK;
	} else if (entry) {
		on_left_behind(entry->call, bpf_ktime_get_ns());
	}
	if (!rq_latency(rq, entry, op, false, &ns, direct))
		return;
	row_add(table_row(class, way, LAYER_DEVICE), ns, 0);
	made = entry ? entry->submit_ns : 0;
	if (!made)
		made = rq_made_ns(rq, direct);
	if (entry && made && made <= entry->issue_ns)
		row_add(table_row(class, way, LAYER_QUEUE), entry->issue_ns - made, 0);
}

static __always_inline void on_complete(struct request *rq, u32 bytes, const bool direct)
{
	struct blk_done done = classify(rq, bytes, direct);
	struct blk_inflight *entry;

	if (!done.final || done.none)
		return;
	entry = followed(rq);
	if (filter_mode != FILTER_NONE && !(entry && entry->known))
		return;
	if (filter_dev && !(entry && entry->issue_ns) && !rq_wanted_dev(rq, false))
		return;
	/* An empty request only waits for a flush, which is a request of its own. */
	if (done.op != BLK_SYNC && done.op != BLK_PASSTHROUGH)
		count_request(rq, entry, done.op, direct);
	if (entry) {
		call_finished(entry, bpf_ktime_get_ns());
		end_use(entry);
	}
}

/* ---- bios of drivers without requests ---- */

static __always_inline void on_bio_queue(struct bio *bio)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct call_thread *t = waiting_thread(tid);
	struct call_bio made = {};
	struct call_io *io;
	u64 key = (u64)bio;

	if (!t || !BPF_CORE_READ(bio_disk(bio, false), fops, submit_bio))
		return;
	made.call = (u64)tid << 32 | t->number;
	made.start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&stacked, &key, &made, BPF_ANY)) {
		count_loss(LOSS_REQUESTS_FULL, 1);
		return;
	}
	io = io_of(t);
	io_charge(io, made.start_ns);
	__sync_fetch_and_add(&io->stacked, 1);
	io->any = 1;
}

/* @count: it went to the device as it is; else somebody else has it now. */
static __always_inline void on_bio_end(u64 bio, bool count)
{
	struct call_bio *known = bpf_map_lookup_elem(&stacked, &bio);
	u64 now = bpf_ktime_get_ns();
	struct call_thread *t;
	struct call_bio was;
	struct call_io *io;

	if (!known)
		return;
	was = *known;
	/* Deleted first: whoever deletes it counts it. */
	if (bpf_map_delete_elem(&stacked, &bio))
		return;
	t = thread_of_call(was.call);
	if (!t)
		return;
	io = io_of(t);
	io_charge(io, now);
	__sync_fetch_and_add(&io->stacked, -1);
	/* Where the thread made no request of it itself, the bio is what it waits for. */
	if (count && !io->requests)
		row_add(table_row(t->class, WAY_DISK, LAYER_DEVICE), now - was.start_ns, 0);
}

/* ---- entry points ---- */

#include "probes/blk_entry.bpf.h"

TP_BTF_PROGS(bio_queue_btf, block_bio_queue, CLAIM_BIO, bio, on_bio_queue(bio), struct bio *bio)

RAW_TP_PROGS(bio_queue_raw, block_bio_queue, CLAIM_BIO, ctx[0], on_bio_queue((void *)ctx[0]))

SEC("raw_tp/block_bio_queue")
int bio_queue_raw_q(u64 *ctx)
{
	if (!stopped)
		on_bio_queue((void *)ctx[1]);
	return 0;
}

RAW_TP_PROGS(bio_end_raw, block_bio_complete, CLAIM_BIO_END, ctx[1], on_bio_end(ctx[1], true))

/* block_bio_remap(bio, device, sector) since 5.11; (queue, bio, device, sector) before: the very
 * same bio goes on to another disk (md raid0, NVMe multipath). */
RAW_TP_PROGS(bio_remap_raw, block_bio_remap, CLAIM_REMAP, ctx[0], on_bio_end(ctx[0], false))

SEC("raw_tp/block_bio_remap")
int bio_remap_raw_q(u64 *ctx)
{
	on_bio_end(ctx[1], false);
	return 0;
}

/* block_rq_merge(rq) since 5.11 and in late 5.10.y; (queue, rq) before. */
RAW_TP_PROGS(merge_raw, block_rq_merge, CLAIM_REQUEUE, ctx[0], on_merge((void *)ctx[0]))

SEC("raw_tp/block_rq_merge")
int merge_raw_q(u64 *ctx)
{
	on_merge((void *)ctx[1]);
	return 0;
}

/* One program; @what: what it does and returns. */
#define CALL_PROG(section, name, function, type, what)                                             \
	SEC(section "/" #function)                                                                 \
	int name(type *ctx)                                                                        \
	{                                                                                          \
		return what;                                                                       \
	}

#define RAW_PROGS(name, tracepoint, what)                                                          \
	CALL_PROG("raw_tp", name, tracepoint, u64, (what, 0))                                      \
	CALL_PROG("raw_tp", name##_2, tracepoint, u64, (what, 0))                                  \
	CALL_PROG("raw_tp", name##_3, tracepoint, u64, (what, 0))

/* Arguments differ, none is used; 6.16 added one. */
RAW_PROGS(thread_end, sched_process_exit, on_thread_exit())

/* ---- system calls ---- */

/* A task of another word size has other numbers for its system calls. */
static __always_inline bool is_compat(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

#if defined(bpf_target_x86)
	return BPF_CORE_READ(task, thread_info.status) & 0x2; /* TS_COMPAT */
#elif defined(bpf_target_arm64)
	return BPF_CORE_READ(task, thread_info.flags) & 1UL << 22; /* TIF_32BIT */
#else
	return false;
#endif
}

static __always_inline bool syscall_has_fd(u32 op)
{
	return op != SYSCALL_SYNC && op != SYSCALL_MSYNC && op < SYSCALL_OPEN;
}

static __always_inline u64 first_syscall_arg(struct pt_regs *regs)
{
	u64 arg = 0;

#if defined(bpf_target_s390)
	arg = PT_REGS_PARM1_CORE_SYSCALL(regs);
#else
	bpf_probe_read_kernel(&arg, sizeof(arg), &PT_REGS_PARM1(regs));
#endif
	return arg;
}

static __always_inline bool syscall_wanted(u32 op, struct file *file)
{
	if (!combined && !check_files)
		return true;
	if (!syscall_has_fd(op))
		return !check_files;
	return inode_wanted(BPF_CORE_READ(file, f_inode));
}

/* Has another copy of the program been here? */
static __always_inline bool has_begun(u32 id, u64 regs)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct call_thread *t = bpf_map_lookup_elem(&threads, &tid);

	return t && t->depth && t->frames[0].id == id && t->frames[0].sp == regs;
}

static __always_inline void on_sys_enter(u64 regs, u64 number)
{
	struct file *file = NULL;
	bool fsync;
	u32 op;

	if (number >= SYSCALL_NUMBERS)
		return;
	op = syscall_ops[number & (SYSCALL_NUMBERS - 1)];
	if (!op || is_compat())
		return;
	op--;
	fsync = op == SYSCALL_FSYNC || op == SYSCALL_FDATASYNC;
	if (!time_syscalls && !fsync)
		return;
	if (!this_process_wanted())
		return;
	if (understudied && has_begun(CALL_ID(LAYER_SYSCALL, op, 0), regs))
		return;
	if (combined || check_files || (fsync && time_vfs))
		file = file_of_fd(first_syscall_arg((void *)regs));
	if (!syscall_wanted(op, file))
		return;
	if (time_syscalls)
		call_enter(CALL_ID(LAYER_SYSCALL, op, 0), regs, 0);
	if (fsync && time_vfs && file)
		call_enter(STAND_IN, regs - 1, (u64)file);
}

static __always_inline void on_sys_exit(u64 regs)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct call_thread *t = bpf_map_lookup_elem(&threads, &tid);
	u32 id;

	if (stopped || !t || !t->depth)
		return;
	if (time_vfs && (t->frames[0].id == STAND_IN || t->frames[1].id == STAND_IN))
		end_call(t, STAND_IN, regs - 1);
	if (!t->depth)
		return;
	id = t->frames[0].id;
	if (CALL_ID_LAYER(id) == LAYER_SYSCALL)
		end_call(t, id, regs);
	else
		drop_stale(t, regs); /* no call of a function outlives its system call */
}

RAW_PROGS(sys_enter_raw, sys_enter, on_sys_enter(ctx[0], ctx[1]))
RAW_PROGS(sys_exit_raw, sys_exit, on_sys_exit(ctx[0]))

/* ---- functions ---- */

/* The first argument of the function, where it is asked for. */
static __always_inline u64 first_arg(u64 *ctx)
{
	u64 arg = 0;

	if (combined || check_files)
		bpf_probe_read_kernel(&arg, sizeof(arg), ctx);
	return arg;
}

/*
 * The programs of one function: NAME_e and NAME_x at its beginning and end, their copies, and
 * NAME_ke and NAME_kx where there is no fentry.  Kprobes run with preemption off.
 */
#define FENTRY_BODY(id) call_enter(id, (u64)ctx, first_arg(ctx))
#define FEXIT_BODY(id)	call_exit(id, (u64)ctx)
#define KPROBE_BODY(id) call_enter(id, PT_REGS_SP(ctx), PT_REGS_PARM1(ctx))
#define KRET_BODY(id)	call_exit(id, PT_REGS_SP(ctx))

#define CALL_PROGS(name, function, id)                                                             \
	CALL_PROG("fentry", name##_e, function, u64, FENTRY_BODY(id))                              \
	CALL_PROG("fentry", name##_e_2, function, u64, FENTRY_BODY(id))                            \
	CALL_PROG("fentry", name##_e_3, function, u64, FENTRY_BODY(id))                            \
	CALL_PROG("fexit", name##_x, function, u64, FEXIT_BODY(id))                                \
	CALL_PROG("fexit", name##_x_2, function, u64, FEXIT_BODY(id))                              \
	CALL_PROG("fexit", name##_x_3, function, u64, FEXIT_BODY(id))                              \
	CALL_PROG("kprobe", name##_ke, function, struct pt_regs, KPROBE_BODY(id))                  \
	CALL_PROG("kretprobe", name##_kx, function, struct pt_regs, KRET_BODY(id))

#define FUNCTION(name, function, module, layer, op, which)                                         \
	CALL_PROGS(name, function, CALL_ID(layer, op, which))
#include "probes/call_functions.h"

char LICENSE[] SEC("license") = "GPL";
