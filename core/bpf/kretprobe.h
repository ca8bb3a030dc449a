/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_KRETPROBE_H
#define IOTRACE_CORE_BPF_KRETPROBE_H

#include <stdint.h>

struct bpf_link;
struct bpf_program;

/* The probes of one owner; zeroed before it is used. */
struct kretprobes {
	char group[32]; /* in tracefs; empty: nothing is defined */
};

/*
 * A probe at the return of a function, with room for thousands of calls at the same time.  What
 * libbpf attaches has room for twice as many as there are CPUs, and at least ten (5.10 without
 * preemption: for as many as there are CPUs); ends of further calls are not seen, and functions
 * that wait for a disk are often under way that many times.
 *
 * It needs a definition in tracefs, in a group of @k's own.  -errno: there is no tracefs, or what
 * the kernel said.
 */
int kretprobe_attach(struct kretprobes *k, const struct bpf_program *prog, struct bpf_link **out);

/* What kretprobe_missed() and kretprobe_clean() take (PRIVILEGE()): to write to tracefs, where
 * something is defined. */
uint64_t kretprobe_privileges(const struct kretprobes *k);

/*
 * How many calls of @k's functions no program saw since they were attached: the kernel runs no
 * kprobe in an interrupt that comes upon a running one on that CPU, but counts it (`nmissed`).
 */
uint64_t kretprobe_missed(const struct kretprobes *k);

/* Takes the definitions away, after all links of @k were destroyed; and those that processes which
 * were killed have left. */
void kretprobe_clean(struct kretprobes *k);

#endif
