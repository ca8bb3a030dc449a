/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_NAMING_DISKS_H
#define IOTRACE_CORE_NAMING_DISKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

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
	const char *sys; /* "/sys": class/block, dev/block, block/X/dm/name, kernel/uevent_seqnum */
	const char *dev; /* "/dev": paths that users give */
};

struct disks; /* a table to which new devices are added */

/* The device that a disk argument names. */
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
 * Looks again if devices came or went since the last call.  To be called just before the buffers of
 * the programs are swapped, so that the names are those of the rows' time.  True if it looked.
 */
bool disks_refresh(struct disks *d);

/*
 * The name of device @dev as in /proc/diskstats.  An unknown number, or that of a device that is
 * gone, makes the table look again (at most one look per number and second); a
 * device that is gone keeps its name until its number is reused.  "MAJ:MIN": the number is unknown,
 * or passed from one device to another between the last two calls of disks_refresh().  Never NULL;
 * the string belongs to the table and lives until disks_free(), and the same name is the same
 * string.
 */
const char *disks_name(struct disks *d, uint32_t dev);

/* The same of the disk that @dev is a partition of, if it is one. */
const char *disks_whole_name(struct disks *d, uint32_t dev);

/*
 * The device that @arg names: a name as in /proc/diskstats (nvme0n1, sda1,
 * dm-0; with or without /dev/), a device-mapper name (vg-root), a path that leads to a block device
 * (/dev/disk/by-id/..., any symlink) or MAJ:MIN.  -ENODEV/-ENOTBLK/-EINVAL with @err
 * (STATUS_USAGE) filled; the hint lists the disks that are there, or names the nearest.
 */
int disks_find(struct disks *d, const char *arg, struct disk_ref *out, struct error *err);

/*
 * Finds what disks_find() found again: by its name, and as a partition where it lay on its disk.
 * Sets the numbers that it has now.  False: it is not there, and @ref stays as it was.
 */
bool disks_find_again(const struct disks *d, struct disk_ref *ref);

/* Calls @each with the number of each device that is there, partitions included. */
void disks_each(const struct disks *d, void (*each)(void *ctx, uint32_t dev), void *ctx);

/* Calls @each with the number of @disk and of each of its partitions (a partition has none). */
void disks_each_part(const struct disks *d, const struct disk_ref *disk,
		     void (*each)(void *ctx, uint32_t dev), void *ctx);

/*
 * The numbers of @disk and its partitions, *@own of them, and then of the devices that are stacked
 * on these (LVM, LUKS, md), at any depth and with their partitions: in @devs, at most @max.
 * Returns how many.
 */
size_t disks_on(const struct disks *d, const struct disk_ref *disk, uint32_t *devs, size_t max,
		size_t *own);

#define DISKS_UUID_SIZE	 16
#define DISKS_BTRFS_DEVS 64 /* of one file system; more are ignored */

/* Calls @each with each btrfs file system that is mounted, in whatever mount namespace: its UUID,
 * as its super block has it, and the devices that it is on, @n > 0. */
typedef void disks_btrfs(void *ctx, const uint8_t uuid[DISKS_UUID_SIZE], const uint32_t *devs,
			 size_t n);
void disks_each_btrfs(const struct disks *d, disks_btrfs *each, void *ctx);

/* The disk that all of @devs are on; if there are several, a number of no device, whose name
 * (disks_name()) joins theirs by "+".  0: no memory. */
uint32_t disks_together(struct disks *d, const uint32_t *devs, size_t n);

#endif
