/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_SPARE_BPF_H
#define IOTRACE_PROBES_SPARE_BPF_H

/*
 * The kernel skips a program that is already running on the same CPU.  On kernels that preempt
 * programs (at tracepoints since 7.0, at functions on every kernel that preempts itself) this
 * happens all the time: while a task is preempted inside a program, the kernel skips that program
 * for all other tasks on its CPU.
 *
 * On such kernels each program (the primary) has spare programs, which run after it at the same
 * event: two, and five if its work takes long.  A spare does the work if all programs before it
 * were skipped.  It learns this from a seen mark: the program that does the work stores a mark of
 * the event in slots that only this context uses.  The address of the arguments identifies the
 * context: all programs of an event get their arguments at the same place on the stack of the task
 * or the interrupt, one program after the other.
 *
 * The number of missed events is the number of skipped primaries, which the kernel counts, minus
 * spare_hits, both since the trace began (hooks_begin()).
 */

#include "probes/kernel.h"

/* Kinds of events, part of a mark. */
enum seen_event {
	SEEN_SUBMIT = 1,
	SEEN_FRONT_MERGE,
	SEEN_BIO_MERGE,
	SEEN_BIO,
	SEEN_REMAP,
	SEEN_ISSUE,
	SEEN_REQUEUE,
	SEEN_COMPLETE,
	SEEN_BIO_END,
	SEEN_ADD, /* of virtqueues */
	SEEN_GET,
	SEEN_GET_CTX,
	SEEN_DETACH,
	SEEN_PAGE_FAULT,
	SEEN_SYSCALL,
	SEEN_SYSCALL_END,
	SEEN_CALL, /* of a function */
	SEEN_CALL_END,
	SEEN_THREAD_FREE,
	SEEN_PAGE_WAIT,
	SEEN_FILE_SYNC, /* of ext4 */
	SEEN_FILE_WRITTEN,
	SEEN_FAST_COMMIT,
	SEEN_FAST_COMMIT_END,
	SEEN_LOG_FORCE,
	SEEN_COMMIT, /* of jbd2 */
	SEEN_COMMIT_LOCKING,
	SEEN_COMMIT_FLUSHING,
	SEEN_COMMIT_LOGGING,
	SEEN_COMMIT_FILE,
	SEEN_COMMIT_END,
	SEEN_HANDLE_END,
	SEEN_LIMIT, /* of blk-throttle */
	SEEN_DIRTY,
	SEEN_TASK, /* fork, free, rename, mkdir of a cgroup: also followed while stopped */
	SEEN_URING_CREATE,
	SEEN_URING_SUBMIT,
	SEEN_URING_FAIL,
	SEEN_URING_WORK,
	SEEN_URING_POLL,
	SEEN_URING_COMPLETE,
	SEEN_URING_OVERFLOW,
};

/*
 * A mark is stored in several slots, each chosen by different bits of the context's hash.  It is
 * lost only when another context that is in the middle of an event shares all of them.
 */
#define SEEN_SLOTS     3
#define SEEN_HASH_BITS 15

/* This kernel preempts programs of this object: those have spares. */
const volatile bool has_spares = false;

/*
 * Set by user space at the last output, and while the disk of -d is gone: programs then do nothing.
 * Detaching takes time, one event after the other; a program that saw a request's issue, but not
 * its completion, would report a false loss.
 */
__u32 stopped = 0;

/* Events that a spare handled. */
__u64 spare_hits = 0;

/* User space gives it one entry if no program has spares. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SEEN_SLOTS << SEEN_HASH_BITS);
	__type(key, u32);
	__type(value, u64);
} seen_marks SEC(".maps");

/* A number that identifies an address and is a scalar to the verifier: the difference of two
 * pointers. */
static __always_inline u64 opaque_id(const void *address)
{
	u64 number = (u64)address - (u64)&stopped;

	barrier_var(number);
	return number;
}

/* The value of `stopped` is here. */
__u64 stopped_at = 0;

