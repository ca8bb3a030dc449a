/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where file systems are mounted; the path of a file in one. */
#ifndef IOTRACE_CORE_NAMING_MOUNTS_H
#define IOTRACE_CORE_NAMING_MOUNTS_H

#include <stddef.h>
#include <stdint.h>

/* Mount points of file systems, in this process's namespace: /proc/self/mountinfo, read again after
 * each mount or unmount. */
struct mounts;

/* @path NULL: /proc/self/mountinfo. 0 or -ENOMEM; without the file the table is empty. */
int mounts_open(const char *path, struct mounts **out);
void mounts_free(struct mounts *m);

/* Call before a series of mounts_path(): has something changed? */
void mounts_refresh(struct mounts *m);

/*
 * Writes to @out, @size bytes with the NUL, the path of a file whose path within its file system is
 * @in ("/" and more).  @dev is the device of the file system, a DISK_DEV() (core/naming/disks.h).
 * -ENOENT: no mount reaches that file, or the path is too long.
 */
int mounts_path(const struct mounts *m, uint32_t dev, const char *in, char *out, size_t size);

/* The type of the file system mounted from the block device @dev ("ext4"), NULL: none.  Valid until
 * mounts_refresh(). */
const char *mounts_type(const struct mounts *m, uint32_t dev);

#endif
