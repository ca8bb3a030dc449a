/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_RECORD_BPF_H
#define IOTRACE_PROBES_BLK_RECORD_BPF_H

/* Writes the records of probes/blk_record.h: the ring buffer and the table of owners. */

#include "probes/blk_inflight.bpf.h"
#include "probes/blk_record.h"

/* Bytes of the ring buffer; user space sets both. */
const volatile __u32 records_bytes = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * BLK_OWNERS);
	__type(key, u32);
	__type(value, struct blk_owner);
} owners SEC(".maps");

__u64 records_lost = 0;

/* When user space was last woken. */
__u64 woken_ns = 0;

static __always_inline u32 records_used(void)
{
	return bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);
}

/* User space polls the ring buffer; it is woken only if the next poll may be too late, and at most
 * once per ms: each wake-up interrupts a CPU. */
#define WAKE_NS 1000000

static __always_inline void submit_record(void *record, u64 now)
{
	u64 flags = BPF_RB_NO_WAKEUP;

	if (records_used() >= records_bytes / 8 && now - woken_ns >= WAKE_NS) {
		woken_ns = now;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	bpf_ringbuf_submit(record, flags);
}

static __always_inline u64 mixed(u64 hash, u64 with)
{
	return (hash ^ with) * 0x9e3779b97f4a7c15ull;
}

/* The arguments of number_of_owner(). */
static __always_inline u64 owner_hash(u64 start, u64 task_cgroup, u64 cgroup, u64 pid_uid,
				      u32 flags)
{
	u64 hash = mixed(start, pid_uid);

	hash = mixed(hash ^ hash >> 32, task_cgroup);
	hash = mixed(hash ^ hash >> 32, cgroup);
	return mixed(hash ^ hash >> 32, flags) | 1;
}

enum owner_flag { OWNER_KNOWN = 1, OWNER_WRITEBACK = 2, OWNER_CGROUP2 = 4 };

#define OWNER_TRIES 4
#define OWNER_NONE  (2 * BLK_OWNERS)

/*
 * The number of an owner in the buffer that is being written; OWNER_NONE: no room.  @pid_uid: the
 * process in the upper half.  One owner may have several numbers: two CPUs may add it at the same
 * moment.
 *
 * All fields are compared: a slot that is equal here is what user space reads, even if another CPU
 * may be writing.  A global function: the verifier checks it once, and not for each state of its
 * caller.
 */
__attribute__((noinline)) u32 number_of_owner(u64 start, u64 task_cgroup, u64 cgroup, u64 pid_uid,
					      u32 flags)
{
	u64 hash = owner_hash(start, task_cgroup, cgroup, pid_uid, flags);
	u32 buffer = (epoch & 1) << BLK_OWNER_BITS, index;
	struct blk_owner *slot;

	for (u32 i = 0; i < OWNER_TRIES; i++) {
		index = buffer | (hash >> (64 - BLK_OWNER_BITS) ^ i);
		slot = bpf_map_lookup_elem(&owners, &index);
		if (!slot)
			return OWNER_NONE;
		if (slot->hash == hash &&
		    !((slot->start ^ start) | (slot->task_cgroup ^ task_cgroup) |
		      (slot->cgroup ^ cgroup) | (((u64)slot->pid << 32 | slot->uid) ^ pid_uid) |
		      ((slot->known * OWNER_KNOWN | slot->writeback * OWNER_WRITEBACK |
			slot->cgroup2 * OWNER_CGROUP2) ^
		       flags)))
			return index;
		if (slot->hash || !take_claim(&slot->claims))
			continue;
		slot->start = start;
		slot->task_cgroup = task_cgroup;
		slot->cgroup = cgroup;
		slot->pid = pid_uid >> 32;
		slot->uid = pid_uid;
		slot->known = flags & OWNER_KNOWN;
		slot->writeback = flags / OWNER_WRITEBACK & 1;
		slot->cgroup2 = flags / OWNER_CGROUP2 & 1;
		barrier();
		slot->hash = hash;
		return index;
	}
	return OWNER_NONE;
}

/* False: no room; counted as a loss. */
static __always_inline bool write_record(const struct blk_record *made)
{
	struct blk_record *to = bpf_ringbuf_reserve(&records, sizeof(*to), 0);

	if (!to) {
		count_loss(&records_lost, 1);
		return false;
	}
	*to = *made;
	to->lost = records_lost;
	submit_record(to, made->end_ns);
	return true;
}

#endif
