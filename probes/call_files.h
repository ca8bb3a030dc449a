/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_CALL_FILES_H
#define IOTRACE_PROBES_CALL_FILES_H

/* What probes/call_files.bpf.h and user space (cmd/call_disks.h) share. */

#include <linux/types.h>

/* Of a device number, or of a btrfs file system's UUID. */
struct call_disk {
	__u32 dev;    /* --by disk: the disk, or a number that stands for several */
	__u8 wanted;  /* by -d */
	__u8 round;   /* of user space */
	__u16 unused; /* no hole that the verifier finds unset */
};

#define CALL_DEVS  4096 /* of -d: the disk, its partitions, what is stacked on them */
#define CALL_BTRFS 1024 /* file systems */

#endif
