/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_UNDERSTUDY_BPF_H
#define IOTRACE_PROBES_UNDERSTUDY_BPF_H

/*
 * The kernel skips a program that is running on that CPU already.  Where tracepoints may be
 * preempted (7.0 and later) that happens all the time: a task that is preempted inside a program
 * makes all others on its CPU go without.  There each program has an understudy, NAME_2, attached
 * after it to the same event, which plays when the principal was skipped.
 *
 * It learns that from the task: a principal that runs leaves the event's object there (a claim),
 * its understudy takes it away.  An interrupt's events come in pairs between the two; for one that
 * hits the same event there are two places.  An understudy that is skipped itself leaves a claim
 * behind, which may hide a later event.  How many events nobody saw is known all the same: as many
 * as principals were skipped (the kernel counts that), less those that understudies took.
 */

#include "probes/kernel.h"

/* Events of which one task can be in the middle at the same time. */
enum claim {
	CLAIM_SUBMIT,
	CLAIM_FRONT_MERGE,
	CLAIM_BIO,
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

/* At the start of a principal, and of a program without an understudy: may it play?  If not, the
 * understudy will. */
static __always_inline bool principal(enum claim what, u64 object)
{
	struct task_claims *mine;

	if (stopped)
		return false;
	if (!understudied)
		return true;
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

/* At the start of an understudy: was the principal skipped? */
static __always_inline bool understudy(enum claim what, u64 object)
{
	struct task_claims *mine;

	if (stopped)
		return false;
	mine = bpf_task_storage_get(&claims, bpf_get_current_task_btf(), NULL, 0);
	for (int i = 0; mine && i < 2; i++)
		if (mine->object[what][i] == object) {
			mine->object[what][i] = 0;
			return false;
		}
	__sync_fetch_and_add(&stood_in, 1);
	return true;
}

/*
 * A raw tracepoint's program and its understudy.  @object: what the event is about, an expression
 * of the arguments ctx[]; @play: what to do.
 */
#define RAW_TP_PROGS(name, tracepoint, what, object, play)                                         \
	SEC("raw_tp/" #tracepoint)                                                                 \
	int name(u64 *ctx)                                                                         \
	{                                                                                          \
		if (principal(what, object))                                                       \
			play;                                                                      \
		return 0;                                                                          \
	}                                                                                          \
	SEC("raw_tp/" #tracepoint)                                                                 \
	int name##_2(u64 *ctx)                                                                     \
	{                                                                                          \
		if (understudy(what, object))                                                      \
			play;                                                                      \
		return 0;                                                                          \
	}

/* The same for a program that gets typed arguments, declared after @play; the first is the object.
 */
#define TP_BTF_PROGS(name, tracepoint, what, object, play, ...)                                    \
	SEC("tp_btf/" #tracepoint)                                                                 \
	int BPF_PROG(name, __VA_ARGS__)                                                            \
	{                                                                                          \
		if (principal(what, (u64)(object)))                                                \
			play;                                                                      \
		return 0;                                                                          \
	}                                                                                          \
	SEC("tp_btf/" #tracepoint)                                                                 \
	int BPF_PROG(name##_2, __VA_ARGS__)                                                        \
	{                                                                                          \
		if (understudy(what, (u64)(object)))                                               \
			play;                                                                      \
		return 0;                                                                          \
	}

#endif
