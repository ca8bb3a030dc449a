/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_CALLS_BPF_H
#define IOTRACE_PROBES_CALLS_BPF_H

/*
 * Calls of threads, nested in each other.  Each thread has a stack of calls: this distinguishes a
 * sync within a write from a read within a read, and detects missed ends.
 *
 * With one layer, each call's time goes to the row of its operation.  With all layers, each
 * nanosecond of a system call goes to exactly one of:
 * - the device while it has a request of the call,
 * - otherwise the queue while a request of the call waits to be issued,
 * - otherwise the admission while a bio of the call waits for its request,
 * - otherwise the layer that runs.
 * A missed end is detected by the thread's stack (CALL_LOSS_NO_END).
 */

#include "probes/blk_devices.bpf.h"
#include "probes/call_files.bpf.h"
#include "probes/blk_submitters.bpf.h"
#include "probes/breakdown_calls.h"
#include "probes/file_names.bpf.h"
#include "probes/hist.bpf.h"
#include "probes/keyed_hist.bpf.h"

const volatile bool combined = false; /* all layers at once */
const volatile bool time_syscalls = false;
const volatile bool time_vfs = false;
const volatile __u64 unit_ns = 1;
const volatile __u32 n_rows = 0;  /* per shard and buffer */
const volatile __u32 n_cells = 0; /* combined: rows per class and kind of I/O */
const volatile __u32 shard_mask = 0;
const volatile __u16 layer_row[LAYERS] = {}; /* the layer's first row; combined: its cell */
const volatile __u8 syscall_ops[SYSCALL_NUMBERS] = {}; /* enum call_syscall + 1; 0: not timed */

__u64 call_losses[CALL_LOSSES] = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct call_thread);
} threads SEC(".maps");

/* An empty entry for `threads`: too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call_thread);
} new_thread SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, u32);
	__type(value, struct call_hist);
} rows SEC(".maps");

/* ---- rows ---- */

static __always_inline struct call_hist *row_at(u32 row)
{
	u32 shard = bpf_get_smp_processor_id() & shard_mask;
	u32 index = (shard << 1 | (epoch & 1)) * n_rows + row;

	return bpf_map_lookup_elem(&rows, &index);
}

/* --by: adds a call of @ns (@count), and @self_ns, to @row of @key.  False: no room. */
static __noinline int keyed_row_add(const struct hist_key *of, u32 row, u64 ns, u64 self_ns,
				    bool count)
{
	struct keyed_hist *h;
	struct hist_key key;

	if (!of) /* for the verifier of 5.10 */
		return false;
	if (by_file && of->file.kind == FILE_OTHERS)
		return false;
	key = *of;
	key.row = row;
	h = keyed_hist_of(&key);
	if (!h)
		return false;
	if (combined && self_ns)
		__sync_fetch_and_add(&h->self_ns, self_ns);
	if (count)
		keyed_hist_add(h, ns, unit_ns);
	return true;
}

static __always_inline void row_add(const struct hist_key *key, u32 row, u64 ns, u64 self_ns)
{
	struct call_hist *h;

	if (keyed && keyed_row_add(key, row, ns, self_ns, true))
		return;
	h = row_at(row);
	if (!h)
		return;
	/* For a constant 0 clang emits another kind of atomic instruction, which 5.10 rejects. */
	if (combined && self_ns)
		__sync_fetch_and_add(&h->self_ns, self_ns);
	probe_hist_add(&h->hist, ns, unit_ns, false);
}

static __always_inline u32 table_row(u32 class, u32 io_kind, u32 layer)
{
	return (class * IO_KINDS + io_kind) * n_cells + (layer < LAYERS ? layer_row[layer] : 0);
}

static __always_inline void row_add_self(const struct hist_key *key, u32 row, u64 self_ns)
{
	struct call_hist *h;

	if (!self_ns || (keyed && keyed_row_add(key, row, 0, self_ns, false)))
		return;
	h = row_at(row);
	if (h)
		__sync_fetch_and_add(&h->self_ns, self_ns);
}

/* ---- files ---- */

/* Does it matter which file an overlayfs file stands for? */
static __always_inline bool wants_real_inode(void)
{
	return check_files || keyed_dev || by_file;
}

