/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_H
#define IOTRACE_PROBES_BLK_H

/* What the block probes and user space share. */

#include <linux/types.h>

/*
 * Operations.  The kernel's own codes differ between kernels (the zone
 * operations were renumbered inside stable series), so the probes translate.
 */
enum blk_op {
	BLK_READ,
	BLK_WRITE,
	BLK_DISCARD,
	BLK_FLUSH, /* a flush command to the device */
	BLK_SYNC,  /* an empty request that waits for a flush command */
	BLK_WRITE_ZEROES,
	BLK_SECURE_ERASE,
	BLK_ZONE_APPEND,
	BLK_ZONE_MGMT,
	BLK_WRITE_SAME,
	BLK_PASSTHROUGH, /* commands composed by user space or the driver */
	BLK_OPS,
};

/* Whose I/O is counted. */
enum blk_filter {
	FILTER_NONE,
	FILTER_PID,	/* one process */
	FILTER_TRACKED, /* one process and its descendants (map `tracked`, filled at fork) */
};

/* Further processes of -p, and disks of -d. */
#define BLK_MORE 7

/* Control groups whose I/O is counted, including all groups below them; several for a pod. */
#define BLK_CGROUPS 16

/* How the submitter of a request is found. */
enum blk_submit {
	SUBMIT_NONE, /* not at all */
	SUBMIT_RQ,   /* at the accounting of the request's start */
	SUBMIT_BIO,  /* at the bio that the request is made of */
};

/* Losses in the kernel; each counter only grows. */
enum blk_loss {
	LOSS_NO_START,	    /* a completion whose submission and issue were missed */
	LOSS_REQUESTS_FULL, /* no room to follow a request */
	LOSS_ROWS_FULL,	    /* no room for a row: I/O not counted */
	LOSS_ROWS_BYTES,    /* bytes of that I/O */
	LOSS_CLOCK,	    /* a completion before its start */
	LOSS_BIOS,	    /* bios beyond the number that a program may walk */
	LOSS_TRACKED_FULL,  /* no room for a descendant of COMMAND */
	LOSS_NO_END,	    /* a missed completion; detected later */
	LOSS_SUBMITTERS,    /* requests whose submitter was missed or not stored (map full) */
	BLK_LOSSES,
};

/*
 * A process.  Numbers are reused; the start time of the first thread makes them unique.  (A
 * thread that execs becomes the first thread, and gets its start time.)
 */
struct blk_process {
	__u64 start; /* start_boottime, ns; 0: the idle tasks (pid 0), or not needed */
	__u32 pid;
	__u32 uid; /* only in struct blk_inflight, if requested; otherwise 0 */
};

/*
 * A request in flight; found by the address of its struct request (in top --bio also of a bio).  An
 * entry in the hash map is deleted when its request completes, since the request's memory is freed
 * with its disk; an entry in a slot stays.
 */
struct blk_inflight {
	__u64 issue_ns;		    /* 0: not issued yet, or completed */
	__u64 submit_ns;	    /* when it was made; 0: not needed */
	struct blk_process process; /* the submitter */
	__u32 bytes;		    /* still to be completed */
	__u32 dev;		    /* disk, or partition of -d, that it is counted for */
	__u8 op;
	__u8 known;			/* its submitter was seen and passed the filter */
	__u8 writeback : 1, failed : 1; /* failed: top -x: a part of it has an error status */
	__u8 hashed : 1;		/* it is in the hash map, not in a slot */
	union {
		__u8 stage;   /* breakdown of all layers: enum call_stage */
		__u8 retries; /* slow: how often it was requeued */
	};
	__u32 depth; /* slow: requests at the device, including it; 0: unknown */
	union {
		__u64 cgroup;
		__u64 task_cgroup; /* slow */
	};
	union {
		__u64 call; /* breakdown of all layers: thread and number of the waiting call */
		__u64 bio;  /* slow, of a bio: its address */
	};
	/* Only slow, and stack --by file: */
	union {
		__u64 arrival_ns; /* slow: of its bio; 0: unknown */
		__u64 own_bio;	  /* stack, of a bio: its address */
	};
	__u64 user_stack;  /* slow_record.user_stack, with -U */
	__s32 stack;	   /* slow_record.stack, with -K */
	__u32 first_bytes; /* when it was first issued; 0: the same as `bytes` */
};

/* The slot of an entry: two cache lines of its own.  The first has what every subcommand writes. */
struct blk_place {
	__u64 rq;     /* the owner: the address of the request; 0: free */
	__u32 claims; /* how many tried to claim it: the first one owns it for good */
	__u32 pad;
	struct blk_inflight entry;
} __attribute__((aligned(64)));

#define BLK_PLACE_BITS_MAX 16 /* 8 MB */

#define BLK_NAMES 16384 /* per buffer */

/* The name of a process. */
struct blk_name {
	char comm[16];
};

/* The path of a cgroup, from the root of its hierarchy; cut where it is longer. */
struct blk_cgroup_path {
	char path[512];
};

/* Per CPU: the last submitter, so that its name is looked up once for a series of requests; and
 * either the start time of its process, or the balance of completions. */
struct blk_cpu {
	struct blk_process process;
	__u32 epoch; /* of the buffer with the name of `process` */
	__u32 pad;
	union {
		struct {
			__u64 task; /* the last task that was not the first thread of its process */
			__u64 task_start;
			__u64 leader_start; /* of its process */
		};
		__u64 unlisted; /* only with `balance`: completions that are not in a histogram */
	};
	__u64 pad2[2];
};

_Static_assert(sizeof(struct blk_process) == 16, "shared with BPF");
_Static_assert(sizeof(struct blk_inflight) == 88, "shared with BPF");
_Static_assert(sizeof(struct blk_place) == 128, "shared with BPF: whole cache lines");
_Static_assert(sizeof(struct blk_name) == 16, "shared with BPF");
_Static_assert(sizeof(struct blk_cpu) % 64 == 0, "whole cache lines");

#endif
