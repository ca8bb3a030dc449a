/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_ARCH_H
#define IOTRACE_PROBES_ARCH_H

/* Everything that depends on the processor, in addition to <bpf/bpf_tracing.h>: registers at a
 * probe and at the tracepoints of system calls. */

#include "probes/kernel.h"

/* In a kretprobe: the value of the stack pointer in the kprobe at the function's entry. */
#if defined(bpf_target_x86)
#define KRETPROBE_ENTRY_SP(regs) (PT_REGS_SP(regs) - 8) /* ret has popped the return address */
#else
#define KRETPROBE_ENTRY_SP(regs) PT_REGS_SP(regs)
#endif

/*
 * In a program at the return of many functions: a stack pointer near the one at the function's
 * entry; 0: unknown. x86's return_to_handler stores it below its struct ftrace_regs; arm64 stores
 * none (a3ed4157b7d8, 6.14).
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
/* The kernel's own members, which the struct in user space lacks. */
struct pt_regs___arm64_call {
	u64 pstate;
	u64 orig_x0;
	s32 syscallno;
} __attribute__((preserve_access_index));
#endif

/* Does the current task, which entered the kernel with @regs, have another word size?  Then its
 * system calls have other numbers. */
static __always_inline bool is_compat_task(u64 regs __attribute__((unused)))
{
#if defined(bpf_target_x86)
	struct task_struct *task = (void *)bpf_get_current_task();
	u32 status = TYPED_TASK ? bpf_get_current_task_btf()->thread_info.status
				: BPF_CORE_READ(task, thread_info.status);

	return status & 0x2; /* TS_COMPAT */
#elif defined(bpf_target_arm64)
	/* The processor's own bit, at the same place in every kernel: TIF_32BIT is a macro of the
	 * kernel. */
	return BPF_CORE_READ((struct pt_regs___arm64_call *)regs, pstate) &
	       0x10; /* PSR_MODE32_BIT */
#else
	return false;
#endif
}

#if defined(bpf_target_arm64)
#define KERNEL_REGS struct pt_regs___arm64_call
#else
#define KERNEL_REGS struct pt_regs
#endif

/* The function that the call before the return address @at calls; 0: not known, as the call is not
 * a direct one. */
static __always_inline u64 called_before(u64 at __attribute__((unused)))
{
#if defined(bpf_target_x86)
	struct {
		u8 code;
		s32 distance;
	} __attribute__((packed)) call = {};

	bpf_probe_read_kernel(&call, sizeof(call), (void *)(at - sizeof(call)));
	return call.code == 0xe8 ? at + (s64)call.distance : 0;
#elif defined(bpf_target_arm64)
	u32 bl = 0;

	bpf_probe_read_kernel(&bl, sizeof(bl), (void *)(at - sizeof(bl)));
	return bl >> 26 == 0x25 ? at - sizeof(bl) + ((s64)((u64)bl << 38) >> 38) * 4 : 0;
#else
	return 0;
#endif
}

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

/* How a task entered the kernel from user space. */
struct user_entry {
	u64 number; /* of its system call; NO_NUMBER: not in a call, or the call has its result */
	u64 arg;    /* the first one */
	u64 ip;	    /* where it was in user space */
	u64 regs;   /* where the kernel has its registers */
	bool exception;
};

#define NO_NUMBER (~0ull)

/* With its registers at @at.  On other processors: not in a call. */
static __always_inline void read_entry_at(struct user_entry *entry, u64 at)
{
	const struct pt_regs *regs = (void *)at;

	entry->regs = at;
	entry->number = NO_NUMBER;
	entry->exception = false;
#if defined(bpf_target_x86)
	struct {
		u64 ax, cx, dx, si, di, orig_ax,
		    ip; /* from rax on, in the processor's calling order */
	} part = {};

	bpf_probe_read_kernel(&part, sizeof(part), &regs->rax);
	entry->arg = part.di;
	entry->ip = part.ip;
	entry->exception = part.orig_ax == (u64)-1;
	if (part.ax == (u64)-38) /* ENOSYS: stored there until the result is known */
		entry->number = part.orig_ax;
#elif defined(bpf_target_arm64)
	s32 number = BPF_CORE_READ((struct pt_regs___arm64_call *)regs, syscallno);
	u64 x0 = 0;

	bpf_probe_read_kernel(&x0, sizeof(x0), &PT_REGS_PARM1(regs));
	entry->arg = BPF_CORE_READ((struct pt_regs___arm64_call *)regs, orig_x0);
	bpf_probe_read_kernel(&entry->ip, sizeof(entry->ip), &PT_REGS_IP(regs));
	entry->exception = number == -1;
	if (x0 == entry->arg) /* otherwise it is the result */
		entry->number = (s64)number;
#endif
}

/* Of the current task. */
static __always_inline void read_user_entry(struct user_entry *entry, u32 stack_size)
{
	read_entry_at(entry, user_regs(stack_size));
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
#define UNWIND_SIGRETURN  0 /* for code without rules */
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
/* A return address may be signed, in bits that 48-bit addresses do not use. */
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
