/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BACKUP_BPF_H
#define IOTRACE_PROBES_BACKUP_BPF_H

/*
 * The kernel skips a program that is already running on the same CPU.  Where programs can be
 * preempted (at tracepoints from 7.0 on, at functions on every kernel that preempts itself) that
 * happens all the time: while a task is preempted inside a program, all other tasks on its CPU go
 * without that program.  There each program (the primary) has backup programs, which run after it
 * at the same event: two, and five if it takes long (COPIES).  A backup does the work when those
 * before it were skipped.
 *
 * A backup learns that from a seen mark: the program that does the work stores a mark of the event
 * in slots that only this context uses.  The address of the arguments identifies the context: all
 * programs of an event get their arguments at the same place on the stack of the task or the
 * interrupt, one program after the other.
 *
 * The number of events that no program saw is the number of skipped primaries, which the kernel
 * counts, less backup_hits, both since the trace began (hooks_begin()).
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
	SEEN_TASK, /* fork, free, rename, mkdir of a cgroup: followed also while stopped */
};

/*
 * A mark is stored in several slots, each chosen by other bits of the context's hash.  It is lost
 * only when another context that is in the middle of an event shares all of them.
 */
#define SEEN_SLOTS     3
#define SEEN_HASH_BITS 15

/* Where an object's NAME_b are loaded this must be true: AS_BODY. */
const volatile bool has_backups = false;

/* Programs at functions have copies (probes/calls.bpf.h), as they are preempted; with has_backups
 * always. */
const volatile bool has_copies = false;

/*
 * Set by user space at the last output, and while the disk of -d is gone: programs then do nothing.
 * Detaching takes time, one event after the other; a program that saw a request's issue, but not
 * its completion, would report a loss that is none.
 */
__u32 stopped = 0;

/* Events that a backup program handled. */
__u64 backup_hits = 0;

/* User space makes it one entry where no program has backups. */
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

/* Where `stopped` is. */
__u64 stopped_at = 0;

/* The address as a scalar, of which the verifier knows the type with @direct. */
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

/* More than a program's number, which is in the lowest bits of a mark. */
#define SEEN_NUMBERS 8

/* The primary's mark of @event of @object in that context; those of its backups are the numbers
 * that follow. */
