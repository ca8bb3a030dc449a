/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DEAF=PROGRAM[,PROGRAM...] iotrace-deaf ...
 *
 * iotrace whose BPF programs of these names, and their spares (NAME_spare), are loaded, but not
 * attached to their raw tracepoint or by BTF, as if the kernel never called them.
 *
 * EBS_DISK=NAME EBS_PAGE=FILE iotrace-deaf ...
 *
 * iotrace on a machine on which NAME is an EBS volume with /dev/null as its controller, whose log
 * page is FILE.
 *
 * tracepoints_attach_raw(), ebs_each() and ioctl() are ours (-Wl,--wrap), all else is iotrace's,
 * cmd/main.c too.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/bpf/hooks.h"
#include "core/bpf/tracepoints.h"
#include "core/system/ebs.h"

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

/* ---- EBS ---- */

void __wrap_ebs_each(const char *sys, void (*each)(void *ctx, const struct ebs_volume *volume),
		     void *ctx);
void __real_ebs_each(const char *sys, void (*each)(void *ctx, const struct ebs_volume *volume),
		     void *ctx);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __real_ioctl(int fd, unsigned long request, ...);

void __wrap_ebs_each(const char *sys, void (*each)(void *ctx, const struct ebs_volume *volume),
		     void *ctx)
{
	struct ebs_volume volume = { .controller = "null", .dev = makedev(1, 3) };
	const char *disk = getenv("EBS_DISK");

	if (!disk) {
		__real_ebs_each(sys, each, ctx);
		return;
	}
	snprintf(volume.disk, sizeof(volume.disk), "%s", disk);
	each(ctx, &volume);
}

/* In a task that may use no memory of ours. */
static int answer(const char *page, const struct nvme_admin_cmd *command)
{
	int fd = open(page, O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	if (fd >= 0)
		n = read(fd, (void *)(uintptr_t)command->addr, command->data_len);
	close(fd);
	return n < 0 ? -1 : 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	const char *page = getenv("EBS_PAGE");
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	return request == NVME_IOCTL_ADMIN_CMD && page ? answer(page, arg)
						       : __real_ioctl(fd, request, arg);
}
