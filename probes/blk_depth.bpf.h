/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_DEPTH_BPF_H
#define IOTRACE_PROBES_BLK_DEPTH_BPF_H

/* How many requests a disk has: issued and not complete. */

#include "probes/kernel.h"
#include "probes/blk.h"

/* By the number of the disk. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u64);
} depths SEC(".maps");

/* The count of requests at the disk; NULL: no room. */
static __always_inline u64 *depth_of(u32 dev)
{
	u64 *depth = bpf_map_lookup_elem(&depths, &dev), none = 0;

	if (depth || !dev)
		return depth;
	bpf_map_update_elem(&depths, &dev, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&depths, &dev);
}

/* Request @entry is issued.  Its depth includes itself, and requests that another CPU adds between
 * the addition and the read: 5.10 has no addition that returns a value. */
static __always_inline void depth_enter(struct blk_inflight *entry)
{
	u64 *depth = depth_of(entry->dev);

	entry->depth = 0;
	if (!depth)
		return;
	__sync_fetch_and_add(depth, 1);
	entry->depth = *(volatile u64 *)depth;
}

/* The device does not have it any more. */
static __always_inline void depth_leave(struct blk_inflight *entry)
{
	u64 *depth;

	if (!entry->issue_ns || entry->op == BLK_SYNC || !entry->depth)
		return;
	depth = bpf_map_lookup_elem(&depths, &entry->dev);
	if (depth)
		__sync_fetch_and_add(depth, -1);
}

#endif
