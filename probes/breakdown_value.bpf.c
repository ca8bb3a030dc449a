// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace breakdown -T blk --value: one histogram per operation, or (--by) per key and operation,
 * of a property that each request has when it is issued first.  The programs that time requests
 * stay as short as they are: these are others.
 */
#include "probes/blk_depth.bpf.h"
#include "probes/breakdown_value.h"

const volatile __u32 value = VALUE_SIZE; /* enum breakdown_value */

static __always_inline void value_issued(struct blk_inflight *entry, struct request *rq,
					 const bool direct);
static __always_inline void value_requeued(struct blk_inflight *entry);

#define BLK_ON_SUBMITTED(entry, bio, front_merge)
#define BLK_ON_RQ_ISSUED(entry, rq, direct) value_issued(entry, rq, direct)
#define BLK_ON_FLUSHING(entry)
#define BLK_ON_REQUEUED(entry)	      value_requeued(entry)
#define BLK_ON_LOST_COMPLETION(entry) value_left(entry)
#define BLK_COPY_OWN(to, from)	      ((to)->retries = 0)
#define BLK_FOLLOWS_ALL		      (value == VALUE_DEPTH)

/* The device does not have it any more. */
static __always_inline void value_left(struct blk_inflight *entry)
{
	if (value == VALUE_DEPTH)
		depth_leave(entry);
	entry->retries = 0;
}

#include "probes/blk.bpf.h"

#define HISTS_ROWS VALUE_ROWS
#include "probes/breakdown_hists.bpf.h"

/* Least recently used first out: a state that was evicted begins anew. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STREAMS);
	__type(key, struct hist_key);
	__type(value, struct value_stream);
} streams SEC(".maps");

/* An empty one: too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct value_stream);
} new_stream SEC(".maps");

__u64 streams_made = 0; /* streams that are not in the map any more were evicted */

/* NULL: no room. */
static __always_inline struct value_stream *stream_of(const struct hist_key *key)
{
	struct value_stream *stream = bpf_map_lookup_elem(&streams, key), *empty;
	u32 zero = 0;

	if (stream)
		return stream;
	empty = bpf_map_lookup_elem(&new_stream, &zero);
	if (empty && !bpf_map_update_elem(&streams, key, empty, BPF_NOEXIST))
		__sync_fetch_and_add(&streams_made, 1);
	return bpf_map_lookup_elem(&streams, key);
}

/*
 * The distance (see value_nearest()), or the gap, of a request, and remembers the request.  False:
 * it is the first one, or there is no room.  CPUs that issue requests of one key at the same moment
 * may not see each other's.
 */
static __always_inline bool value_in_stream(const struct hist_key *key, u64 sector, u64 now,
					    u32 bytes, u64 *out)
{
	struct value_stream *stream = stream_of(key);
	u64 last, end = sector + (bytes >> 9);
	u32 next;

	if (!stream) {
		count_loss(&losses[LOSS_ROWS_FULL], 1);
		return false;
	}
	last = stream->last_ns;
	stream->last_ns = now;
	if (value == VALUE_GAP) {
		*out = now > last ? now - last : 0;
		return last;
	}
	if (!last) {
#pragma GCC unroll 16
		for (int i = 0; i < STREAM_ENDS; i++)
			stream->ends[i] = end;
		return false;
	}
	*out = value_nearest(stream->ends, sector);
	next = stream->next & (STREAM_ENDS - 1);
	barrier_var(next);
	__sync_fetch_and_add(&stream->next, 1);
	stream->ends[next & (STREAM_ENDS - 1)] = end;
	return true;
}

/* Does an operation have what is counted?  Flush and zone commands have no size; those, zone
 * appends and passthrough commands have no place known at the issue. */
static __always_inline bool has_value(u8 op)
{
	if (value == VALUE_SIZE)
		return op != BLK_FLUSH && op != BLK_ZONE_MGMT;
	if (value == VALUE_DISTANCE)
		return op != BLK_FLUSH && op != BLK_ZONE_MGMT && op != BLK_ZONE_APPEND &&
		       op != BLK_PASSTHROUGH;
	return true;
}

/* Was it issued before, and returned?  @entry may be a new one for a known request. */
static __always_inline bool was_issued(const struct blk_inflight *entry, struct request *rq,
				       const bool direct)
{
	const struct blk_inflight *old = entry_of(address_of(rq, direct));

	return entry->retries || (old && old->retries);
}

/* Request @rq is issued.  It counts unless not all programs were attached. */
static __always_inline void value_issued(struct blk_inflight *entry, struct request *rq,
					 const bool direct)
{
	struct hist_key key = { .row = entry->op, .dev = entry->dev };
	u64 v = entry->bytes;
	u8 row;

	if (value == VALUE_DEPTH) {
		depth_enter(entry);
		v = entry->depth;
	}
	if (!begin_ns || !has_value(entry->op) || (filters_submitters() && !entry->known) ||
	    was_issued(entry, rq, direct))
		return;
	if (value == VALUE_DEPTH && !v) {
		count_loss(&losses[LOSS_ROWS_FULL], 1);
		return;
	}
	if (value == VALUE_DISTANCE || value == VALUE_GAP) {
		key_submitter(&key, entry);
		if (!value_in_stream(&key, KREAD(direct, rq, __sector), entry->issue_ns,
				     entry->bytes, &v))
			return;
	}
	row = VALUE_ROW(entry->op, value == VALUE_DISTANCE ? v & 1 : 0);
	if (value == VALUE_DISTANCE)
		v >>= 1;
	key = (struct hist_key){}; /* what the verifier knows of it */
	if (!keyed || !keyed_add(&key, row, keyed_dev ? entry->dev : 0, entry, v))
		hist_add(row, v);
}

static __always_inline void value_requeued(struct blk_inflight *entry)
{
	bool issued = entry->issue_ns;

	value_left(entry);
	entry->retries = issued;
}

static __always_inline void on_lost_completion(struct blk_inflight *entry)
{
}

static __always_inline void on_complete(struct request *rq, bool failed, u32 bytes,
					const bool direct)
{
	struct blk_inflight of_bio, *entry;
	struct blk_done done;
	u64 ns;

	fetch_place(address_of(rq, direct));
	done = classify(rq, bytes, direct);
	if (!done.final || done.none)
		return;
	entry = completing_entry(rq, &of_bio, direct);
	/* Only to find issues that were missed. */
	if (done.op != BLK_SYNC && has_value(done.op) &&
	    (!filter_dev || completing_dev(rq, entry)) &&
	    (!filters_submitters() || (entry && entry->known)))
		rq_latency(rq, entry, done.op, false, ~0ull, &ns, direct);
	if (!entry)
		return;
	value_left(entry);
	release_entry(rq, entry, &of_bio, direct);
}

#include "probes/blk_cgroups.bpf.h"
#include "probes/blk_entry.bpf.h"

char LICENSE[] SEC("license") = "GPL";
