/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BREAKDOWN_BLK_H
#define IOTRACE_PROBES_BREAKDOWN_BLK_H

#include "probes/blk.h"
#include "probes/hist.h"

/* Of a CPU, buffer (see core/bpf/double_buffer.h) and operation. */
struct blk_hist {
	__u64 busy;		   /* probes/alone.bpf.h */
	__u64 interrupting_max_ns; /* of the programs that found it busy */
	struct probe_hist hist;
};

/* Its index.  The CPU after the last one stands for all that find theirs busy. */
#define HIST_INDEX(cpu, epoch, op) ((((cpu) << 1) | ((epoch)&1)) * BLK_OPS + (op))

#endif
