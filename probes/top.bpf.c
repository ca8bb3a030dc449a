// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace top: block I/O by process, operation and disk.  Requests are followed from submission
 * over issue to completion, and counted at completion.  With --bio the bios of bio-based devices
 * (dm, md, zram, multipath) are followed too, from queueing to completion.
 */
/* Set by top_file.bpf.c, for the compiler: code that user space switches off would still make each
 * start of top a quarter longer. */
#ifndef BY_FILE
#define BY_FILE false
#endif

#include "probes/blk.bpf.h"
#include "probes/blk_bio_devices.bpf.h"
#include "probes/file_names.bpf.h"
#include "probes/hist.bpf.h"
#include "probes/top.h"

const volatile bool bio_mode = false;
const volatile bool by_disk = true;
const volatile bool by_submitter = true; /* by any property of the submitter */
const volatile bool extended = false;	 /* errors, maxima, slots */

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

/*
 * Rows with a slot, which the hash of the key chooses; by CPU and buffer.  They are found without a
 * call.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, u32);
	__type(value, struct top_place);
} row_places SEC(".maps");

const volatile bool has_row_places = false;

/* By TOP_OTHERS_INDEX(): these rows always have room, so that nothing is lost. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading, with by_file */
	__type(key, u32);
	__type(value, struct top_value);
} others SEC(".maps");

/*
 * The times of rows.  A row gets its slots when it is made; user space returns them to free_slots
 * when it has drained the row.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct top_slots);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, u32);
} free_slots SEC(".maps");

/* Takes slots for a new row: returns their number plus 1; 0: no free slots. */
static __always_inline u32 take_slots(void)
{
	u32 number = 0;

	return extended && !bpf_map_pop_elem(&free_slots, &number) ? number + 1 : 0;
}

static __always_inline struct top_place *place_of_row(const struct top_key *key, u32 now)
{
	const u64 *word = (const void *)key;
	u64 hash = (word[0] ^ word[1] ^ word[2] ^ word[3] << 16) * 0x9e3779b97f4a7c15ull;
	u32 index;

	if (by_file)
		hash = (hash ^ word[4] ^ word[5] ^ word[6]) * 0x9e3779b97f4a7c15ull;
	index = TOP_PLACE_INDEX(key->cpu, now) | hash >> (64 - TOP_PLACE_BITS);

	return bpf_map_lookup_elem(&row_places, &index);
}

static __always_inline bool same_key(const struct top_key *a, const struct top_key *b)
{
	const u64 *x = (const void *)a, *y = (const void *)b;

	if (by_file && (x[4] ^ y[4]) | (x[5] ^ y[5]) | (x[6] ^ y[6]))
		return false;
	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]));
}

/* The slot of @key, if it has or gets one. take_claim() lets one program of this CPU make a row; a
 * program that interrupts it before the key is written uses the hash map, and user space adds the
 * two. */
static __always_inline struct top_place *placed_row(const struct top_key *key, u32 now)
{
	struct top_place *place = place_of_row(key, now);

	if (!place)
		return NULL;
	if (place->made)
		return same_key(&place->key, key) ? place : NULL;
	if (!take_claim(&place->claims))
		return NULL;
	place->key = *key;
	place->value.slots = take_slots();
	barrier();
	place->made = 1;
	return place;
}

static __always_inline struct top_value *row_of(void *rows, const struct top_key *key)
{
	struct top_value *row = bpf_map_lookup_elem(rows, key), made = {};
	u32 number;

	if (row)
		return row;
	made.slots = take_slots();
	number = made.slots - 1;
	if (bpf_map_update_elem(rows, key, &made, BPF_NOEXIST) && made.slots)
		bpf_map_push_elem(&free_slots, &number, BPF_ANY);
	return bpf_map_lookup_elem(rows, key);
}

static __always_inline void add_to_slots(struct top_value *row, u64 ns, const bool alone)
{
	u32 number = row->slots - 1;
	struct top_slots *of = bpf_map_lookup_elem(&slots, &number);
	u64 slot = probe_fine_slot(ns);

	if (ns > row->max_ns)
		row->max_ns = ns;
	if (!of)
		return;
	slot = slot < TOP_SLOT_FIRST ? 0 : slot - TOP_SLOT_FIRST;
	if (slot >= TOP_SLOTS)
		slot = TOP_SLOTS - 1;
	barrier_var(slot);
	if (slot < TOP_SLOTS)
		add32(&of->counts[slot], 1, alone);
}

