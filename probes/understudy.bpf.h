/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_UNDERSTUDY_BPF_H
#define IOTRACE_PROBES_UNDERSTUDY_BPF_H

/*
 * The kernel skips a program that is running on that CPU already.  Where tracepoints may be
 * preempted (7.0 and later) that happens all the time: a task that is preempted inside a program
 * makes all others on its CPU go without.  There each program has two understudies, NAME_2 and
 * NAME_3, attached after it to the same event; one plays when those before it were skipped.
 *
 * They learn that from the task: who plays leaves the event's object there (a claim), and the last
 * one takes it away.  An interrupt's events come and go between; for one that hits the same event
 * there are two places.  A last one that is skipped itself leaves a claim behind, which may hide a
 * later event.  How many events nobody saw is known all the same: as many as principals were
 * skipped (the kernel counts that), less those that understudies took.
 */

#include "probes/kernel.h"

/* Events of which one task can be in the middle at the same time. */
enum claim {
	CLAIM_SUBMIT,
	CLAIM_FRONT_MERGE,
	CLAIM_BIO,
	CLAIM_REMAP,
	CLAIM_ISSUE,
	CLAIM_REQUEUE,
	CLAIM_COMPLETE,
	CLAIM_BIO_END,
	CLAIM_TASK, /* fork, free, rename */
	CLAIMS,
};

struct task_claims {
	u64 object[CLAIMS][2];
};

const volatile bool understudied = false;

/*
 * Set by user space when the last output is due: from then on no program of any event does
 * anything.  Detaching takes its time, one event after the other, and whoever saw a request's issue
 * but not its end would tell of a loss that is none.
 */
__u32 stopped = 0;

/* Events that an understudy took. */
__u64 stood_in = 0;

/* Made only where there are understudies: 5.10 has no such map. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_claims);
} claims SEC(".maps");

static __always_inline bool claim(enum claim what, u64 object)
{
	struct task_claims *mine;

	mine = bpf_task_storage_get(&claims, bpf_get_current_task_btf(), NULL,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!mine)
		return false;
	if (!mine->object[what][0])
		mine->object[what][0] = object;
	else
		mine->object[what][1] = object;
	return true;
}

/* Is there a claim to this event?  Takes it away where that is asked for. */
static __always_inline bool claimed(enum claim what, u64 object, const bool take)
{
	struct task_claims *mine;

	mine = bpf_task_storage_get(&claims, bpf_get_current_task_btf(), NULL, 0);
	for (int i = 0; mine && i < 2; i++)
		if (mine->object[what][i] == object) {
			if (take)
				mine->object[what][i] = 0;
			return true;
		}
	return false;
}

/* At the start of a program that others understudy, and of one without: may it play?  If not, an
 * understudy will. */
static __always_inline bool principal(enum claim what, u64 object)
{
	if (stopped)
		return false;
	return !understudied || claim(what, object);
}

/* At the start of an understudy, and of the last one: were those before it skipped? */
static __always_inline bool understudy(enum claim what, u64 object)
{
	if (stopped || claimed(what, object, false) || !claim(what, object))
		return false;
	__sync_fetch_and_add(&stood_in, 1);
	return true;
}

static __always_inline bool last_understudy(enum claim what, u64 object)
{
	if (stopped || claimed(what, object, true))
		return false;
	__sync_fetch_and_add(&stood_in, 1);
	return true;
}

/* One program of a raw tracepoint: @may decides whether it plays. */
#define RAW_TP_PROG(name, tracepoint, may, what, object, play)                                     \
	SEC("raw_tp/" #tracepoint)                                                                 \
	int name(u64 *ctx)                                                                         \
	{                                                                                          \
		if (may(what, object))                                                             \
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
		if (may(what, (u64)(object)))                                                      \
			play;                                                                      \
		return 0;                                                                          \
	}

/* The same for programs with typed arguments, declared after @play. */
#define TP_BTF_PROGS(name, tracepoint, what, object, play, ...)                                    \
	TP_BTF_PROG(name, tracepoint, principal, what, object, play, __VA_ARGS__)                  \
	TP_BTF_PROG(name##_2, tracepoint, understudy, what, object, play, __VA_ARGS__)             \
	TP_BTF_PROG(name##_3, tracepoint, last_understudy, what, object, play, __VA_ARGS__)

#endif
