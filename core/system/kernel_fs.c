// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/kernel_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/system/limits.h"

#define KINDS 3

static const struct {
	const char *type;
	const char *mounts[2]; /* the second may be NULL */
	const char *shown;     /* exists on every kernel */
	const char *missing;   /* why a kernel lacks it */
} kinds[KINDS] = {
	[KERNEL_FS_TRACE] = { "tracefs",
			      { "sys/kernel/tracing", "sys/kernel/debug/tracing" },
			      "events",
			      "use a kernel built with CONFIG_TRACING=y" },
	[KERNEL_FS_DEBUG] = { "debugfs",
			      { "sys/kernel/debug" },
			      "bdi",
			      "use a kernel built with CONFIG_DEBUG_FS=y, and boot it without "
			      "debugfs=off and debugfs=no-mount" },
	[KERNEL_FS_SECURITY] = { "securityfs",
				 { "sys/kernel/security" },
				 "lsm",
				 "use a kernel built with CONFIG_SECURITYFS=y" },
};

/* Is it mounted, and not only its mount point?  A descriptor of its top folder, or -errno. */
static int open_mounted(const char *root, const char *mount, const char *shown)
{
	char path[PATH_MAX];
	int fd, r;

	snprintf(path, sizeof(path), "%s/%s", root ? root : "", mount);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!faccessat(fd, shown, R_OK, AT_EACCESS))
		return fd;
	r = -errno;
	close(fd);
	return r;
}

static int make_detached(const char *type)
{
	int fd CLOSE_AT_END = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC), mount;

	if (fd < 0)
		return -errno;
	if (syscall(SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		return -errno;
	mount = (int)syscall(SYS_fsmount, fd, FSMOUNT_CLOEXEC,
			     MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
				 MOUNT_ATTR_NOEXEC);
	return mount < 0 ? -errno : mount;
}

/* It is made once, and ends with this process: the kernel takes milliseconds to remove a mount. */
static int open_detached(enum kernel_fs fs)
{
	static int mounts[KINDS]; /* descriptors; 0: not made */
	int fd = mounts[fs] ? mounts[fs] : make_detached(kinds[fs].type);

	if (fd < 0) /* EPERM: no CAP_SYS_ADMIN; ENOSYS: before 5.2 */
		return limits_is_shortage(fd) || fd == -ENODEV ? fd : -ENOENT;
	mounts[fs] = fd;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/* A descriptor of the top folder of @fs, or -errno like kernel_fs_check(). */
static int open_top(const char *root, enum kernel_fs fs)
{
	int code = -ENOENT, fd;

	for (size_t i = 0; i < 2 && kinds[fs].mounts[i]; i++) {
		fd = open_mounted(root, kinds[fs].mounts[i], kinds[fs].shown);
		if (fd >= 0 || limits_is_shortage(fd))
			return fd;
		if (fd == -EACCES || fd == -EPERM)
			code = -EACCES;
	}
	return root || code == -EACCES ? code : open_detached(fs);
}

/* @path within @fs, or -1 with errno. */
static int open_within(const char *root, enum kernel_fs fs, const char *path, int flags)
{
	int top CLOSE_AT_END = open_top(root, fs);

	if (top < 0) {
		errno = -top;
		return -1;
	}
	return openat(top, path, flags | O_RDONLY | O_CLOEXEC);
}

FILE *kernel_fs_file(const char *root, enum kernel_fs fs, const char *path)
{
	int fd = open_within(root, fs, path, 0);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !file)
		close(fd);
	return file;
}

DIR *kernel_fs_folder(const char *root, enum kernel_fs fs, const char *path)
{
	int fd = open_within(root, fs, path, O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

int kernel_fs_check(const char *root, enum kernel_fs fs, struct error *err)
{
	const char *type = kinds[fs].type;
	int r = open_top(root, fs);

	if (r >= 0) {
		close(r);
		return 0;
	}
	if (limits_is_shortage(r))
		return limits_error(r, "open the kernel's file systems", err);
	if (r == -EACCES) {
		error_set(err, STATUS_UNSUPPORTED, r, "no permission to read %s: %s", type,
			  strerror(EACCES));
		error_hint(err,
			   "run as root or with CAP_DAC_READ_SEARCH, or mount %s with gid= and "
			   "mode=0750",
			   type);
	} else if (r == -ENODEV) {
		error_set(err, STATUS_UNSUPPORTED, r, "this kernel has no %s", type);
		error_hint(err, "%s", kinds[fs].missing);
	} else {
		error_set(err, STATUS_UNSUPPORTED, r, "%s is not mounted", type);
		error_hint(err, "mount -t %s %s /%s", type, type, kinds[fs].mounts[0]);
	}
	return r;
}