/* With all layers only files that can be on a disk are counted: regular files and block devices,
 * no pipes.  @direct: see KREAD(); the verifier does not know the type of the result of
 * real_inode(). */
static __always_inline bool inode_wanted(struct inode *inode, bool direct)
{
	return (!combined || is_on_disk(inode, direct && !wants_real_inode())) &&
	       is_on_wanted_disk(inode);
}

static __always_inline struct inode *file_inode(struct file *file, bool direct)
{
	return wants_real_inode() ? real_inode(file) : KREAD(direct, file, f_inode);
}

/*
 * The inode of call @id; @arg: the function's first argument, or the file of a system call.
 * @direct: the verifier knows the type of @arg (KREAD()).
 */
static __always_inline struct inode *inode_of_call(u32 id, u64 arg, bool direct)
{
	bool open = CALL_ID_OP(id) == CALL_OPEN;
	struct file *file = (void *)arg;
	struct dentry *dentry;

	if (CALL_ID_LAYER(id) == LAYER_SYSCALL)
		return file_inode(file, direct);
	if (CALL_ID_LAYER(id) == LAYER_VFS) {
		if (open) {
			dentry = KREAD(direct, (struct path *)arg, dentry);
			return KREAD(direct, dentry, d_inode);
		}
	} else if (open) {
		return (void *)arg;
	} else if (CALL_ID_OP(id) != CALL_FSYNC) {
		file = KREAD(direct, (struct kiocb *)arg, ki_filp);
	}
	return file_inode(file, direct);
}

/* ---- keys ---- */

static __always_inline u32 level_of(u32 id)
{
	u32 layer = CALL_ID_LAYER(id);

	return layer < LAYER_EXT4 ? layer : LEVEL_FS;
}

/* The current thread, a thread of @process. */
static __always_inline void key_current(struct hist_key *key, const struct blk_process *process)
{
	if (!keyed_who)
		return;
	key->known = 1;
	if (want_cgroup)
		key->cgroup = io_cgroup_id(NULL);
	if (by_user)
		key->uid = bpf_get_current_uid_gid();
	if (!by_process)
		return;
	key->start = process->start;
	key->pid = process->pid;
	remember_name(process);
}

/* Sets @id to the file of a call; @inode: NULL: none. */
static __noinline int key_inode(struct file_id *id, struct inode *inode)
{
	struct bio_file file = {};

	if (!id) /* for the verifier of 5.10 */
		return 0;
	*id = (struct file_id){};
	if (!inode || !is_on_disk(inode, false))
		return 0;
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK) {
		id->kind = FILE_DEVICE;
		return 0;
	}
	set_inode(&file, inode);
	set_id(id, &file, alias_of(inode), epoch & 1);
	return 0;
}

/* The outermost call of thread @t begins. */
static __always_inline void key_call(struct call_thread *t, const struct blk_process *process,
				     u32 id, u64 arg)
{
	struct inode *inode = NULL;

	key_current(&t->key, process);
	if (arg && (keyed_dev || by_file))
		inode = inode_of_call(id, arg, false);
	if (keyed_dev)
		t->key.dev = inode ? inode_disk(inode) : 0;
	if (by_file)
		key_inode(&t->key.file, inode);
}

/* A file system may store its files on another file system: an overlayfs file that was copied up
 * after it was opened. */
static __always_inline void key_file_system(struct call_thread *t, u32 id, u64 arg)
{
	struct inode *inode;
	u32 dev;

	if (!(keyed_dev || by_file) || !combined || level_of(id) != LEVEL_FS ||
	    t->levels & 1U << LEVEL_FS)
		return;
	inode = inode_of_call(id, arg, false);
	dev = keyed_dev ? inode_disk(inode) : 0;
	if (dev)
		t->key.dev = dev;
	if (by_file)
		key_inode(&t->key.file, inode);
}

/* ---- requests of a call ---- */

