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

/*
 * Up to 5.11 a bio has forgotten its partition by the time that it is in a request, and the request
 * knows it only while it is accounted.  Where it lies on the disk tells, and is what 5.10 itself
 * goes by.
 */
static __always_inline u32 part_by_sector(struct request *rq)
{
	u64 sector;

	if (!bpf_core_field_exists(((struct bio *)0)->bi_disk) ||
	    disk_dev(rq_disk(rq, false), false) != filter_disk)
		return 0;
	sector = BPF_CORE_READ(rq, __sector);
	return sector - part_start < part_sectors ? filter_dev : 0;
}

/* The partition that a request was made for; the whole disk's number where it
 * is none.  0: not known.  rq->part says it only of requests that are accounted
 * (queue/iostats); the bio says it always. */
static __always_inline u32 rq_part_dev(struct request *rq)
{
	struct block_device *part = NULL;
	struct bio *bio = BPF_CORE_READ(rq, bio);
	struct hd_struct *hd;

	if (bio && bpf_core_field_exists(bio->bi_bdev))
		return BPF_CORE_READ(bio, bi_bdev, bd_dev);
	bpf_core_read(&part, sizeof(part), &rq->part);
	if (!part)
		return part_by_sector(rq);
	if (bpf_core_field_exists(part->bd_start_sect))
		return BPF_CORE_READ(part, bd_dev);
	hd = (void *)part;
	return BPF_CORE_READ(hd, __dev.devt);
}

/*
 * Is the bio, of disk @whole, for the partition that -d names?  Up to 5.11 block_bio_queue comes
 * after the bio was made one of the whole disk (bi_partno is 0): its place on the disk says it.
 */
static __always_inline bool bio_in_part(struct bio *bio, u32 whole, const bool direct)
{
	struct block_device *bdev;

	if (bpf_core_field_exists(bio->bi_disk))
		return whole == filter_disk &&
		       KREAD(direct, bio, bi_iter.bi_sector) - part_start < part_sectors;
	bdev = KREAD(direct, bio, bi_bdev);
	return bdev && KREAD(direct, bdev, bd_dev) == filter_dev;
}

/* The device that a bio of @disk counts for, 0 when -d asks for another. */
static __always_inline u32 bio_wanted_dev(struct bio *bio, struct gendisk *disk, const bool direct)
{
	u32 whole = disk_dev(disk, direct);

	if (!filter_dev)
		return whole;
	if (filter_part)
		return bio_in_part(bio, whole, direct) ? filter_dev : 0;
	return whole == filter_dev ? whole : 0;
}

/* The device that a request counts for, 0 when -d asks for another. */
static __always_inline u32 rq_wanted_dev(struct request *rq, const bool direct)
{
	u32 dev;

	if (filter_dev && filter_part)
		return rq_part_dev(rq) == filter_dev ? filter_dev : 0;
	dev = disk_dev(rq_disk(rq, direct), direct);
	if (filter_dev && dev != filter_dev)
		return 0;
	return dev;
}

#endif
