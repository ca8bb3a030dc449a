// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/block/files.h"

#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/bpf/find_symbols.h"
#include "core/bpf/kernel_types.h"
#include "core/system/kallsyms.h"

/* ---- what the programs need ---- */

/* Functions of the kernel that end bios. */
enum {
	END_CHAIN,
	END_IOMAP_DIO,
	END_IOMAP_SIMPLE,
	END_DIO,
	END_DEVICE_DIO = END_DIO + 2,
	END_BUFFER = END_DEVICE_DIO + 3,
	END_JOURNAL,
	END_LOG,
	END_SWAP,
	END_WAIT = END_SWAP + 2,
	END_BTRFS = END_WAIT + 2,
	ENDS = END_BTRFS + 2
};

static const char *const ends[ENDS] = {
	[END_CHAIN] = "bio_chain_endio",
	[END_IOMAP_DIO] = "iomap_dio_bio_end_io",
	[END_IOMAP_SIMPLE] = "iomap_dio_simple_end_io",
	[END_DIO] = "dio_bio_end_io",
	"dio_bio_end_aio",
	[END_DEVICE_DIO] = "blkdev_bio_end_io",
	"blkdev_bio_end_io_async",
	"blkdev_bio_end_io_simple",
	[END_BUFFER] = "end_bio_bh_io_sync",
	[END_JOURNAL] = "journal_end_buffer_io_sync",
	[END_LOG] = "xlog_bio_end_io",
	[END_SWAP] = "end_swap_bio_write",
	"end_swap_bio_read",
	[END_WAIT] = "submit_bio_wait_endio",
	"bio_wait_end_io",
	[END_BTRFS] = "btrfs_simple_end_io",
	"btrfs_orig_write_end_io",
};

/* How many have an address, or -errno.  Reading all of /proc/kallsyms is most of a start. */
static int find_ends(uint64_t at[ENDS])
{
	int found = find_symbols(ends, at, ENDS);

	return found < 0 ? kallsyms_find(NULL, ends, at, ENDS) : found;
}

enum { BTRFS_BIO, BTRFS_INODE, BTRFS_VFS_INODE, BTRFS_MEMBERS };

/* Where btrfs has them; false: not known. */
static bool find_btrfs(const struct tool_run *run, uint32_t at[BTRFS_MEMBERS])
{
	static const char *const members[][2] = { { "btrfs_bio", "bio" },
						  { "btrfs_bio", "inode" },
						  { "btrfs_inode", "vfs_inode" } };

	for (size_t i = 0; i < BTRFS_MEMBERS; i++) {
		long r = kernel_types_offset(hooks_types(run->object.hooks), "btrfs", members[i][0],
					     members[i][1]);

		if (r < 0)
			return false;
		at[i] = (uint32_t)r;
	}
	return true;
}

int files_configure(struct tool_run *run, struct tool_object *object, const struct blk_flags *flags)
{
	uint32_t btrfs[BTRFS_MEMBERS] = { 0 };
	bool has_btrfs = find_btrfs(run, btrfs);
	uint64_t at[ENDS] = { 0 };
	const int found = find_ends(at);
	const struct probe_option options[] = {
		{ "end_of_chain", at[END_CHAIN] },
		{ "end_of_iomap_dio", at[END_IOMAP_DIO] },
		{ "end_of_iomap_simple", at[END_IOMAP_SIMPLE] },
		{ "end_of_dio", 0, &at[END_DIO], 2 * sizeof(at[0]) },
		{ "end_of_device_dio", 0, &at[END_DEVICE_DIO], 3 * sizeof(at[0]) },
		{ "end_of_buffer", at[END_BUFFER] },
		{ "end_of_journal", at[END_JOURNAL] },
		{ "end_of_log", at[END_LOG] },
		{ "end_of_swap", 0, &at[END_SWAP], 2 * sizeof(at[0]) },
		{ "end_of_wait", 0, &at[END_WAIT], 2 * sizeof(at[0]) },
		{ "end_of_btrfs", 0, &at[END_BTRFS], 2 * sizeof(at[0]) },
		{ "btrfs_bio_bio", has_btrfs ? btrfs[BTRFS_BIO] : 0 },
		{ "btrfs_bio_inode", btrfs[BTRFS_INODE] },
		{ "btrfs_inode_vfs", btrfs[BTRFS_VFS_INODE] },
		{ "page_pinned_mask", flags->page_pinned },
	};

	if (found <= 0)
		tool_note(run, "kernel addresses are hidden: files of direct I/O are not known");
	return tool_configure(object, options, ARRAY_SIZE(options), NULL, 0);
}

/* ---- names ---- */