/* Adds the time since the last write to the current state of the call's requests. */
static __always_inline void io_charge(struct call_io *io, u64 now)
{
	u64 since = io->since_ns;

	if (now <= since)
		return;
	io->since_ns = now;
	if ((s64)io->in_device > 0)
		__sync_fetch_and_add(&io->device_ns, now - since);
	else if ((s64)io->queued > 0)
		__sync_fetch_and_add(&io->queue_ns, now - since);
	else if (io->admitting)
		__sync_fetch_and_add(&io->admit_ns, now - since);
	else if ((s64)io->stacked > 0)
		__sync_fetch_and_add(&io->device_ns, now - since);
}

static __always_inline struct call_io *io_at(struct call_thread *t, u32 i)
{
	barrier_var(i);
	return &t->io[i & (CALL_IOS - 1)];
}

/* Of the current call, for its own thread. */
static __always_inline struct call_io *io_of(struct call_thread *t)
{
	return io_at(t, t->number);
}

/* Of @call of thread @t, for others: the thread may begin its next call at the same time. */
static __always_inline struct call_io *io_of_call(struct call_thread *t, u64 call)
{
	return io_at(t, (u32)call);
}

/* ---- the time line of a system call ---- */

/*
 * Charges the wait in one layer, @total minus the @charged part, and returns the rest of @left.  At
 * most @left: two CPUs may have added the same time.
 */
static __always_inline u64 charge_wait(u64 *charged, u64 *self_ns, u64 total, u64 left)
{
	u64 ns = total - *charged;

	*charged = total;
	if (ns > left)
		ns = left;
	*self_ns += ns;
	return left - ns;
}

/* Charges the time since the last event of the thread itself, which was in call @id. */
static __always_inline void charge(struct call_thread *t, u32 id, u64 now)
{
	struct call_io *io = io_of(t);
	u64 left = now - t->charged_ns;
	u32 level = level_of(id);

	io_charge(io, now);
	left = charge_wait(&t->device_ns, &t->device_self_ns, io->device_ns, left);
	left = charge_wait(&t->queue_ns, &t->queue_self_ns, io->queue_ns, left);
	left = charge_wait(&t->admit_ns, &t->admit_self_ns, io->admit_ns, left);
	barrier_var(level);
	if (level < CALL_LEVELS)
		t->self_ns[level] += left;
	t->charged_ns = now;
}

static __always_inline u32 io_kind_of(struct call_thread *t)
{
	return t->class == CLASS_SYNC || io_of(t)->any ? IO_DISK : IO_CACHED;
}

/* Counts the ended call of @level, and the time in that level alone. */
static __always_inline void count_pending(struct call_thread *t, u32 level, u32 layer)
{
	if (t->pending & 1U << level)
		row_add(&t->key, table_row(t->class, io_kind_of(t), layer), t->took_ns[level],
			t->self_ns[level]);
	else if (t->self_ns[level])
		row_add_self(&t->key, table_row(t->class, io_kind_of(t), layer), t->self_ns[level]);
	t->pending &= ~(1U << level);
	t->self_ns[level] = 0;
}

static __always_inline u8 class_of_syscall(u32 op)
{
	return op < SYSCALL_WRITE ? CLASS_READ : op < SYSCALL_FSYNC ? CLASS_WRITE : CLASS_SYNC;
}

static __always_inline u32 class_of_op(u32 op)
{
	return op == CALL_READ ? CLASS_READ : op == CALL_WRITE ? CLASS_WRITE : CLASS_SYNC;
}

static __always_inline void begin_syscall(struct call_thread *t, u32 id, u64 now)
{
	struct call_io *io;

	t->open = 0;
	t->number++;
	io = io_of(t);
	__builtin_memset(io, 0, sizeof(*io));
	io->since_ns = now;
	t->class = class_of_syscall(CALL_ID_OP(id));
	t->fs = 0;
	t->pending = 0;
	t->charged_ns = now;
	t->arrived_ns = 0;
	t->admit_ns = t->queue_ns = t->device_ns = 0;
	t->admit_self_ns = t->queue_self_ns = t->device_self_ns = 0;
	t->self_ns[LEVEL_SYSCALL] = t->self_ns[LEVEL_VFS] = t->self_ns[LEVEL_FS] = 0;
	t->open = 1;
}

