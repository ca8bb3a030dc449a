// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace blame --held: what keeps bios from becoming requests, and writers from making pages
 * dirty.
 *
 * A thread that submits a bio sleeps until there is a request for it, and the function in which it
 * sleeps tells why.  So the stack is read when such a thread leaves the CPU; the time lasts until
 * it has a CPU again.  The bio itself, with its disk and cgroup, is known when it gets its request.
 * No function is hooked, except for io.max: it puts bios into a queue of its own, from which a
 * worker submits them.
 */
#include "probes/keyed_hist.bpf.h"
#include "probes/blame_held.h"

#include "probes/blk_devices.bpf.h"
#include "probes/blk_submitters.bpf.h"
#include "probes/blk_cgroups.bpf.h"

/* Functions of the kernel: code from begin on, before end (0: unused), and its enum held_kind. */
const volatile __u64 function_begin[HELD_FUNCTIONS] = {};
const volatile __u64 function_end[HELD_FUNCTIONS] = {};
const volatile __u8 function_kind[HELD_FUNCTIONS] = {};
const volatile __u64 limit_work = 0; /* blk_throtl_dispatch_work_fn() */

__u64 held_losses[HELD_LOSSES] = {};

/* How many threads are in the map: while it is empty, frequent events do nothing. */
__u64 n_threads = 0;

struct held_thread {
	u64 since_ns; /* it sleeps; 0: it does not */
	u32 kind;     /* why */
	u32 writes;   /* it made pages dirty, and may have to wait */
	struct hist_key key;
	u64 ns[HELD_SLEEPS]; /* of the bio that it submits, so far */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64); /* struct task_struct * */
	__type(value, struct held_thread);
} held_threads SEC(".maps");

/* A bio that io.max checks. */
struct limited {
	u64 since_ns;
	struct blk_process process;
};

/* By address.  An LRU: of a bio that is not in it, the time is unknown. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct limited);
} limited_bios SEC(".maps");

struct held_stack {
	u64 ip[HELD_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct held_stack);
} held_stacks SEC(".maps");

/* ---- rows ---- */

static __always_inline void add_row(struct hist_key *key, u64 ns)
{
	struct keyed_hist *hist = keyed_hist_of(key);

	if (hist)
		keyed_hist_add(hist, ns, 1);
	else
		count_loss(&losses[LOSS_ROWS_FULL], 1);
}

/* The current process as the submitter. */
static __always_inline void key_current(struct hist_key *key)
{
	struct blk_process process = {};

	key->known = 1;
	if (by_process) {
		current_process(&process);
		remember_name(&process);
		key->start = process.start;
		key->pid = process.pid;
	}
	if (by_user)
		key->uid = bpf_get_current_uid_gid();
}

static __always_inline bool has_scheduler(struct bio *bio)
{
	struct gendisk *disk = bio_disk(bio, false);
	struct request_queue *queue = disk ? BPF_CORE_READ(disk, queue) : NULL;

	return queue && BPF_CORE_READ(queue, elevator);
}

/* ---- threads ---- */

static __always_inline void forget(u64 task)
{
	if (!bpf_map_delete_elem(&held_threads, &task))
		__sync_fetch_and_add(&n_threads, -1);
}

static __always_inline struct held_thread *thread_of(u64 task)
{
	return n_threads ? bpf_map_lookup_elem(&held_threads, &task) : NULL;
}

/* With an entry, which is added if it is not there. */
static __always_inline struct held_thread *add_thread(u64 task)
{
	struct held_thread *t = bpf_map_lookup_elem(&held_threads, &task);
	const struct held_thread empty = {};

	if (t)
		return t;
	if (bpf_map_update_elem(&held_threads, &task, &empty, BPF_NOEXIST)) {
		count_loss(&held_losses[HELD_LOSS_THREADS], 1);
		return NULL;
	}
	__sync_fetch_and_add(&n_threads, 1);
	return bpf_map_lookup_elem(&held_threads, &task);
}

/* Adds a time to the row of thread @task.  A global function: the verifier checks it once. */
__attribute__((noinline)) int add_hold(u64 task, u32 row, u64 ns)
{
	struct held_thread *t = bpf_map_lookup_elem(&held_threads, &task);

	if (!t)
		return 0;
	t->key.row = row;
	add_row(&t->key, ns);
	return 0;
}

/* The bio that the current thread slept with has a request, or was merged into one.  @bio NULL: it
 * got neither, and is not known any more. */
static __noinline int end_hold(struct bio *bio)
{
	u64 task = bpf_get_current_task();
	struct held_thread *t = thread_of(task);
	bool scheduled = false;

	if (!t)
		return RUN_DONE;
	if (bio) {
		t->key.dev = bio_wanted_dev(bio, bio_disk(bio, false), false);
		scheduled = has_scheduler(bio);
	}
	if (!t->writes && (t->key.dev || !filter_dev)) {
		key_current(&t->key);
		t->key.cgroup = io_cgroup_id(bio);
		for (u32 kind = 0; kind < HELD_SLEEPS; kind++)
			if (t->ns[kind])
				add_hold(task,
					 kind == HELD_TAG && scheduled ? HELD_NR_REQUESTS : kind,
					 t->ns[kind]);
	}
	forget(task);
	return RUN_DONE;
}

