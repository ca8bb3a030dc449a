/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_URING_H
#define IOTRACE_PROBES_URING_H

#include <linux/types.h>

#include "probes/hist.h"

/* Keys and values that the programs of iotrace uring and user space share. */

#define URING_COMM 16
#define URING_PIDS 8 /* processes of -p */

/* Rows without an opcode of the kernel, all of which are below 256. */
enum uring_opcode {
	URING_UNKNOWN = 256, /* the request is unknown */
	URING_NO_REQUEST,    /* a completion of no request of this ring */
};

/* IORING_SETUP_*, include/uapi/linux/io_uring.h */
#define URING_IOPOLL	    (1U << 0)
#define URING_SQPOLL	    (1U << 1)
#define URING_REGISTERED_FD (1U << 15)

/* A part of a row: of one CPU. */
struct uring_key {
	__u64 ring; /* the address of its struct io_ring_ctx */
	__u32 pid;  /* the process that submitted */
	__u32 cpu;
	__u32 opcode;
	__u32 zero;
};

struct uring_value {
	__s32 fd;    /* of the ring; -1: unknown */
	__u32 flags; /* IORING_SETUP_* */
	char comm[URING_COMM];
	__u64 count;			/* requests that completed */
	__u64 timed;			/* of these: the time is known */
	__u64 inlined, polled, workers; /* of these; the others completed later */
	__u64 failed, shorts, linked;	/* of these */
	__u64 overflow;			/* completions that did not fit into the ring */
	__u64 more;			/* completions that ended no request */
	struct probe_hist latency;
};

enum uring_loss {
	URING_LOSS_ROWS,
	URING_LOSS_REQUESTS,
	URING_LOSS_NO_START,
	URING_LOSS_SAME_NAME,
	URING_LOSS_NO_CQE,
	URING_LOSSES
};

_Static_assert(sizeof(struct uring_key) == 24, "shared with BPF");
_Static_assert(sizeof(struct uring_value) == 24 + 10 * 8 + sizeof(struct probe_hist),
	       "shared with BPF");

#endif
