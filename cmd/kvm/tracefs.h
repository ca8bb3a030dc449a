/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tracepoints of a group, and the text of their format files. */
#ifndef IOTRACE_CMD_KVM_TRACEFS_H
#define IOTRACE_CMD_KVM_TRACEFS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/*
 * The kernel's own description of its tracepoints, from tracefs (core/system/kernel_fs.h).  @root
 * replaces "/" in tests; NULL is "/".
 */

/* The names of the tracepoints of @group, sorted; tracefs_free_names().  Errors: see
 * kernel_fs_check(); -ENOENT also if the kernel has no such group (@err names it). */
int tracefs_events(const char *root, const char *group, char ***names, size_t *n,
		   struct error *err);
void tracefs_free_names(char **names, size_t n);

/* The text of a tracepoint's `format` file, the caller's to free.  NULL: it cannot be read. */
char *tracefs_format(const char *root, const char *group, const char *event);

#endif
