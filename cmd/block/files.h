/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The file of an I/O: what probes/bio_file.bpf.h needs to find it, and its name. */
#ifndef IOTRACE_CMD_BLOCK_FILES_H
#define IOTRACE_CMD_BLOCK_FILES_H

#include "cmd/block/blk.h"
#include "cmd/engine/tool.h"
#include "core/base/text.h"
#include "core/naming/disks.h"
#include "core/naming/mounts.h"
#include "probes/bio_file.h"
#include "probes/slow.h"

/* Sets the options of probes/bio_file.bpf.h in @object: which functions of the kernel end a bio.
 * Where their addresses are hidden, a note says so.  0 or -errno. */
int files_configure(struct tool_run *t, struct tool_object *object, const struct blk_flags *flags);

/* What a program has found. */
struct file_record {
	uint8_t kind;	    /* enum file_kind */
	uint8_t path_flags; /* enum file_path_flags */
	uint32_t dev;	    /* of its file system; of FILE_DEVICE the device */
	uint64_t inode, magic;
	const char *path; /* see read_path(); need not end with a NUL */
	uint32_t path_bytes;
};

/* The path of @file, or in [brackets] why it has none; in @texts.  NULL without memory. */
const char *files_text(struct text_set *texts, const struct file_record *file,
		       struct mounts *mounts, struct disks *disks);

/* The same of the file of an I/O that the programs of slow recorded. */
const char *files_of_record(struct text_set *texts, const struct slow_record *record,
			    struct mounts *mounts, struct disks *disks);

#define FILES_DIR_SIZE 4096

/* The directory of @file, a name like the one before; @depth: only the first so many parts of the
 * path, 0: all.  What is not a path stays as it is.  Returns @file or @buf. */
const char *files_dir(const char *file, unsigned int depth, char buf[FILES_DIR_SIZE]);

#endif