/* The address as a scalar; with @direct the verifier knows its type. */
static __always_inline u64 address_of(const void *address, const bool direct)
{
	if (!direct)
		return (u64)address;
	if (!stopped_at)
		stopped_at = (u64)&stopped;
	return opaque_id(address) + stopped_at;
}

/* The hash of the context whose arguments are at @ctx. */
static __always_inline u64 seen_hash(const void *ctx)
{
	return opaque_id(ctx) * 0x9e3779b97f4a7c15ull;
}

/* The most programs of an event; their numbers are the lowest bits of a mark. */
#define SPARE_PROGS 6
#define MARK_BITS   3

_Static_assert(SPARE_PROGS <= 1 << MARK_BITS, "each has a mark");

/* The primary's mark of @event of @object in that context; the marks of its spares are the
 * following numbers. */
static __always_inline u64 seen_mark(u64 hash, enum seen_event event, u64 object)
{
	return (hash ^ object ^ (u64)event << 56) >> MARK_BITS << MARK_BITS;
}

static __always_inline u64 *seen_slot(u64 hash, u32 i)
{
	u32 part = hash >> (64 - (i + 1) * SEEN_HASH_BITS);
	u32 index = (part & ((1 << SEEN_HASH_BITS) - 1)) | i << SEEN_HASH_BITS;

	return bpf_map_lookup_elem(&seen_marks, &index);
}

static __always_inline bool is_stopped(enum seen_event event)
{
	return stopped && event != SEEN_TASK;
}

/* The number of this program: 0, the primary.  User space loads it again for each spare, with the
 * spare's number instead (SPARES_NUMBER of core/bpf/hooks_internal.h). */
static __always_inline u32 program_number(void)
{
	u64 number;

	asm volatile("%0 = 0x5ba4e00000000 ll" : "=r"(number));
	return (u32)number;
}

/*
 * Does program @number do the work, because all programs before it were skipped?  In both cases it
 * leaves its own mark for the programs after it.
 *
 * The mark stays.  When the same object has the next such event in this context, the programs up to
 * the mark's number do not mistake it for a mark of the new event.  A program after the mark's
 * number does, if no program before it ran: that event is counted as missed.
 */
static __always_inline bool program_runs(const void *ctx, enum seen_event event, u64 object,
					 u32 number)
{
	u64 hash, mark, *slot;
	bool seen = false;

	if (is_stopped(event))
		return false;
	hash = seen_hash(ctx);
	mark = seen_mark(hash, event, object);
	for (u32 i = 0; i < SEEN_SLOTS; i++) {
		slot = seen_slot(hash, i);
		if (!slot)
			continue;
		if (*slot - mark < number)
			seen = true;
		*slot = mark + number;
	}
	if (!seen && number)
		__sync_fetch_and_add(&spare_hits, 1);
	return !seen;
}

/* The number of the program that has just left its mark and continues in this one. */
static __always_inline u32 program_before(const void *ctx, enum seen_event event, u64 object)
{
	u64 hash = seen_hash(ctx), mark = seen_mark(hash, event, object), number, *slot;

	for (u32 i = 0; i < SEEN_SLOTS; i++) {
		slot = seen_slot(hash, i);
		number = slot ? *slot - mark : SPARE_PROGS;
		if (number < SPARE_PROGS)
			return number;
	}
	return SPARE_PROGS - 1;
}

/* One program, with the arguments ctx[], which does @run if @runs. */
#define CTX_PROG(name, section, runs, run)                                                         \
	SEC(section)                                                                               \
	int name(u64 *ctx)                                                                         \
	{                                                                                          \
		if (runs)                                                                          \
			run;                                                                       \
		return 0;                                                                          \
	}

