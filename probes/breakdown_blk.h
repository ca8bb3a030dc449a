/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BREAKDOWN_BLK_H
#define IOTRACE_PROBES_BREAKDOWN_BLK_H

#include "probes/blk.h"
#include "probes/hist.h"

/* Of one CPU, buffer (see core/bpf/double_buffer.h) and operation. */
struct blk_hist {
	__u64 busy; /* probes/alone.bpf.h */
	struct probe_hist hist;
};

/* Its index.  The CPU after the last one is for programs that find that of theirs busy. */
#define HIST_INDEX(cpu, epoch, op) ((((cpu) << 1) | ((epoch)&1)) * BLK_OPS + (op))

#endif