static __always_inline void end_syscall(struct call_thread *t)
{
	count_pending(t, LEVEL_SYSCALL, LAYER_SYSCALL);
	count_pending(t, LEVEL_VFS, LAYER_VFS);
	if (t->fs)
		count_pending(t, LEVEL_FS, t->fs);
	row_add_self(&t->key, table_row(t->class, IO_DISK, LAYER_ADMIT), t->admit_self_ns);
	row_add_self(&t->key, table_row(t->class, IO_DISK, LAYER_QUEUE), t->queue_self_ns);
	row_add_self(&t->key, table_row(t->class, IO_DISK, LAYER_DEVICE), t->device_self_ns);
	t->open = 0;
}

/* ---- threads ---- */

/*
 * Threads are identified by their task_struct, not by their id: an id may be reused before the end
 * of the last thread is seen.  These structs are more than 2 KiB apart, so 32 bits identify them
 * within 8 TiB of memory.
 */
static __always_inline u32 thread_key(u64 task)
{
	return task >> 11;
}

static __always_inline struct call_thread *known_thread(u64 task)
{
	u32 key = thread_key(task);

	return bpf_map_lookup_elem(&threads, &key);
}

static __always_inline struct call_thread *current_thread(bool make)
{
	u64 task = bpf_get_current_task();
	u32 key = thread_key(task), zero = 0;
	struct call_thread *t = bpf_map_lookup_elem(&threads, &key), *empty;

	if (!t) {
		if (!make)
			return NULL;
		empty = bpf_map_lookup_elem(&new_thread, &zero);
		if (!empty)
			return NULL;
		bpf_map_update_elem(&threads, &key, empty, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&threads, &key);
		if (!t) {
			count_loss(&call_losses[CALL_LOSS_THREADS], 1);
			return NULL;
		}
	}
	if (t->task != task) { /* new */
		t->depth = t->over = t->levels = t->open = 0;
		t->arrived_ns = 0;
		t->task = task;
	}
	return t;
}

/* The current call of @t, in the form that requests and bios carry. */
static __always_inline u64 call_of(struct call_thread *t)
{
	return (u64)thread_key(t->task) << 32 | t->number;
}

static __always_inline bool is_open(const struct call_thread *t, u64 call)
{
	return t->open && t->number == (u32)call;
}

/* The thread of @call; NULL once the call is over. */
static __always_inline struct call_thread *thread_of_call(u64 call)
{
	u32 key = call >> 32;
	struct call_thread *t;

	if (!call)
		return NULL;
	t = bpf_map_lookup_elem(&threads, &key);
	return t && is_open(t, call) ? t : NULL;
}

/* The row labels of @call, for which something waited.  False: the call is over, possibly since a
 * moment ago, when its thread began to change these labels. */
static __always_inline bool read_waiting_call(u64 call, u32 *class, struct hist_key *key)
{
	const struct call_thread *t = thread_of_call(call);

	if (!t)
		return false;
	*class = t->class;
	if (keyed && key)
		*key = t->key;
	barrier();
	return is_open(t, call);
}

/* ---- the stack ---- */

static __always_inline struct call_frame *frame_at(struct call_thread *t, u32 i)
{
	barrier_var(i);
	return &t->frames[i & (CALL_DEPTH - 1)];
}

/* Pops the top call off the stack.  @lost: its end was missed, which is not a loss for a call that
 * began before all programs were attached. */
static __always_inline void pop(struct call_thread *t, bool lost)
{
	struct call_frame *top = frame_at(t, t->depth - 1);

	if (top->outermost)
		t->levels &= ~(1U << level_of(top->id));
	t->depth--;
	if (lost && begin_ns && top->start_ns >= begin_ns)
		count_loss(&call_losses[CALL_LOSS_NO_END], 1);
}

/* Is @id the vfs_fsync_range() within vfs_fsync(), which calls or inlines it? */
static __always_inline bool is_nested_fsync(struct call_thread *t, u32 id)
{
	return id == CALL_ID(LAYER_VFS, CALL_FSYNC, 1) && t->depth &&
	       frame_at(t, t->depth - 1)->id == CALL_ID(LAYER_VFS, CALL_FSYNC, 0);
}

/* Does the top call, at @sp, still run when call @id begins at the same @sp?  Its last action was
 * then a jump to @id; with fentry, each has an address of its own. */
