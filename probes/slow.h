/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_SLOW_H
#define IOTRACE_PROBES_SLOW_H

#ifdef __bpf__
#include "probes/kernel.h"
#else
#include <linux/types.h>
#endif

#include "probes/bio_file.h"
#include "probes/stacks.h"

/* A bio that has arrived. */
struct slow_arrival {
	__u64 bio; /* its address; 0: free */
	__u64 ns;  /* CLOCK_MONOTONIC; see by_switches() */
	union {
		__s32 stack;   /* slow_record.stack */
		__u64 got_cpu; /* when its task got the CPU: the scheduler's clock, ns */
	};
	__u64 user_stack; /* slow_record.user_stack; with -U */
};

#include "probes/blk.h" /* below: struct blk_cpu has such an arrival */

/* How many requests are at each disk: a hash table whose places user space gives, so that two CPUs
 * do not give one to two disks. */
#define SLOW_DISKS	    256
#define SLOW_TRIES	    4 /* places that a disk may have: its hash, and those behind it */
#define SLOW_DISK_HASH(dev) (((dev) ^ (dev) >> 20 ^ (dev) >> 4 << 3) % SLOW_DISKS)

/*
 * Requests at a disk, as one CPU counts them.  Reading the count of another that it has just
 * written takes some 100 ns, and that one as much for its next.  So the others are read once in
 * a period, or later, for up to SLOW_SAVED requests in a row; for more requests than that their sum
 * is estimated from how it has changed.
 */
struct slow_depth {
	__u32 count;	/* issued less returned, here: only the sum over the CPUs is a number */
	__u32 others;	/* the sum of the other CPUs' when they were read last */
	__u32 issued;	/* requests issued here since then */
	__s32 change;	/* of `others` with each, times 2^SLOW_CHANGE_BITS */
	__u32 many;	/* the period is that of many requests at the disk */
	__u32 spent_to; /* of the time so much has been used up, in periods; 2^10 ns */
	__u32 then;	/* `count` when the others were read last */
	__u32 pad;
};

#define SLOW_CHANGE_BITS 8
#define SLOW_SAVED	 16

/* The period with fewer than SLOW_MANY requests at the disk, and with more; 2^10 ns. */
#define SLOW_MANY	       8
#define SLOW_PERIOD_FEW(cpus)  (50 + 5 * (cpus))
#define SLOW_PERIOD_MANY(cpus) (100 + 50 * (cpus))

struct slow_depths {
	struct slow_depth disks[SLOW_DISKS];
};

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

/* Bios that have arrived and are no request yet, by a hash of their address. */
#define SLOW_ARRIVAL_SETS 4096
#define SLOW_ARRIVAL_WAYS 4

struct slow_arrival_set {
	struct slow_arrival ways[SLOW_ARRIVAL_WAYS];
};

/* The last arrivals and the counts of requests at disks of so many are looked at. */
#define SLOW_CPUS_MAX 1024

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
_Static_assert(sizeof(struct slow_arrival_set) == 128, "shared with BPF");

#endif
