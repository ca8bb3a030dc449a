/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_CALL_FILES_BPF_H
#define IOTRACE_PROBES_CALL_FILES_BPF_H

/* The files of calls: what disk they are on, and whether that is the one of -d. */

#include "probes/blk_devices.bpf.h"

const volatile bool check_files = false; /* only calls on the disks in `devs` */

/* -d: device numbers of the disk and its partitions. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u8);
} devs SEC(".maps");

static __always_inline u32 inode_dev(struct inode *inode)
{
	struct super_block *sb;
	struct block_device *bdev;

	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK)
		return BPF_CORE_READ(inode, i_rdev);
	sb = BPF_CORE_READ(inode, i_sb);
	bdev = BPF_CORE_READ(sb, s_bdev);
	return bdev ? BPF_CORE_READ(bdev, bd_dev) : BPF_CORE_READ(sb, s_dev);
}

/* Can it be on a disk?  Regular files and block devices can, pipes not.  @direct: see KREAD(). */
static __always_inline bool is_on_disk(struct inode *inode, bool direct)
{
	u32 mode = KREAD(direct, inode, i_mode) & S_IFMT;

	return mode == S_IFREG || mode == S_IFBLK;
}

static __always_inline bool is_on_wanted_disk(struct inode *inode)
{
	u32 dev;

	if (!check_files)
		return true;
	dev = inode_dev(inode);
	return bpf_map_lookup_elem(&devs, &dev) != NULL;
}

/* The disk (or partition, of a call for that itself) that a file is on; 0: on none. */
static __always_inline u32 inode_disk(struct inode *inode)
{
	struct block_device *bdev;

	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK)
		return BPF_CORE_READ(inode, i_rdev);
	bdev = BPF_CORE_READ(inode, i_sb, s_bdev);
	return bdev ? disk_dev(BPF_CORE_READ(bdev, bd_disk), false) : 0;
}

static __always_inline struct file *file_of_fd(u64 fd)
{
	struct file **files, *file = NULL;
	struct task_struct *task;
	struct fdtable *table;
	u32 n;

	if (TYPED_TASK) {
		table = bpf_get_current_task_btf()->files->fdt;
		n = table->max_fds;
		files = table->fd;
	} else {
		task = (void *)bpf_get_current_task();
		table = BPF_CORE_READ(task, files, fdt);
		n = BPF_CORE_READ(table, max_fds);
		files = BPF_CORE_READ(table, fd);
	}
	if ((u32)fd >= n)
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), files + (u32)fd);
	return file;
}

#endif
