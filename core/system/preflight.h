/* SPDX-License-Identifier: GPL-2.0-or-later */
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
	bool in_user_ns; /* of a container: capabilities there are none of the kernel's own */
	bool can_load;	 /* CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON, of the kernel's own */
	bool has_bpf, has_perfmon; /* these two, or CAP_SYS_ADMIN, which includes them */
	bool confidential;	   /* lockdown forbids reading kernel memory */
	bool kprobes;
	char lockdown[16]; /* "none", "integrity", "confidentiality"; empty: it cannot be read */
};

/* @caps: the effective capabilities, a bit each, as preflight_caps() reads them.  @root replaces
 * "/" in tests (proc/self/..., sys/...); NULL is "/". */
void preflight_read(const char *root, uint64_t caps, struct preflight *out);
uint64_t preflight_caps(void);

/* Is /proc mounted, and can the descriptors and the memory of any run be had?  Else -errno with
 * @err (STATUS_FAILED): later failures would then say nothing about the kernel. */
int preflight_resources(struct error *err);

/* Can @path be accessed (R_OK, ...) by the effective user with the effective capabilities?  0 or
 * -errno.  access(2) asks about the real user, and of one that is not root it forgets the
 * capabilities. */
int preflight_access(const char *path, int mode);

/* All of it before anything is traced: preflight_resources(), then preflight_bpf() of what is
 * read. */
int preflight_trace(struct error *err);

/* May this process open perf events?  -EACCES with @err where CAP_PERFMON is not enough: on kernels
 * whose perf_event_paranoid has a level 3, as Debian's. */
int preflight_perf(struct error *err);

/* Can programs be loaded?  -EPERM/-ENOENT with @err (STATUS_UNSUPPORTED): the first of these three
 * that says no. */
int preflight_bpf(const struct preflight *p, struct error *err);
int preflight_privileges(const struct preflight *p, struct error *err);
int preflight_lockdown(const struct preflight *p, struct error *err);
int preflight_btf(const struct preflight *p, struct error *err);

/* KVM's module is not loaded: fills @err, and returns @code. */
int preflight_no_kvm(int code, struct error *err);

#endif
