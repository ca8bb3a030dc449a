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

/*
 * In a program for the return of many functions: a stack pointer near the one at the function's
 * entry; 0: not known.  x86's return_to_handler stores it below its struct ftrace_regs; arm64's
 * stores none (a3ed4157b7d8, 6.14).
 */
#if defined(bpf_target_x86)
#define MULTI_RETURN_SP(regs) PT_REGS_SP(regs)
#else
#define MULTI_RETURN_SP(regs) 0
#endif

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

/* Its second (@n 1) or third (2) argument. */
static __always_inline u64 later_syscall_arg(struct pt_regs *regs, u32 n)
{
	u64 arg = 0;

	if (n == 1)
		bpf_probe_read_kernel(&arg, sizeof(arg), &PT_REGS_PARM2(regs));
	else
		bpf_probe_read_kernel(&arg, sizeof(arg), &PT_REGS_PARM3(regs));
	return arg;
}

#if defined(bpf_target_arm64)
/* The kernel's own members, which user space's struct does not have. */
struct pt_regs___arm64_call {
	u64 pstate;
	u64 orig_x0;
	s32 syscallno;
} __attribute__((preserve_access_index));
#endif

/* Does a task of another word size run, which came from user space with @regs?  Its system calls
 * have other numbers. */
static __always_inline bool is_compat_task(u64 regs __attribute__((unused)))
{
#if defined(bpf_target_x86)
	struct task_struct *task = (void *)bpf_get_current_task();
	u32 status = TYPED_TASK ? bpf_get_current_task_btf()->thread_info.status
				: BPF_CORE_READ(task, thread_info.status);

	return status & 0x2; /* TS_COMPAT */
#elif defined(bpf_target_arm64)
	/* The processor's own bit, in every kernel at its place: TIF_32BIT is a macro of the
	 * kernel's. */
	return BPF_CORE_READ((struct pt_regs___arm64_call *)regs, pstate) &
	       0x10; /* PSR_MODE32_BIT */
#else
	return false;
#endif
}

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

#if defined(bpf_target_arm64)
#define KERNEL_REGS struct pt_regs___arm64_call
#else
#define KERNEL_REGS struct pt_regs
#endif

/* Where the current task has user space's registers, as they were when it entered the kernel: at
 * the end of its stack, of @stack_size bytes. */
static __always_inline u64 user_regs(u32 stack_size)
{
	struct task_struct *task;

	/* 5.15, dd6e10fbd9fb */
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return (u64)bpf_task_pt_regs(bpf_get_current_task_btf());
	task = (void *)bpf_get_current_task();
	return (u64)BPF_CORE_READ(task, stack) + stack_size - bpf_core_type_size(KERNEL_REGS);
}

/* How the current task came from user space. */
struct user_entry {
	u64 number; /* of its system call; NO_NUMBER: it is in none, or that has its result */
	u64 arg;    /* the first one */
	u64 ip;	    /* where it was in user space */
	u64 regs;   /* where the kernel has its registers */
	bool exception;
};

#define NO_NUMBER (~0ull)

/* On another processor: in no call. */
static __always_inline void read_user_entry(struct user_entry *entry, u32 stack_size)
{
	const struct pt_regs *regs = (void *)user_regs(stack_size);

	entry->regs = (u64)regs;
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

/* ---- user space's registers, for probes/unwind.bpf.h ---- */

#if defined(bpf_target_x86)
struct unwind_regs {
	struct pt_regs regs;
};
#define UNWIND_REG_IP(r)  ((r)->regs.rip)
#define UNWIND_REG_SP(r)  ((r)->regs.rsp)
#define UNWIND_REG_FP(r)  ((r)->regs.rbp)
#define UNWIND_REG_BX(r)  ((r)->regs.rbx)
#define UNWIND_REG_AUX(r) ((r)->regs.rdi)
#define UNWIND_ADDRESS(a) (a)
#define UNWIND_FP_SAYS_SP 1 /* the caller's stack pointer is above the frame that FP points to */
#define UNWIND_SIGRETURN  0 /* its code, where it has no rules */
/* In struct rt_sigframe, above the address that the handler returns to: struct ucontext. */
#define UNWIND_SIGNAL_IP  168
#define UNWIND_SIGNAL_SP  160
#define UNWIND_SIGNAL_FP  120
#define UNWIND_SIGNAL_BX  128
#define UNWIND_SIGNAL_AUX 104
#elif defined(bpf_target_arm64)
struct unwind_regs {
	struct user_pt_regs regs;
};
#define UNWIND_REG_IP(r)     ((r)->regs.pc)
#define UNWIND_REG_SP(r)     ((r)->regs.sp)
#define UNWIND_REG_FP(r)     ((r)->regs.regs[29])
#define UNWIND_REG_BX(r)     ((r)->regs.regs[19])
#define UNWIND_REG_AUX(r)    ((r)->regs.regs[30])
/* A return address may be signed, in the bits that no address of 48 bits has. */
#define UNWIND_ADDRESS(a)    ((a)&0x0000ffffffffffffULL)
#define UNWIND_FP_SAYS_SP    0
/* "mov x8, #139; svc #0" in the vdso: without rules since 5.8 (87676cfca141). */
#define UNWIND_SIGRETURN     0xd4000001d2801168ULL
/* In struct rt_sigframe: siginfo (128 bytes), then struct ucontext with its registers at 176. */
#define UNWIND_SIGNAL_REG(n) (128 + 176 + 8 + 8 * (n))
#define UNWIND_SIGNAL_IP     UNWIND_SIGNAL_REG(32)
#define UNWIND_SIGNAL_SP     UNWIND_SIGNAL_REG(31)
#define UNWIND_SIGNAL_FP     UNWIND_SIGNAL_REG(29)
#define UNWIND_SIGNAL_BX     UNWIND_SIGNAL_REG(19)
#define UNWIND_SIGNAL_AUX    UNWIND_SIGNAL_REG(30)
#endif

#if defined(UNWIND_REG_IP)
static __always_inline bool read_user_regs(u32 stack_size, struct unwind_regs *out)
{
	void *regs = (void *)user_regs(stack_size);

	return !bpf_probe_read_kernel(out, sizeof(*out), regs);
}

#endif

#endif