static __always_inline void add_to(struct top_value *row, u64 io, u64 bytes, u64 ns, bool failed,
				   const bool alone)
{
	if (io)
		add64(&row->io, io, alone);
	if (bytes)
		add64(&row->bytes, bytes, alone);
	if (ns)
		add64(&row->time_ns, ns, alone);
	else if (io)
		add64(&row->untimed, io, alone);
	if (!extended)
		return;
	if (ns)
		add_to_slots(row, ns, alone);
	if (failed)
		add32(&row->errors, 1, alone);
}

static __always_inline struct top_value *others_of(const struct top_key *key, u32 now)
{
	u32 index = TOP_OTHERS_INDEX(key->cpu, now, key->op);

	return bpf_map_lookup_elem(&others, &index);
}

/* @now: the epoch.  @rare: the hash map will do: half as much for the verifier to follow. */
static __always_inline void add_at(struct top_key *key, u64 io, u64 bytes, u64 ns, bool failed,
				   u32 now, const bool rare)
{
	struct top_place *place = NULL;
	struct top_value *row;

	if (!begin_ns) /* free_slots is not filled yet */
		return;
	if (!by_disk)
		key->dev = 0;
	key->cpu = bpf_get_smp_processor_id();
	barrier_var(now);
	if (by_file && key->file.kind == FILE_OTHERS) {
		row = others_of(key, now);
		if (row)
			add_to(row, io, bytes, ns, failed, false);
		return;
	}
	if (has_row_places && !rare)
		place = placed_row(key, now);
	if (place && begin_alone(&place->busy)) {
		add_to(&place->value, io, bytes, ns, failed, true);
		end_alone(&place->busy);
		return;
	}
	if (place && has_spares)
		row = &place->value;
	else
		row = now & 1 ? row_of(&rows1, key) : row_of(&rows0, key);
	if (by_file && !row)
		row = others_of(key, now);
	if (!row) {
		count_loss(&losses[LOSS_ROWS_FULL], io);
		count_loss(&losses[LOSS_ROWS_BYTES], bytes);
		return;
	}
	add_to(row, io, bytes, ns, failed, false);
}

static __always_inline void add(struct top_key *key, u64 io, u64 bytes, u64 ns, bool failed)
{
	add_at(key, io, bytes, ns, failed, epoch, false);
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
	if (by_file && has_data(entry->op))
		key.file.kind = FILE_UNREAD;
	add_at(&key, 1, entry->bytes, 0, entry->failed, epoch, true);
	entry->failed = 0;
}

/* ---- files ---- */

/* What one bio of a request adds: the operation, and these. */
enum part_flag {
	PART_COUNTS = 1 << 8, /* the request itself */
	PART_FAILED = 1 << 9,
	PART_EPOCH = 1 << 10, /* the epoch's lowest bit */
};

/* Adds @bytes_dev >> 32 bytes of the disk in the lower half to the file of @bio (0: it is not
 * known) of request @rq.  Global functions: the verifier checks them once.
 * Always 0. */
__attribute__((noinline)) int add_part(u64 rq, u64 bio, u64 bytes_dev, u64 ns, u32 flags)
{
	struct top_key key = { .dev = bytes_dev, .op = flags & 0xff };
	struct blk_inflight *entry;

	if (!by_file)
		return 0;
	entry = entry_of(rq);
	if (entry && entry->known)
		key_of(entry, &key);
	key.file.kind = FILE_UNREAD;
	if (bio)
		find_id((struct bio *)bio, &key.file, flags & PART_EPOCH);
	add_at(&key, flags & PART_COUNTS ? 1 : 0, bytes_dev >> 32, ns, flags & PART_FAILED,
	       !!(flags & PART_EPOCH), false);
	return 0;
}

#define PARTS_MAX 256

/* Adds @bytes of request @rq, of which the completion that is going on has @step, each bio's to its
 * file.  The request, with its time, is its first bio's. */
__attribute__((noinline)) int add_parts(u64 rq, u64 bytes_step, u64 ns, u32 flags, u32 dev)
{
	u32 bytes = bytes_step >> 32, step = bytes_step, size;
	struct bio *bio;

	if (!by_file)
		return 0;
	if (epoch & 1)
		flags |= PART_EPOCH;
	bio = BPF_CORE_READ((struct request *)rq, bio);
	for (int i = 0; i < PARTS_MAX; i++) {
		if (!bio || (i && !step))
			break;
		size = BPF_CORE_READ(bio, bi_iter.bi_size);
		if (size > step)
			size = step;
		add_part(rq, (u64)bio, (u64)size << 32 | dev, ns, flags);
		flags &= ~(PART_COUNTS | PART_FAILED);
		ns = 0;
		step -= size;
		bytes -= size;
		bio = BPF_CORE_READ(bio, bi_next);
	}
	/* More bios than that, or steps that were missed. */
	if (bytes || flags & PART_COUNTS)
		add_part(rq, 0, (u64)bytes << 32 | dev, ns, flags);
	return 0;
}

