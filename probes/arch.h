/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_ARCH_H
#define IOTRACE_PROBES_ARCH_H

/* What depends on the processor, beside <bpf/bpf_tracing.h>: registers at a probe and at the
 * tracepoints of system calls. */

#include "probes/kernel.h"

/* In a kretprobe: the stack pointer that the kprobe at the function's beginning had. */
#if defined(bpf_target_x86)
#define KRETPROBE_ENTRY_SP(regs) (PT_REGS_SP(regs) - 8) /* ret has taken the return address off */
#else
#define KRETPROBE_ENTRY_SP(regs) PT_REGS_SP(regs)
#endif

/* Does a task of another word size run?  Its system calls have other numbers. */
static __always_inline bool is_compat_task(void)
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

/* The first argument of the system call that begins with @regs. */
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

#if defined(bpf_target_arm64)
/* The kernel's own members, which user space's struct does not have. */
struct pt_regs___arm64_call {
	u64 orig_x0;
	s32 syscallno;
} __attribute__((preserve_access_index));
#endif

/*
 * The number of the system call that ends with @regs, and its first argument.  @unknown, and 0, on
 * a processor whose registers no longer tell.
 */
static __always_inline u64 ended_syscall(u64 regs, u64 *arg, u64 unknown)
{
	u64 number = unknown;

	*arg = 0;
#if defined(bpf_target_x86)
	bpf_probe_read_kernel(&number, sizeof(number), &((struct pt_regs *)regs)->orig_rax);
	*arg = first_syscall_arg((void *)regs);
#elif defined(bpf_target_arm64)
	number = BPF_CORE_READ((struct pt_regs___arm64_call *)regs, syscallno);
	*arg = BPF_CORE_READ((struct pt_regs___arm64_call *)regs, orig_x0);
#endif
	return number;
}

/* The registers with which the current task came from user space.  Before 5.15, which has no helper
 * for that, with stacks of 16 KiB, as x86 (without KASAN) and arm64 (without pages of 64 KiB) have
 * them. */
static __always_inline u64 entry_regs(void)
{
	struct task_struct *task;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return (u64)bpf_task_pt_regs(bpf_get_current_task_btf());
	task = (void *)bpf_get_current_task();
	return (u64)BPF_CORE_READ(task, stack) + (16 << 10) - bpf_core_type_size(struct pt_regs);
}

/* How the current task came from user space. */
struct user_entry {
	u64 number; /* of its system call; NO_NUMBER: it is in none, or that has its result */
	u64 arg;    /* the first one */
	u64 ip;	    /* where it was in user space */
	bool exception;
};

#define NO_NUMBER (~0ull)

/* On another processor: in no call. */
static __always_inline void read_user_entry(struct user_entry *entry)
{
	const struct pt_regs *regs = (void *)entry_regs();

	entry->number = NO_NUMBER;
	entry->exception = false;
#if defined(bpf_target_x86)
	struct {
		u64 ax, cx, dx, si, di, orig_ax, ip; /* from rax on, as the processor's calls have
						      * them */
	} part = {};

	bpf_probe_read_kernel(&part, sizeof(part), &regs->rax);
	entry->arg = part.di;
	entry->ip = part.ip;
	entry->exception = part.orig_ax == (u64)-1;
	if (part.ax == (u64)-38) /* ENOSYS: what is there until the result is */
		entry->number = part.orig_ax;
#elif defined(bpf_target_arm64)
	s32 number = BPF_CORE_READ((struct pt_regs___arm64_call *)regs, syscallno);
	u64 x0 = 0;

	bpf_probe_read_kernel(&x0, sizeof(x0), &PT_REGS_PARM1(regs));
	entry->arg = BPF_CORE_READ((struct pt_regs___arm64_call *)regs, orig_x0);
	bpf_probe_read_kernel(&entry->ip, sizeof(entry->ip), &PT_REGS_IP(regs));
	entry->exception = number == -1;
	if (x0 == entry->arg) /* else it is the result */
		entry->number = (s64)number;
#endif
}

#endif
