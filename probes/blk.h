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
	BLK_FLUSH, /* a flush command that the device gets */
	BLK_SYNC,  /* an empty request that waits for such a command */
	BLK_WRITE_ZEROES,
	BLK_SECURE_ERASE,
	BLK_ZONE_APPEND,
	BLK_ZONE_MGMT,
	BLK_WRITE_SAME,
	BLK_PASSTHROUGH, /* commands that user space or the driver composed itself */
	BLK_OPS,
};

/* Whose I/O is counted. */
enum blk_filter {
	FILTER_NONE,
	FILTER_PID,	/* one process */
	FILTER_TRACKED, /* one process and its descendants (map `tracked`, filled at fork) */
};

/* Control groups whose I/O is counted, with that of all groups below them: of one pod. */
#define BLK_CGROUPS 16

/* How the submitter of a request becomes known. */
enum blk_submit {
	SUBMIT_NONE, /* not at all */
	SUBMIT_RQ,   /* at the accounting of the request's start */
	SUBMIT_BIO,  /* at the bio that the request is made of */
};

/* Things that went wrong in the kernel; each only grows. */
enum blk_loss {
	LOSS_NO_START,	    /* a completion whose submission and issue no program saw */
	LOSS_REQUESTS_FULL, /* no room to follow a request */
	LOSS_ROWS_FULL,	    /* no room for a row: I/O not counted */
	LOSS_ROWS_BYTES,    /* bytes of that I/O */
	LOSS_CLOCK,	    /* a completion before its start */
	LOSS_BIOS,	    /* bios beyond what a program may walk */
	LOSS_TRACKED_FULL,  /* no room for a descendant of COMMAND */
	LOSS_NO_END,	    /* a completion that no program saw; detected later */
	LOSS_SUBMITTERS,    /* requests whose submitter had no room, or was missed */
	BLK_LOSSES,
};

/*
 * A process.  Numbers are reused; the start time of the first thread makes them unique.  (A
 * thread that execs becomes the first thread, and gets its start time.)
 */
struct blk_process {
	__u64 start; /* start_boottime, ns; 0: the idle tasks (pid 0), or not needed */
	__u32 pid;
	__u32 uid; /* only in struct blk_inflight, and there if asked for; else 0 */
};

/* A tool may have another time there, in the first cache line. */
#ifndef BLK_INFLIGHT_NS
#define BLK_INFLIGHT_NS submit_ns
#endif

/*
 * A request in flight; found by the address of its struct request (in top --bio also of a bio).
 * An entry in the hash map is deleted when its request completes, since the request's memory goes
 * with its disk; one in a place stays.
 */
struct blk_inflight {
	__u64 issue_ns;		    /* 0: not issued yet, or completed */
	__u64 BLK_INFLIGHT_NS;	    /* submit_ns: when it was made; 0: not needed */
	struct blk_process process; /* the submitter */
	__u32 bytes;		    /* still to be completed */
	__u32 dev;		    /* disk, or partition of -d, that it counts for */
	__u8 op;
	__u8 known;			/* its submitter was seen and passed the filter */
	__u8 writeback : 1, failed : 1; /* failed: top -x: a part of it has an error status */
	__u8 hashed : 1;		/* it is in the hash map, not in a place */
	union {
		__u8 stage;   /* breakdown of all layers: enum call_stage */
		__u8 retries; /* slow: times that the device gave it back */
	};
	__u32 depth; /* slow: requests at the device with it; 0: not known */
	union {
		__u64 cgroup;
		__u64 task_cgroup; /* slow */
	};
	union {
		__u64 call; /* breakdown of all layers: thread and number of the waiting call */
		__u64 bio;  /* slow, of a bio: its address */
	};
#ifdef BLK_INFLIGHT_OWN
	BLK_INFLIGHT_OWN /* what only one tool has */
#endif
};

/*
 * The place of an entry: two cache lines of its own, of which the first has what every subcommand
 * writes.
 */
struct blk_place {
	__u64 rq;     /* whose it is: the address of the request; 0: nobody's yet */
	__u32 claims; /* who wanted it: the first one has it, for good */
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
 * either the start of its process, or the balance of completions. */
struct blk_cpu {
	struct blk_process process;
	__u32 epoch; /* of the buffer that has the name of `process` */
	__u32 pad;
	union {
		struct {
			__u64 task; /* the last task that was not its process' first thread */
			__u64 task_start;
			__u64 leader_start; /* of its process */
		};
		__u64 unlisted; /* only with `balance`: completions that are in no histogram */
	};
	__u64 pad2[2];
};

_Static_assert(sizeof(struct blk_process) == 16, "shared with BPF");
#ifndef BLK_INFLIGHT_OWN
_Static_assert(sizeof(struct blk_inflight) == 64, "shared with BPF");
#endif
_Static_assert(sizeof(struct blk_place) == 128, "shared with BPF: whole cache lines");
_Static_assert(sizeof(struct blk_name) == 16, "shared with BPF");
_Static_assert(sizeof(struct blk_cpu) % 64 == 0, "whole cache lines");

#endif