static __always_inline u64 seen_mark(u64 hash, enum seen_event event, u64 object)
{
	return (hash ^ object ^ (u64)event << 56) & ~(SEEN_NUMBERS - 1ull);
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

/* Does the primary program do the work?  Also asked by a program without backups. */
static __always_inline bool primary_runs(const void *ctx, enum seen_event event, u64 object)
{
	u64 hash, *slot;

	if (is_stopped(event))
		return false;
	if (!has_backups)
		return true;
	hash = seen_hash(ctx);
	for (u32 i = 0; i < SEEN_SLOTS; i++) {
		slot = seen_slot(hash, i);
		if (slot)
			*slot = seen_mark(hash, event, object);
	}
	return true;
}

/*
 * Does backup @number (from 1) of @backups do the work, because all before it were skipped?  Either
 * way it leaves its own mark, and the last one none.
 *
 * A mark stays if the last one was skipped.  When the same request has the next such event,
 * programs up to the mark's do not take it for one of that event.  A program that is behind the
 * mark's does, if none before it ran: that event is counted as missed.
 */
static __always_inline bool backup_runs(const void *ctx, enum seen_event event, u64 object,
					const u32 number, const u32 backups)
{
	const bool last = number == backups;
	u64 hash, mark, *slot;
	bool seen = false;

	if (is_stopped(event) || !has_backups)
		return false;
	hash = seen_hash(ctx);
	mark = seen_mark(hash, event, object);
	for (u32 i = 0; i < SEEN_SLOTS; i++) {
		slot = seen_slot(hash, i);
		if (!slot)
			continue;
		if (*slot - mark < number)
			seen = true;
		else if (last)
			continue; /* of another context */
		*slot = last ? 0 : mark + number;
	}
	if (!seen)
		__sync_fetch_and_add(&backup_hits, 1);
	return !seen;
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

/*
 * The programs of an event: of a raw tracepoint or of a function's end.  NAME is attached where
 * there are no backups.  Else NAME_1, the primary program, and its backups NAME_2 and NAME_3 are
 * attached, which go on to NAME_b: so the kernel verifies the work once.
 *
 * NAME_b has a tail call that is never made: else it would get a stack of its own on each CPU
 * (e00931c02568, 6.13), on the assumption that the kernel skips it while it runs there.
 *
 * @event: of enum seen_event; @object: the address that the event is about, an expression of the
 * arguments ctx[]; @run: the work.
 */
#define BODY(name)                                                                                 \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY);                                             \
		__uint(max_entries, 1);                                                            \
		__type(key, u32);                                                                  \
		__type(value, u32);                                                                \
	} body_##name SEC(".maps");

/* A tail call that fails leaves the event to nobody: it is one that was missed. */
#define GO_ON_TO(name)                                                                             \
	({                                                                                         \
		bpf_tail_call_static(ctx, &body_##name, 0);                                        \
		__sync_fetch_and_add(&backup_hits, -1);                                            \
	})

#define AS_BODY(name, run)                                                                         \
	({                                                                                         \
		run;                                                                               \
		if (!has_backups)                                                                  \
			GO_ON_TO(name);                                                            \
	})

/* NAME, NAME_b and NAME_1: @alone is what NAME does, @work what NAME_b does. */
#define CTX_PRIMARY(name, section, event, object, alone, work)                                     \
	BODY(name)                                                                                 \
	CTX_PROG(name, section, !is_stopped(event), alone)                                         \
	CTX_PROG(name##_b, section, true, AS_BODY(name, work))                                     \
	CTX_PROG(name##_1, section, primary_runs(ctx, event, object), GO_ON_TO(name))

/* NAME_@number, one of @backups. */
#define CTX_BACKUP(name, number, backups, section, event, object)                                  \
	CTX_PROG(name##_##number, section, backup_runs(ctx, event, object, (number)-1, backups),   \
		 GO_ON_TO(name))

#define CTX_PROGS(name, section, event, object, run)                                               \
	CTX_PRIMARY(name, section, event, object, run, run)                                        \
	CTX_BACKUP(name, 2, 2, section, event, object)                                             \
	CTX_BACKUP(name, 3, 2, section, event, object)

#define FEXIT_PROGS(name, function, event, object, run)                                            \
	CTX_PROGS(name, "fexit/" function, event, object, run)

/*
 * Of a tracepoint: @run has the argument ctx[n], which the event is about, as `arg`; `direct`: the
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

/* @progs: CTX_PROGS or CTX_COPIES. */
#define RAW_TP(progs, name, tracepoint, event, n, run)                                             \
	progs(name, "raw_tp/" #tracepoint, event, ctx[n], WITH_ARG(n, false, run))

/* NAME_btf, typed, and NAME_raw. */
#define TYPED_AND_RAW_TP(progs, name, tracepoint, event, n, run)                                   \
	progs(name##_btf, "tp_btf/" #tracepoint, event, opaque_id((void *)ctx[n]),                 \
	      WITH_ARG(n, true, run)) RAW_TP(progs, name##_raw, tracepoint, event, n, run)

#define RAW_TP_PROGS(...) RAW_TP(CTX_PROGS, __VA_ARGS__)
#define TP_PROGS(...)	  TYPED_AND_RAW_TP(CTX_PROGS, __VA_ARGS__)

/* NAME_raw_q, for kernels that have the queue before that argument (up to 5.10): they do not
 * preempt programs at tracepoints. */
#define QUEUE_PROG(name, tracepoint, n, run)                                                       \
	CTX_PROG(name##_raw_q, "raw_tp/" #tracepoint, !stopped, WITH_ARG(n, false, run))

/*
 * The same with five backups, for work that takes long.  In @run, a function that returns int,
 * `copy` is the number of the program that goes on to it, 0 to 5: what it keeps on its CPU must be
 * its own, as those before it may be preempted in the same work.
 *
 * A static function that is not inline returns RUN_DONE, which is used here: clang does not return
 * what it knows or nobody uses, and the verifier may refuse what is in r0 then.
 */
#define RUN_DONE                                                                                   \
	({                                                                                         \
		int done = 0;                                                                      \
                                                                                                   \
		barrier_var(done);                                                                 \
		done;                                                                              \
	})

#define COPIES 6

_Static_assert(COPIES <= SEEN_NUMBERS, "each has a mark");

#define AS_COPY(number, run)                                                                       \
	({                                                                                         \
		const u32 copy = (number);                                                         \
		int result = run;                                                                  \
                                                                                                   \
		(void)copy;                                                                        \
		barrier_var(result);                                                               \
	})

/* The number of the program that has just left its mark and goes on; the last one leaves none. */
static __always_inline u32 copy_of(const void *ctx, enum seen_event event, u64 object)
{
	u64 hash = seen_hash(ctx), mark = seen_mark(hash, event, object), number, *slot;

	for (u32 i = 0; i < SEEN_SLOTS; i++) {
		slot = seen_slot(hash, i);
		number = slot ? *slot - mark : COPIES;
		if (number < COPIES - 1)
			return number;
	}
	return COPIES - 1;
}

#define CTX_COPIES(name, section, event, object, run)                                              \
	CTX_PRIMARY(name, section, event, object, AS_COPY(0, run),                                 \
		    AS_COPY(copy_of(ctx, event, object), run))                                     \
	CTX_BACKUP(name, 2, COPIES - 1, section, event, object)                                    \
	CTX_BACKUP(name, 3, COPIES - 1, section, event, object)                                    \
	CTX_BACKUP(name, 4, COPIES - 1, section, event, object)                                    \
	CTX_BACKUP(name, 5, COPIES - 1, section, event, object)                                    \
	CTX_BACKUP(name, 6, COPIES - 1, section, event, object)

#define RAW_TP_COPIES(...) RAW_TP(CTX_COPIES, __VA_ARGS__)
#define TP_COPIES(...)	   TYPED_AND_RAW_TP(CTX_COPIES, __VA_ARGS__)

#endif
