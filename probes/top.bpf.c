// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace top: block I/O by process, operation and disk.  Requests are followed from submission
 * over issue to completion, and counted at completion.  With --bio the bios of bio-based devices
 * (dm, md, zram, multipath) are followed too, from being queued to their end.
 */
#include "probes/blk.bpf.h"
#include "probes/blk_bio_devices.bpf.h"
#include "probes/top.h"

const volatile bool bio_mode = false;
const volatile bool by_disk = true;
const volatile bool by_submitter = true; /* by anything that is known of it */

/*
 * A hash with the CPU in the key, not a per-CPU hash: CPUs do not share rows either, creating it
 * takes no time (8192 entries of a per-CPU hash take 5 ms at each start), and lookups are inlined.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct top_key);
	__type(value, struct top_value);
} rows0 SEC(".maps"), rows1 SEC(".maps");

static __always_inline struct top_value *row_of(void *rows, const struct top_key *key)
{
	struct top_value *row = bpf_map_lookup_elem(rows, key), zero = {};

	if (row)
		return row;
	bpf_map_update_elem(rows, key, &zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(rows, key);
}

static __always_inline void add(struct top_key *key, u64 io, u64 bytes, u64 ns)
{
	struct top_value *row;

	if (!by_disk)
		key->dev = 0;
	key->cpu = bpf_get_smp_processor_id();
	row = (epoch & 1) ? row_of(&rows1, key) : row_of(&rows0, key);
	if (!row) {
		count_loss(&losses[LOSS_ROWS_FULL], io);
		count_loss(&losses[LOSS_ROWS_BYTES], bytes);
		return;
	}
	/* Atomic, though only this CPU writes: an interrupt may complete a request meanwhile. */
	if (io)
		__sync_fetch_and_add(&row->io, io);
	if (bytes)
		__sync_fetch_and_add(&row->bytes, bytes);
	if (ns)
		__sync_fetch_and_add(&row->time_ns, ns);
	else if (io)
		__sync_fetch_and_add(&row->untimed, io);
}

static __always_inline void key_of(const struct blk_inflight *entry, struct top_key *key)
{
	if (!by_submitter)
		return;
	if (by_process) {
		key->start = entry->process.start;
		key->pid = entry->process.pid;
		key->writeback = entry->writeback;
	}
	key->cgroup = entry->cgroup;
	key->uid = entry->process.uid;
	key->known = 1;
}

static __always_inline void on_lost_completion(struct blk_inflight *entry)
{
	struct top_key key = { .dev = entry->dev, .op = entry->op };

	if (entry->known)
		key_of(entry, &key);
	add(&key, 1, entry->bytes, 0);
}

/* ---- bio-based devices ---- */

static __always_inline void on_bio_done(const struct blk_inflight *bio, u64 ns)
{
	struct top_key key = { .dev = bio->dev, .op = bio->op };

	key_of(bio, &key);
	add(&key, 1, bio->bytes, ns);
}

static __always_inline void on_bio_queue(struct bio *bio, const bool direct)
{
	struct gendisk *disk = bio_disk(bio, direct);
	struct blk_inflight made = {};
	u32 opf;

	if (!disk || makes_requests(disk, direct))
		return; /* the requests are counted */
	made.dev = bio_wanted_dev(bio, disk, direct);
	if (!made.dev)
		return;
	opf = KREAD(direct, bio, bi_opf);
	made.bytes = KREAD(direct, bio, bi_iter.bi_size);
	made.op = op_of_code(opf & 0xff);
	if (made.op == BLK_WRITE && !made.bytes)
		made.op = BLK_SYNC;
	if (!read_submitter(&made, bio, made.op))
		return;
	follow_bio((u64)bio, &made);
}

/* ---- requests ---- */

static __always_inline void on_complete(struct request *rq, u32 bytes, const bool direct)
{
	struct blk_done done = classify(rq, bytes, direct);
	struct blk_inflight *entry;
	struct top_key key = {};
	u64 ns = 0;

	if (bio_mode)
		end_bios_of(rq, bytes);
	if (done.none)
		return;
	entry = completing_entry(rq);
	if (!(entry && entry->known)) {
		if (filters_submitters())
			return;
		if (unseen_start_predates_trace(rq, done.op, direct)) {
			if (entry && done.final)
				release_entry(entry);
			return;
		}
	}
	key.dev = completing_dev(rq, entry);
	if (filter_dev && !key.dev)
		return;
	key.op = done.op;
	if (entry && entry->known)
		key_of(entry, &key);
	bytes = step_bytes(entry, &done);
	if (done.final) {
		if (!rq_latency(rq, entry, done.op, false, &ns, direct))
			ns = 0;
		if (entry)
			release_entry(entry);
	}
	add(&key, done.final, bytes, ns);
}

#include "probes/blk_cgroups.bpf.h"
#include "probes/blk_entry.bpf.h"

/* block_bio_queue(bio) since 5.11; (queue, bio) before. */
TP_BTF_PROGS(bio_queue_btf, block_bio_queue, SEEN_BIO, bio, on_bio_queue(bio, true),
	     struct bio *bio)

RAW_TP_PROGS(bio_queue_raw, block_bio_queue, SEEN_BIO, ctx[0], on_bio_queue((void *)ctx[0], false))

SEC("raw_tp/block_bio_queue")
int bio_queue_raw_q(u64 *ctx)
{
	if (!stopped)
		on_bio_queue((void *)ctx[1], false);
	return 0;
}

RAW_TP_PROGS(bio_end_raw, block_bio_complete, SEEN_BIO_END, ctx[1], on_bio_end(ctx[1]))

char LICENSE[] SEC("license") = "GPL";
