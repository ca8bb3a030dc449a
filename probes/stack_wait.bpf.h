/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_STACK_WAIT_BPF_H
#define IOTRACE_PROBES_STACK_WAIT_BPF_H

/*
 * iotrace stack --value wait: the time that threads are off the CPU in reads, writes, syncs and
 * page faults, by their stack when they left the CPU.  Part of probes/stack.bpf.c.
 *
 * Nothing is traced at system calls.  When a thread leaves the CPU, the registers of its kernel
 * entry tell whether it is in a call, in which one, and whether the call has its result.  For a
 * page fault they do not tell this.  Its beginning is a tracepoint or a kprobe; it has ended when
 * the kernel has counted it (mm_account_fault(), since 5.9), or when the thread is elsewhere in
 * user space (after a signal). sched_switch runs programs with interrupts off: no other program
 * comes between, and none is skipped.
 */

#include "probes/arch.h"
#include "probes/call_files.bpf.h"
#include "probes/syscalls.h"

const volatile __u8 syscall_ops[SYSCALL_NUMBERS] = {}; /* enum call_syscall + 1; 0: not timed */
const volatile bool keyed_dev = false;		       /* rows are by disk */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct stack_wait);
} waits_of_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set before loading */
	__type(key, u32);
	__type(value, struct stack_fault);
} page_faults SEC(".maps");

static __always_inline struct stack_fault *fault_of_cpu(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&page_faults, &cpu);
}

/* Fields of the current task that decide whether it waits. */
struct waiting_task {
	u64 faults;
	u32 flags, state;
};

static __always_inline void read_waiting_task(struct waiting_task *to)
{
	struct task_struct *task;

	if (TYPED_TASK) {
		task = bpf_get_current_task_btf();
		to->faults = task->min_flt + task->maj_flt;
		to->flags = task->flags;
		to->state = bpf_core_field_exists(task->__state) ? task->__state : (u32)task->state;
		return;
	}
	task = (void *)bpf_get_current_task();
	to->faults = BPF_CORE_READ(task, min_flt) + BPF_CORE_READ(task, maj_flt);
	to->flags = BPF_CORE_READ(task, flags);
	to->state = BPF_CORE_READ(task, state);
}

/* ---- the call or page fault ---- */

/* Is @entry a timed call on a counted file?  Then sets the known fields of @wait. */
static __always_inline bool waits_in_call(const struct user_entry *entry, struct stack_wait *wait)
{
	struct inode *inode;
	struct file *file;
	u32 op;

	if (entry->number >= SYSCALL_NUMBERS)
		return false;
	op = syscall_ops[entry->number & (SYSCALL_NUMBERS - 1)];
	if (!op || is_compat_task(entry->regs))
		return false;
	op--;
	wait->write = op >= SYSCALL_WRITE;
	if (!(wait->write ? want_write : want_read))
		return false;
	if (!syscall_has_fd(op))
		return !check_files;
	file = file_of_call(op, entry->regs, entry->arg);
	if (!file)
		return false; /* closed by now, or never open */
	inode = real_inode(file);
	if (!is_on_disk(inode, false) || !is_on_wanted_disk(inode))
		return false;
	if (keyed_dev)
		wait->dev = inode_disk(inode);
	return true;
}

/* The file of a page fault is unknown: with -d, which checks files, no page fault is counted. */
static __always_inline bool waits_in_fault(u64 task, const struct user_entry *entry, u64 faults,
					   struct stack_wait *wait)
{
	const struct stack_fault *last = fault_of_cpu();

	if (check_files || !want_read || !entry->exception || !last || last->task != task ||
	    last->ip != entry->ip || last->faults != faults)
		return false;
	wait->fault = 1;
	wait->ip = entry->ip;
	wait->faults = faults;
	return true;
}

static __always_inline bool waits(u64 task, struct stack_wait *wait)
{
	struct waiting_task now = {};
	struct user_entry entry;

	read_waiting_task(&now);
	/* A tracer's stop is before the call begins, or after its end. */
	if (now.flags & (PF_KTHREAD | PF_IO_WORKER | PF_EXITING) || now.state & TASK_TRACED)
		return false;
	read_user_entry(&entry, thread_size);
	return waits_in_call(&entry, wait) || waits_in_fault(task, &entry, now.faults, wait);
}

/* ---- its stack ---- */

/* Stores the current stacks for the next drain.  Returns the key by which they are found; 0: no
 * room. */
