/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_NAMING_MOUNTS_H
#define IOTRACE_CORE_NAMING_MOUNTS_H

#include <stddef.h>
#include <stdint.h>

/* Where file systems are mounted, as this process sees it: /proc/self/mountinfo, read anew when
 * something was mounted or unmounted. */
struct mounts;

/* @path NULL: /proc/self/mountinfo.  0 or -ENOMEM; without the file it is an empty table. */
int mounts_open(const char *path, struct mounts **out);
void mounts_free(struct mounts *m);

/* To be called before a series of mounts_path(): has something changed? */
void mounts_refresh(struct mounts *m);

/*
 * Writes to @out, @size bytes with the NUL, the path of a file whose path within its file system is
 * @in ("/" and what follows).  @dev is the device of the file system, a DISK_DEV()
 * (core/naming/disks.h).
 * -ENOENT: it is mounted nowhere where that file could be reached, or the path is too long.
 */
int mounts_path(const struct mounts *m, uint32_t dev, const char *in, char *out, size_t size);

/* The type of what is mounted from the block device @dev ("ext4"), NULL: nothing.  Lives until
 * mounts_refresh(). */
const char *mounts_type(const struct mounts *m, uint32_t dev);

#endif
