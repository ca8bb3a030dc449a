/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_TOP_H
#define IOTRACE_PROBES_TOP_H

#include "probes/blk.h"

/* 16 bits of CPU number are enough: the kernel's own limit is 8192. */
struct top_key {
	__u64 start;  /* of process pid: struct blk_process */
	__u64 cgroup; /* 0 unless asked for */
	__u32 pid;
	__u32 dev;
	__u32 uid;		       /* 0 unless asked for */
	__u8 op;		       /* enum blk_op */
	__u8 writeback : 1, known : 2; /* known: 0: no program saw the submission */
	__u16 cpu;		       /* whose row it is */
};

struct top_value {
	__u64 io;
	__u64 bytes;
	__u64 time_ns;
	__u64 untimed; /* of io: without a time */
};

_Static_assert(sizeof(struct top_key) == 32, "shared with BPF");

#endif
