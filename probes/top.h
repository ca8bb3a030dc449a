/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_TOP_H
#define IOTRACE_PROBES_TOP_H

#include "probes/blk.h"
#include "probes/hist.h"

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
	/* -x: */
	__u64 max_ns;
	__u32 errors; /* of io: with an error status */
	__u32 slots;  /* number of its struct top_slots, and 1; 0: there was no room for one */
};

/* The times of a row: the slots of probes/hist.h from TOP_SLOT_FIRST on, 1 us to 69 s.  Shorter
 * times are in the first, longer ones in the last. */
#define TOP_SLOT_FIRST 64
#define TOP_SLOTS      208

struct top_slots {
	__u32 counts[TOP_SLOTS];
};

_Static_assert(sizeof(struct top_key) == 32, "shared with BPF");
_Static_assert(sizeof(struct top_value) == 48, "shared with BPF");

#endif
