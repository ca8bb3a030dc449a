/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_TRACEPOINTS_H
#define IOTRACE_CORE_BPF_TRACEPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bpf/hooks.h"

/*
 * Programs on many tracepoints at once, which are found at run time: core/bpf/hooks.h is for the
 * few that a subcommand knows by name.  One descriptor each, whatever the number of CPUs.
 *
 * A program that serves all of them has to be told which one it was called for:
 *  - a raw tracepoint takes a cookie with the attachment since 6.10;
 *  - a classic one since 5.15 (perf links);
 *  - before, the program is loaded once for each, with another number in its code.
 * A cookie is the number and 1.
 *
 * Raw ones cost less (0.09 against 0.17 us for each event on 6.18, where `perf stat` takes 0.12),
 * and are detached at once: the kernel waits for all CPUs after each classic one, 40 ms.  But where
 * tracepoints are preempted (7.0) a raw program skips what happens on its CPU meanwhile; a classic
 * one is run with preemption off.
 */
enum tracepoint_way {
	TRACEPOINT_RAW_COOKIE,
	TRACEPOINT_RAW_EACH,
	TRACEPOINT_TP_COOKIE,
	TRACEPOINT_WAYS,
};

/*
 * Fills @choices: what this kernel can do, found out by trying, best first, and which one is
 * chosen.  @event and @target are what they are called ("count", "kvm"), and must live as long.
 * @forced as of hooks_choose(), of which only those of @event count.  Returns the way, or
 * -ENOTSUP (STATUS_UNSUPPORTED; @choices are filled then too), -EINVAL (STATUS_USAGE), or that the
 * kernel's types cannot be read.
 */
int tracepoints_choose(const char *event, const char *target, const char *const *forced,
		       struct hook_choice choices[TRACEPOINT_WAYS], struct error *err);

struct kernel_types;

/* The same for a kernel that is described by its @types (core/bpf/hook_kernel.h).  @alts, by way,
 * go into the choices. */
void tracepoints_foresee(const char *event, const char *target, const struct kernel_types *types,
			 const struct hook_alt alts[TRACEPOINT_WAYS],
			 struct hook_choice choices[TRACEPOINT_WAYS]);

struct bpf_program;
struct tracepoints;

int tracepoints_open(struct tracepoints **out);

/*
 * Attach @prog to one tracepoint; each 0 or -errno.  @number is what a program for many is told,
 * or -1.
 */
int tracepoints_attach_tp(struct tracepoints *t, const char *group, const char *name,
			  const struct bpf_program *prog, int number);
int tracepoints_attach_raw(struct tracepoints *t, const char *name, const struct bpf_program *prog,
			   int number);

/* The same by @way; for TRACEPOINT_RAW_EACH @prog is loaded anew, with @number for @placeholder, an
 * operand of 64 bits in its code. */
int tracepoints_attach(struct tracepoints *t, enum tracepoint_way way, const char *group,
		       const char *name, const struct bpf_program *prog, int number,
		       uint64_t placeholder);

/* Runs that the kernel left out because this or another program ran on that CPU already.  Kernels
 * before 6.7 do not count them for classic tracepoints, and before 6.2 there are none for raw ones.
 */
uint64_t tracepoints_missed(const struct tracepoints *t);

/* Detaches all. */
void tracepoints_close(struct tracepoints *t);

#endif
