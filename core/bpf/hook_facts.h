/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_HOOK_FACTS_H
#define IOTRACE_CORE_BPF_HOOK_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bpf/hook_table.h"

/*
 * Questions of core/bpf/hooks.c to the running kernel, in addition to its BTF.  The offline check
 * links answers about a kernel that is not running instead (test/offline/facts.c).  Each returns 0
 * for yes, or -errno; HOOK_UNKNOWN: it cannot be known.
 */
struct btf_attach;
struct kernel_types;

#define HOOK_UNKNOWN (-ENODATA)

/* The file with the kernel's types; NULL: the running kernel's default. */
const char *hook_facts_types(void);

/* Does the classic tracepoint "GROUP/NAME" exist? -ENOENT: no; -EACCES: no permission for tracefs,
 * -ENODEV: tracefs is not mounted, and cannot be opened without a mount. */
int hook_facts_tracepoint(const char *target);

/* Is function @name in the BTF of @module? */
int hook_facts_module_function(const struct kernel_types *types, const char *name,
			       const char *module);

/* Are there kprobes at all? */
int hook_facts_kprobes(void);

/* Can a probe be set on function @name, of @module or (NULL) of any module, at @address (0:
 * unknown)?  Tried. */
int hook_facts_kprobe(const char *name, uint64_t address, const char *module);

/* Sets values[i] to the address of function @names[i], 0: it does not exist, is ambiguous, or is
 * hidden. */
void hook_facts_addresses(const char *const *names, uint64_t *values, size_t n);

/* *at: the address of the code of @module, 0: it is in the kernel itself, or not loaded. 0, or
 * -errno: the address is hidden. */
int hook_facts_module_at(const char *module, uint64_t *at);

/* Can a program be attached to the entry of function @name, of the kernel itself or of @module (may
 * be NULL)?  Tried. */
int hook_facts_fentry(struct btf_attach *b, const char *name, const char *module);

/* Can a program for many functions (HOOK_KPROBE_MULTI) be attached to these @n?  Tried. */
int hook_facts_kprobe_multi(const struct hook_function *functions, size_t n);

/* Is the sysctl kernel.ftrace_enabled 0?  Then programs attached through ftrace never run. */
bool hook_facts_ftrace_off(void);

/* Does the kernel run programs of @kind (fentry, fexit, kprobe, kretprobe, kprobe.multi) at
 * functions?  Tried at a function that we call: TRIAL_NEVER_RAN (core/bpf/trial.h), or -errno: the
 * program could not be attached there. */
int hook_facts_runs(struct btf_attach *b, enum hook_kind kind);

/* Why programs of @kind are attached but never run, and what to do about it. */
const char *hook_facts_why_silent(enum hook_kind kind);

/* May this kernel preempt a task that runs in the kernel? */
int hook_facts_preempts(void);

/* Do raw tracepoint programs, or classic ones, get the cookie of their attachment? */
int hook_facts_raw_cookie(void);
int hook_facts_classic_cookie(void);

#endif