static __always_inline u64 keep_path(void *ctx, const struct stack_wait *wait)
{
	u32 slot = SLOT_SWITCH, buffer = epoch & 1;
	struct stack_key key = { .process = wait->process,
				 .cgroup = wait->cgroup,
				 .dev = wait->dev };
	struct stack_value *value;
	struct stack_scratch *at;

	if (!want_kernel && !want_user)
		return 0;
	at = scratch_of(slot);
	if (!at)
		return 0;
	if (want_kernel)
		read_stack(ctx, at, slot, STACK_KERNEL, &key.kernel);
	if (want_user)
		read_stack(ctx, at, slot, STACK_USER, &key.user);
	value = buffer ? bpf_map_lookup_elem(&rows1, &key) : bpf_map_lookup_elem(&rows0, &key);
	if (!value)
		value = buffer ? new_row(&rows1, &stacks1, at, &key, 1)
			       : new_row(&rows0, &stacks0, at, &key, 0);
	return value ? stack_path(&key.kernel, &key.user) : 0;
}

/* ---- waits ---- */

static __always_inline void begin_wait(void *ctx, u64 now)
{
	u64 task = bpf_get_current_task();
	struct stack_wait wait = {};

	if (!waits(task, &wait) || !current_call_wanted(&wait.process))
		return;
	remember_name(&wait.process);
	if (by_user)
		wait.process.uid = bpf_get_current_uid_gid();
	if (want_cgroup)
		wait.cgroup = io_cgroup_id(NULL);
	wait.since_ns = now;
	wait.path = keep_path(ctx, &wait);
	if (bpf_map_lookup_elem(&waits_of_threads, &task))
		count_loss(&stack_losses[STACK_LOSS_ENDS], 1);
	if (bpf_map_update_elem(&waits_of_threads, &task, &wait, BPF_ANY))
		count_loss(&stack_losses[STACK_LOSS_WAITS], 1);
}

static __always_inline void end_wait(u64 task, u64 now)
{
	struct stack_wait *wait = bpf_map_lookup_elem(&waits_of_threads, &task);
	struct stack_done_key key = {};
	struct stack_fault *fault;
	bool write;
	u64 ns;

	if (!wait)
		return;
	key.process.start = wait->process.start;
	key.process.pid = wait->process.pid;
	key.process.uid = wait->process.uid;
	key.path = wait->path;
	key.cgroup = wait->cgroup;
	key.dev = wait->dev;
	key.cpu = bpf_get_smp_processor_id();
	write = wait->write;
	ns = now - wait->since_ns;
	fault = wait->fault ? fault_of_cpu() : NULL;
	if (fault) { /* it goes on on this CPU */
		fault->task = task;
		fault->ip = wait->ip;
		fault->faults = wait->faults;
	}
	bpf_map_delete_elem(&waits_of_threads, &task);
	add_done(&key, write, ns);
}

/* ---- entry points ---- */

/* sched_switch(preempt, from, to), and the state of the first since 5.18.  The task that leaves the
 * CPU is still the current task. */
SEC("raw_tp/sched_switch")
int wait_switch(u64 *ctx)
{
	u64 now;

	if (stopped)
		return 0;
	now = bpf_ktime_get_ns();
	/* In this order: end_wait() stores the fault of the next thread, begin_wait() needs the
	 * fault of the previous one. */
	begin_wait(ctx, now);
	end_wait(ctx[2], now);
	return 0;
}

/* page_fault_user(address, registers, error code) */
static __always_inline void on_page_fault(u64 regs)
{
	struct stack_fault *fault = fault_of_cpu();
	struct waiting_task now = {};

	if (!fault)
		return;
	read_waiting_task(&now);
	fault->faults = now.faults;
	bpf_probe_read_kernel(&fault->ip, sizeof(fault->ip), &PT_REGS_IP((struct pt_regs *)regs));
	fault->task = bpf_get_current_task();
}

RAW_TP_PROGS(wait_fault, page_fault_user, SEEN_PAGE_FAULT, 0, on_page_fault(ctx[1]))

/* For kernels without that tracepoint (arm64).  A fault in the kernel has registers, too, but no
 * thread is in user space at its address; without registers it is not a fault
 * (get_user_pages()). */
SEC("kprobe/handle_mm_fault")
int BPF_KPROBE(wait_fault_kp, struct vm_area_struct *vma, unsigned long address, unsigned int flags,
	       struct pt_regs *regs)
{
	if (!stopped && regs)
		on_page_fault((u64)regs);
	return 0;
}

#endif
