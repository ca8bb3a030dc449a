/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_TRIAL_H
#define IOTRACE_CORE_BPF_TRIAL_H

#include <stdint.h>

#include <bpf/bpf.h>

/*
 * A BPF program that only notes that it ran.  The kernel may attach a program and never run it:
 * with the sysctl kernel.ftrace_enabled=0, with 0 in kprobes/enabled, or where a vendor has cut
 * something out.  Counts of programs that never run are zeros that look true.
 */
struct trial {
	int prog_fd, map_fd;
};

#define TRIAL_NEVER_RAN (-ESHUTDOWN) /* attached, and not called */

/* 0, or -errno: *t holds nothing then. */
int trial_load(enum bpf_prog_type type, const struct bpf_prog_load_opts *opts, struct trial *t);

/* Once the program is attached to a function that read(2) calls: makes such a call.  0: the program
 * ran; TRIAL_NEVER_RAN, or another -errno: it could not be tried. */
int trial_run(const struct trial *t);

void trial_free(const struct trial *t);

#endif
