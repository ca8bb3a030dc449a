/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_TOP_H
#define IOTRACE_PROBES_TOP_H

#include "probes/blk.h"

struct top_key {
	__u64 cgroup; /* 0 unless asked for */
	__u32 pid;
	__u32 dev;
	__u8 op; /* enum blk_op */
	__u8 writeback;
	__u8 known; /* 0: nobody saw who submitted it */
	__u8 pad[5];
};

struct top_value {
	__u64 io;
	__u64 bytes;
	__u64 time_ns;
};

_Static_assert(sizeof(struct top_key) == 24, "shared with BPF");

#endif