/* A tail call that fails leaves the event undone: it is counted as missed. */
#define GO_ON_TO(name)                                                                             \
	({                                                                                         \
		bpf_tail_call_static(ctx, &name##_spares, 0);                                      \
		__sync_fetch_and_add(&spare_hits, -1);                                             \
	})

/* Never true, but clang does not know. */
const volatile bool never = false;

/*
 * The programs of an event: of a raw tracepoint, or of a function's entry or return.  NAME does the
 * work.  With spares, NAME_spare is attached instead, @programs times, and each continues in NAME:
 * so the kernel verifies the work once.  User space fills the map; its name says that there are
 * spares, its size how many.
 *
 * NAME has a tail call that is never made: otherwise it would get a stack of its own on each CPU
 * (e00931c02568, 6.13), on the assumption that the kernel skips it while it runs there.  @event: an
 * enum seen_event; @object: the address of the event's object, an expression of the arguments
 * ctx[]; @run: the work.
 */
#define SPARED_PROGS(programs, name, section, event, object, run)                                  \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY);                                             \
		__uint(max_entries, programs);                                                     \
		__type(key, u32);                                                                  \
		__type(value, u32);                                                                \
	} name##_spares SEC(".maps");                                                              \
	CTX_PROG(name, section, !is_stopped(event), ({                                             \
			 run;                                                                      \
			 if (never)                                                                \
				 GO_ON_TO(name);                                                   \
		 }))                                                                               \
	CTX_PROG(name##_spare, section, program_runs(ctx, event, object, program_number()),        \
		 GO_ON_TO(name))

#define CTX_PROGS(...) SPARED_PROGS(3, __VA_ARGS__)

/*
 * For work that takes long: a function that returns int.  In @run `program` is the number of the
 * program that continues in it, 0 to 5: its per-CPU data must be its own, since programs before it
 * may be preempted in the same work.
 *
 * A static function that is not inline returns RUN_DONE, which is used here: clang does not return
 * an unused or constant value, and the verifier may reject the remaining content of r0.
 */
#define LONG_CTX_PROGS(name, section, event, object, run)                                          \
	SPARED_PROGS(SPARE_PROGS, name, section, event, object, ({                                 \
			     const u32 program =                                                   \
				 has_spares ? program_before(ctx, event, object) : 0;              \
			     int result = run;                                                     \
                                                                                                   \
			     (void)program;                                                        \
			     barrier_var(result);                                                  \
		     }))

#define RUN_DONE                                                                                   \
	({                                                                                         \
		int done = 0;                                                                      \
                                                                                                   \
		barrier_var(done);                                                                 \
		done;                                                                              \
	})

/*
 * For a tracepoint: in @run `arg` is the argument ctx[n], the event's object; `direct`: the
 * verifier knows its type, so that its fields are read without a helper.
 */
#define WITH_ARG(n, typed, run)                                                                    \
	({                                                                                         \
		const bool direct = (typed);                                                       \
		void *arg = (void *)ctx[n];                                                        \
                                                                                                   \
		(void)direct;                                                                      \
		(void)arg;                                                                         \
		run;                                                                               \
	})

/* @progs: CTX_PROGS or LONG_CTX_PROGS. */
#define RAW_TP(progs, name, tracepoint, event, n, run)                                             \
	progs(name, "raw_tp/" #tracepoint, event, ctx[n], WITH_ARG(n, false, run))

/* NAME_btf, typed, and NAME_raw. */
#define TYPED_AND_RAW_TP(progs, name, tracepoint, event, n, run)                                   \
	progs(name##_btf, "tp_btf/" #tracepoint, event, opaque_id((void *)ctx[n]),                 \
	      WITH_ARG(n, true, run)) RAW_TP(progs, name##_raw, tracepoint, event, n, run)

#define RAW_TP_PROGS(...)      RAW_TP(CTX_PROGS, __VA_ARGS__)
#define TP_PROGS(...)	       TYPED_AND_RAW_TP(CTX_PROGS, __VA_ARGS__)
#define LONG_RAW_TP_PROGS(...) RAW_TP(LONG_CTX_PROGS, __VA_ARGS__)
#define LONG_TP_PROGS(...)     TYPED_AND_RAW_TP(LONG_CTX_PROGS, __VA_ARGS__)

/* NAME_raw_q, for kernels that pass the queue before that argument (up to 5.10): they do not
 * preempt programs at tracepoints. */
#define QUEUE_PROG(name, tracepoint, n, run)                                                       \
	CTX_PROG(name##_raw_q, "raw_tp/" #tracepoint, !stopped, WITH_ARG(n, false, run))

#endif
