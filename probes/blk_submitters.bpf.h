/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_SUBMITTERS_BPF_H
#define IOTRACE_PROBES_BLK_SUBMITTERS_BPF_H

/* Who submits I/O: processes, their names and cgroups, write-back, and COMMAND's descendants. */

#include "probes/blk_options.bpf.h"
#include "probes/backup.bpf.h"

/* Not LRU, which evicts names without telling. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BLK_NAMES);
	__type(key, struct blk_process);
	__type(value, struct blk_name);
} names0 SEC(".maps"), names1 SEC(".maps");

/* COMMAND's descendants. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct blk_process);
	__type(value, u8);
} tracked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set before loading */
	__type(key, u32);
	__type(value, struct blk_cpu);
} cpus SEC(".maps");

static __always_inline struct blk_cpu *this_cpu(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline bool process_wanted(const struct blk_process *process)
{
	if (filter_mode == FILTER_NONE)
		return true;
	if (process->pid == filter_pid && process->start - filter_start < filter_tick)
		return true;
	return filter_mode == FILTER_TRACKED && bpf_map_lookup_elem(&tracked, process);
}

/*
 * Since 5.11 (3ca1032ab7ab) the verifier knows the type of the current task, so that fields other
 * than pointers are plain loads; bpf_probe_read_kernel() takes 45 ns for each (6.18).
 */
#define TYPED_TASK bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)

/* Returns the current thread's number; @process gets its process' number, but the start time of
 * the thread itself. */
static __always_inline u32 read_current_task(struct blk_process *process)
{
	struct task_struct *task;
	u64 id;

	if (TYPED_TASK) {
		task = bpf_get_current_task_btf();
		process->pid = task->tgid;
		process->start = task->start_boottime;
		return task->pid;
	}
	task = (void *)bpf_get_current_task();
	id = bpf_get_current_pid_tgid();
	process->pid = id >> 32;
	process->start = BPF_CORE_READ(task, start_boottime);
	return id;
}

/*
 * The start time of the current task's process, of which the task is not the first thread.  Cached
 * per CPU, where programs are not preempted and so no other can change the cache meanwhile.
 */
static __always_inline u64 leader_start(u64 task_start)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct blk_cpu *last = has_backups ? NULL : this_cpu();
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

/* Sets @process to the current process; false when the filter excludes it. */
static __always_inline bool current_process(struct blk_process *process)
{
	u32 tid;

	if (!by_process && filter_mode == FILTER_NONE)
		return true;
	tid = read_current_task(process);
	if (filter_mode == FILTER_PID && process->pid != filter_pid)
		return false;
	if (!process->pid)
		process->start = 0; /* the idle tasks of all CPUs are one row */
	else if (tid != process->pid)
		process->start = leader_start(process->start);
	return process_wanted(process);
}

static __always_inline bool current_process_wanted(void)
{
	struct blk_process process = {};

	return current_process(&process);
}

/* Is the current task a worker that writes back dirty pages?  wb_workfn() sets its description to
 * "flush-MAJ:MIN". */
static __always_inline bool is_flusher(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct kthread *kthread;
	struct worker *worker;
	char desc[8] = {};
	u32 flags;

	flags = TYPED_TASK ? bpf_get_current_task_btf()->flags : BPF_CORE_READ(task, flags);
	if (!(flags & PF_WQ_WORKER))
		return false;
	if (bpf_core_field_exists(task->worker_private))
		kthread = BPF_CORE_READ(task, worker_private);
	else
		kthread = BPF_CORE_READ(task, set_child_tid);
	worker = BPF_CORE_READ(kthread, data);
	if (!worker)
		return false;
	bpf_core_read(desc, 6, &worker->desc);
	return desc[0] == 'f' && desc[1] == 'l' && desc[2] == 'u' && desc[3] == 's' &&
	       desc[4] == 'h' && desc[5] == '-';
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
 * The same, unless it was the last that this CPU stored.  Two programs, of which one preempts the
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
	put = now & 1 ? store_name(&names1, process) : store_name(&names0, process);
	if (!put)
		return;
	last->process.start = process->start;
	last->process.pid = process->pid;
	last->epoch = now;
}

/* Sets the process of @who to the current one, stores its name, and says whether this is
 * write-back.  False when the filter excludes it. */
static __always_inline bool read_submitter(struct blk_inflight *who, u8 op)
{
	if (!current_process(&who->process))
		return false;
	who->known = 1;
	if (!by_process)
		return true;
	remember_name(&who->process);
	if (op == BLK_WRITE)
		who->writeback = is_flusher();
	return true;
}

static __always_inline u64 bio_cgroup(struct bio *bio)
{
	if (!want_cgroup || !bio || !bpf_core_field_exists(bio->bi_blkg))
		return 0;
	return BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup, kn, id);
}

/* The cgroup that the current task's I/O is charged to. */
static __always_inline u64 current_cgroup(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct cgroup_subsys_state *css = NULL;
	struct css_set *set;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, io_cgrp_id))
		return 0;
	set = BPF_CORE_READ(task, cgroups);
	bpf_probe_read_kernel(&css, sizeof(css),
			      (void *)set + bpf_core_field_offset(set->subsys) +
				  sizeof(css) *
				      bpf_core_enum_value(enum cgroup_subsys_id, io_cgrp_id));
	return BPF_CORE_READ(css, cgroup, kn, id);
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
 * A process has ended, after all that it submitted while it exited.  The tracepoint comes late
 * (from an RCU callback): another process may have the number by now.
 */
static __always_inline void on_free(struct task_struct *task, const bool direct)
{
	struct blk_process process = { .pid = KREAD(direct, task, tgid) };

	process.start = KREAD(direct, task, start_boottime);
	if ((u32)KREAD(direct, task, pid) == process.pid)
		bpf_map_delete_elem(&tracked, &process);
}

/* The first thread of a process gets another name (exec, prctl), which is then the process' name.
 * The tracepoint comes before the change. */
static __always_inline void on_rename(struct task_struct *task, const char *comm, const bool direct)
{
	struct blk_process process = { .pid = KREAD(direct, task, tgid) };
	struct blk_name *known;

	if ((u32)KREAD(direct, task, pid) != process.pid)
		return;
	process.start = KREAD(direct, task, start_boottime);
	known = epoch & 1 ? bpf_map_lookup_elem(&names1, &process)
			  : bpf_map_lookup_elem(&names0, &process);
	if (known)
		bpf_probe_read_kernel_str(known->comm, sizeof(known->comm), comm);
}

#endif
