/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_CALL_FILES_BPF_H
#define IOTRACE_PROBES_CALL_FILES_BPF_H

/* The files of calls: their disk, and whether it is the disk of -d. */

#include <linux/magic.h>

#include "probes/arch.h"
#include "probes/blk_devices.bpf.h"
#include "probes/call_files.h"
#include "probes/syscalls.h"

const volatile bool check_files = false; /* only calls on the disks in `devs` */

/* -d: the numbers of the disk, its partitions, and the devices that are stacked on it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CALL_DEVS);
	__type(key, u32);
	__type(value, struct call_disk);
} devs SEC(".maps");

struct call_uuid {
	u8 b[16];
};

/* The super block of btrfs names no device: the file system may use several.  With -d or --by disk,
 * each by its UUID. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CALL_BTRFS);
	__type(key, struct call_uuid);
	__type(value, struct call_disk);
} btrfs_disks SEC(".maps");

__u64 file_losses[1] = {}; /* lookups of a btrfs that is not in the map */

/* NULL: @sb is not btrfs, or was mounted after user space looked last. */
static __always_inline struct call_disk *btrfs_disk(struct super_block *sb)
{
	struct call_uuid uuid = {};
	struct call_disk *disk;

	if (BPF_CORE_READ(sb, s_magic) != BTRFS_SUPER_MAGIC)
		return NULL;
	bpf_core_read(&uuid, sizeof(uuid), &sb->s_uuid);
	disk = bpf_map_lookup_elem(&btrfs_disks, &uuid);
	if (!disk)
		count_loss(&file_losses[0], 1);
	return disk;
}

/* Is @file the address of a file?  The mapping of its inode points back to the inode. */
static __always_inline bool is_file(struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);

	return inode && BPF_CORE_READ(inode, i_mapping, host) == inode;
}

#define OVERLAYS 2 /* on each other: FILESYSTEM_MAX_STACK_DEPTH */

/*
 * The inode of a file; for a file of overlayfs, of the file below it.  Up to 6.12 private_data is
 * that file; since 6.13 (87a8a76c34a2, 18e48d0e2c7b) it points to two files: the one that was
 * opened, and, once the file was copied up, the one of the upper layer.
 */
static __noinline struct inode *real_inode(struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct file *both[2] = {};

	for (int i = 0; i < OVERLAYS; i++) {
		if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG ||
		    BPF_CORE_READ(inode, i_sb, s_magic) != OVERLAYFS_SUPER_MAGIC)
			break;
		file = BPF_CORE_READ(file, private_data);
		if (!is_file(file)) {
			bpf_probe_read_kernel(both, sizeof(both), file);
			file = is_file(both[1]) ? both[1] : both[0];
		}
		if (!is_file(file))
			break;
		inode = BPF_CORE_READ(file, f_inode);
	}
	return inode;
}

/* Can it be on a disk?  Regular files and block devices can, pipes cannot.  @direct: see
 * KREAD(). */
static __always_inline bool is_on_disk(struct inode *inode, bool direct)
{
	u32 mode = KREAD(direct, inode, i_mode) & S_IFMT;

	return mode == S_IFREG || mode == S_IFBLK;
}

static __always_inline bool is_on_wanted_disk(struct inode *inode)
{
	struct block_device *bdev;
	struct super_block *sb;
	struct call_disk *disk;
	u32 dev;

	if (!check_files)
		return true;
	sb = BPF_CORE_READ(inode, i_sb);
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK) {
		dev = BPF_CORE_READ(inode, i_rdev);
	} else {
		disk = btrfs_disk(sb);
		if (disk)
			return disk->wanted;
		bdev = BPF_CORE_READ(sb, s_bdev);
		if (!bdev)
			return false;
		dev = BPF_CORE_READ(bdev, bd_dev);
	}
	return bpf_map_lookup_elem(&devs, &dev) != NULL;
}

/* The disk of a file (or the partition, if the call is for the partition itself), or the number
 * that stands for several disks; 0: no disk. */
static __always_inline u32 inode_disk(struct inode *inode)
{
	struct super_block *sb = BPF_CORE_READ(inode, i_sb);
	struct block_device *bdev;
	struct call_disk *disk;

	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK)
		return BPF_CORE_READ(inode, i_rdev);
	disk = btrfs_disk(sb);
	if (disk)
		return disk->dev;
	bdev = BPF_CORE_READ(sb, s_bdev);
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

static __always_inline bool is_wanted_file(struct file *file)
{
	struct inode *inode;

	if (!file)
		return false;
	inode = real_inode(file);
	return is_on_disk(inode, false) && is_on_wanted_disk(inode);
}

/* The file of system call @op, with registers @regs and first argument @fd.  For a call with two
 * files: the first, unless only the second is on a counted disk. */
static __always_inline struct file *file_of_call(u32 op, u64 regs, u64 fd)
{
	struct file *file = file_of_fd(fd), *second;
	u32 n = syscall_second_fd(op);

	if (!n || is_wanted_file(file))
		return file;
	second = file_of_fd(later_syscall_arg((void *)regs, n));
	return is_wanted_file(second) ? second : file;
}

#endif
