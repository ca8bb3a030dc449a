/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_GRACE_H
#define IOTRACE_CORE_BPF_GRACE_H

/*
 * Returns after a grace period of RCU: every BPF program that was running has ended.  Not by an
 * update of a map of maps, as core/bpf/double_buffer.c does it: during a system call on a map the
 * kernel leaves the programs of kprobes and of classic tracepoints out (bpf_prog_active).  With
 * nohz_full, and with one CPU on which tasks are preempted in programs, the kernel promises less:
 * the caller must not lose what a program counts later.
 */
void grace_wait(void);

#endif