#define FILE_TEXT (FILE_PATH + PATH_MAX + 128)

/* Room for the path of a record: a '/' for each NUL, and "/..." before. */
#define PATH_TEXT (FILE_PATH + 16)

/* The path in the file system, from its root. */
static void path_of(const struct file_record *r, char out[PATH_TEXT])
{
	const char *parts[FILE_PARTS];
	size_t n = 0;
	int at = 0;

	for (uint32_t i = 0; i < r->path_bytes && n < ARRAY_SIZE(parts); n++) {
		parts[n] = r->path + i;
		i += (uint32_t)strnlen(r->path + i, r->path_bytes - i) + 1;
	}
	out[0] = 0;
	if (r->path_flags & FILE_CUT)
		at = snprintf(out, PATH_TEXT, "/...");
	while (n-- > 0) {
		size_t left = r->path_bytes - (size_t)(parts[n] - r->path);

		at += snprintf(out + at, PATH_TEXT - (size_t)at, "/%.*s",
			       (int)strnlen(parts[n], left), parts[n]);
	}
	if (!at)
		snprintf(out, PATH_TEXT, "/");
}

static void name_file(const struct file_record *r, struct mounts *mounts, struct disks *disks,
		      char *out, size_t size)
{
	const char *removed = r->path_flags & FILE_REMOVED ? " (deleted)" : "";
	char in[PATH_TEXT], path[PATH_MAX];
	bool elsewhere;

	path_of(r, in);
	elsewhere = r->path_flags & FILE_CUT || mounts_path(mounts, r->dev, in, path, sizeof(path));
	if (elsewhere && strcmp(in, "/") == 0) /* a memfd, or shared memory of System V */
		snprintf(out, size, "[memory]");
	else if (elsewhere)
		snprintf(out, size, "%s:%s%s", disks_name(disks, r->dev), in, removed);
	else
		snprintf(out, size, "%s%s", path, removed);
}

const char *files_text(struct text_set *texts, const struct file_record *r, struct mounts *mounts,
		       struct disks *disks)
{
	char text[FILE_TEXT];
	const char *type;

	if (r->kind == FILE_NONE)
		return "";
	if (r->kind == FILE_UNREAD)
		return "[not read]";
	type = mounts_type(mounts, r->dev);
	switch (r->kind) {
	case FILE_NAMED:
		name_file(r, mounts, disks, text, sizeof(text));
		break;
	case FILE_UNNAMED:
		/* Inode 1 of btrfs is a file without a name that holds its metadata. */
		if (r->magic == BTRFS_SUPER_MAGIC && r->inode == 1)
			snprintf(text, sizeof(text), "[btrfs metadata]");
		else
			snprintf(text, sizeof(text), "[no name: inode %llu of %s]",
				 (unsigned long long)r->inode, type ? type : "a file system");
		break;
	case FILE_DEVICE:
		snprintf(text, sizeof(text), type ? "[%s metadata]" : "[block device]", type);
		break;
	case FILE_JOURNAL:
		snprintf(text, sizeof(text),
			 type && strcmp(type, "xfs") == 0 ? "[%s log]" : "[%s journal]",
			 type ? type : "file system's");
		break;
	case FILE_METADATA:
		snprintf(text, sizeof(text), "[%s metadata]", type ? type : "file system");
		break;
	case FILE_DIRECT:
		snprintf(text, sizeof(text), "[direct I/O, file not known]");
		break;
	case FILE_SWAP:
		snprintf(text, sizeof(text), "[swap]");
		break;
	default:
		snprintf(text, sizeof(text), "[no file's memory]");
	}
	return text_keep(texts, text);
}

const char *files_of_record(struct text_set *texts, const struct slow_record *r,
			    struct mounts *mounts, struct disks *disks)
{
	const struct file_record file = {
		.kind = r->file,
		.path_flags = r->path_flags,
		.dev = r->file_dev,
		.inode = r->inode,
		.magic = r->magic,
		.path = r->path,
		.path_bytes = r->path_bytes,
	};

	return files_text(texts, &file, mounts, disks);
}

const char *files_dir(const char *file, unsigned int depth, char buf[FILES_DIR_SIZE])
{
	const char *slash = strchr(file, '/'), *end = strrchr(file, '/'), *next = slash;

	if (!slash || file[0] == '[')
		return file;
	for (unsigned int i = 0; i < depth && next && next < end; i++)
		next = strchr(next + 1, '/');
	if (depth && next && next < end)
		end = next;
	if (end == slash)
		end++; /* the root */
	snprintf(buf, FILES_DIR_SIZE, "%.*s", (int)(end - file), file);
	return buf;
}
