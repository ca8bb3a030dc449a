/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_OPTIONS_BPF_H
#define IOTRACE_PROBES_BLK_OPTIONS_BPF_H

/* What user space sets before loading, and the words that it shares with the programs. */

#include "probes/kernel.h"
#include "probes/blk.h"

/* Options, fixed before loading: the verifier removes what they switch off. */
const volatile __u32 filter_mode = FILTER_NONE;
const volatile __u32 filter_pid = 0;
const volatile __u64 filter_start = 0;	 /* it started in that tick of the clock that /proc shows */
const volatile __u64 filter_tick = 0;	 /* ns */
const volatile __u32 filter_dev = 0;	 /* 0: all */
const volatile bool filter_part = false; /* filter_dev is a partition */
const volatile __u64 part_start = 0;	 /* and lies here on its disk, in sectors */
const volatile __u64 part_sectors = 0;
const volatile __u32 filter_disk = 0; /* the disk that it is on */
const volatile __u32 submit_mode = SUBMIT_NONE;
const volatile bool want_cgroup = false;
const volatile bool by_process = false; /* rows, with names */
const volatile bool own_start = false;	/* queues without I/O statistics have no start_time_ns */

/* Bits of rq_flags.  Macros up to 6.11, then enumerators of an enum without a
 * name (6.12) or with one: user space looks them up by name. */
const volatile __u32 flush_seq_mask = 1 << 4; /* RQF_FLUSH_SEQ */
const volatile __u32 io_stat_mask = 0;	      /* RQF_IO_STAT; 0: not needed, see rq_made_ns() */

/* Requests are not followed one by one; that as many end as begin is checked
 * by counting both. */
const volatile bool balance = false;

/* Which of the two buffers is written; core/flip.h turns it. */
__u32 epoch = 0;

__u64 losses[BLK_LOSSES] = {};

/* When everything was attached; 0: not yet. */
__u64 begin_ns = 0;

#endif
