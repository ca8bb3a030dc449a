/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracefs, debugfs and securityfs, also where they are not mounted. */
#ifndef IOTRACE_CORE_SYSTEM_KERNEL_FS_H
#define IOTRACE_CORE_SYSTEM_KERNEL_FS_H

#include <dirent.h>
#include <stdio.h>

#include "core/base/error.h"

/*
 * The file systems in which the kernel describes itself.  They are read at their mount points.  If
 * they are not mounted, this process opens one that is attached to no path (5.2; needs
 * CAP_SYS_ADMIN), and the mounts of the machine are unchanged.  @root replaces "/" in tests, which
 * read only below it; NULL is "/".
 */
enum kernel_fs {
	KERNEL_FS_TRACE,
	KERNEL_FS_DEBUG,
	KERNEL_FS_SECURITY,
};

/* Opens file or folder @path of @fs for reading; the caller closes it.  NULL with errno; ENOENT
 * also if @fs is not available, which kernel_fs_check() explains. */
FILE *kernel_fs_file(const char *root, enum kernel_fs fs, const char *path);
DIR *kernel_fs_folder(const char *root, enum kernel_fs fs, const char *path);

/* Can @fs be read? 0, or with @err -EACCES: this user may not read it, -ENODEV: the kernel lacks
 * it, -ENOENT: it is not mounted, and cannot be opened without a mount (all STATUS_UNSUPPORTED);
 * -EMFILE, -ENFILE, -ENOMEM (STATUS_FAILED). */
int kernel_fs_check(const char *root, enum kernel_fs fs, struct error *err);

#endif
