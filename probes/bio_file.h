/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BIO_FILE_H
#define IOTRACE_PROBES_BIO_FILE_H

/* Describes the owner of a bio's data; shared by probes and user space. */

#include <linux/types.h>

enum file_kind {
	FILE_NONE,     /* no data: a flush, a discard */
	FILE_NAMED,    /* a file with a name in memory */
	FILE_UNNAMED,  /* a file that has no name any more, or that only its number identifies */
	FILE_DEVICE,   /* a block device: the file system's own data, or the device was opened */
	FILE_JOURNAL,  /* of the file system on that device */
	FILE_METADATA, /* a file system's own data in memory of the kernel, such as buffers of XFS
			*/
	FILE_DIRECT,   /* memory of a process: direct I/O whose file is unknown */
	FILE_SWAP,
	FILE_MEMORY, /* memory of the kernel, file unknown */
	FILE_UNREAD, /* no program looked for the file */
	FILE_OTHERS, /* of several that have no room */
};

#define FILE_PATH     768
#define FILE_PARTS    40  /* of a path */
#define FILE_PART_MAX 256 /* bytes of one, with its NUL */

enum file_path_flags {
	FILE_REMOVED = 1, /* the file has no name in its directory any more */
	FILE_CUT = 2,	  /* the path goes on towards the root */
};

struct bio_file {
	__u64 inode, magic; /* of the file and of its file system; 0: not known */
	__u32 dev;	    /* of its file system; for a block device its own; 0: unknown */
	__u32 kind;	    /* enum file_kind */
	__u32 generation;   /* of the inode: its number may be used again */
	__u32 pad;
};

/* What rows by file are about; as bio_file has it, but never FILE_NAMED. */
struct file_id {
	__u64 inode;
	__u32 dev, generation, kind, pad;
};

/* The name of a file; of FILE_UNNAMED only. */
struct file_name {
	__u64 magic;
	__u32 path_bytes;
	__u8 named;	 /* `path` is there; it may be empty, for the root */
	__u8 path_flags; /* enum file_path_flags */
	__u16 pad;
	char path[FILE_PATH]; /* from the name to the root, each part with its NUL */
};

_Static_assert(sizeof(struct file_id) == 24, "shared with BPF");
_Static_assert(sizeof(struct file_name) == 16 + FILE_PATH, "shared with BPF");

#endif
