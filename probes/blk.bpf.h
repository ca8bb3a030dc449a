/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_BPF_H
#define IOTRACE_PROBES_BLK_BPF_H

/* Includes everything for programs that follow block requests.  @direct: see KREAD() in
 * probes/kernel.h. */

#include "probes/blk_options.bpf.h"
#include "probes/blk_operations.bpf.h"
#include "probes/blk_devices.bpf.h"
#include "probes/blk_submitters.bpf.h"
#include "probes/blk_bios.bpf.h"
#include "probes/blk_inflight.bpf.h"
#include "probes/blk_flush_waiters.bpf.h"
#include "probes/blk_lifetime.bpf.h"

#endif
