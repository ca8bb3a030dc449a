/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BREAKDOWN_BLK_H
#define IOTRACE_PROBES_BREAKDOWN_BLK_H

#include "probes/blk.h"
#include "probes/hist.h"

/* One per CPU, buffer (see core/bpf/double_buffer.h) and row: an operation, or one of its two with
 * --value distance. */
struct blk_hist {
	__u64 busy;		   /* probes/alone.bpf.h */
	__u64 interrupting_max_ns; /* of programs that found it busy */
	struct probe_hist hist;
};

/* Its index, with @rows per CPU and buffer.  The CPU after the last one is for programs that find
 * their CPU's busy. */
#define HIST_INDEX(rows, cpu, epoch, row) ((((cpu) << 1) | ((epoch)&1)) * (rows) + (row))

#endif
