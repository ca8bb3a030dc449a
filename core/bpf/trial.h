/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A trial program: a hook for functions is used only after the kernel ran a program of its kind. */
#ifndef IOTRACE_CORE_BPF_TRIAL_H
#define IOTRACE_CORE_BPF_TRIAL_H

#include <stdint.h>

#include <bpf/bpf.h>

/*
 * A BPF program that only records that it ran.  The kernel may attach a program and never run it:
 * with the sysctl kernel.ftrace_enabled=0, with 0 in kprobes/enabled, or because a vendor removed
 * something.  Counts of programs that never run are plausible but false zeros.
 */
struct trial {
	int prog_fd, map_fd;
};

#define TRIAL_NEVER_RAN (-ESHUTDOWN) /* attached, but not called */

/* 0, or -errno: then *t owns nothing. */
int trial_load(enum bpf_prog_type type, const struct bpf_prog_load_opts *opts, struct trial *t);

/* Once the program is attached to a function that read(2) calls: makes such a call. 0: the program
 * ran; TRIAL_NEVER_RAN, or another -errno: the trial failed. */
int trial_run(const struct trial *t);

void trial_free(const struct trial *t);

#endif
