/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_OPTIONS_BPF_H
#define IOTRACE_PROBES_BLK_OPTIONS_BPF_H

/* Options that user space sets before loading, and the variables that it shares with programs. */

#include "probes/kernel.h"
#include "probes/blk.h"

/* Constant once loaded: the verifier removes code that an option switches off. */
const volatile __u32 filter_mode = FILTER_NONE;
const volatile __u32 filter_pid = 0;
const volatile __u64 filter_start = 0; /* the process started in this tick, as /proc shows it */
const volatile __u64 filter_tick = 0;  /* ns */
const volatile __u32 n_more_pids = 0;  /* further processes of -p */
const volatile __u32 more_pids[BLK_MORE] = {};
const volatile __u64 more_starts[BLK_MORE] = {};
const volatile __u32 filter_dev = 0;	 /* disk or partition of -d, at the start; 0: all */
const volatile __u32 n_more_devs = 0;	 /* further whole disks of -d: more_devs */
const volatile bool filter_part = false; /* it is a partition */
const volatile __u64 part_start = 0;	 /* of it on its disk; sectors */
const volatile __u64 part_sectors = 0;
const volatile __u32 submit_mode = SUBMIT_NONE;
const volatile __u32 n_filter_cgroups = 0; /* 0: all */
const volatile __u64 filter_cgroup_ids[BLK_CGROUPS] = {};
const volatile __u32 filter_cgroup_levels[BLK_CGROUPS] = {}; /* of the root 0 */
const volatile bool want_cgroup = false;
const volatile bool by_process = false; /* rows are by process, with names */
const volatile bool by_user = false;
const volatile bool own_start =
    false; /* note submit times: queues without I/O statistics have no start_time_ns */

/* Bits of rq_flags.  Macros up to 6.11, then enumerators of an enum without a
 * name (6.12) or with one: user space looks them up by name. */
const volatile __u32 flush_seq_mask = 1 << 4; /* RQF_FLUSH_SEQ */
const volatile __u32 io_stat_mask = 0;	      /* RQF_IO_STAT; 0: not needed, see rq_made_ns() */

const volatile __u32 trace_completion_mask = 0; /* BIO_TRACE_COMPLETION as a mask of bi_flags */

/* Requests are not followed; missed completions are found by the kernel's I/O statistics
 * (cmd/breakdown/balance.h). */
const volatile bool balance = false;

/* The lowest bit is the buffer that programs write; user space swaps it (core/bpf/double_buffer.h).
 */
__u32 epoch = 0;

__u64 losses[BLK_LOSSES] = {};

/* The numbers that the disk or partition of -d, and the disk that it lies on, have now. */
__u32 wanted_dev = 0, wanted_disk = 0;
__u32 more_devs[BLK_MORE] = {}; /* 0: it is missing */

/* When all programs were attached; 0: not yet. */
__u64 begin_ns = 0;

#endif
