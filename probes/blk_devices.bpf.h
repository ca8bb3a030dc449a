/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_DEVICES_BPF_H
#define IOTRACE_PROBES_BLK_DEVICES_BPF_H

/* The disk or partition that a request or a bio is for, and whether -d asks for it. */

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

/* Does the disk's driver make requests of bios?  Those of dm, md and zram do not. */
static __always_inline bool makes_requests(struct gendisk *disk, const bool direct)
{
	struct block_device_operations *fops = KREAD(direct, disk, fops);

	return !(fops && KREAD(direct, fops, submit_bio));
}

/* ---- which device an I/O counts for ---- */

/* Up to 5.11 (309dca309fc3) a bio names its disk, and from then on its partition. */
#define BIOS_NAME_DISKS bpf_core_field_exists(((struct bio *)0)->bi_disk)

/*
 * Up to 5.11: the partition of -d if @sector of @disk lies in it, else 0.  Nothing else shows it: a
 * bio was made one of its whole disk before block_bio_queue (bi_partno is 0), and a request knows
 * its partition (rq->part) only while it is accounted; the kernel itself finds that by the sector.
 */
static __always_inline u32 part_by_sector(u32 disk, u64 sector)
{
	return disk == wanted_disk && sector - part_start < part_sectors ? wanted_dev : 0;
}

/* The partition that a bio of @disk is for, or the disk where it is for no partition; 0: not known,
 * or another one than that of -d. */
static __always_inline u32 bio_part_dev(struct bio *bio, u32 disk, const bool direct)
{
	struct block_device *bdev;

	if (BIOS_NAME_DISKS)
		return part_by_sector(disk, KREAD(direct, bio, bi_iter.bi_sector));
	bdev = KREAD(direct, bio, bi_bdev);
	return bdev ? KREAD(direct, bdev, bd_dev) : 0;
}

/* The same of a request: if it is accounted (queue/iostats) the one that the kernel counts it for,
 * which is that of the bio that it was made of; one of another partition may be merged before it.
 */
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
	return !filter_dev || dev == wanted_dev ? dev : 0;
}

/* The device that a bio of @disk counts for, 0 when -d asks for another. */
static __always_inline u32 bio_wanted_dev(struct bio *bio, struct gendisk *disk, const bool direct)
{
	u32 dev = disk_dev(disk, direct);

	return dev_if_wanted(filter_part ? bio_part_dev(bio, dev, direct) : dev);
}

/* The device that a request counts for, 0 when -d asks for another. */
static __always_inline u32 rq_wanted_dev(struct request *rq, const bool direct)
{
	return dev_if_wanted(filter_part ? rq_part_dev(rq) : disk_dev(rq_disk(rq, direct), direct));
}

#endif
