/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_PROCESS_ENTRY_BPF_H
#define IOTRACE_PROBES_PROCESS_ENTRY_BPF_H

/* Entry points that follow processes: COMMAND's descendants, and names. */

#include "probes/blk_submitters.bpf.h"

RAW_TP_PROGS(fork_raw, sched_process_fork, SEEN_TASK, 1, on_fork((void *)ctx[0], arg, direct))

RAW_TP_PROGS(free_raw, sched_process_free, SEEN_TASK, 0, on_free(arg, direct))

RAW_TP_PROGS(rename_raw, task_rename, SEEN_TASK, 0, on_rename(arg, (const char *)ctx[1], direct))

#endif
