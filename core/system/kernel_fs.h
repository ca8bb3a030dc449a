/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_KERNEL_FS_H
#define IOTRACE_CORE_SYSTEM_KERNEL_FS_H

#include <dirent.h>
#include <stdio.h>

#include "core/base/error.h"

/*
 * The file systems in which the kernel describes itself.  They are read where they are mounted.  If
 * they are not, this process opens one that is attached to no path (5.2; takes CAP_SYS_ADMIN), and
 * the mounts of the machine stay as they are.  @root replaces "/" in tests, where only what is
 * below it is read; NULL is "/".
 */
enum kernel_fs {
	KERNEL_FS_TRACE,
	KERNEL_FS_DEBUG,
	KERNEL_FS_SECURITY,
};

/* Opens file or folder @path of @fs for reading; the caller closes it.  NULL with errno; ENOENT
 * also where @fs cannot be had, which kernel_fs_check() tells apart. */
FILE *kernel_fs_file(const char *root, enum kernel_fs fs, const char *path);
DIR *kernel_fs_folder(const char *root, enum kernel_fs fs, const char *path);

/* Can @fs be read?  0, or with @err -EACCES: this user may not read it, -ENODEV: the kernel has
 * none, -ENOENT: it is not mounted, and cannot be opened without (all STATUS_UNSUPPORTED); -EMFILE,
 * -ENFILE, -ENOMEM (STATUS_FAILED). */
int kernel_fs_check(const char *root, enum kernel_fs fs, struct error *err);

#endif
