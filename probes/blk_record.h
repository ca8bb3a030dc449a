/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_RECORD_H
#define IOTRACE_PROBES_BLK_RECORD_H

/*
 * The compact record of one completed request, as programs write it to the ring buffer `records`.
 *
 * - Times are exact nanoseconds.  The request arrived at end_ns - device_ns - queue_ns - admit_ns
 *   and was issued at end_ns - device_ns, both CLOCK_MONOTONIC.
 * - A request that does not fit (a part of 2^32 ns and more, an error, a retry, a size that is no
 *   multiple of 512 bytes) is written as the larger record of the subcommand, which has all fields
 *   of this one.  Readers tell the two by their size.
 * - Records are in the order of completion per CPU only.
 * - A record that found no room increments `records_lost`.  Each record has that counter's lowest
 *   bits: a step from one record of the ring to the next is the number of records that were lost
 *   between them (blk_record_lost()).
 */

#ifdef __bpf__
#include "probes/kernel.h"
#else
#include <linux/types.h>
#endif

#define BLK_RECORD_SECTOR_BITS	40 /* 512 TiB */
#define BLK_RECORD_LOST_BITS	24
#define BLK_RECORD_SECTORS_BITS 23 /* 4 GiB - 512 */

struct blk_record {
	__u64 end_ns;
	__u32 admit_ns, queue_ns, device_ns;
	__u32 dev; /* the disk, or the partition of -d */
	__u64 sector : BLK_RECORD_SECTOR_BITS;
	__u64 lost : BLK_RECORD_LOST_BITS; /* records_lost when this one was written */
	__u32 sectors : BLK_RECORD_SECTORS_BITS;
	__u32 op : 4;	 /* enum blk_op */
	__u32 flags : 5; /* enum slow_flag */
	__u16 owner;	 /* index in the map `owners` */
	__u16 depth;	 /* requests at the device with it when it was issued; 0: unknown */
};

/*
 * The submitter of a request, and the cgroup that is charged.  The map has one half for each buffer
 * of the double buffer: an entry stays until user space empties the inactive half.
 */
struct blk_owner {
	__u64 hash;	   /* of all fields below; 0: a free slot */
	__u64 start;	   /* of process pid: struct blk_process */
	__u64 task_cgroup; /* of the submitter, in cgroup2 */
	__u64 cgroup;	   /* that the bio is charged to; 0: unknown */
	__u32 pid, uid;	   /* uid: if requested */
	__u8 known;	   /* otherwise start, pid, uid and task_cgroup are 0 */
	__u8 writeback;
	__u8 cgroup2; /* `cgroup` is one of cgroup2 */
	__u8 pad;
	__u32 claims; /* programs that tried to claim the slot; the first one owns it */
	__u64 pad2[2];
};

#define BLK_OWNER_BITS 13 /* of the slots per buffer */
#define BLK_OWNERS     (1U << BLK_OWNER_BITS)

/* How many records were lost between the last record read and one that has @lost.  @last is the
 * `lost` of the last record, updated here.  Programs on several CPUs write at the same time, so
 * that a record's counter may be older than the last one: then the result is 0. */
static inline __u32 blk_record_lost(__u32 *last, __u32 lost)
{
	const __u32 mask = (1U << BLK_RECORD_LOST_BITS) - 1, step = (lost - *last) & mask;

	if (step > mask / 2)
		return 0;
	*last = lost & mask;
	return step;
}

_Static_assert(sizeof(struct blk_record) == 40, "shared with BPF");
_Static_assert(sizeof(struct blk_owner) == 64, "shared with BPF: a cache line");
_Static_assert(2 * BLK_OWNERS <= 1U << 16, "a record has 16 bits for its owner");

#endif