/* The kind of the function that has called @ip; HELD_KINDS: it is no function that holds.  Global
 * as well. */
__attribute__((noinline)) int kind_at(u64 ip)
{
	for (u32 i = 0; i < HELD_FUNCTIONS; i++)
		if (ip > function_begin[i] && ip <= function_end[i])
			return function_kind[i];
	return HELD_KINDS;
}

/* Why the current thread sleeps: by the innermost known function of its stack. */
static __noinline int read_kind(u64 *ctx)
{
	struct held_stack *at;
	int kind = HELD_KINDS;
	u32 zero = 0, n;
	long size;

	at = bpf_map_lookup_elem(&held_stacks, &zero);
	size = at ? bpf_get_stack(ctx, at->ip, sizeof(at->ip), 0) : 0;
	if (!at || size <= 0)
		return kind;
	n = (u32)size / sizeof(u64);
	for (u32 i = 0; i < HELD_FRAMES && i < n; i++) {
		kind = kind_at(at->ip[i]);
		if (kind != HELD_KINDS)
			break;
	}
	barrier_var(kind);
	return kind;
}

/* Of the current task. */
struct leaving_task {
	u32 state;
	bool submits; /* a bio is on its way to a request */
};

static __always_inline void read_leaving(struct leaving_task *to)
{
	struct task_struct *task;

	if (TYPED_TASK) {
		task = bpf_get_current_task_btf();
		to->state = bpf_core_field_exists(task->__state) ? task->__state : (u32)task->state;
		to->submits = task->bio_list;
		return;
	}
	task = (void *)bpf_get_current_task();
	to->state = BPF_CORE_READ(task, state);
	to->submits = BPF_CORE_READ(task, bio_list);
}

/* The current thread leaves the CPU. */
static __always_inline void begin_sleep(u64 *ctx, u64 now)
{
	u64 task = bpf_get_current_task();
	struct leaving_task leaving = {};
	struct held_thread *t;
	int kind = HELD_KINDS;

	read_leaving(&leaving);
	if (!leaving.state)
		return;
	t = thread_of(task);
	if (t && !t->writes && !leaving.submits) {
		end_hold(NULL);
		return;
	}
	if (leaving.state & TASK_UNINTERRUPTIBLE && (leaving.submits || t))
		kind = read_kind(ctx);
	if (leaving.submits ? kind < HELD_SLEEPS : kind == HELD_DIRTY) {
		t = add_thread(task);
		if (!t)
			return;
		t->kind = kind;
		t->since_ns = now;
	} else if (t && t->writes) {
		forget(task); /* it did not have to wait */
	}
}

/* @task gets a CPU. */
static __always_inline void end_sleep(u64 task, u64 now)
{
	struct held_thread *t = thread_of(task);
	u64 ns;
	u32 kind;

	if (!t || !t->since_ns)
		return;
	ns = now - t->since_ns;
	t->since_ns = 0;
	kind = t->kind;
	if (kind < HELD_SLEEPS) {
		barrier_var(kind);
		if (kind < HELD_SLEEPS)
			t->ns[kind] += ns;
		return;
	}
	add_hold(task, HELD_DIRTY, ns);
	forget(task);
}

/* sched_switch(preempt, from, to), and the state of the first since 5.18.  With interrupts off: no
 * other program comes between.  A thread that is preempted continues, whatever its state. */
SEC("raw_tp/sched_switch")
int held_switch(u64 *ctx)
{
	u64 now;

	if (stopped)
		return 0;
	now = bpf_ktime_get_ns();
	if (!(bool)ctx[0])
		begin_sleep(ctx, now);
	end_sleep(ctx[2], now);
	return 0;
}

/* ---- writers ---- */

/* balance_dirty_pages(writeback, ...): the current thread has made too many pages dirty; it
 * sleeps next, if it has to. */
static __always_inline void on_dirty(struct bdi_writeback *writeback)
{
	struct device *owner = BPF_CORE_READ(writeback, bdi, owner);
	struct hist_key key = {};
	struct held_thread *t;

	if (owner)
		key.dev = dev_if_wanted(BPF_CORE_READ(owner, devt));
	if (!key.dev && filter_dev)
		return;
	t = add_thread(bpf_get_current_task());
	if (!t)
		return;
	key_current(&key);
	key.cgroup = io_cgroup_id(NULL);
	t->key = key;
	t->writes = 1;
}

RAW_TP_PROGS(held_dirty, balance_dirty_pages, SEEN_DIRTY, 0, on_dirty(arg))

