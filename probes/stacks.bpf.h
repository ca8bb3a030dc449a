/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_STACKS_BPF_H
#define IOTRACE_PROBES_STACKS_BPF_H

/*
 * The current stack, of the kernel or of user space, and its hash.
 *
 * Before including this: #define STACK_SLOTS, the number of programs that can read stacks on a CPU
 * at the same time, each of which has a slot; and STACKS_ON_UNREAD(), the action for a kernel stack
 * that cannot be read.
 */

#include "probes/stacks.h"

const volatile bool unwinds = false;	       /* user stacks by tables */
const volatile __u64 seed[4] = { 1, 2, 3, 5 }; /* odd multipliers last */

enum { STACK_KERNEL, STACK_USER };

/* By STACK_KERNEL and STACK_USER. */
struct stack_scratch {
	struct stack_frames frames[2];
	struct stack_id ids[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STACK_SLOTS);
	__type(key, u32);
	__type(value, struct stack_scratch);
} scratch SEC(".maps");

static __always_inline struct stack_scratch *scratch_of(u32 slot)
{
	return bpf_map_lookup_elem(&scratch, &slot);
}

/* The walker of user stacks puts the frames here. */
static __always_inline u64 *unwind_frames(u32 slot)
{
	struct stack_scratch *at = scratch_of(slot);

	return at ? (u64 *)at->frames[STACK_USER].ip : NULL;
}

#define UNWIND_SLOTS STACK_SLOTS
#define UNWIND_DEPTH STACK_DEPTH
#include "probes/unwind.bpf.h"

/*
 * Most stacks are not deep, and the kernel zeroes the rest of the buffer.  So it first gets a small
 * part of the buffer, and all of it only if that part is full.
 */
#define FIRST_DEPTH 40

/* The kernel's stack includes the program and its caller: a stack with fewer bytes comes from the
 * registers of another task (arm64 takes their address for a frame). */
#define LEAST_KERNEL ((long)(2 * sizeof(u64)))

/*
 * A program at a tracepoint gets its start registers from one of three slots of its CPU
 * (bpf_raw_tp_nest_level).  Preempted tasks keep their slot, or another task on that CPU overwrites
 * it (7.0).  Without registers the kernel begins here, at frames that are removed with the frames
 * of tracing, and leaves out the frames of the scheduler.
 */
static __always_inline long read_frames(void *ctx, struct stack_frames *to, u64 flags)
{
	long size = bpf_get_stack(ctx, to->ip, FIRST_DEPTH * sizeof(u64), flags);

	if (size >= (long)(FIRST_DEPTH * sizeof(u64)))
		size = bpf_get_stack(ctx, to->ip, sizeof(to->ip), flags);
	if (has_spares && size < (flags & BPF_F_USER_STACK ? 0 : LEAST_KERNEL))
		size =
		    bpf_get_task_stack(bpf_get_current_task_btf(), to->ip, sizeof(to->ip), flags);
	return size;
}

/* User stacks by tables if available; otherwise the kernel follows frame pointers. */
static __always_inline long read_user_frames(void *ctx, struct stack_frames *to, u32 slot)
{
	long n = unwinds ? unwind_user(slot) : -1;

	if (n < 0) {
		n = read_frames(ctx, to, BPF_F_USER_STACK);
		if (n > 0)
			n = unwind_locate(slot, (u32)n / sizeof(u64));
	}
	return n * (long)sizeof(u64);
}

/* Computes the two hashes of the first @n frames.  Their multipliers differ: stacks that collide in
 * one do not in the other.  A global function: the verifier checks it once, not once for each way
 * to read a stack. */
__attribute__((noinline)) int hash_frames(u32 slot, u32 which, u32 n)
{
	struct stack_scratch *at = scratch_of(slot);
	u64 a = seed[0], b = seed[1], ip, *frames;
	struct stack_id *id;

	if (!at)
		return 0;
	frames = which == STACK_USER ? at->frames[STACK_USER].ip : at->frames[STACK_KERNEL].ip;
	id = which == STACK_USER ? &at->ids[STACK_USER] : &at->ids[STACK_KERNEL];
	for (u32 i = 0; i < STACK_DEPTH; i++) {
		if (i >= n)
			break;
		ip = frames[i];
		a = (a ^ ip) * seed[2];
		a ^= a >> 32;
		b = (b + ip) * seed[3];
		b ^= b >> 29;
	}
	id->hash[0] = a | 2; /* neither STACK_NONE nor STACK_LOST */
	id->hash[1] = b;
	return 0;
}

/* Reads the current stack to frames[@which] of @at, which is @slot. */
static __always_inline void read_stack(void *ctx, struct stack_scratch *at, u32 slot,
				       const u32 which, struct stack_id *id)
{
	struct stack_frames *to = &at->frames[which];
	long size = which == STACK_USER ? read_user_frames(ctx, to, slot) : read_frames(ctx, to, 0);

	if (which == STACK_KERNEL && size < LEAST_KERNEL) {
		STACKS_ON_UNREAD();
		id->hash[0] = STACK_LOST;
		return;
	}
	if (size < (long)sizeof(u64))
		return;
	hash_frames(slot, which, (u32)size / sizeof(u64));
	*id = at->ids[which];
}

#endif