/* ---- bio-based devices ---- */

static __always_inline void on_bio_done(const struct blk_inflight *bio, u64 ns)
{
	struct top_key key = { .dev = bio->dev, .op = bio->op };

	u32 now = epoch;

	key_of(bio, &key);
	if (by_file && bio->bytes && has_data(bio->op))
		find_id((struct bio *)bio->bio, &key.file, now & 1);
	add_at(&key, 1, bio->bytes, ns, bio->failed, now, false);
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
	if (by_file)
		made.bio = address_of(bio, direct);
	follow_bio((u64)bio, &made);
}

/* ---- requests ---- */

/* Did the request, or an earlier part of it, fail? */
static __always_inline bool has_failed(struct blk_inflight *entry, bool failed, bool final)
{
	if (!entry)
		return failed;
	failed |= entry->failed;
	entry->failed = failed && !final;
	return failed;
}

/* What a step of a completion adds. */
struct step {
	u64 ns; /* 0: not the last one, or unknown */
	u32 bytes;
	bool counts, failed; /* of the request, which is complete */
};

/* Sets @key and @step, and forgets the request if it is complete; false: nothing is counted.  A
 * function of its own: its part of the stack is used again for the row. */
static __always_inline bool end_step(struct request *rq, bool failed, struct blk_done *done,
				     u64 now, struct top_key *key, struct step *step,
				     const bool direct)
{
	struct blk_inflight of_bio, *entry = completing_entry(rq, &of_bio, direct);

	if (!(entry && entry->known) &&
	    (filters_submitters() || unseen_start_predates_trace(rq, done->op))) {
		if (done->final)
			release_entry(rq, entry, &of_bio, direct);
		return false;
	}
	key->dev = completing_dev(rq, entry);
	if (filter_dev && !key->dev) {
		if (done->final)
			release_entry(rq, entry, &of_bio, direct);
		return false;
	}
	key->op = done->op;
	if (entry && entry->known)
		key_of(entry, key);
	step->bytes = step_bytes(entry, done);
	step->counts = done->final;
	step->ns = 0;
	if (extended)
		failed = has_failed(entry, failed, done->final);
	step->failed = done->final && failed;
	if (done->final)
		rq_latency(rq, entry, done->op, false, now, &step->ns, direct);
	if (by_file && has_data(done->op)) {
		key->file.kind = FILE_UNREAD;
		if (entry != &of_bio) {
			add_parts(load_scalar_rq(rq), (u64)step->bytes << 32 | done->bytes,
				  step->ns,
				  done->op | (step->counts ? PART_COUNTS : 0) |
				      (step->failed ? PART_FAILED : 0),
				  key->dev);
			if (done->final)
				release_entry(rq, entry, &of_bio, direct);
			return false;
		}
	}
	if (done->final)
		release_entry(rq, entry, &of_bio, direct);
	return true;
}

static __always_inline void on_complete(struct request *rq, bool failed, u32 bytes,
					const bool direct)
{
	struct blk_done done = classify(rq, bytes, direct);
	struct top_key key = {};
	struct step step;
	u64 now = 0;

	fetch_place(address_of(rq, direct));
	failed = extended && failed; /* known to the verifier without -x */
	if (bio_mode)
		end_bios_of(rq, failed, bytes);
	if (done.none)
		return;
	if (done.final)
		now = bpf_ktime_get_ns();
	if (end_step(rq, failed, &done, now, &key, &step, direct))
		add(&key, step.counts, step.bytes, step.ns, step.failed);
}

#include "probes/blk_cgroups.bpf.h"
#include "probes/blk_entry.bpf.h"

/* block_bio_queue(bio) since 5.11; (queue, bio) before. */
TP_PROGS(bio_queue, block_bio_queue, SEEN_BIO, 0, on_bio_queue(arg, direct))
QUEUE_PROG(bio_queue, block_bio_queue, 1, on_bio_queue(arg, direct))

static __always_inline void on_bio_complete(struct bio *bio)
{
	on_bio_end((u64)bio, extended && BPF_CORE_READ(bio, bi_status));
}

RAW_TP_PROGS(bio_end_raw, block_bio_complete, SEEN_BIO_END, 1, on_bio_complete(arg))

char LICENSE[] SEC("license") = "GPL";
