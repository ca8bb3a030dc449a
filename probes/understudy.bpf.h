/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_UNDERSTUDY_BPF_H
#define IOTRACE_PROBES_UNDERSTUDY_BPF_H

/*
 * The kernel skips a program that is running on that CPU already.  Where tracepoints may be
 * preempted (7.0 and later) that happens all the time: a task that is preempted inside a program
 * makes all others on its CPU go without.  There each program has two understudies, NAME_2 and
 * NAME_3, attached after it to the same event; one plays when those before it were skipped.
 *
 * They learn that from a claim: who plays leaves the event's mark in a place that belongs to this
 * context, and to no other.  It is told by the address of the arguments: all programs of an event
 * get them from the same place on the stack of the task or the interrupt, one after the other.
 * How many events nobody saw is known, too: as many as principals were skipped (the kernel counts
 * that), less those that understudies took.
 */

#include "probes/kernel.h"

/* The events, for their marks. */
enum claim {
	CLAIM_SUBMIT = 1,
	CLAIM_FRONT_MERGE,
	CLAIM_BIO_MERGE,
	CLAIM_BIO,
	CLAIM_REMAP,
	CLAIM_ISSUE,
	CLAIM_REQUEUE,
	CLAIM_COMPLETE,
	CLAIM_BIO_END,
	CLAIM_TASK, /* fork, free, rename: who belongs to COMMAND is followed all the time */
};

/*
 * A claim is left in so many places at once, each told by another part of a hash: that of two
 * contexts that are in the middle of an event at the same time, on two CPUs say, one loses its
 * claim to the other takes that they meet in all.
 */
#define CLAIM_PLACES 3
#define CLAIM_BITS   15

const volatile bool understudied = false;

/*
 * Set by user space when the last output is due: from then on no program of any event does
 * anything.  Detaching takes its time, one event after the other, and whoever saw a request's issue
 * but not its end would tell of a loss that is none.  And while the disk of -d is gone.
 */
__u32 stopped = 0;

/* Events that an understudy took. */
__u64 stood_in = 0;

/* As many as that where there are understudies, else 1. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CLAIM_PLACES << CLAIM_BITS);
	__type(key, u32);
	__type(value, u64);
} claims SEC(".maps");

/* A number that stands for an address: the verifier takes the difference of two for one. */
static __always_inline u64 number_of(const void *address)
{
	u64 number = (u64)address - (u64)&stopped;

	barrier_var(number);
	return number;
}

/* The hash of the context whose arguments are at @ctx. */
static __always_inline u64 claim_hash(const void *ctx)
{
	return number_of(ctx) * 0x9e3779b97f4a7c15ull;
}

/* What stands for event @what of @object, in that context; even, as the next number has a meaning,
 * too. */
static __always_inline u64 claim_mark(u64 hash, enum claim what, u64 object)
{
	return (hash ^ object ^ (u64)what << 56) & ~1ull;
}

static __always_inline u64 *claim_place(u64 hash, u32 i)
{
	u32 part = hash >> (64 - (i + 1) * CLAIM_BITS);
	u32 index = (part & ((1 << CLAIM_BITS) - 1)) | i << CLAIM_BITS;

	return bpf_map_lookup_elem(&claims, &index);
}

static __always_inline bool is_over(enum claim what)
{
	return stopped && what != CLAIM_TASK;
}

/* At the start of a program that others understudy, and of one without: may it play? */
static __always_inline bool principal(const void *ctx, enum claim what, u64 object)
{
	u64 hash, *place;

	if (is_over(what))
		return false;
	if (!understudied)
		return true;
	hash = claim_hash(ctx);
	for (u32 i = 0; i < CLAIM_PLACES; i++) {
		place = claim_place(hash, i);
		if (place)
			*place = claim_mark(hash, what, object);
	}
	return true;
}

/*
 * At the start of the first understudy: was the principal skipped?  Either way it leaves another
 * mark than the principal, so that one that stays, because the last understudy was skipped, is not
 * taken for the principal's when the same request comes by here again.
 */
static __always_inline bool understudy(const void *ctx, enum claim what, u64 object)
{
	u64 hash, mark, *place;
	bool claimed = false;

	if (is_over(what) || !understudied)
		return false;
	hash = claim_hash(ctx);
	mark = claim_mark(hash, what, object);
	for (u32 i = 0; i < CLAIM_PLACES; i++) {
		place = claim_place(hash, i);
		if (place) {
			claimed |= *place == mark;
			*place = mark + 1;
		}
	}
	if (!claimed)
		__sync_fetch_and_add(&stood_in, 1);
	return !claimed;
}

/* At the start of the last one: were both before it skipped? */
static __always_inline bool last_understudy(const void *ctx, enum claim what, u64 object)
{
	u64 hash, mark, *place;
	bool claimed = false;

	if (is_over(what) || !understudied)
		return false;
	hash = claim_hash(ctx);
	mark = claim_mark(hash, what, object);
	for (u32 i = 0; i < CLAIM_PLACES; i++) {
		place = claim_place(hash, i);
		if (place && (*place & ~1ull) == mark) {
			claimed = true;
			*place = 0;
		}
	}
	if (!claimed)
		__sync_fetch_and_add(&stood_in, 1);
	return !claimed;
}

/* One program of a raw tracepoint: @may decides whether it plays. */
#define RAW_TP_PROG(name, tracepoint, may, what, object, play)                                     \
	SEC("raw_tp/" #tracepoint)                                                                 \
	int name(u64 *ctx)                                                                         \
	{                                                                                          \
		if (may(ctx, what, object))                                                        \
			play;                                                                      \
		return 0;                                                                          \
	}

/*
 * A raw tracepoint's program and its understudies.  @object: what the event is about, an expression
 * of the arguments ctx[]; @play: what to do.
 */
#define RAW_TP_PROGS(name, tracepoint, what, object, play)                                         \
	RAW_TP_PROG(name, tracepoint, principal, what, object, play)                               \
	RAW_TP_PROG(name##_2, tracepoint, understudy, what, object, play)                          \
	RAW_TP_PROG(name##_3, tracepoint, last_understudy, what, object, play)

#define TP_BTF_PROG(name, tracepoint, may, what, object, play, ...)                                \
	SEC("tp_btf/" #tracepoint)                                                                 \
	int BPF_PROG(name, __VA_ARGS__)                                                            \
	{                                                                                          \
		if (may(ctx, what, number_of(object)))                                             \
			play;                                                                      \
		return 0;                                                                          \
	}

/* The same for programs with typed arguments, declared after @play. */
#define TP_BTF_PROGS(name, tracepoint, what, object, play, ...)                                    \
	TP_BTF_PROG(name, tracepoint, principal, what, object, play, __VA_ARGS__)                  \
	TP_BTF_PROG(name##_2, tracepoint, understudy, what, object, play, __VA_ARGS__)             \
	TP_BTF_PROG(name##_3, tracepoint, last_understudy, what, object, play, __VA_ARGS__)

#endif
