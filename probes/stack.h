/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_STACK_H
#define IOTRACE_PROBES_STACK_H

/* Shared by the probe of iotrace stack and user space. */

#include "probes/bio_file.h"
#include "probes/blk.h"
#include "probes/stacks.h"

struct stack_key {
	struct stack_id kernel, user;
	struct blk_process process;
	__u64 cgroup; /* 0: not requested, or unknown */
	__u32 dev;
	__u32 cpu;
	struct file_id file; /* all 0 unless asked for */
};

struct stack_value {
	__u64 bytes[2]; /* read, written */
};

/* Used when there is no room for a row. */
struct stack_lost_key {
	struct blk_process process; /* pid STACK_ANY_PID: no room for the process either */
	__u64 cgroup;
	__u32 dev;
	__u32 file_kind; /* FILE_OTHERS with --by file */
};

#define STACK_ANY_PID 0xffffffffu

/* Completed I/Os, with --value ios or time.  Their stacks are in a row of this drain or an earlier
 * one, with the same path. */
struct stack_done_key {
	struct blk_process process; /* pid STACK_ANY_PID: unknown */
	__u64 path;		    /* stack_path(); 0: unknown */
	__u64 cgroup;
	__u32 dev;
	__u32 cpu;
	struct file_id file; /* of the first bio; all 0 unless asked for */
};

struct stack_done {
	__u64 ios[2]; /* read, written */
	__u64 ns[2];  /* from when they were made to their completion */
};

/* A thread that is off the CPU in a call or a page fault, with --value wait; the key is its
 * task_struct's address. */
struct stack_wait {
	struct blk_process process;
	__u64 path; /* see struct stack_done_key */
	__u64 cgroup;
	__u64 since_ns;
	__u64 ip, faults; /* of a page fault: see struct stack_fault */
	__u32 dev;	  /* 0: no file, or not on a disk */
	__u8 write;	  /* a write or a sync; otherwise a read or a page fault */
	__u8 fault;
	__u16 pad;
};

/* The last page fault of the thread that runs on a CPU. */
struct stack_fault {
	__u64 task;
	__u64 ip;     /* in user space */
	__u64 faults; /* of the thread; when it has one more, this one is over */
};

/* A number for both stacks of a row. */
static inline __u64 stack_path(const struct stack_id *kernel, const struct stack_id *user)
{
	return kernel->hash[0] + 3 * kernel->hash[1] + 5 * user->hash[0] + 7 * user->hash[1];
}

enum stack_loss {
	STACK_LOSS_FRAMES,    /* stacks whose frames were not stored, map full */
	STACK_LOSS_ROWS,      /* bios counted for their process without a stack */
	STACK_LOSS_PROCESSES, /* bios counted for their device only */
	STACK_LOSS_BIOS,      /* bios that are not counted */
	STACK_LOSS_BYTES,     /* and their bytes */
	STACK_LOSS_REFUSED,   /* bios that were counted, but that their disk rejected */
	STACK_LOSS_REFUSED_BYTES,
	STACK_LOSS_IOS,	   /* completed I/Os without room */
	STACK_LOSS_PATHS,  /* completed I/Os with an unknown stack */
	STACK_LOSS_UNREAD, /* kernel stacks that could not be read */
	STACK_LOSS_WAITS,  /* waits without room */
	STACK_LOSS_ENDS,   /* waits whose end was missed */
	STACK_LOSSES,
};

_Static_assert(sizeof(struct stack_key) == 88, "shared with BPF");
_Static_assert(sizeof(struct stack_value) == 16, "shared with BPF");
_Static_assert(sizeof(struct stack_done_key) == 64, "shared with BPF");
_Static_assert(sizeof(struct stack_done) == 32, "shared with BPF");
_Static_assert(sizeof(struct stack_wait) == 64, "shared with BPF");

#endif
