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
#include "probes/blk_record.h"
#include "probes/stacks.h"

/* The limit of slow, by the buffer that is written (epoch & 1). */
#define SLOW_BUFFERS 2

/* How a request was submitted. */
enum slow_flag {
	SLOW_SYNC = 1, /* a caller waits for it */
	SLOW_META = 2,
	SLOW_FUA = 4,
	SLOW_PREFLUSH = 8,
	SLOW_AHEAD = 16,
	SLOW_EARLY = 32, /* blame: it was made before the run began; of a full record only */
};

/* A process that waits for a flush command; known if both pid and start are not 0. */
#define SLOW_WAITERS	 32  /* of the first */
#define SLOW_WAITING_MAX 128 /* how many they are */
struct slow_waiter {
	__u64 start; /* of process pid: struct blk_process */
	__u32 pid;
	__u32 pad;
};

/* The fields of every record of an I/O. */
struct slow_io {
	__u64 end_ns, admit_ns, queue_ns, device_ns, sector;
	__u32 dev, bytes;
	__u32 depth; /* including itself; 0: unknown */
	__u32 flags; /* enum slow_flag */
};

/* A slow I/O with all known fields, in the ring buffer; times are CLOCK_MONOTONIC. */
struct slow_record {
	union {
		struct slow_io io;
		struct {
			__u64 end_ns, admit_ns, queue_ns, device_ns, sector;
			__u32 dev, bytes, depth, flags;
		};
	};
	__u64 start;	    /* of process pid: struct blk_process */
	__u64 task_cgroup;  /* of the submitter, in cgroup2 */
	__u64 cgroup;	    /* that the bio is charged to; 0: unknown */
	__u64 inode, magic; /* of the file, and of its file system */
	__u64 user_stack;   /* in the map `user_stacks`, or STACK_NONE, STACK_LOST */
	__u32 file_dev;	    /* of its file system; of FILE_DEVICE the device */
	__u32 pid;
	__s32 stack; /* in the map `stacks`; < 0: none */
	__u32 epoch; /* the buffer that its names are in */
	__s32 error; /* as block_rq_complete has it; 0: none */
	__u32 path_bytes;
	__u8 op; /* enum blk_op */
	__u8 known, writeback;
	__u8 file;	 /* enum file_kind */
	__u8 path_flags; /* enum file_path_flags */
	__u8 cgroup2;	 /* `cgroup` is one of cgroup2 */
	__u8 retries;	 /* how often it was requeued; up to 255 */
	__u8 waiting;	 /* of a flush command: requests that wait for it; up to SLOW_WAITING_MAX */
	__u32 uid;	 /* of the submitter, with --by user */
	__u32 lost;	 /* as blk_record.lost */
	union {
		char path[FILE_PATH]; /* from the name to the root, each part with its NUL */
		struct slow_waiter waiters[SLOW_WAITERS]; /* the first processes that wait */
	};
};

enum slow_loss {
	SLOW_LOSS_LIMIT,    /* I/Os with only a struct blk_record written */
	SLOW_LOSS_ARRIVALS, /* unknown ADMIT times */
	SLOW_LOSS_STACKS,   /* stacks without room */
	SLOW_LOSSES
};

_Static_assert(sizeof(struct slow_record) == 912, "shared with BPF");

#endif
