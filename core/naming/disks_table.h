/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_NAMING_DISKS_TABLE_H
#define IOTRACE_CORE_NAMING_DISKS_TABLE_H

/* The table behind core/naming/disks.h, shared by disks.c (what there is), disks_find.c (what the
 * user means) and disks_stacked.c (what lies on it).  No header for others. */
#include <limits.h>
#include <stddef.h>

#include "core/naming/disks.h"
#include "core/base/text.h"

#define DISK_NAME_SIZE sizeof(((struct disk_ref *)NULL)->name)

struct disk {
	uint32_t dev;
	bool known;	 /* else @name is "MAJ:MIN" */
	bool present;	 /* in diskstats when it was last read */
	uint64_t looked; /* when the table last looked for this device, unknown or gone */
	const char *name;
	const char
	    *before; /* the device with this number at the last disks_refresh(); NULL: none */
};

struct disks {
	char *proc, *sys, *dev;
	bool own_dev;	   /* @dev was given: it may hold plain files for nodes */
	struct disk *list; /* sorted by dev; devices that went away stay */
	size_t count;
	uint64_t uevents;      /* so many had been sent when @list was read; 0: not known */
	struct text_set names; /* all that was ever handed out */
};

/* Reads diskstats again; on failure the table is as it was. */
int disks_read(struct disks *d, struct error *err);

/* The entry of @dev, which may be unknown or have gone away; NULL if there is none. */
struct disk *disks_by_dev(const struct disks *d, uint32_t dev);

/* A number, of no device, that has the name @name until disks_free(); the same for the same name.
 * 0: no memory. */
uint32_t disks_number_of_name(struct disks *d, const char *name);

/* The present device with this name as in diskstats, or NULL. */
const struct disk *disks_by_name(const struct disks *d, const char *name);

/* The folder of @disk in sysfs, without symlinks.  sysfs has '!' where diskstats has '/'.  0 or
 * -errno. */
int disks_folder(const struct disks *d, const struct disk *disk, char folder[PATH_MAX]);

/* The number in the file @name of @folder; 0 when there is none. */
uint64_t disks_number_in(const char *folder, const char *name);

/* "MAJ" and "MIN" -> *dev, or -EINVAL.  Major 0 is no block device: file systems without one use
 * it, and some kernels show the hidden paths of NVMe multipath as 0:0. */
int disks_parse_dev(const char *major, const char *minor, uint32_t *dev);

#endif
