/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of disks, shared by disks.c, disks_find.c and disks_stacked.c. */
#ifndef IOTRACE_CORE_NAMING_DISKS_TABLE_H
#define IOTRACE_CORE_NAMING_DISKS_TABLE_H

/* The table behind core/naming/disks.h, shared by disks.c (present devices), disks_find.c
 * (arguments of the user) and disks_stacked.c (devices stacked on it).  Not a header for other
 * files. */
#include <limits.h>
#include <stddef.h>

#include "core/naming/disks.h"
#include "core/base/text.h"

#define DISK_NAME_SIZE sizeof(((struct disk_ref *)NULL)->name)

struct disk {
	uint32_t dev;
	bool known;	 /* otherwise @name is "MAJ:MIN" */
	bool present;	 /* in diskstats when it was last read */
	uint32_t whole;	 /* of disks_whole_name(); 0: not requested yet */
	uint64_t looked; /* when the table last looked up this device, unknown or gone */
	const char *name;
	const char
	    *before; /* the device with this number at the last disks_refresh(); NULL: none */
};

struct disks {
	char *proc, *sys, *dev;
	bool held;	   /* nothing is read again */
	struct disk *list; /* sorted by dev; removed devices stay */
	size_t count;
	uint64_t uevents;      /* messages sent when @list was read; 0: unknown */
	struct text_set names; /* all strings that were returned */
};

/* Reads diskstats again; on failure the table is unchanged. */
int disks_read(struct disks *d, struct error *err);

/* The entry of @dev, which may be unknown or removed; NULL: no entry. */
struct disk *disks_by_dev(const struct disks *d, uint32_t dev);

/* A number, of no device, with the name @name until disks_free(); the same for the same name. 0:
 * out of memory. */
uint32_t disks_number_of_name(struct disks *d, const char *name);

/* The present device with this name as in diskstats, or NULL. */
const struct disk *disks_by_name(const struct disks *d, const char *name);

/* The folder of @disk in sysfs, without symlinks.  sysfs has '!' where diskstats has '/'.  0 or
 * -errno. */
int disks_folder(const struct disks *d, const struct disk *disk, char folder[PATH_MAX]);

/* The number in the file @name of @folder; 0: no number. */
uint64_t disks_number_in(const char *folder, const char *name);

/* "MAJ" and "MIN" -> *dev, or -EINVAL.  Major 0 is not a block device: file systems without a
 * device use it, and some kernels show the hidden paths of NVMe multipath as 0:0. */
int disks_parse_dev(const char *major, const char *minor, uint32_t *dev);

#endif
