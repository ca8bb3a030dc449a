/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BIO_FILE_H
#define IOTRACE_PROBES_BIO_FILE_H

/* What the data of a bio is of; shared by probes and user space. */

#include <linux/types.h>

enum file_kind {
	FILE_NONE,     /* no data: a flush, a discard */
	FILE_NAMED,    /* a file with a name in memory */
	FILE_UNNAMED,  /* a file that has no name any more, or that is found by its number only */
	FILE_DEVICE,   /* a block device: the file system's own data, or the device was opened */
	FILE_JOURNAL,  /* of the file system on that device */
	FILE_METADATA, /* a file system's own data in memory of the kernel, such as buffers of XFS
			*/
	FILE_DIRECT,   /* memory of a process: direct I/O; nothing leads to the file */
	FILE_SWAP,
	FILE_MEMORY, /* memory of the kernel, of no known file */
};

struct bio_file {
	__u64 inode, magic; /* of the file and of its file system; 0: not known */
	__u32 dev;	    /* of its file system; of a block device its own; 0: not known */
	__u32 kind;	    /* enum file_kind */
};

#endif
