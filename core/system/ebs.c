// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/ebs.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/nvme_ioctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/base/cleanup.h"

/* ---- the page ---- */

#define MAGIC	    0x3c23b510U
#define COUNTERS_AT 8
#define LIMITS_FROM (EBS_COUNTERS - EBS_LIMITS)

bool ebs_parse(const void *page, size_t size, struct ebs_counters *out)
{
	uint32_t magic;

	if (size < COUNTERS_AT + sizeof(*out))
		return false;
	memcpy(&magic, page, sizeof(magic));
	if (le32toh(magic) != MAGIC)
		return false;
	memcpy(out, (const char *)page + COUNTERS_AT, sizeof(*out));
	for (size_t i = 0; i < EBS_COUNTERS; i++)
		out->at[i] = le64toh(out->at[i]);
	return true;
}

#define SLACK_US 5000000U /* how rarely the volume updates its counters is not documented */

bool ebs_over(const struct ebs_counters *before, const struct ebs_counters *now,
	      uint64_t elapsed_ns, uint64_t over_ns[EBS_LIMITS])
{
	for (size_t i = 0; i < EBS_COUNTERS; i++)
		if (now->at[i] < before->at[i])
			return false;
	for (size_t i = 0; i < EBS_LIMITS; i++) {
		const uint64_t us = now->at[LIMITS_FROM + i] - before->at[LIMITS_FROM + i];

		if (us > elapsed_ns / 1000 + SLACK_US)
			return false;
		over_ns[i] = us * 1000;
	}
	return true;
}

/* ---- the volumes ---- */

#define MODEL "Amazon Elastic Block Store"

/* The first line of @folder/device/@name, without the blanks at its end, which a model has. */
static bool read_attribute(const char *folder, const char *name, char *line, int size)
{
	char path[PATH_MAX];
	FILE *file FCLOSE_AT_END = NULL;
	size_t len;

	snprintf(path, sizeof(path), "%s/device/%s", folder, name);
	file = fopen(path, "re");
	if (!file || !fgets(line, size, file))
		return false;
	for (len = strlen(line); len && strchr(" \n", line[len - 1]); len--)
		line[len - 1] = 0;
	return true;
}

/* The device of @folder, a disk of sysfs, is the controller. */
static bool find_controller(const char *folder, struct ebs_volume *volume)
{
	char path[PATH_MAX], to[PATH_MAX], dev[32];
	unsigned int major, minor;
	const char *name;
	ssize_t len;

	snprintf(path, sizeof(path), "%s/device", folder);
	len = readlink(path, to, sizeof(to) - 1);
	if (len <= 0 || !read_attribute(folder, "dev", dev, sizeof(dev)) ||
	    sscanf(dev, "%u:%u", &major, &minor) != 2)
		return false;
	to[len] = 0;
	name = strrchr(to, '/');
	name = name ? name + 1 : to;
	volume->dev = makedev(major, minor);
	return snprintf(volume->controller, sizeof(volume->controller), "%s", name) <
	       (int)sizeof(volume->controller);
}

static bool is_namespace(const char *disk)
{
	unsigned int controller, number;
	int len = 0;

	return sscanf(disk, "nvme%un%u%n", &controller, &number, &len) == 2 &&
	       (size_t)len == strlen(disk) && len < (int)sizeof(((struct ebs_volume *)0)->disk);
}

void ebs_each(const char *sys, void (*each)(void *ctx, const struct ebs_volume *volume), void *ctx)
{
	char path[PATH_MAX / 2], folder[PATH_MAX - 64], model[64];
	DIR *dir CLOSEDIR_AT_END = NULL;
	struct ebs_volume volume;
	struct dirent *entry;

	snprintf(path, sizeof(path), "%s/block", sys);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (!is_namespace(entry->d_name))
			continue;
		snprintf(folder, sizeof(folder), "%s/%s", path, entry->d_name);
		if (!read_attribute(folder, "model", model, sizeof(model)) ||
		    strcmp(model, MODEL) != 0 || !find_controller(folder, &volume))
			continue;
		snprintf(volume.disk, sizeof(volume.disk), "%.31s", entry->d_name);
		each(ctx, &volume);
	}
}

/* ---- asking ---- */

#define GET_LOG_PAGE 0x02
#define LOG_PAGE     0xd0

/* The controller, not the disk: its open fails while it is not live, and reads no partitions.
 * Whatever is at the path, only a device with the controller's number is opened. */
static int open_controller(const struct ebs_volume *volume)
{
	char path[64];
	int fd CLOSE_AT_END = -1, opened;
	struct stat st;

	snprintf(path, sizeof(path), "/dev/%s", volume->controller);
	fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISCHR(st.st_mode) || st.st_rdev != volume->dev)
		return -ENODEV;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	opened = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return opened < 0 ? -errno : opened;
}

/* No timeout_ms: the kernel resets a controller that has not answered an admin command by then
 * (nvme_timeout() of drivers/nvme/host/pci.c, 5.10 to 7.0).  With 0 it has the usual time of these
 * commands, nvme_core.admin_timeout, 60 s. */
int ebs_ask(void *volume, void *page)
{
	struct nvme_admin_cmd command = {
		.opcode = GET_LOG_PAGE,
		.nsid = 1,
		.addr = (uintptr_t)page,
		.data_len = EBS_PAGE_SIZE,
		.cdw10 = LOG_PAGE | (EBS_PAGE_SIZE / 4 - 1) << 16,
	};
	int fd = open_controller(volume), r;

	if (fd < 0)
		return fd;
	r = ioctl(fd, NVME_IOCTL_ADMIN_CMD, &command);
	if (!r)
		return fd;
	r = r < 0 ? -errno : -EIO; /* a status of NVMe */
	close(fd);
	return r;
}
