/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BREAKDOWN_BLK_H
#define IOTRACE_PROBES_BREAKDOWN_BLK_H

#include "probes/blk.h"
#include "probes/hist.h"

/* Index of a histogram: per CPU, per buffer (see core/bpf/double_buffer.h), per operation. */
#define HIST_INDEX(cpu, epoch, op) ((((cpu) << 1) | ((epoch)&1)) * BLK_OPS + (op))

#endif