static __always_inline bool jumped(struct call_thread *t, u32 id, u64 sp)
{
	struct call_frame *top = frame_at(t, t->depth - 1);

	return top->sp == sp && (level_of(top->id) < level_of(id) || is_nested_fsync(t, id));
}

/* Call @id begins at @sp: calls on the stack at or below @sp have ended. */
static __always_inline void drop_stale(struct call_thread *t, u32 id, u64 sp)
{
	if (t->depth && jumped(t, id, sp))
		return;
	for (int i = 0; i < CALL_DEPTH; i++) {
		if (!t->depth || frame_at(t, t->depth - 1)->sp > sp)
			break;
		pop(t, true);
	}
	if (!t->depth)
		t->over = t->open = 0;
}

/*
 * fsync() may have both of them inlined (6.1), so that no probe sees them.  So the system call
 * pushes a placeholder for the call of vfs; the first of the two that is seen replaces it.
 */
#define FSYNC_PLACEHOLDER CALL_ID(LAYER_VFS, CALL_FSYNC, 2)

/* Is the placeholder on top, and does it stand for @id? */
static __always_inline bool placeholder_on_top(struct call_thread *t, u32 id)
{
	return CALL_ID_LAYER(id) == LAYER_VFS && CALL_ID_OP(id) == CALL_FSYNC && t->depth &&
	       frame_at(t, t->depth - 1)->id == FSYNC_PLACEHOLDER;
}

/* Turns the placeholder on top into the call @id at @sp, if it stands for @id. */
static __always_inline bool replace_placeholder(struct call_thread *t, u32 id, u64 sp)
{
	struct call_frame *top;
	u64 now;

	if (!placeholder_on_top(t, id))
		return false;
	top = frame_at(t, t->depth - 1);
	now = bpf_ktime_get_ns();
	if (combined && t->open)
		charge(t, CALL_ID(LAYER_SYSCALL, 0, 0), now);
	top->start_ns = now;
	top->sp = sp;
	top->id = id;
	return true;
}

/* All layers: the outermost call of its level begins; the previous one is counted. */
static __always_inline void enter_level(struct call_thread *t, u32 id)
{
	u32 layer = CALL_ID_LAYER(id), level = level_of(id);

	if (level == LEVEL_VFS && t->pending & 1U << LEVEL_VFS)
		count_pending(t, LEVEL_VFS, LAYER_VFS);
	if (level == LEVEL_FS) {
		if (t->pending & 1U << LEVEL_FS)
			count_pending(t, LEVEL_FS, t->fs);
		t->fs = layer;
	}
}

static __always_inline void push(struct call_thread *t, u32 id, u64 sp, u64 now)
{
	u32 level = 1U << level_of(id);
	struct call_frame *frame;

	if (t->depth >= CALL_DEPTH) {
		count_loss(&call_losses[CALL_LOSS_DEEP], 1);
		t->over++;
		return;
	}
	frame = frame_at(t, t->depth);
	frame->start_ns = now;
	frame->sp = sp;
	frame->id = id;
	frame->outermost = !(t->levels & level);
	t->levels |= level;
	t->depth++;
	if (combined && frame->outermost && t->open)
		enter_level(t, id);
}

/*
 * Call @id begins.  @pointer: its address on the kernel's stack; @arg, @direct: see
 * inode_of_call().
 */
static __noinline int call_enter(u32 id, u64 pointer, u64 arg, bool direct)
{
	bool syscall = CALL_ID_LAYER(id) == LAYER_SYSCALL;
	struct blk_process process = {};
	struct call_thread *t;
	u64 sp, now;

	if (stopped || !current_call_wanted(&process))
		return 0;
	t = current_thread(true);
	if (!t)
		return 0;
	t->sp = pointer;
	barrier();
	sp = t->sp;
	drop_stale(t, id, sp);
	if (is_nested_fsync(t, id))
		return 0;
	if (replace_placeholder(t, id, sp))
		return 0;
	if (!syscall && (check_files || (combined && !t->open)) &&
	    !inode_wanted(inode_of_call(id, arg, direct), direct))
		return 0;
	if (keyed) {
		if (!t->depth)
			key_call(t, &process, id, arg);
		else
			key_file_system(t, id, arg);
	}
	now = bpf_ktime_get_ns();
	if (combined) {
		if (syscall)
			begin_syscall(t, id, now);
		else if (t->open && t->depth)
			charge(t, frame_at(t, t->depth - 1)->id, now);
	}
	push(t, id, sp, now);
	return 0;
}

