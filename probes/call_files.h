/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_CALL_FILES_H
#define IOTRACE_PROBES_CALL_FILES_H

/* Shared by probes/call_files.bpf.h and user space (cmd/block/call_disks.h). */

#include <linux/types.h>

/* For a device number, or for a btrfs file system's UUID. */
struct call_disk {
	__u32 dev;    /* --by disk: the disk, or a number that stands for several */
	__u8 wanted;  /* by -d */
	__u8 round;   /* of user space */
	__u16 unused; /* avoids a hole that the verifier reports as uninitialized */
};

#define CALL_DEVS  4096 /* for -d: the disk, its partitions, and devices stacked on them */
#define CALL_BTRFS 1024 /* file systems */

#endif
