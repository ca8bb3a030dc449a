/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DEAF=PROGRAM[,PROGRAM...] iotrace-deaf ...
 *
 * iotrace whose BPF programs of these names, and their spares (NAME_spare), are loaded, but not
 * attached to their raw tracepoint or by BTF, as if the kernel never called them.
 * tracepoints_attach_raw() is ours (-Wl,--wrap), all else is iotrace's, cmd/main.c too.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bpf/hooks.h"
#include "core/bpf/tracepoints.h"

int __wrap_tracepoints_attach_raw(const char *name, int prog_fd, uint64_t cookie);
int __real_tracepoints_attach_raw(const char *name, int prog_fd, uint64_t cookie);

/* @name is cut as the kernel has it. */
static bool is_of(const char *name, const char *base, size_t len)
{
	char spare[64];

	snprintf(spare, sizeof(spare), "%.*s%s", (int)len, base, HOOKS_SPARE);
	return strncmp(name, spare, BPF_OBJ_NAME_LEN - 1) == 0 ||
	       (strncmp(name, base, len) == 0 && !name[len]);
}

static bool is_deaf(const char *name)
{
	const char *base = getenv("DEAF");

	for (; base && *base; base += strcspn(base, ","), base += *base == ',')
		if (is_of(name, base, strcspn(base, ",")))
			return true;
	return false;
}

int __wrap_tracepoints_attach_raw(const char *name, int prog_fd, uint64_t cookie)
{
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(prog_fd, &info, &len))
		return -errno;
	/* Any descriptor will do for a link that is to be closed. */
	if (is_deaf(info.name))
		return fcntl(prog_fd, F_DUPFD_CLOEXEC, 0);
	return __real_tracepoints_attach_raw(name, prog_fd, cookie);
}
