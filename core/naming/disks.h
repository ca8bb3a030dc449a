/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_NAMING_DISKS_H
#define IOTRACE_CORE_NAMING_DISKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/*
 * Names and numbers of block devices.  A device number here is the kernel's own dev_t, (major <<
 * 20) | minor, like in BPF programs; never user space's encoding.
 */
#define DISK_DEV(major, minor) (((uint32_t)(major) << 20) | ((uint32_t)(minor)&0xfffffu))
#define DISK_MAJOR(dev)	       ((uint32_t)(dev) >> 20)
#define DISK_MINOR(dev)	       ((uint32_t)(dev)&0xfffffu)

/* Where the facts come from; NULL members mean the defaults. */
struct disk_roots {
	const char *proc; /* "/proc": diskstats */
	const char *sys; /* "/sys": class/block, dev/block, block/X/dm/name, kernel/uevent_seqnum */
	const char *dev; /* "/dev": paths that users give */
};

struct disks; /* a table to which new devices are added */

/* The device of a disk argument. */
struct disk_ref {
	uint32_t dev;	/* the device itself */
	uint32_t whole; /* the whole disk it lies on; == dev when it is no partition */
	bool partition;
	uint64_t start, sectors; /* for a partition: its start on the disk, in units of 512 bytes */
	char name[64];		 /* like in /proc/diskstats */
};

/* Reads the present devices.  Free *out with disks_free().  @roots may be NULL. -errno with @err
 * filled. */
int disks_open(const struct disk_roots *roots, struct disks **out, struct error *err);
void disks_free(struct disks *d);

/*
 * Reads again if devices came or went since the last call.  Call it just before the buffers of the
 * programs are swapped, so that names and rows are of the same time.  True if it read again.
 */
bool disks_refresh(struct disks *d);

/* While it is @held, no file is opened for disks_refresh(), disks_name() and disks_whole_name():
 * what was not read before is "MAJ:MIN", or has no other whole disk. */
void disks_hold(struct disks *d, bool held);

/*
 * The name of device @dev like in /proc/diskstats.  For an unknown number, or a removed device, the
 * table is read again (at most once per number and second); a removed device keeps its name until
 * its number is reused.  "MAJ:MIN": the number is unknown, or passed from one device to another
 * between the last two calls of disks_refresh().  Never NULL; the string belongs to the table and
 * lives until disks_free(), and the same name is the same string.
 */
const char *disks_name(struct disks *d, uint32_t dev);

/* The same for the disk of @dev, if @dev is a partition. */
const char *disks_whole_name(struct disks *d, uint32_t dev);

/*
 * The device of @arg: a name like in /proc/diskstats (nvme0n1, sda1, dm-0; with or without /dev/),
 * a device-mapper name (vg-root), a path that leads to a block device (/dev/disk/by-id/..., any
 * symlink) or MAJ:MIN. -ENODEV/-ENOTBLK/-EINVAL with @err (STATUS_USAGE) filled; the hint lists the
 * present disks, or names the nearest.
 */
int disks_find(struct disks *d, const char *arg, struct disk_ref *out, struct error *err);

/*
 * Finds the result of disks_find() again: by its name, and for a partition by its place on the
 * disk.  Sets its present numbers.  False: it does not exist, and @ref is unchanged.
 */
bool disks_find_again(const struct disks *d, struct disk_ref *ref);

/* Calls @each with the number of each present device, partitions included. */
void disks_each(const struct disks *d, void (*each)(void *ctx, uint32_t dev), void *ctx);

/* Calls @each with the number of @disk and of each of its partitions (a partition has none). */
void disks_each_part(const struct disks *d, const struct disk_ref *disk,
		     void (*each)(void *ctx, uint32_t dev), void *ctx);

/*
 * The numbers of @disk and its partitions, *@own of them, and then of the devices stacked on these
 * (LVM, LUKS, md), at any depth and with their partitions: in @devs, at most @max.  Returns how
 * many.
 */
size_t disks_on(const struct disks *d, const struct disk_ref *disk, uint32_t *devs, size_t max,
		size_t *own);

#define DISKS_BELOW 32 /* the most that disks_below() finds */

/*
 * The numbers of the disks that device @dev consists of, at the lowest level: the disk of a
 * partition, those below LVM, LUKS or md, or @dev itself.  In @devs, at most @max; returns how
 * many.
 */
size_t disks_below(struct disks *d, uint32_t dev, uint32_t *devs, size_t max);

#define DISKS_UUID_SIZE	 16
#define DISKS_BTRFS_DEVS 64 /* of one file system; more are ignored */

/* Calls @each with each mounted btrfs file system, in any mount namespace: its UUID, from its super
 * block, and its devices, @n > 0. */
typedef void disks_btrfs(void *ctx, const uint8_t uuid[DISKS_UUID_SIZE], const uint32_t *devs,
			 size_t n);
void disks_each_btrfs(const struct disks *d, disks_btrfs *each, void *ctx);

/* The disk of all @devs; for several disks, a number of no device, whose name (disks_name()) joins
 * their names by "+". 0: out of memory. */
uint32_t disks_together(struct disks *d, const uint32_t *devs, size_t n);

#endif
