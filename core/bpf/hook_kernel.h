/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_HOOK_KERNEL_H
#define IOTRACE_CORE_BPF_HOOK_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

/*
 * A kernel that is not running but described, by a folder:
 *   vmlinux      its type information (BTF)
 *   MODULE.btf   that of its modules; none at all: they have no type information (up to 5.10)
 *   lacks        may be missing: what this kernel has not got though its types do not say so, a
 *                word a line: kprobe, fentry
 * Type information does not tell everything: a function in it may be one that the kernel lets
 * nobody trace.
 */
struct hook_kernel;
struct btf;

/* Reads folder @dir.  -errno with @err (STATUS_USAGE). */
int hook_kernel_open(const char *dir, struct hook_kernel **out, struct error *err);
void hook_kernel_free(struct hook_kernel *k); /* NULL is fine */

/* DIR/vmlinux */
const char *hook_kernel_path(const struct hook_kernel *k);

/*
 * Is tracepoint @name there, or function @name: in vmlinux, in @module, or (NULL) in any?
 * 0; -ENOENT when it is not; -ENODATA when a module may have it: of modules nothing is known.
 */
int hook_kernel_tracepoint(const struct hook_kernel *k, const char *name);
int hook_kernel_function(const struct hook_kernel *k, const char *name, const char *module);

bool hook_kernel_lacks(const struct hook_kernel *k, const char *what);

/* The type information piece by piece: vmlinux is 0, modules follow (on top of vmlinux: their own
 * types begin where its end).  NULL behind the last.  *name (may be NULL): "vmlinux", "ext4". */
const struct btf *hook_kernel_btf(const struct hook_kernel *k, size_t i, const char **name);

#endif
