/* SPDX-License-Identifier: GPL-2.0-or-later */
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

/* The number by which perf knows kprobes; -errno: it has none. */
int kprobe_type(void);

/* A perf event at the entry of @function, which is at @address (0: the kernel looks for it by its
 * name), or at its return (@is_return).  Its descriptor, or -errno; -ENOENT also where perf has no
 * kprobes. */
int kprobe_open(const char *function, uint64_t address, bool is_return);

/* The same, with the program @prog_fd attached: the descriptor holds the attachment. */
int kprobe_attach(const char *function, uint64_t address, bool is_return, int prog_fd);

/*
 * A probe at the return of a function, with room for thousands of calls at the same time.  A
 * return probe by perf has room for twice as many as there are CPUs, and at least ten (5.10
 * without preemption: for as many as there are CPUs); ends of further calls are not seen, and
 * functions that wait for a disk often have that many.
 *
 * The function is the one that the section of @prog names; @address as above.  It needs a
 * definition in tracefs, in a group of @k's own.  A descriptor that holds the attachment; -errno:
 * there is no tracefs, or the kernel's error.
 */
int kretprobe_attach(struct kretprobes *k, const struct bpf_program *prog, uint64_t address);

/* The capabilities for kretprobe_missed() and kretprobe_clean() (PRIVILEGE()): to write to tracefs,
 * if a probe is defined. */
uint64_t kretprobe_privileges(const struct kretprobes *k);

/*
 * How many calls of @k's functions no program saw since they were attached: the kernel runs no
 * kprobe in an interrupt of a running one on that CPU, but counts it (`nmissed`).
 */
uint64_t kretprobe_missed(const struct kretprobes *k);

/* Removes the definitions, if all attachments of @k are closed, and those left by processes that
 * are gone. */
void kretprobe_clean(struct kretprobes *k);

/* Removes the definitions of process @of, which has ended. */
void kretprobe_clean_after(pid_t of);

#endif
