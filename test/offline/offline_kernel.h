/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_OFFLINE_OFFLINE_KERNEL_H
#define IOTRACE_TEST_OFFLINE_OFFLINE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

/*
 * A kernel that is not running is described by a folder:
 *   vmlinux      its type information (BTF)
 *   MODULE.btf   the type information of a module; without such files modules have none (up
 * to 5.10) lacks        optional: features that this kernel lacks although its types do not show
 * it, one per line: kprobe, fentry Type information is not everything: it also contains functions
 * that cannot be traced.
 */
struct offline_kernel;
struct btf;

/* Reads folder @dir.  -errno with @err (STATUS_USAGE). */
int offline_kernel_open(const char *dir, struct offline_kernel **out, struct error *err);
void offline_kernel_free(struct offline_kernel *k); /* NULL is fine */

/* DIR/vmlinux */
const char *offline_kernel_path(const struct offline_kernel *k);

/*
 * Is tracepoint @name there, or function @name: in vmlinux, in @module, or (NULL) in any?
 * 0; -ENOENT when it is not; -ENODATA when a module may have it: of modules nothing is known.
 */
int offline_kernel_tracepoint(const struct offline_kernel *k, const char *name);
int offline_kernel_function(const struct offline_kernel *k, const char *name, const char *module);

bool offline_kernel_lacks(const struct offline_kernel *k, const char *what);

/* The type information piece by piece: vmlinux is 0, modules follow (on top of vmlinux: their own
 * types begin where its end).  NULL behind the last.  *name (may be NULL): "vmlinux", "ext4". */
const struct btf *offline_kernel_btf(const struct offline_kernel *k, size_t i, const char **name);

#endif
