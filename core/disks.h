/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_DISKS_H
#define IOTRACE_CORE_DISKS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/*
 * Names and numbers of block devices.  A device number here is the kernel's
 * own dev_t, (major << 20) | minor, as BPF programs see it; never user
 * space's encoding.
 */
#define DISK_DEV(major, minor) (((uint32_t)(major) << 20) | ((uint32_t)(minor)&0xfffffu))
#define DISK_MAJOR(dev)	       ((uint32_t)(dev) >> 20)
#define DISK_MINOR(dev)	       ((uint32_t)(dev)&0xfffffu)

/* Where the facts come from; NULL members mean the real places. */
struct disk_roots {
	const char *proc; /* "/proc": diskstats */
	const char *sys;  /* "/sys": class/block, dev/block, block/X/dm/name */
	const char *dev;  /* "/dev": paths that users give */
};

struct disks; /* a table that learns devices as they appear */

/* What a disk argument means. */
struct disk_ref {
	uint32_t dev;	/* the device itself */
	uint32_t whole; /* the whole disk it lies on; == dev when it is no partition */
	bool partition;
	uint64_t start, sectors; /* of a partition: where it lies on the disk, in 512 bytes */
	char name[64];		 /* as in /proc/diskstats */
};

/* Reads the present devices.  *out is the caller's, to be given to
 * disks_free().  @roots may be NULL.  -errno with @err filled. */
int disks_open(const struct disk_roots *roots, struct disks **out, struct error *err);
void disks_free(struct disks *d);

/*
 * The name of device @dev as in /proc/diskstats.  An unknown number makes the
 * table look again (a disk that was plugged in meanwhile is found; at most one
 * look per unknown number and second).  What stays unknown is "MAJ:MIN".  Never NULL; the string
 * belongs to the table and lives until disks_free().
 */
const char *disks_name(struct disks *d, uint32_t dev);

/*
 * What the user means by @arg: a name as in /proc/diskstats (nvme0n1, sda1,
 * dm-0; with or without /dev/), a device-mapper name (vg-root), a path that leads to a block device
 * (/dev/disk/by-id/..., any symlink) or MAJ:MIN.  -ENODEV/-ENOTBLK/-EINVAL with @err
 * (STATUS_USAGE) filled; the hint lists the disks that are there, or names the nearest.
 */
int disks_find(struct disks *d, const char *arg, struct disk_ref *out, struct error *err);

#endif