/* fexit has the address of fentry; a kretprobe's is a word above the kprobe's, a kretprobe.multi's
 * is below it by struct ftrace_regs. */
#define SP_NEAR 256

/* For an unknown address: the last such call. */
#define ANY_PLACE 0

static __always_inline bool is_frame(struct call_frame *frame, u32 id, u64 sp)
{
	return frame->id == id && (sp == ANY_PLACE || frame->sp - sp + SP_NEAR <= 2 * SP_NEAR);
}

/* How many calls remain on the stack when call @id has ended; -1: it is not on the stack. */
static __always_inline int find_frame(struct call_thread *t, u32 id, u64 sp)
{
	u32 at = t->depth;

	for (int i = 0; i < CALL_DEPTH; i++) {
		if (!at)
			break;
		at--;
		if (is_frame(frame_at(t, at), id, sp))
			return (int)at;
	}
	return -1;
}

/* Pops the calls from index @at on off the stack; the ends of the calls above @at were missed. */
static __always_inline void pop_to(struct call_thread *t, u32 at)
{
	for (int i = 0; i < CALL_DEPTH; i++) {
		if (t->depth <= at)
			break;
		pop(t, t->depth - 1 > at);
	}
	if (!t->depth)
		t->over = 0;
}

static __always_inline void count_call(struct call_thread *t, struct call_frame *frame, u64 ns)
{
	u32 id = frame->id, layer = CALL_ID_LAYER(id), level = level_of(id);

	if (!combined) {
		row_add(&t->key, (layer < LAYERS ? layer_row[layer] : 0) + CALL_ID_OP(id), ns, 0);
		return;
	}
	if (!frame->outermost)
		return;
	if (!t->open) {
		row_add(&t->key, table_row(class_of_op(CALL_ID_OP(id)), IO_ASYNC, layer), ns, 0);
		return;
	}
	barrier_var(level);
	if (level >= CALL_LEVELS)
		return;
	t->took_ns[level] = ns;
	t->pending |= 1U << level;
}

/* Call @id of thread @t ends.  False: it is not on the stack. */
static __noinline int end_call(struct call_thread *t, u32 id, u64 pointer)
{
	struct call_frame *frame;
	u64 sp, now;
	int at;

	if (!t) /* for the verifier of 5.10, which forgets the caller's check */
		return true;
	if (t->over) {
		t->over--;
		return true;
	}
	t->sp = pointer;
	barrier();
	sp = t->sp;
	at = find_frame(t, id, sp);
	if (at < 0)
		return false;
	/* Unknown to the verifier, which would otherwise follow each depth to the end. */
	t->sp = at;
	barrier();
	at = t->sp & (CALL_DEPTH - 1);
	now = bpf_ktime_get_ns();
	if (combined && t->open)
		charge(t, frame_at(t, t->depth - 1)->id, now);
	frame = frame_at(t, at);
	count_call(t, frame, now - frame->start_ns);
	pop_to(t, at);
	if (combined && CALL_ID_LAYER(id) == LAYER_SYSCALL)
		end_syscall(t);
	return true;
}

/* Call @id ends, at @pointer. */
static __noinline int call_exit(u32 id, u64 pointer)
{
	struct call_thread *t = current_thread(false);

	if (!stopped && t && t->depth)
		end_call(t, id, pointer);
	return 0;
}

/*
 * A thread has ended, after all I/O that it submitted while it exited: closing a file may write it.
 * The tracepoint comes late (from an RCU callback): another thread may have the id by then, but not
 * the address.  The ends of calls that are still on its stack were missed.
 */
static __always_inline void on_thread_free(struct task_struct *task)
{
	u32 key = thread_key((u64)task);
	struct call_thread *t = bpf_map_lookup_elem(&threads, &key);

	if (!t)
		return;
	if (!stopped && t->task == (u64)task)
		drop_stale(t, 0, ~0ull);
	bpf_map_delete_elem(&threads, &key);
}

#endif
