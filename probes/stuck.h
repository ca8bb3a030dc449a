/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_STUCK_H
#define IOTRACE_PROBES_STUCK_H

/* What the programs of iotrace stuck and user space share. */

#include <linux/types.h>

#include "probes/bio_file.h"

#define STUCK_BATCH  64	   /* disks, or tags, that one run of a program reads */
#define STUCK_LIST   256   /* requests of a list that one run reads */
#define STUCK_NAME   32	   /* of a disk, with its NUL */
#define STUCK_MAPPED 128   /* its name in device mapper (DM_NAME_LEN) */
#define STUCK_DEPTH  48	   /* functions of a stack */
#define STUCK_INDEX  65536 /* addresses by which a stack shows what a thread waits for */
#define STUCK_OWNERS 4096  /* contexts of libaio with requests */
#define STUCK_TAGS   65536 /* of a hardware queue; the kernel's own limit is 10,240 */

/* Written by user space before each run.  Not the context of the run: the kernel would allocate
 * memory for it. */
struct stuck_args {
	__u64 queue;	/* struct request_queue */
	__u64 node;	/* where the last run ended; 0: the beginning */
	__u32 class_fd; /* /sys/class/block */
	__u32 hw_queue; /* its number */
	__u32 from;	/* the first tag */
	__u32 list;	/* enum stuck_list */
	__u32 number;	/* of the first disk or request of this run */
	__u32 pad;
};

/* Written by each run. */
struct stuck_result {
	__u64 node;    /* where the next run goes on; 0: all is done */
	__u64 ns;      /* CLOCK_MONOTONIC */
	__u64 ticks;   /* jiffies */
	__u64 arrival; /* when this thread got its CPU, by the scheduler's clock; 0: not known */
	__u32 n;       /* entries that were written */
	__u32 tags;    /* that there are */
	__u32 broken;  /* the list changed, and its other devices were not found */
	__u32 pad;
};

struct stuck_disk {
	__u64 queue;
	__u32 dev;
	__u32 hw_queues;
	__u32 requests;		   /* queue/nr_requests */
	__u32 held;		   /* bios that io.max holds back */
	__u32 frozen;		   /* how often the queue is frozen */
	__u32 bios;		   /* 1: the driver takes bios, and there are no requests */
	__u32 suspended;	   /* by device mapper; set by user space, as the next */
	char mapped[STUCK_MAPPED]; /* "": not of device mapper */
	char name[STUCK_NAME];
	char scheduler[16]; /* "": none */
};

/* The lists that a request may be in while it has not been issued. */
enum stuck_list {
	STUCK_LIST_DISPATCH, /* the driver had no room for it */
	STUCK_LIST_REQUEUE,  /* it was given back */
	STUCK_LIST_FLUSH,    /* waits for a flush command */
	STUCK_LIST_FLUSH_1,  /* the same: there are two such lists */
	STUCK_LIST_FLUSHES,  /* flush commands that were not issued yet (6.5) */
	STUCK_LISTS,	     /* none: the clocks alone */
};

/* request.state */
enum stuck_state { STUCK_NOT_ISSUED, STUCK_ISSUED, STUCK_COMPLETED };

/* The process that submitted a request by libaio or io_uring. */
struct stuck_owner {
	__u32 pid; /* 0: not known */
	char comm[16];
};

struct stuck_request {
	__u64 rq;
	__u64 start_ns;	   /* when it was made; 0: the kernel did not note it */
	__u64 io_start_ns; /* when it was issued; the same */
	__u64 deadline;	   /* in jiffies: `timeout` after it was issued last, or that was reset */
	__u64 sector;
	__u64 cgroup; /* that its first bio is charged to; 0: not known */
	/* Of libaio, whose requests do not say whose they are: its struct kioctx, or where on the
	 * stack of the thread that waits for the end of that; 0: of something else. */
	__u64 context;
	struct bio_file file;
	struct stuck_owner owner; /* of libaio set by user space */
	__u32 timeout;
	__u32 bytes;
	__s32 tag;
	__u32 path_bytes;
	__u8 state; /* enum stuck_state */
	__u8 op;    /* enum blk_op */
	__u8 path_flags;
	__u8 pad;
	char path[FILE_PATH]; /* see read_path() */
};

/* What a word of a sleeping thread's stack is the address of. */
enum stuck_kind { STUCK_NOTHING, STUCK_REQUEST, STUCK_DISK };

struct stuck_at {
	__u32 kind; /* enum stuck_kind */
	__u32 number;
};

/* A thread in uninterruptible sleep, or waiting for a FUSE server. */
struct stuck_task {
	__u64 since_ns; /* when it got a CPU last; of the program: by the scheduler's clock */
	__u64 now_ns;
	__u64 stack_at;		   /* the address of its stack in the kernel */
	__u64 cgroup;		   /* in cgroup2 */
	struct bio_file call_file; /* the first argument of its system call is a descriptor of it */
	struct bio_file awaited;   /* a page of this file */
	struct stuck_at request, disk; /* that its stack has an address of */
	__u32 pid;		       /* of its process */
	__u32 path_bytes;	       /* of call_file, or of the awaited file if that is known */
	__u32 depth;		       /* of its stack */
	__u32 call_dev;		       /* the device that call_file is, or is on */
	__u8 kernel;		       /* a thread of the kernel */
	__u8 path_flags;
	__u8 pad[2];
	__u32 holder; /* the process that holds the lock that it waits for; 0: not known */
	char holder_comm[16];
	char comm[16];
	char path[FILE_PATH];
	__u64 called; /* the function that stack[0] called; 0: not known */
	__u64 stack[STUCK_DEPTH];
};

enum stuck_loss {
	STUCK_LOSS_INDEX,   /* addresses that had no room */
	STUCK_LOSS_CHANGED, /* requests and lists that changed while they were read */
	STUCK_LOSS_FULL,    /* requests and threads that had no room in user space */
	STUCK_LOSS_DISKS,   /* walks without all disks */
	STUCK_LOSSES
};

#endif
