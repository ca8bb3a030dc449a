/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_BIO_DEVICES_BPF_H
#define IOTRACE_PROBES_BLK_BIO_DEVICES_BPF_H

/* Bios of devices that make no requests (dm, md, zram, multipath), from queueing to completion. */

#include "probes/blk_inflight.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct blk_inflight);
} bios SEC(".maps");

/* Defined by the program: counts @bio, which took @ns. */
static __always_inline void on_bio_done(const struct blk_inflight *bio, u64 ns);

/* Follows @bio, an address, from now on, with the entry @made. */
static __always_inline void follow_bio(u64 bio, struct blk_inflight *made)
{
	struct blk_inflight *last = bpf_map_lookup_elem(&bios, &bio);

	made->submit_ns = bpf_ktime_get_ns();
	made->known = 1;
	if (last) {
		/* As in account_lost_completion(). */
		count_loss(&losses[LOSS_NO_END], 1);
		on_lost_completion(last);
	}
	if (bpf_map_update_elem(&bios, &bio, made, BPF_ANY))
		count_loss(&losses[LOSS_REQUESTS_FULL], 1);
}

/* A global function: the verifier checks it once, not in each round of the loop that calls it. */
__attribute__((noinline)) int on_bio_end(u64 bio, u32 failed)
{
	struct blk_inflight *entry = bpf_map_lookup_elem(&bios, &bio), done;

	if (!entry)
		return 0;
	done = *entry;
	done.failed = failed;
	/* Deleted first: the program that deletes it counts it. */
	if (!bpf_map_delete_elem(&bios, &bio))
		on_bio_done(&done, bpf_ktime_get_ns() - done.submit_ns);
	return 0;
}

#define ENDED_BIOS_MAX 256

/* The bios within the first @bytes of the request at @key have ended.  A global function: the
 * verifier's knowledge of the caller would differ after each round. */
__attribute__((noinline)) int end_bios(u64 key, u32 failed, u32 bytes)
{
	struct request *rq = (void *)key;
	struct bio *bio = BPF_CORE_READ(rq, bio);
	u32 size;

	for (int i = 0; i < ENDED_BIOS_MAX; i++) {
		if (!bio)
			return 0;
		size = BPF_CORE_READ(bio, bi_iter.bi_size);
		if (size > bytes)
			return 0;
		on_bio_end((u64)bio, failed);
		bytes -= size;
		bio = BPF_CORE_READ(bio, bi_next);
	}
	if (bio && bytes)
		count_loss(&losses[LOSS_BIOS], 1);
	return 0;
}

/*
 * A driver may pass the same bio on to a request-based disk (NVMe multipath, md linear and raid0).
 * There it ends with its request, without block_bio_complete.
 */
static __always_inline void end_bios_of(struct request *rq, bool failed, u32 bytes)
{
	end_bios(load_scalar_rq(rq), failed, bytes);
}

#endif
