/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kprobes by perf; return probes with room for thousands of concurrent calls. */
#ifndef IOTRACE_CORE_BPF_KRETPROBE_H
#define IOTRACE_CORE_BPF_KRETPROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct bpf_program;

/* The probes of one owner; zeroed before it is used. */
struct kretprobes {
	char group[32]; /* in tracefs; empty: nothing is defined */
};

/* The perf type of kprobes; -errno: perf has no kprobes. */
int kprobe_type(void);

/* A perf event at the entry of @function, which is at @address (0: the kernel looks it up by
 * name), or at its return (@is_return).  Its descriptor, or -errno; -ENOENT also if perf has no
 * kprobes. */
int kprobe_open(const char *function, uint64_t address, bool is_return);

/* The same, with the program @prog_fd attached: the descriptor holds the attachment. */
int kprobe_attach(const char *function, uint64_t address, bool is_return, int prog_fd);

/*
 * A probe at the return of a function, with room for thousands of concurrent calls.  A return probe
 * by perf has room for twice as many as there are CPUs, and at least ten (5.10 without preemption:
 * for as many as there are CPUs); ends of further calls are missed, and functions that wait for a
 * disk often have that many.  The section of @prog names the function; @address as above.
 *
 * It needs a definition in tracefs, in a group of @k's own.  A descriptor that holds the
 * attachment; -errno: no tracefs, or the kernel's error.
 */
int kretprobe_attach(struct kretprobes *k, const struct bpf_program *prog, uint64_t address);

/* The capabilities for kretprobe_missed() and kretprobe_clean() (PRIVILEGE()): to write to tracefs,
 * if a probe is defined. */
uint64_t kretprobe_privileges(const struct kretprobes *k);

/*
 * How many calls of @k's functions were missed since they were attached: the kernel runs no kprobe
 * in an interrupt of a running one on that CPU, but counts it (`nmissed`).
 */
uint64_t kretprobe_missed(const struct kretprobes *k);

/* Removes the definitions, if all attachments of @k are closed, and definitions left by processes
 * that are gone. */
void kretprobe_clean(struct kretprobes *k);

/* Removes the definitions of process @of, which has ended. */
void kretprobe_clean_after(pid_t of);

#endif
