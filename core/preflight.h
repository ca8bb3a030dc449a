/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_PREFLIGHT_H
#define IOTRACE_CORE_PREFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/* What this machine and this user bring along; read once, before anything is
 * loaded, so that a refusal can be told in the user's words. */
struct preflight {
	bool btf;	   /* /sys/kernel/btf/vmlinux can be read */
	bool can_load;	   /* CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON */
	bool confidential; /* lockdown forbids reading kernel memory */
	bool tracefs;	   /* mounted (and readable) */
	bool debugfs;
	bool kprobes;
};

/* @root replaces "/" in tests (proc/self/status, sys/...); NULL is "/". */
void preflight_read(const char *root, struct preflight *out);

/* Can programs be loaded?  -EPERM/-ENOENT with @err (STATUS_UNSUPPORTED). */
int preflight_bpf(const struct preflight *p, struct error *err);

/* Does a hook that needs tracefs have it?  -ENOENT with @err. */
int preflight_tracefs(const struct preflight *p, struct error *err);

#endif
