/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_STACK_H
#define IOTRACE_PROBES_STACK_H

/* What the probe of iotrace stack and user space share. */

#include "probes/blk.h"
#include "probes/stacks.h"

struct stack_key {
	struct stack_id kernel, user;
	struct blk_process process;
	__u64 cgroup; /* 0: not wanted, or not known */
	__u32 dev;
	__u32 cpu;
};

struct stack_value {
	__u64 bytes[2]; /* read, written */
	__u64 first_ns; /* when the row was made: its addresses are looked up as mapped then */
};

/* Where there is no room for a row. */
struct stack_lost_key {
	struct blk_process process; /* pid STACK_ANY_PID: no room for the process either */
	__u64 cgroup;
	__u32 dev;
	__u32 pad;
};

#define STACK_ANY_PID 0xffffffffu

/* I/Os that are complete, with --value ios or time.  Their stacks are those of a row of an earlier
 * drain, or of this one, with the same path. */
struct stack_done_key {
	struct blk_process process; /* pid STACK_ANY_PID: not known */
	__u64 path;		    /* stack_path(); 0: not known */
	__u64 cgroup;
	__u32 dev;
	__u32 cpu;
};

struct stack_done {
	__u64 ios[2];	/* read, written */
	__u64 ns[2];	/* from when they were made to their completion */
	__u64 first_ns; /* when the first one was made */
};

/* A thread that is off the CPU in a call or a page fault, with --value wait; the key is its
 * task_struct's address. */
struct stack_wait {
	struct blk_process process;
	__u64 path; /* as of struct stack_done_key */
	__u64 cgroup;
	__u64 since_ns;
	__u64 ip, faults; /* of a page fault: as of struct stack_fault */
	__u32 dev;	  /* 0: of no file, or of one that is on no disk */
	__u8 write;	  /* a write or a sync; else a read or a page fault */
	__u8 fault;
	__u16 pad;
};

/* The last page fault of the thread that runs on a CPU. */
struct stack_fault {
	__u64 task;
	__u64 ip;     /* in user space */
	__u64 faults; /* that the thread has had; when it has one more, this one is over */
};

/* A number for both stacks of a row. */
static inline __u64 stack_path(const struct stack_id *kernel, const struct stack_id *user)
{
	return kernel->hash[0] + 3 * kernel->hash[1] + 5 * user->hash[0] + 7 * user->hash[1];
}

enum stack_loss {
	STACK_LOSS_FRAMES,    /* stacks whose frames had no room */
	STACK_LOSS_ROWS,      /* bios that count for their process without a stack */
	STACK_LOSS_PROCESSES, /* bios that count for their device only */
	STACK_LOSS_BIOS,      /* bios that are not counted */
	STACK_LOSS_BYTES,     /* and their bytes */
	STACK_LOSS_REFUSED,   /* bios that were counted and that their disk did not take */
	STACK_LOSS_REFUSED_BYTES,
	STACK_LOSS_IOS,	   /* complete I/Os that had no room */
	STACK_LOSS_PATHS,  /* complete I/Os whose stack is not known */
	STACK_LOSS_UNREAD, /* kernel stacks that the kernel did not read */
	STACK_LOSS_WAITS,  /* waits that had no room */
	STACK_LOSS_ENDS,   /* waits whose end no program saw */
	STACK_LOSSES,
};

_Static_assert(sizeof(struct stack_key) == 64, "shared with BPF");
_Static_assert(sizeof(struct stack_value) == 24, "shared with BPF");
_Static_assert(sizeof(struct stack_done_key) == 40, "shared with BPF");
_Static_assert(sizeof(struct stack_done) == 40, "shared with BPF");
_Static_assert(sizeof(struct stack_wait) == 64, "shared with BPF");

#endif
