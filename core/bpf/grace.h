/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_GRACE_H
#define IOTRACE_CORE_BPF_GRACE_H

#include <stdbool.h>

/*
 * Returns after a grace period of RCU: every BPF program that was running has ended, unless there
 * is one CPU and its task was preempted in a program.  Not by an update of a map: during a system
 * call on a map the kernel leaves the programs of kprobes and of classic tracepoints out
 * (bpf_prog_active).  False, at once: the kernel has no such call (with nohz_full).
 */
bool grace_wait_rcu(void);

/* The same, or, without such a call, some time: the caller must not lose what a program counts
 * later. */
void grace_wait(void);

#endif
