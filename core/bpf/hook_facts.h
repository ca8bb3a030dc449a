/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_HOOK_FACTS_H
#define IOTRACE_CORE_BPF_HOOK_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bpf/hooks.h"

/*
 * What core/bpf/hooks.c asks the running kernel beside its types.  The offline check links answers
 * about a kernel that is not running instead (test/offline/facts.c).  Each returns 0 for yes, or
 * -errno; HOOK_UNKNOWN: it cannot be known.
 */
struct btf_attach;
struct kernel_types;

#define HOOK_UNKNOWN (-ENODATA)

/* The file with the kernel's types; NULL: where the running one has them. */
const char *hook_facts_types(void);

/* The classic tracepoint "GROUP/NAME": -ENOENT; -EACCES: tracefs may not be read, -ENODEV: it is
 * not mounted, and cannot be opened without. */
int hook_facts_tracepoint(const char *target);

/* Function @name in the types of @module. */
int hook_facts_module_function(const struct kernel_types *types, const char *name,
			       const char *module);

/* Are there kprobes at all? */
int hook_facts_kprobes(void);

/* Can a probe be set on function @name, of @module or (NULL) of any, which is at @address (0: not
 * known)?  Tried. */
int hook_facts_kprobe(const char *name, uint64_t address, const char *module);

/* Sets values[i] to the address of function @names[i], 0: there is none, there are several, or it
 * is not shown. */
void hook_facts_addresses(const char *const *names, uint64_t *values, size_t n);

/* *at: where the code of @module is, 0: it is in the kernel itself, or not there.  0, or -errno:
 * that is not shown. */
int hook_facts_module_at(const char *module, uint64_t *at);

/* Can a program be attached to the entry of function @name, of the kernel itself or of @module (may
 * be NULL)?  Tried. */
int hook_facts_fentry(struct btf_attach *b, const char *name, const char *module);

/* Can a program for many functions (HOOK_KPROBE_MULTI) be attached to these @n?  Tried. */
int hook_facts_kprobe_multi(const struct hook_function *functions, size_t n);

/* Is the sysctl kernel.ftrace_enabled 0?  What is attached through ftrace then never runs. */
bool hook_facts_ftrace_off(void);

/* Does the kernel run programs of @kind (fentry, fexit, kprobe, kretprobe, kprobe.multi) at
 * functions?  Tried at one that we call: TRIAL_NEVER_RAN (core/bpf/trial.h), or -errno: the program
 * could not be attached there. */
int hook_facts_runs(struct btf_attach *b, enum hook_kind kind);

/* Why programs of @kind are attached and never run, and what to do about it. */
const char *hook_facts_why_silent(enum hook_kind kind);

/* May this kernel preempt a task that runs in the kernel? */
int hook_facts_preempts(void);

/* Do raw tracepoint programs, or classic ones, get the cookie of their attachment? */
int hook_facts_raw_cookie(void);
int hook_facts_classic_cookie(void);

#endif
