/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_STACKS_BPF_H
#define IOTRACE_PROBES_STACKS_BPF_H

/*
 * The current stack, of the kernel or of user space, and its hash.
 *
 * Before including this: include probes/unwind.bpf.h, and #define STACKS_ON_UNREAD(), what is done
 * about a stack of the kernel that cannot be read.
 */

#include "probes/stacks.h"

const volatile bool unwinds = false;	       /* user stacks by tables */
const volatile __u64 seed[4] = { 1, 2, 3, 5 }; /* odd multipliers last */

/*
 * Most stacks are not deep, and the kernel zeroes the rest of the buffer that it is given.  So it
 * first gets a small part of it, and all of it only when that is full.
 */
#define FIRST_DEPTH 40

/*
 * A program of a tracepoint gets the registers to begin at from one of three places of its CPU
 * (bpf_raw_tp_nest_level), which tasks that are preempted meanwhile keep, or another task on that
 * CPU overwrites (7.0).  Without them the kernel begins here, at frames that are left out with
 * those of tracing, and leaves those of the scheduler out.
 */
static __always_inline long read_frames(void *ctx, struct stack_frames *to, u64 flags)
{
	long size = bpf_get_stack(ctx, to->ip, FIRST_DEPTH * sizeof(u64), flags);

	if (size >= (long)(FIRST_DEPTH * sizeof(u64)))
		size = bpf_get_stack(ctx, to->ip, sizeof(to->ip), flags);
	if (has_backups && size <= 0)
		size =
		    bpf_get_task_stack(bpf_get_current_task_btf(), to->ip, sizeof(to->ip), flags);
	return size;
}

/* Of user space by tables if there are any; else the kernel follows frame pointers. */
static __always_inline long read_user_frames(void *ctx, struct stack_frames *to, u32 slot)
{
	long n = unwinds ? unwind_user(slot) : -1;

	if (n < 0)
		return read_frames(ctx, to, BPF_F_USER_STACK);
	return n * (long)sizeof(u64);
}

/* Reads the current stack, and its two hashes.  Their multipliers differ: stacks that collide in
 * one do not in the other.  @slot: of unwind_frames(). */
static __always_inline void read_stack(void *ctx, struct stack_frames *to, u64 flags, u32 slot,
				       struct stack_id *id)
{
	long size = flags & BPF_F_USER_STACK ? read_user_frames(ctx, to, slot)
					     : read_frames(ctx, to, flags);
	u64 a = seed[0], b = seed[1], ip;
	u32 i, n;

	/* The kernel's is never empty. */
	if (size <= 0 && !(flags & BPF_F_USER_STACK)) {
		STACKS_ON_UNREAD();
		id->hash[0] = STACK_LOST;
	}
	if (size < (long)sizeof(u64))
		return;
	n = (u32)size / sizeof(u64);
	for (i = 0; i < STACK_DEPTH; i++) {
		if (i >= n)
			break;
		ip = to->ip[i];
		a = (a ^ ip) * seed[2];
		a ^= a >> 32;
		b = (b + ip) * seed[3];
		b ^= b >> 29;
	}
	id->hash[0] = a | 2; /* neither STACK_NONE nor STACK_LOST */
	id->hash[1] = b;
}

#endif
