// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/preflight.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static FILE *open_below(const char *root, const char *path)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s/%s", root ? root : "", path);
	return fopen(full, "re");
}

static bool readable(const char *root, const char *path)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s/%s", root ? root : "", path);
	return access(full, R_OK) == 0;
}

/* The effective capabilities of this process; 0 when they cannot be read. */
static uint64_t effective_caps(const char *root)
{
	FILE *file = open_below(root, "proc/self/status");
	unsigned long long caps = 0;
	char line[256];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	fclose(file);
	return caps;
}

static bool has_cap(uint64_t caps, int cap)
{
	return caps >> cap & 1;
}

/* "none integrity [confidentiality]": the state stands in brackets. */
static bool locked_confidential(const char *root)
{
	FILE *file = open_below(root, "sys/kernel/security/lockdown");
	char line[128] = "";

	if (!file)
		return false;
	if (!fgets(line, sizeof(line), file))
		line[0] = 0;
	fclose(file);
	return strstr(line, "[confidentiality]") != NULL;
}

void preflight_read(const char *root, struct preflight *out)
{
	uint64_t caps = effective_caps(root);

	memset(out, 0, sizeof(*out));
	out->btf = readable(root, "sys/kernel/btf/vmlinux");
	out->can_load =
	    has_cap(caps, CAP_SYS_ADMIN) || (has_cap(caps, CAP_BPF) && has_cap(caps, CAP_PERFMON));
	out->confidential = locked_confidential(root);
	out->tracefs = readable(root, "sys/kernel/tracing/events") ||
		       readable(root, "sys/kernel/debug/tracing/events");
	out->debugfs = readable(root, "sys/kernel/debug/bdi");
	out->kprobes = readable(root, "sys/bus/event_source/devices/kprobe/type");
}

int preflight_bpf(const struct preflight *p, struct error *err)
{
	if (!p->can_load) {
		error_set(err, STATUS_UNSUPPORTED, -EPERM, "not permitted to trace the kernel");
		error_hint(err, "run as root, or with the capabilities CAP_BPF and CAP_PERFMON");
		return -EPERM;
	}
	if (p->confidential) {
		error_set(err, STATUS_UNSUPPORTED, -EPERM,
			  "kernel lockdown is 'confidentiality': BPF may not read kernel memory");
		error_hint(err, "boot with lockdown=integrity or lockdown=none");
		return -EPERM;
	}
	if (!p->btf) {
		error_set(err, STATUS_UNSUPPORTED, -ENOENT,
			  "this kernel has no type information (/sys/kernel/btf/vmlinux)");
		error_hint(err, "use a kernel built with CONFIG_DEBUG_INFO_BTF=y");
		return -ENOENT;
	}
	return 0;
}

int preflight_tracefs(const struct preflight *p, struct error *err)
{
	if (p->tracefs)
		return 0;
	error_set(err, STATUS_UNSUPPORTED, -ENOENT, "tracefs is not mounted");
	error_hint(err, "mount -t tracefs tracefs /sys/kernel/tracing");
	return -ENOENT;
}
