/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_DEVICES_BPF_H
#define IOTRACE_PROBES_BLK_DEVICES_BPF_H

/* Finds the disk or partition of a request or a bio, and checks it against -d; finds the cgroup
 * that a bio is charged to, and when a request was made. */

#include "probes/blk_options.bpf.h"

static __always_inline struct gendisk *rq_disk(struct request *rq, const bool direct)
{
	struct request_queue *q;

	if (bpf_core_field_exists(rq->rq_disk))
		return KREAD(direct, rq, rq_disk);
	q = KREAD(direct, rq, q);
	return KREAD(direct, q, disk);
}

static __always_inline u32 disk_dev(struct gendisk *disk, const bool direct)
{
	if (!disk)
		return 0;
	return (u32)KREAD(direct, disk, major) << 20 | (u32)KREAD(direct, disk, first_minor);
}

static __always_inline struct gendisk *bio_disk(struct bio *bio, const bool direct)
{
	struct block_device *bdev;

	if (bpf_core_field_exists(bio->bi_disk))
		return KREAD(direct, bio, bi_disk);
	bdev = KREAD(direct, bio, bi_bdev);
	return bdev ? KREAD(direct, bdev, bd_disk) : NULL;
}

/* Does the disk's driver make requests of bios? dm, md and zram do not. */
static __always_inline bool makes_requests(struct gendisk *disk, const bool direct)
{
	struct block_device_operations *fops = KREAD(direct, disk, fops);

	return !(fops && KREAD(direct, fops, submit_bio));
}

/* ---- which device an I/O counts for ---- */

/* Is it one of the further disks of -d? */
static __always_inline bool is_more_dev(u32 dev)
{
	for (u32 i = 0; i < BLK_MORE; i++) {
		if (i >= n_more_devs)
			break;
		if (dev && dev == more_devs[i])
			return true;
	}
	return false;
}

/* Is @dev a disk of -d, or the disk of its partition? */
static __always_inline bool is_wanted_disk(u32 dev)
{
	return dev == wanted_disk || (n_more_devs && is_more_dev(dev));
}

/* Up to 5.11 (309dca309fc3) a bio names its disk, and from then on its partition. */
#define BIOS_NAME_DISKS bpf_core_field_exists(((struct bio *)0)->bi_disk)

/*
 * Up to 5.11: the partition of -d if @sector of @disk lies in it, otherwise 0.  There is no other
 * way: before block_bio_queue a bio is converted to its whole disk (bi_partno is 0), and a request
 * knows its partition (rq->part) only while it is accounted; the kernel itself finds the partition
 * by the sector.
 */
static __always_inline u32 part_by_sector(u32 disk, u64 sector)
{
	return disk == wanted_disk && sector - part_start < part_sectors ? wanted_dev : 0;
}

/* The partition of a bio of @disk, or the disk if the bio is not for a partition; 0: unknown, or
 * another partition than -d's. */
static __always_inline u32 bio_part_dev(struct bio *bio, u32 disk, const bool direct)
{
	struct block_device *bdev;

	if (BIOS_NAME_DISKS)
		return part_by_sector(disk, KREAD(direct, bio, bi_iter.bi_sector));
	bdev = KREAD(direct, bio, bi_bdev);
	return bdev ? KREAD(direct, bdev, bd_dev) : 0;
}

/* The same for a request: if it is accounted (queue/iostats), the partition that the kernel counts
 * it for.  This is the partition of the bio that it was made of; a bio of another partition may be
 * merged before it. */
static __always_inline u32 rq_part_dev(struct request *rq)
{
	struct block_device *part;
	struct bio *bio;

	if (BIOS_NAME_DISKS)
		return part_by_sector(disk_dev(rq_disk(rq, false), false),
				      BPF_CORE_READ(rq, __sector));
	part = BPF_CORE_READ(rq, part);
	if (part)
		return BPF_CORE_READ(part, bd_dev);
	bio = BPF_CORE_READ(rq, bio);
	return bio ? bio_part_dev(bio, 0, false) : 0;
}

static __always_inline u32 dev_if_wanted(u32 dev)
{
	return !filter_dev || dev == wanted_dev || (n_more_devs && is_more_dev(dev)) ? dev : 0;
}

/* The device that a bio of @disk is counted for, 0 when -d selects another one. */
static __always_inline u32 bio_wanted_dev(struct bio *bio, struct gendisk *disk, const bool direct)
{
	u32 dev = disk_dev(disk, direct);

	return dev_if_wanted(filter_part ? bio_part_dev(bio, dev, direct) : dev);
}

/* The device that a request is counted for, 0 when -d selects another one. */
static __always_inline u32 rq_wanted_dev(struct request *rq, const bool direct)
{
	return dev_if_wanted(filter_part ? rq_part_dev(rq) : disk_dev(rq_disk(rq, direct), direct));
}

/* ---- times ---- */

/*
 * When a request was made, as stored by the kernel; 0: not stored.  Since 6.12 only accounted
 * requests (RQF_IO_STAT) and flush commands get a time, other requests keep the time of their last
 * use.  Before, the time is 0 if it is not stored.
 */
static __always_inline u64 rq_made_ns(struct request *rq, const bool direct)
{
	if (io_stat_mask && !(KREAD(direct, rq, rq_flags) & io_stat_mask) &&
	    (KREAD(direct, rq, cmd_flags) & 0xff) != 2)
		return 0;
	return KREAD(direct, rq, start_time_ns);
}

/* ---- cgroups ---- */

/* False with CONFIG_CGROUPS=n, where the types used below do not exist. */
#define HAS_CGROUPS bpf_core_field_exists(((struct task_struct *)0)->cgroups)

static __always_inline struct cgroup_subsys_state *css_of_bio(struct bio *bio)
{
	struct blkcg *blkcg;

	if (!bio || !bpf_core_field_exists(bio->bi_blkg))
		return NULL;
	blkcg = BPF_CORE_READ(bio, bi_blkg, blkcg);
	return blkcg ? __builtin_preserve_access_index(&blkcg->css) : NULL;
}

/* The css of block I/O that is in effect for the tasks of @set. */
static __always_inline struct cgroup_subsys_state *io_css_of(struct css_set *set)
{
	struct cgroup_subsys_state *css = NULL;
	void **all = (void **)__builtin_preserve_access_index(&set->subsys);

	if (bpf_core_enum_value_exists(enum cgroup_subsys_id, io_cgrp_id))
		bpf_core_read(&css, sizeof(css),
			      all + bpf_core_enum_value(enum cgroup_subsys_id, io_cgrp_id));
	return css;
}

/*
 * The cgroup that @bio is charged to; for write-back, the cgroup that dirtied the pages.  For a
 * request without bios (NULL), the cgroup of @task. cgroup2 charges I/O of a cgroup without the
 * controller "io" to a cgroup above it; then the result is the task's own cgroup.
 */
static __always_inline struct cgroup *io_cgroup_of(struct task_struct *task, struct bio *bio)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup_subsys_state *own = io_css_of(set), *css = css_of_bio(bio);
	struct cgroup *in_cgroup2 = BPF_CORE_READ(set, dfl_cgrp), *cgroup;

	if (!css)
		css = own;
	if (!css)
		return in_cgroup2;
	cgroup = BPF_CORE_READ(css, cgroup);
	if (css == own && BPF_CORE_READ(cgroup, root) == BPF_CORE_READ(in_cgroup2, root))
		return in_cgroup2;
	return cgroup;
}

#endif
