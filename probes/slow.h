/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_SLOW_H
#define IOTRACE_PROBES_SLOW_H

#ifdef __bpf__
#include "probes/kernel.h"
#else
#include <linux/types.h>
#endif

#include "probes/bio_file.h"
#include "probes/blk.h"
#include "probes/stacks.h"

/* What is slow, by the buffer that is written (epoch & 1). */
#define SLOW_BUFFERS 2

/* How a request was submitted. */
enum slow_flag {
	SLOW_SYNC = 1, /* somebody waits for it */
	SLOW_META = 2,
	SLOW_FUA = 4,
	SLOW_PREFLUSH = 8,
	SLOW_AHEAD = 16,
};

#define SLOW_PATH     768
#define SLOW_PARTS    40  /* of a path */
#define SLOW_PART_MAX 256 /* bytes of one, with its NUL */

enum slow_path_flags {
	SLOW_REMOVED = 1, /* the file has no name in its directory any more */
	SLOW_CUT = 2,	  /* the path goes on towards the root */
};

/* Who waits for a flush command; known if both pid and start are not 0. */
#define SLOW_WAITERS	 32  /* of the first */
#define SLOW_WAITING_MAX 128 /* how many they are */
struct slow_waiter {
	__u64 start; /* of process pid: struct blk_process */
	__u32 pid;
	__u32 pad;
};

/* One slow I/O, in the ring buffer; times are CLOCK_MONOTONIC. */
struct slow_record {
	__u64 end_ns;
	__u64 admit_ns, queue_ns, device_ns;
	__u64 sector;
	__u64 start;	    /* of process pid: struct blk_process */
	__u64 task_cgroup;  /* of the submitter, in cgroup2 */
	__u64 cgroup;	    /* that the bio is charged to; 0: not known */
	__u64 inode, magic; /* of the file, and of its file system */
	__u64 user_stack;   /* in the map `user_stacks`, or STACK_NONE, STACK_LOST */
	__u32 file_dev;	    /* of its file system; of FILE_DEVICE the device */
	__u32 pid;
	__s32 stack; /* in the map `stacks`; < 0: none */
	__u32 dev;
	__u32 bytes;
	__u32 depth; /* with itself; 0: not known */
	__u32 flags; /* enum slow_flag */
	__u32 epoch; /* the buffer that its names are in */
	__s32 error; /* as block_rq_complete has it; 0: none */
	__u32 path_bytes;
	__u8 op; /* enum blk_op */
	__u8 known, writeback;
	__u8 file;	 /* enum file_kind */
	__u8 path_flags; /* enum slow_path_flags */
	__u8 cgroup2;	 /* `cgroup` is one of cgroup2 */
	__u8 retries;	 /* how often the device gave it back; up to 255 */
	__u8 waiting;	 /* of a flush command: requests that wait for it; up to SLOW_WAITING_MAX */
	__u32 uid;	 /* of the submitter, with --by user */
	union {
		char path[SLOW_PATH]; /* from the name to the root, each part with its NUL */
		struct slow_waiter waiters[SLOW_WAITERS]; /* the first of those that wait */
	};
};

enum slow_loss {
	SLOW_LOSS_RING,	    /* the ring buffer was full */
	SLOW_LOSS_LIMIT,    /* --limit */
	SLOW_LOSS_ARRIVALS, /* times admitted that are not known */
	SLOW_LOSS_STACKS,   /* stacks that had no room */
	SLOW_LOSSES
};

_Static_assert(sizeof(struct slow_record) == 912, "shared with BPF");

#endif
