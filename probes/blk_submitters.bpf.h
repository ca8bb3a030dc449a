/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_SUBMITTERS_BPF_H
#define IOTRACE_PROBES_BLK_SUBMITTERS_BPF_H

/* Submitters of I/O: processes, their names and cgroups, write-back, and COMMAND's descendants. */

#include "probes/blk_options.bpf.h"
#include "probes/spare.bpf.h"

/* Not an LRU, which evicts names without a report. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BLK_NAMES);
	__type(key, struct blk_process);
	__type(value, struct blk_name);
} process_names0 SEC(".maps"), process_names1 SEC(".maps");

/* COMMAND's descendants. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct blk_process);
	__type(value, u8);
} tracked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* so that elements begin with a cache line */
	__uint(max_entries, 1);		   /* possible CPUs, set before loading */
	__type(key, u32);
	__type(value, struct blk_cpu);
} cpus SEC(".maps");

static __always_inline struct blk_cpu *this_cpu(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

/* Is it one of the further processes of -p?  Its start time is checked, unless @start is 0. */
static __always_inline bool is_more_pid(u32 pid, u64 start)
{
	for (u32 i = 0; i < BLK_MORE; i++) {
		if (i >= n_more_pids)
			break;
		if (pid == more_pids[i] && (!start || start - more_starts[i] < filter_tick))
			return true;
	}
	return false;
}

static __always_inline bool process_wanted(const struct blk_process *process)
{
	if (filter_mode == FILTER_NONE)
		return true;
	if (process->pid == filter_pid && process->start - filter_start < filter_tick)
		return true;
	if (n_more_pids && is_more_pid(process->pid, process->start))
		return true;
	return filter_mode == FILTER_TRACKED && bpf_map_lookup_elem(&tracked, process);
}

/* Returns the current thread's number; @process gets the number of its process, but the start time
 * of the thread itself. */
static __always_inline u32 read_current_task(struct blk_process *process, struct task_struct **at)
{
	struct task_struct *task;
	u64 id;

	if (TYPED_TASK) {
		*at = task = bpf_get_current_task_btf();
		process->pid = task->tgid;
		process->start = task->start_boottime;
		return task->pid;
	}
	*at = task = (void *)bpf_get_current_task();
	id = bpf_get_current_pid_tgid();
	process->pid = id >> 32;
	process->start = BPF_CORE_READ(task, start_boottime);
	return id;
}

/*
 * The start time of the process of @task, the current task, which is not its first thread.  Cached
 * per CPU on kernels that do not preempt programs: there no other program can change the cache at
 * the same time.
 */
static __always_inline u64 leader_start(struct task_struct *task, u64 task_start)
{
	struct blk_cpu *last = has_spares ? NULL : this_cpu();
	u64 start;

	if (last && last->task == (u64)task && last->task_start == task_start)
		return last->leader_start;
	start = BPF_CORE_READ(task, group_leader, start_boottime);
	if (last) {
		last->task = (u64)task;
		last->task_start = task_start;
		last->leader_start = start;
	}
	return start;
}

/* Sets @process to the current process and *@task to the current task, if either is requested;
 * false when the filter excludes it. */
static __always_inline bool current_process_of(struct blk_process *process, struct task_struct **at)
{
	struct task_struct *task;
	u32 tid;

	if (!by_process && filter_mode == FILTER_NONE)
		return true;
	tid = read_current_task(process, &task);
	*at = task;
	if (filter_mode == FILTER_PID && process->pid != filter_pid &&
	    !(n_more_pids && is_more_pid(process->pid, 0)))
		return false;
	if (!process->pid)
		process->start = 0; /* the idle tasks of all CPUs are one row */
	else if (tid != process->pid)
		process->start = leader_start(task, process->start);
	return process_wanted(process);
}

static __always_inline bool current_process(struct blk_process *process)
{
	struct task_struct *task;

	return current_process_of(process, &task);
}

/* ---- cgroups ---- */

/* The cgroup that @bio, or without bios (NULL) the current task's I/O is charged to. */
static __always_inline struct cgroup *io_cgroup(struct bio *bio)
{
	return io_cgroup_of((void *)bpf_get_current_task(), bio);
}

/* barrier_var(): without it clang computes the address of the field, which this kernel does not
 * have, unconditionally. */
static __always_inline u64 ancestor_id(struct cgroup *cgroup, u32 level)
{
	struct cgroup *ancestor = NULL, **all;
	u64 id = 0, *ids;

	barrier_var(cgroup);
	if (bpf_core_field_exists(cgroup->ancestors)) {
		all = (void *)__builtin_preserve_access_index(&cgroup->ancestors);
		bpf_core_read(&ancestor, sizeof(ancestor), all + level);
		return BPF_CORE_READ(ancestor, kn, id);
	}
	barrier_var(cgroup);
	ids = (void *)__builtin_preserve_access_index(&cgroup->ancestor_ids);
	bpf_core_read(&id, sizeof(id), ids + level);
	return id;
}

/* Is @cgroup one of the cgroups of --cgroup, or below one? */
static __always_inline bool cgroup_wanted(struct cgroup *cgroup)
{
	u32 level = BPF_CORE_READ(cgroup, level), at;

	for (u32 i = 0; i < BLK_CGROUPS; i++) {
		if (i >= n_filter_cgroups)
			break;
		at = filter_cgroup_levels[i];
		if (level >= at && ancestor_id(cgroup, at) == filter_cgroup_ids[i])
			return true;
	}
	return false;
}

static __always_inline bool looks_at_cgroups(void)
{
	return HAS_CGROUPS && (want_cgroup || n_filter_cgroups);
}

/* Sets *@id to the cgroup of @bio, if rows are by cgroup.  False when the filter excludes it. */
static __always_inline bool bio_cgroup_wanted(struct bio *bio, u64 *id)
{
	struct cgroup *cgroup;

	if (!looks_at_cgroups())
		return true;
	cgroup = io_cgroup(bio);
	if (n_filter_cgroups && !cgroup_wanted(cgroup))
		return false;
	if (want_cgroup)
		*id = BPF_CORE_READ(cgroup, kn, id);
	return true;
}

/* Is I/O filtered by its submitter? */
static __always_inline bool filters_submitters(void)
{
	return filter_mode != FILTER_NONE || n_filter_cgroups;
}

/* Sets @process as current_process() does.  For calls: the task's own cgroup, whatever the I/O is
 * charged to. */
static __always_inline bool current_call_wanted(struct blk_process *process)
{
	if (!current_process(process))
		return false;
	return !n_filter_cgroups || !HAS_CGROUPS || cgroup_wanted(io_cgroup(NULL));
}

static __always_inline bool current_process_wanted(void)
{
	struct blk_process process = {};

	return current_call_wanted(&process);
}

/* The id of the cgroup that @bio, or without bios (NULL) the current task's I/O is charged to;
 * 0: there are no cgroups. */
static __always_inline u64 io_cgroup_id(struct bio *bio)
{
	struct cgroup *cgroup;

	if (!HAS_CGROUPS)
		return 0;
	cgroup = io_cgroup(bio);
	return BPF_CORE_READ(cgroup, kn, id);
}

/* Up to eight characters as a number: one comparison instead of eight. */
#define TEXT8(text)                                                                                \
	(((union {                                                                                 \
		 char bytes[8];                                                                    \
		 u64 number;                                                                       \
	 }){ .bytes = text })                                                                      \
	     .number)

/* The worker of a workqueue that @task, the current one, is; NULL: none. */
static __always_inline struct worker *worker_of(struct task_struct *task)
{
	struct kthread *kthread;

	if (!(KREAD(TYPED_TASK, task, flags) & PF_WQ_WORKER))
		return NULL;
	if (bpf_core_field_exists(task->worker_private))
		kthread = BPF_CORE_READ(task, worker_private);
	else
		kthread = BPF_CORE_READ(task, set_child_tid);
	return BPF_CORE_READ(kthread, data);
}

/*
 * Is @task, the current one, a worker that writes back dirty pages? wb_workfn() sets its
 * description to "flush-MAJ:MIN", otherwise it is the name of its workqueue (6b59808bfe48, 4.18).
 * btrfs's workers compress dirty pages and submit them, or have them submitted for a cgroup, also
 * while a process waits in fsync.
 */
static __always_inline bool is_flusher(struct task_struct *task)
{
	struct worker *worker = worker_of(task);
	u64 desc = 0;

	if (!worker)
		return false;
	bpf_core_read(&desc, sizeof(desc), &worker->desc);
	return (desc & TEXT8("\xff\xff\xff\xff\xff\xff")) == TEXT8("flush-") ||
	       desc == TEXT8("btrfs-de") || /* btrfs-delalloc */
	       desc == TEXT8("blkcg_pu");   /* blkcg_punt_bio */
}

/* Stores the name of @process, the current one, for the next drain.  False when there is no room:
 * user space counts processes without a name. */
static __always_inline bool store_name(void *names, const struct blk_process *process)
{
	struct task_struct *task = (void *)bpf_get_current_task(), *leader;
	struct blk_name name = {};

	if (bpf_map_lookup_elem(names, process))
		return true;
	leader = BPF_CORE_READ(task, group_leader);
	bpf_core_read(name.comm, sizeof(name.comm), &leader->comm);
	return !bpf_map_update_elem(names, process, &name, BPF_ANY);
}

/*
 * The same, unless this CPU stored the same process last.  Two programs, one of which preempts the
 * other, may leave a mixture of both processes there: it equals neither, so no name is left out.
 */
static __always_inline void remember_name(const struct blk_process *process)
{
	struct blk_cpu *last = this_cpu();
	u32 now = epoch;
	bool put;

	barrier_var(now);
	if (!last)
		return;
	if (last->epoch == now && last->process.start == process->start &&
	    last->process.pid == process->pid && process->pid)
		return;
	put = now & 1 ? store_name(&process_names1, process) : store_name(&process_names0, process);
	if (!put)
		return;
	last->process.start = process->start;
	last->process.pid = process->pid;
	last->epoch = now;
}

/* With BLK_CGROUP_OF_TASK a request is of the cgroup of the call that made it. */
#ifdef BLK_CGROUP_OF_TASK
#define CGROUP_BIO(bio) NULL
#else
#define CGROUP_BIO(bio) (bio)
#endif

/* The requested data of the current task; for rows by process. */
#ifndef BLK_READ_TASK
#define BLK_READ_TASK(submitter, task)
#endif

/* Sets @submitter's process to the current one and its cgroup to @bio's, stores the name, and notes
 * whether this is write-back.  False if the filter excludes it. */
static __always_inline bool read_submitter(struct blk_inflight *submitter, struct bio *bio, u8 op)
{
	struct task_struct *task = NULL;

	if (!current_process_of(&submitter->process, &task) ||
	    !bio_cgroup_wanted(CGROUP_BIO(bio), &submitter->cgroup))
		return false;
	submitter->known = 1;
	if (by_process) {
		remember_name(&submitter->process);
		if (op == BLK_WRITE)
			submitter->writeback = is_flusher(task);
		BLK_READ_TASK(submitter, task);
	}
	/* Last: the process is the key of maps. */
	if (by_user)
		submitter->process.uid = bpf_get_current_uid_gid();
	return true;
}

/* ---- descendants of COMMAND ---- */

static __always_inline void on_fork(struct task_struct *parent, struct task_struct *child,
				    const bool direct)
{
	struct blk_process from = { .pid = KREAD(direct, parent, tgid) };
	struct blk_process made = { .pid = KREAD(direct, child, tgid) };
	u8 one = 1;

	from.start = BPF_CORE_READ(parent, group_leader, start_boottime);
	if (from.pid == made.pid || !process_wanted(&from))
		return;
	made.start = KREAD(direct, child, start_boottime);
	if (bpf_map_update_elem(&tracked, &made, &one, BPF_ANY))
		count_loss(&losses[LOSS_TRACKED_FULL], 1);
}

/*
 * A process has ended, after all I/O that it submitted while it exited.  The tracepoint comes late
 * (from an RCU callback): another process may already have the number.
 */
static __always_inline void on_free(struct task_struct *task, const bool direct)
{
	struct blk_process process = { .pid = KREAD(direct, task, tgid) };

	process.start = KREAD(direct, task, start_boottime);
	if ((u32)KREAD(direct, task, pid) == process.pid)
		bpf_map_delete_elem(&tracked, &process);
}

/* The first thread of a process gets another name (exec, prctl); this is the name of the process.
 * The tracepoint comes before the change. */
static __always_inline void on_rename(struct task_struct *task, const char *comm, const bool direct)
{
	struct blk_process process = { .pid = KREAD(direct, task, tgid) };
	struct blk_name *known;

	if ((u32)KREAD(direct, task, pid) != process.pid)
		return;
	process.start = KREAD(direct, task, start_boottime);
	known = epoch & 1 ? bpf_map_lookup_elem(&process_names1, &process)
			  : bpf_map_lookup_elem(&process_names0, &process);
	if (known)
		bpf_probe_read_kernel_str(known->comm, sizeof(known->comm), comm);
}

#endif
