// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/isolation/open_regular.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/isolation/bounded.h"

/* ---- what may be opened ---- */

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546 /* fs/fuse/inode.c */
#endif
#ifndef FUSE_CTL_SUPER_MAGIC
#define FUSE_CTL_SUPER_MAGIC 0x65735543 /* fs/fuse/control.c */
#endif
#define CONFIGFS_MAGIC 0x62656570 /* fs/configfs/mount.c */
#define MQUEUE_MAGIC   0x19800202 /* ipc/mqueue.c */
#ifndef SECRETMEM_MAGIC
#define SECRETMEM_MAGIC 0x5345434d /* mm/secretmem.c */
#endif

/* File systems whose "regular files" are calls into the kernel. */
static bool is_data(const struct statfs *fs)
{
	static const unsigned int interfaces[] = {
		PROC_SUPER_MAGIC, SYSFS_MAGIC,	      DEBUGFS_MAGIC,	    TRACEFS_MAGIC,
		SECURITYFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,  BPF_FS_MAGIC,
		PSTOREFS_MAGIC,	  EFIVARFS_MAGIC,     BINFMTFS_MAGIC,	    SELINUX_MAGIC,
		SMACK_MAGIC,	  NSFS_MAGIC,	      RDTGROUP_SUPER_MAGIC, FUSE_CTL_SUPER_MAGIC,
		CONFIGFS_MAGIC,	  MQUEUE_MAGIC,	      XENFS_SUPER_MAGIC,    DEVPTS_SUPER_MAGIC,
		SECRETMEM_MAGIC,
	};

	for (size_t i = 0; i < ARRAY_SIZE(interfaces); i++)
		if ((unsigned int)fs->f_type == interfaces[i])
			return false;
	return true;
}

/* Is it mounted in our namespace?  Then it can be reached by its path. */
static bool is_mounted_here(int fd)
{
	const int flags = AT_STATX_DONT_SYNC | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
	char link[64], path[PATH_MAX];
	struct statx file, here;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return false;
	path[n] = 0;
	return !statx(fd, "", flags | AT_EMPTY_PATH, STATX_MNT_ID, &file) &&
	       !statx(AT_FDCWD, path, flags, STATX_MNT_ID, &here) &&
	       file.stx_mask & here.stx_mask & STATX_MNT_ID && file.stx_mnt_id == here.stx_mnt_id;
}

/* In a user namespace any user can mount an overlay, also of files that he serves by FUSE.  Such an
 * overlay never appears in our namespace. */
static void classify(struct opened_file *file, const struct statfs *fs)
{
	unsigned int type = (unsigned int)fs->f_type;

	file->is_claimed = type == FUSE_SUPER_MAGIC || fs->f_flags & ST_NOSUID ||
			   (type == OVERLAYFS_SUPER_MAGIC && !is_mounted_here(file->fd));
	file->is_foreign =
	    file->is_claimed || file->st.st_uid || file->st.st_mode & (S_IWGRP | S_IWOTH);
}

int opened_file_look(struct opened_file *out)
{
	struct statfs fs;

	if (fstat(out->fd, &out->st) || fstatfs(out->fd, &fs))
		return -errno;
	classify(out, &fs);
	return S_ISREG(out->st.st_mode) && is_data(&fs) ? 0 : -EACCES;
}

/* Opens the file of @out->fd, which was opened with O_PATH or is -errno.  O_NONBLOCK: the owner may
 * hold a lease (fcntl(2), F_SETLEASE), for which an open() would wait. */
static int reopen(struct opened_file *out)
{
	char path[64];
	int r = out->fd < 0 ? out->fd : opened_file_look(out), fd;

	if (r)
		return r;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", out->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

/* ---- opening ---- */

int open_root(const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int open_root_id(int root, struct root_id *out)
{
	struct statx stx;

	if (statx(root, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &stx))
		return -errno;
	out->dev = makedev(stx.stx_dev_major, stx.stx_dev_minor);
	out->inode = stx.stx_ino;
	return 0;
}

bool open_root_is_same(const struct root_id *a, const struct root_id *b)
{
	return a->dev == b->dev && a->inode == b->inode;
}

struct sought {
	int root; /* -1: where the link leads */
	const char *path;
	unsigned int flags;
};

#define TRIES 64

static int find_below(const struct sought *sought)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (sought->flags & OPEN_NOFOLLOW ? O_NOFOLLOW : 0),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS |
			   (sought->flags & OPEN_NO_SYMLINKS ? RESOLVE_NO_SYMLINKS : 0),
	};
	int fd, tries = 0;

	/* It gives up if a directory is moved at the same time: by chance, or by an attacker who
	 * does so constantly. */
	do {
		fd = (int)syscall(SYS_openat2, sought->root, sought->path, &how, sizeof(how));
	} while (fd < 0 && errno == EAGAIN && ++tries < TRIES);
	return fd < 0 ? -errno : fd;
}

static int find_linked(const char *path)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* In the task, whose descriptors are closed with it. */
static int open_sought(void *ctx, void *result)
{
	const struct sought *sought = ctx;
	struct opened_file *out = result;

	out->fd = sought->root < 0 ? find_linked(sought->path) : find_below(sought);
	return reopen(out);
}

static int open_bounded(struct sought *sought, struct opened_file *out)
{
	struct opened_file opened;
	int fd = bounded_open(open_sought, sought, sought->root, &opened, sizeof(opened));

	if (fd < 0)
		return fd;
	*out = opened;
	out->fd = fd;
	return 0;
}

int open_regular(int root, const char *path, unsigned int flags, struct opened_file *out)
{
	struct sought sought = { root, path, flags };

	return root < 0 ? -EBADF : open_bounded(&sought, out);
}

int open_regular_link(const char *path, struct opened_file *out)
{
	struct sought sought = { -1, path, 0 };

	return open_bounded(&sought, out);
}

/* Files of root do not block; others may be FUSE, also by way of overlayfs. */
void opened_file_close(struct opened_file *file)
{
	if (file->is_foreign)
		bounded_close(file->fd);
	else
		close(file->fd);
}
