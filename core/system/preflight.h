/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks this machine and user before anything is loaded. */
#ifndef IOTRACE_CORE_SYSTEM_PREFLIGHT_H
#define IOTRACE_CORE_SYSTEM_PREFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

/* Properties of this machine and this user; read once, before anything is loaded, so that a refusal
 * can be explained. */
struct preflight {
	bool sysfs;	 /* mounted */
	bool btf;	 /* /sys/kernel/btf/vmlinux can be read */
	bool in_user_ns; /* in a container: capabilities do not apply to the kernel itself */
	bool can_load;	 /* CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON */
	bool has_bpf, has_perfmon; /* these two, or CAP_SYS_ADMIN, which includes them */
	bool confidential;	   /* lockdown forbids reading kernel memory */
	char lockdown[16];	   /* "none", "integrity", "confidentiality"; empty: unreadable */
};

/* @caps: the effective capabilities, a bit each, from preflight_caps().  @root replaces "/" in
 * tests (proc/self/..., sys/...); NULL is "/". */
void preflight_read(const char *root, uint64_t caps, struct preflight *out);
uint64_t preflight_caps(void);

/* Is /proc mounted, and are the descriptors and the memory for any run available?  Otherwise -errno
 * with @err (STATUS_FAILED): later failures would then say nothing about the kernel. */
int preflight_resources(struct error *err);

/* Can @path be accessed (R_OK, ...) by the effective user with the effective capabilities? 0 or
 * -errno. access(2) checks the real user, and ignores the capabilities if that is not root. */
int preflight_access(const char *path, int mode);

/* All checks before anything is traced: preflight_resources(), then preflight_bpf() on the result
 * of preflight_read(). */
int preflight_trace(struct error *err);

/* May this process open perf events? -EACCES with @err if CAP_PERFMON is not enough: on kernels
 * whose perf_event_paranoid has a level 3, like Debian's. */
int preflight_perf(struct error *err);

/* Can programs be loaded? -EPERM/-ENOENT with @err (STATUS_UNSUPPORTED): the first failure of these
 * three. */
int preflight_bpf(const struct preflight *p, struct error *err);
int preflight_privileges(const struct preflight *p, struct error *err);
int preflight_lockdown(const struct preflight *p, struct error *err);
int preflight_btf(const struct preflight *p, struct error *err);

#endif
