// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/system/kernel_fs.h"
#include "core/system/limits.h"

int preflight_access(const char *path, int mode)
{
	return faccessat(AT_FDCWD, path, mode, AT_EACCESS) ? -errno : 0;
}

static bool readable(const char *root, const char *path)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s/%s", root ? root : "", path);
	return preflight_access(full, R_OK) == 0;
}

/* By the system call, which needs neither /proc nor a descriptor. */
uint64_t preflight_caps(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &header, data))
		return 0;
	return data[0].effective | (uint64_t)data[1].effective << 32;
}

static bool has_cap(uint64_t caps, int cap)
{
	return caps >> cap & 1;
}

/* "none integrity [confidentiality]": the state is in brackets. */
static void read_lockdown(const char *root, char *state, size_t size)
{
	FILE *file FCLOSE_AT_END = kernel_fs_file(root, KERNEL_FS_SECURITY, "lockdown");
	char line[128] = "";
	const char *open;

	if (!file) {
		if (errno == ENOENT && !kernel_fs_check(root, KERNEL_FS_SECURITY, NULL))
			snprintf(state, size, "none"); /* a kernel without it */
		return;
	}
	if (!fgets(line, sizeof(line), file))
		line[0] = 0;
	open = strchr(line, '[');
	if (open && strchr(open, ']'))
		snprintf(state, size, "%.*s", (int)strcspn(open + 1, "]"), open + 1);
}

/* The name of the first user namespace is the same on all kernels (PROC_USER_INIT_INO, 3.8). */
static bool in_user_ns(const char *root)
{
	static const char first[] = "user:[4026531837]";
	char full[PATH_MAX], name[64];
	ssize_t len;

	snprintf(full, sizeof(full), "%s/proc/self/ns/user", root ? root : "");
	len = readlink(full, name, sizeof(name) - 1);
	if (len < 0) /* a kernel without them */
		return false;
	name[len] = 0;
	return strcmp(name, first) != 0;
}

void preflight_read(const char *root, uint64_t caps, struct preflight *out)
{
	memset(out, 0, sizeof(*out));
	out->sysfs = readable(root, "sys/kernel");
	out->btf = readable(root, "sys/kernel/btf/vmlinux");
	out->in_user_ns = in_user_ns(root);
	out->has_bpf = has_cap(caps, CAP_BPF) || has_cap(caps, CAP_SYS_ADMIN);
	out->has_perfmon = has_cap(caps, CAP_PERFMON) || has_cap(caps, CAP_SYS_ADMIN);
	out->can_load = !out->in_user_ns && out->has_bpf && out->has_perfmon;
	read_lockdown(root, out->lockdown, sizeof(out->lockdown));
	out->confidential = strcmp(out->lockdown, "confidentiality") == 0;
}

int preflight_resources(struct error *err)
{
	struct statfs fs;

	/* Another file system mounted there may have files of the same names: a container's, a
	 * share. */
	if (statfs("/proc", &fs) || fs.f_type != PROC_SUPER_MAGIC) {
		error_set(err, STATUS_FAILED, -ENOENT, "procfs is not mounted");
		error_hint(err, "mount -t proc proc /proc");
		return -ENOENT;
	}
	return limits_need(LIMITS_FILES, LIMITS_MEMORY, err);
}

int preflight_trace(struct error *err)
{
	struct preflight p;
	int r = preflight_resources(err);

	if (r)
		return r;
	preflight_read(NULL, preflight_caps(), &p);
	return preflight_bpf(&p, err);
}

int preflight_perf(struct error *err)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
	};
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		close((int)fd);
	if (fd >= 0 || errno != EACCES)
		return 0;
	error_set(err, STATUS_UNSUPPORTED, -EACCES, "not permitted to use perf events");
	error_hint(err, "run as root or with CAP_SYS_ADMIN, or set the sysctl "
			"kernel.perf_event_paranoid to 2");
	return -EACCES;
}

int preflight_privileges(const struct preflight *p, struct error *err)
{
	if (p->can_load)
		return 0;
	error_set(err, STATUS_UNSUPPORTED, -EPERM, "not permitted to trace the kernel%s",
		  p->in_user_ns	   ? " from within a user namespace"
		  : p->has_bpf	   ? ": CAP_PERFMON is missing"
		  : p->has_perfmon ? ": CAP_BPF is missing"
				   : ": CAP_BPF and CAP_PERFMON are missing");
	error_hint(err, p->in_user_ns
			    ? "run as root on the host, outside the container"
			    : "run as root, or with the capabilities CAP_BPF and CAP_PERFMON");
	return -EPERM;
}

int preflight_lockdown(const struct preflight *p, struct error *err)
{
	if (!p->confidential)
		return 0;
	error_set(err, STATUS_UNSUPPORTED, -EPERM,
		  "kernel lockdown is 'confidentiality': BPF may not read kernel memory");
	error_hint(err, "boot with lockdown=integrity or lockdown=none");
	return -EPERM;
}

int preflight_btf(const struct preflight *p, struct error *err)
{
	if (p->btf)
		return 0;
	error_set(err, STATUS_UNSUPPORTED, -ENOENT,
		  p->sysfs ? "this kernel has no type information (/sys/kernel/btf/vmlinux)"
			   : "sysfs is not mounted");
	error_hint(err, p->sysfs ? "use a kernel built with CONFIG_DEBUG_INFO_BTF=y"
				 : "mount -t sysfs sysfs /sys");
	return -ENOENT;
}

int preflight_bpf(const struct preflight *p, struct error *err)
{
	int r = preflight_privileges(p, err);

	if (!r)
		r = preflight_lockdown(p, err);
	return r ? r : preflight_btf(p, err);
}