/* ---- io.max ---- */

/* Is the current task the worker that submits bios which were held? */
static __always_inline bool is_limit_worker(void)
{
	struct worker *worker;

	if (!limit_work)
		return false;
	worker = TYPED_TASK ? worker_of(bpf_get_current_task_btf())
			    : worker_of((void *)bpf_get_current_task());
	return worker && (u64)BPF_CORE_READ(worker, current_func) == limit_work;
}

/* blk-throttle checks @bio: it goes on at once, or a worker submits it later, which up to 5.17
 * makes it check the bio once more. */
static __always_inline void on_limit(u64 bio)
{
	struct limited limited = { .since_ns = bpf_ktime_get_ns() };

	if (by_process) {
		current_process(&limited.process);
		remember_name(&limited.process);
	}
	if (by_user)
		limited.process.uid = bpf_get_current_uid_gid();
	bpf_map_update_elem(&limited_bios, &bio, &limited,
			    is_limit_worker() ? BPF_NOEXIST : BPF_ANY);
}

CTX_PROGS(limit_fe, "fentry/__blk_throtl_bio", SEEN_LIMIT, opaque_id((void *)ctx[0]),
	  on_limit(load_scalar_arg(&ctx[0])))
CTX_PROGS(limit_fe_old, "fentry/blk_throtl_bio", SEEN_LIMIT, opaque_id((void *)ctx[0]),
	  on_limit(load_scalar_arg(&ctx[0])))

SEC("kprobe/__blk_throtl_bio")
int BPF_KPROBE(limit_kp, struct bio *bio)
{
	if (!stopped)
		on_limit((u64)bio);
	return 0;
}

SEC("kprobe/blk_throtl_bio")
int BPF_KPROBE(limit_kp_old, struct bio *bio)
{
	if (!stopped)
		on_limit((u64)bio);
	return 0;
}

/* @bio goes on.  @first: it is the first event of each bio, so that it is counted even if it is not
 * known since when it was held. */
static __noinline int end_limit(struct bio *bio, bool first)
{
	struct hist_key key = { .row = HELD_IO_MAX_UNTIMED };
	u64 address = (u64)bio, since_ns = 0;
	struct limited *limited = bpf_map_lookup_elem(&limited_bios, &address);
	bool held = is_limit_worker();

	if (!held || !(limited || first)) {
		if (limited)
			bpf_map_delete_elem(&limited_bios, &address);
		return RUN_DONE;
	}
	key.dev = bio_wanted_dev(bio, bio_disk(bio, false), false);
	key.cgroup = io_cgroup_id(bio);
	if (limited) {
		since_ns = limited->since_ns;
		key.row = HELD_IO_MAX;
		key.known = 1;
		key.uid = limited->process.uid;
		key.start = limited->process.start;
		key.pid = limited->process.pid;
		bpf_map_delete_elem(&limited_bios, &address);
	}
	if (key.dev)
		add_row(&key, since_ns ? bpf_ktime_get_ns() - since_ns : 0);
	return RUN_DONE;
}

/* ---- bios ---- */

/* @bio arrives at its queue.  A thread that slept with another bio has lost it (an error), or its
 * driver makes bios of it. */
static __always_inline void on_bio(struct bio *bio)
{
	if (n_threads)
		end_hold(NULL);
	if (limit_work)
		end_limit(bio, true);
}

/* @bio gets its request, or goes into another one. */
static __always_inline void on_request(struct bio *bio)
{
	if (n_threads)
		end_hold(bio);
	if (limit_work)
		end_limit(bio, false);
}

RAW_TP_PROGS(held_bio_raw, block_bio_queue, SEEN_BIO, 0, on_bio(arg))
QUEUE_PROG(held_bio, block_bio_queue, 1, on_bio(arg))

/* block_getrq(bio) since 5.11; (queue, bio, rw) before. */
RAW_TP_PROGS(held_getrq_raw, block_getrq, SEEN_SUBMIT, 0, on_request(arg))
QUEUE_PROG(held_getrq, block_getrq, 1, on_request(arg))

/* block_bio_backmerge(bio) and block_bio_frontmerge(bio) since 5.11; (queue, request, bio) before.
 */
RAW_TP_PROGS(held_backm_raw, block_bio_backmerge, SEEN_BIO_MERGE, 0, on_request(arg))
QUEUE_PROG(held_backm, block_bio_backmerge, 2, on_request(arg))
RAW_TP_PROGS(held_frontm_raw, block_bio_frontmerge, SEEN_FRONT_MERGE, 0, on_request(arg))
QUEUE_PROG(held_frontm, block_bio_frontmerge, 2, on_request(arg))

RAW_TP_PROGS(rename_raw, task_rename, SEEN_TASK, 0, on_rename(arg, (const char *)ctx[1], direct))

char LICENSE[] SEC("license") = "GPL";
