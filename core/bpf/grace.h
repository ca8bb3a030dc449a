/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Waits until running programs have ended, without a system call on a map. */
#ifndef IOTRACE_CORE_BPF_GRACE_H
#define IOTRACE_CORE_BPF_GRACE_H

#include <stdbool.h>

/*
 * Returns after a grace period of RCU: every BPF program that was running has ended, unless there
 * is one CPU and its task was preempted in a program.  Does not use a map update: during a system
 * call on a map the kernel skips the programs of kprobes and of classic tracepoints
 * (bpf_prog_active).  False, at once: the kernel has no such call (with nohz_full).
 */
bool grace_wait_rcu(void);

/* The same or, without such a call, a fixed wait: the caller must not lose counts that a program
 * adds later. */
void grace_wait(void);

#endif
