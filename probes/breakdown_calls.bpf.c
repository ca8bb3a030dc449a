// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace breakdown: the time that calls spend in a layer of the I/O stack (-T syscall, vfs, ext4
 * and so on), or in all layers at once with the requests that the calls wait for.
 */
#define BLK_CGROUP_OF_TASK
#define BLK_ON_SUBMITTED(entry, bio, front_merge) call_submitted(entry, bio, front_merge)
#define BLK_ON_ISSUED(entry)			  call_issued(entry)
#define BLK_ON_FLUSHING(entry)			  call_flushing(entry)
#define BLK_ON_REQUEUED(entry)			  call_requeued(entry)
#define BLK_ON_LOST_COMPLETION(entry)		  ((entry)->stage = STAGE_NONE)
#define BLK_COPY_OWN(to, from)			  ((to)->call = (from)->call, (to)->stage = (from)->stage)
#define BLK_ON_BIOS_ISSUED(rq)			  merged_bios(rq, MERGED_ISSUED, ALL_BYTES)
#define BLK_ON_BIOS_REQUEUED(rq)		  merged_bios(rq, MERGED_REQUEUED, ALL_BYTES)

#define ALL_BYTES (~0U)

#include "probes/kernel.h"
#include "probes/breakdown_calls.h"

static __always_inline void call_submitted(struct blk_inflight *entry, struct bio *bio,
					   bool front_merge);
static __always_inline void call_issued(struct blk_inflight *entry);
static __always_inline void call_flushing(struct blk_inflight *entry);
static __always_inline void call_requeued(struct blk_inflight *entry);
static __always_inline void merged_bios(struct request *rq, u32 step, u32 bytes);

/* Steps of a request, for calls whose bios were merged into it. */
enum merged_step {
	MERGED_ISSUED,
	MERGED_REQUEUED,
	MERGED_DONE,
};

#include "probes/arch.h"
#include "probes/blk.bpf.h"
#include "probes/calls.bpf.h"
#include "probes/breakdown_uring.bpf.h"

/* -d names a disk whose driver makes no requests: only its bios are timed. */
const volatile bool by_bios = false;

/* Bios at a driver without requests (dm, md), by address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct call_bio);
} stacked SEC(".maps");

/*
 * Bios that were merged into the request of another bio, and the calls that wait for them; by
 * address.  While the map is empty (n_merged is 0), the bios of requests are not walked.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct blk_inflight);
} merged SEC(".maps");

__u64 n_merged = 0;

/* ---- bios ---- */

/* Does the driver of the bio's disk work without requests (dm, md)? */
static __always_inline bool is_stacked(struct bio *bio, const bool direct)
{
	struct gendisk *disk = bio_disk(bio, direct);

	return disk && !makes_requests(disk, direct);
}

static __always_inline bool bio_wanted(struct bio *bio)
{
	return !filter_dev || bio_wanted_dev(bio, bio_disk(bio, false), false);
}

/* By enum blk_op.  A table in memory: otherwise the verifier follows each class by itself after
 * branches. */
static const volatile u8 classes[16] = {
	[BLK_READ] = CLASS_READ,	  [BLK_WRITE] = CLASS_WRITE,
	[BLK_DISCARD] = CLASS_DISCARD,	  [BLK_FLUSH] = CLASS_SYNC,
	[BLK_SYNC] = CLASS_SYNC,	  [BLK_WRITE_ZEROES] = CLASS_WRITE,
	[BLK_SECURE_ERASE] = CLASS_WRITE, [BLK_ZONE_APPEND] = CLASS_WRITE,
	[BLK_ZONE_MGMT] = CLASS_WRITE,	  [BLK_WRITE_SAME] = CLASS_WRITE,
	[BLK_PASSTHROUGH] = CLASS_WRITE,
};

static __always_inline u32 class_of_request(u8 op)
{
	_Static_assert(BLK_OPS == 11, "a class for each operation");
	return classes[op & 15];
}

/* ---- admission ---- */

/* Will the current thread submit more bios before it goes on: the rest of a bio that was split, or
 * bios made by a driver without requests? */
static __always_inline bool has_more_bios(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct bio_list lists[2] = {}, *at = BPF_CORE_READ(task, bio_list);

	if (at)
		bpf_probe_read_kernel(lists, sizeof(lists), at);
	return lists[0].head || lists[1].head;
}

static __always_inline bool call_bio_wanted(struct call_thread *t, struct bio *bio);

/*
 * A bio has arrived at a disk with requests, and its thread waits for a request: while the bio is
 * throttled (wbt, io.latency, io.cost), the queue is frozen, or no tag is free.  So only one bio of
 * a thread waits at a time; the time of the next bio begins when this one has its request.
 */
static __always_inline void on_arrival(struct call_thread *t, struct bio *bio)
{
	u64 now = bpf_ktime_get_ns();
	struct call_io *io;

	if (!t || !t->open) {
		if (!current_process_wanted() || !bio_wanted(bio))
			return;
		if (!t || t->task != bpf_get_current_task())
			t = current_thread(true);
		if (!t)
			return;
	} else if (!call_bio_wanted(t, bio)) {
		io_of(t)->any = 1;
		return; /* at another disk than -d's, such as the other half of a mirror */
	}
	t->arriving = (u64)bio;
	if (t->arrived_ns && has_more_bios())
		return;
	t->arrived_ns = now;
	if (!t->open)
		return;
	io = io_of(t);
	io_charge(io, now);
	io->admitting = 1;
	io->any = 1;
}

static __always_inline void end_admission(struct call_thread *t, u64 now)
{
	bool more = has_more_bios();
	struct call_io *io;

	t->arrived_ns = more ? now : 0;
	if (more || !t->open)
		return;
	io = io_of(t);
	io_charge(io, now);
	io->admitting = 0;
}

static __always_inline u32 class_of_bio(struct bio *bio)
{
	u8 op = op_of_code(BPF_CORE_READ(bio, bi_opf) & 0xff);

	if (op == BLK_WRITE && !BPF_CORE_READ(bio, bi_iter.bi_size))
		op = BLK_SYNC;
	return class_of_request(op);
}

/*
 * Is the bio for the device of -d?  @t: the thread that waits for it in a call, or NULL.  Up to
 * 5.11 the sector determines the partition; an empty bio has no sector: then it is the partition of
 * the call, if the bio is for the same disk.
 */
static __always_inline bool call_bio_wanted(struct call_thread *t, struct bio *bio)
{
	if (bio_wanted(bio))
		return true;
	return t && t->open && filter_part && BIOS_NAME_DISKS && class_of_bio(bio) == CLASS_SYNC &&
	       disk_dev(bio_disk(bio, false), false) == wanted_disk;
}

/* The call of @t that waits for @bio; without one, the submitter. */
static __always_inline void key_bio(struct hist_key *key, struct call_thread *t, struct bio *bio)
{
	struct blk_process process = {};

	if (t && t->open) {
		*key = t->key;
		return;
	}
	if (by_process)
		current_process(&process);
	key_current(key, &process);
	if (want_cgroup)
		key->cgroup = io_cgroup_id(bio);
	if (keyed_dev)
		key->dev = disk_dev(bio_disk(bio, false), false);
	/* A flush alone is a write without data. */
	if (by_file && BPF_CORE_READ(bio, bi_iter.bi_size) &&
	    has_data(op_of_code(BPF_CORE_READ(bio, bi_opf) & 0xff)))
		find_id_now(bio, &key->file);
}

/* The bio has its request, or was merged into another. */
static __always_inline void on_admitted(struct call_thread *t, struct bio *bio, u64 now)
{
	u64 since = t->arrived_ns;
	struct hist_key key = {};
	u32 row;

	if (!since)
		return;
	if (call_bio_wanted(t, bio)) {
		if (keyed)
			key_bio(&key, t, bio);
		row = t->open ? table_row(t->class, IO_DISK, LAYER_ADMIT)
			      : table_row(class_of_bio(bio), IO_ASYNC, LAYER_ADMIT);
		row_add(&key, row, now > since ? now - since : 0, 0);
	}
	end_admission(t, now);
}

/* A bio ends.  If it waited for a request, it gets none. */
static __always_inline void on_refused(u64 bio)
{
	struct call_thread *t = known_thread(bpf_get_current_task());

	if (t && t->arrived_ns && t->arriving == bio)
		end_admission(t, bpf_ktime_get_ns());
}

/* ---- requests ---- */

static __always_inline void call_submitted(struct blk_inflight *entry, struct bio *bio,
					   bool front_merge)
{
	struct call_thread *t = known_thread(bpf_get_current_task());
	struct call_io *io;

	if (by_bios)
		return;
	if (want_cgroup) /* for write-back, the cgroup that dirtied the pages */
		entry->cgroup = io_cgroup_id(bio);
	if (t && !front_merge)
		on_admitted(t, bio, entry->submit_ns);
	if (!t || !t->open)
		return;
	entry->call = call_of(t);
	io = io_of(t);
	io->any = 1;
	if (front_merge)
		return; /* on_bio_merge() counts it */
	if (!call_bio_wanted(t, bio))
		return;
	io_charge(io, entry->submit_ns);
	__sync_fetch_and_add(&io->queued, 1);
	io->requests = 1;
	entry->stage = STAGE_QUEUED;
}

static __always_inline void call_leaves_stage(struct blk_inflight *entry, struct call_io *io)
{
	if (entry->stage == STAGE_QUEUED)
		__sync_fetch_and_add(&io->queued, -1);
	else if (entry->stage == STAGE_DEVICE)
		__sync_fetch_and_add(&io->in_device, -1);
}

static __always_inline void call_in_device(struct blk_inflight *entry, u64 now)
{
	struct call_thread *t = thread_of_call(entry->call);
	struct call_io *io;

	if (!t)
		return;
	io = io_of_call(t, entry->call);
	io_charge(io, now);
	call_leaves_stage(entry, io);
	__sync_fetch_and_add(&io->in_device, 1);
	entry->stage = STAGE_DEVICE;
}

static __always_inline void call_issued(struct blk_inflight *entry)
{
	call_in_device(entry, entry->issue_ns);
}

/*
 * The flush command that the request waits for is issued.  Only one of the waiting requests owns
 * the command, and with -d PARTITION none does.  Up to 5.11 an empty request does not know its
 * partition either; its call does.
 */
static __always_inline void call_flushing(struct blk_inflight *entry)
{
	u64 now;

	if (entry->stage != STAGE_QUEUED)
		return;
	now = bpf_ktime_get_ns();
	call_in_device(entry, now);
	if (submit_mode == SUBMIT_BIO && filter_part) {
		entry->issue_ns = now;
		entry->dev = wanted_dev;
	}
}

static __always_inline void call_requeued(struct blk_inflight *entry)
{
	struct call_thread *t = thread_of_call(entry->call);
	struct call_io *io;

	if (!t)
		return;
	io = io_of_call(t, entry->call);
	io_charge(io, bpf_ktime_get_ns());
	call_leaves_stage(entry, io);
	__sync_fetch_and_add(&io->queued, 1);
	entry->stage = STAGE_QUEUED;
}

/* The request has ended. */
static __always_inline void call_finished(struct blk_inflight *entry, u64 now)
{
	struct call_thread *t = thread_of_call(entry->call);
	struct call_io *io;

	if (t) {
		io = io_of_call(t, entry->call);
		io_charge(io, now);
		call_leaves_stage(entry, io);
	}
	entry->stage = STAGE_NONE;
	entry->call = 0;
}

static __always_inline bool sleeps(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state) & TASK_SLEEPS;
	return BPF_CORE_READ(task, state) & TASK_SLEEPS;
}

/*
 * A request that an earlier call did not wait for (read-ahead) completes.  If its thread sleeps in
 * another call, without requests, the time since that call's last event was the device's.
 */
static __always_inline void on_left_behind(u64 call, u64 now)
{
	u32 key = call >> 32;
	struct call_thread *t;
	struct call_io *io;

	if (!call)
		return;
	t = bpf_map_lookup_elem(&threads, &key);
	if (!t || !t->open || !sleeps((void *)t->task))
		return;
	io = io_of(t);
	if ((s64)io->in_device > 0 || (s64)io->queued > 0 || io->admitting)
		return;
	if (now > io->since_ns) {
		__sync_fetch_and_add(&io->device_ns, now - io->since_ns);
		io->since_ns = now;
	}
	io->any = 1;
}

/* ---- bios in other bios' requests ---- */

/* Bio @bio was merged; @call waits for it, 0: none. -errno, and the loss counted, if there is no
 * room. */
static __always_inline long follow_merged(u64 bio, u64 call)
{
	struct blk_inflight entry = {};
	long r;

	entry.call = call;
	entry.stage = call ? STAGE_QUEUED : STAGE_NONE;
	r = bpf_map_update_elem(&merged, &bio, &entry, BPF_NOEXIST);
	if (!r) {
		__sync_fetch_and_add(&n_merged, 1);
		return 0;
	}
	/* There may be an entry whose end was missed. */
	r = bpf_map_update_elem(&merged, &bio, &entry, BPF_EXIST);
	if (r)
		count_loss(&losses[LOSS_REQUESTS_FULL], 1);
	return r;
}

/* A bio arrives.  If its address is in the map of merged bios, the end of that bio was missed. */
static __always_inline void forget_merged(u64 bio)
{
	if (n_merged && bpf_map_lookup_elem(&merged, &bio) && !bpf_map_delete_elem(&merged, &bio))
		__sync_fetch_and_add(&n_merged, -1);
}

/*
 * A bio is merged into a request: its call waits for that request.  If bios are followed, a bio
 * that is merged to the front becomes the request's first bio (on_submit_bio()); follow_second()
 * finds the previous first bio.
 */
static __always_inline void on_bio_merge(struct bio *bio, bool front)
{
	struct call_thread *t = known_thread(bpf_get_current_task());
	u64 now = bpf_ktime_get_ns();
	struct call_io *io;

	if (by_bios)
		return;
	if (t)
		on_admitted(t, bio, now);
	if (!t || !t->open) {
		if (front && submit_mode == SUBMIT_BIO)
			follow_merged((u64)bio, 0);
		return;
	}
	io = io_of(t);
	io->any = 1;
	if (!call_bio_wanted(t, bio) || follow_merged((u64)bio, call_of(t)))
		return;
	io_charge(io, now);
	__sync_fetch_and_add(&io->queued, 1);
	io->requests = 1;
}

/* A request is merged into the one before it, with its bios. */
static __always_inline void on_merge(struct request *rq)
{
	u64 bio = (u64)BPF_CORE_READ(rq, bio);
	struct blk_inflight *entry = entry_of((u64)rq);

	if (submit_mode == SUBMIT_BIO)
		entry = bio_owner(rq);
	if (!entry || entry->stage != STAGE_QUEUED)
		return;
	if (follow_merged(bio, entry->call))
		call_finished(entry, bpf_ktime_get_ns());
	entry->stage = STAGE_NONE;
	entry->call = 0;
}

/* @bio was the first bio of its request until another was merged to the front. */
static __always_inline struct blk_inflight *follow_second(u64 bio)
{
	struct blk_inflight *owner;

	owner = bpf_map_lookup_elem(&bio_owners, &bio);
	/* A used entry belongs to an earlier bio at that address. */
	if (!owner || !owner->known || owner->stage != STAGE_QUEUED)
		return NULL;
	if (follow_merged(bio, owner->call))
		return NULL;
	owner->stage = STAGE_NONE;
	return bpf_map_lookup_elem(&merged, &bio);
}

static __always_inline void on_bio_end(u64 bio, bool count);

/* Step @step of the request of @bio.  @first: it is the request's first bio.  A global function,
 * which the verifier checks once for all callers. */
__attribute__((noinline)) int on_merged_bio(u64 bio, u32 step, u32 first)
{
	struct blk_inflight *entry;
	u64 now;

	if (by_bios) {
		if (step == MERGED_DONE)
			on_bio_end(bio, true);
		return 0;
	}
	entry = bpf_map_lookup_elem(&merged, &bio);
	if (!entry && !first && step == MERGED_ISSUED && submit_mode == SUBMIT_BIO)
		entry = follow_second(bio);
	if (!entry)
		return 0;
	now = bpf_ktime_get_ns();
	if (step == MERGED_ISSUED) {
		call_in_device(entry, now);
	} else if (step == MERGED_REQUEUED) {
		call_requeued(entry);
	} else {
		if (!thread_of_call(entry->call))
			on_left_behind(entry->call, now);
		call_finished(entry, now);
		if (!bpf_map_delete_elem(&merged, &bio))
			__sync_fetch_and_add(&n_merged, -1);
	}
	return 0;
}

#define BIOS_MAX 256

/* Step @step of a request, for its bios within the first @bytes of it. */
__attribute__((noinline)) int each_bio(u64 key, u32 step, u32 bytes)
{
	struct request *rq = (void *)key;
	struct bio *bio = BPF_CORE_READ(rq, bio);
	u32 size;

	for (int i = 0; i < BIOS_MAX; i++) {
		if (!bio)
			return 0;
		size = BPF_CORE_READ(bio, bi_iter.bi_size);
		if (size > bytes)
			return 0;
		bytes -= size;
		on_merged_bio((u64)bio, step, i == 0);
		bio = BPF_CORE_READ(bio, bi_next);
	}
	if (bio)
		count_loss(&losses[LOSS_BIOS], 1);
	return 0;
}

static __always_inline void merged_bios(struct request *rq, u32 step, u32 bytes)
{
	if (n_merged || (by_bios && step == MERGED_DONE))
		each_bio(load_scalar_rq(rq), step, bytes);
}

static __always_inline void on_lost_completion(struct blk_inflight *entry)
{
}

/* The submitter of a request that no call waits for. */
static __always_inline void key_request(struct hist_key *key, struct request *rq,
					const struct blk_inflight *entry, u8 op)
{
	key_submitter(key, entry);
	if (keyed_dev)
		key->dev = completing_dev(rq, entry);
	if (by_file && has_data(op))
		find_id_now(BPF_CORE_READ(rq, bio), &key->file);
}

/* Counts a request that completes, in the rows of the queue and the device. */
static __always_inline void count_request(struct request *rq, struct blk_inflight *entry, u8 op,
					  u64 now, const bool direct)
{
	u32 class = class_of_request(op), io_kind = IO_ASYNC;
	struct hist_key key = {};
	u64 ns, made;
	u32 waits;

	if (entry && read_waiting_call(entry->call, &waits, &key)) {
		class = waits;
		io_kind = IO_DISK;
	} else if (entry) {
		on_left_behind(entry->call, now);
	}
	if (op == BLK_SYNC && entry && entry->issue_ns)
		op = BLK_FLUSH; /* timed like the command that it waits for */
	if (!rq_latency(rq, entry, op, false, now, &ns, direct))
		return;
	if (keyed && io_kind == IO_ASYNC) {
		key = (struct hist_key){};
		key_request(&key, rq, entry, op);
	}
	row_add(&key, table_row(class, io_kind, LAYER_DEVICE), ns, 0);
	made = entry ? entry->submit_ns : 0;
	if (!made)
		made = rq_made_ns(rq, direct);
	if (entry && made && made <= entry->issue_ns)
		row_add(&key, table_row(class, io_kind, LAYER_QUEUE), entry->issue_ns - made, 0);
}

static __always_inline void on_complete(struct request *rq, bool failed, u32 bytes,
					const bool direct)
{
	struct blk_done done = classify(rq, bytes, direct);
	struct blk_inflight of_bio, *entry;
	u64 now;

	merged_bios(rq, MERGED_DONE, bytes);
	if (!done.final || done.none)
		return;
	now = bpf_ktime_get_ns();
	entry = completing_entry(rq, &of_bio, direct);
	if ((filters_submitters() && !(entry && entry->known)) ||
	    (filter_dev && !completing_dev(rq, entry))) {
		release_entry(rq, entry, &of_bio, direct);
		return;
	}
	/*
	 * An empty request only waits for a flush command, which is a request of its own.  The
	 * command is for the whole disk: with -d PARTITION the waiting requests are counted
	 * instead.
	 */
	if (done.op == BLK_SYNC ? filter_part : done.op != BLK_PASSTHROUGH)
		count_request(rq, entry, done.op, now, direct);
	if (entry) {
		call_finished(entry, now);
		release_entry(rq, entry, &of_bio, direct);
	}
}

/* ---- bios of drivers without requests ---- */

/* Thread @t waits for @bio in a call; NULL: no thread waits. */
static __always_inline void on_stacked(struct call_thread *t, struct bio *bio)
{
	struct call_bio made = {};
	struct call_io *io;
	u64 key = (u64)bio;

	if (t)
		made.call = call_of(t);
	made.class = class_of_bio(bio);
	if (keyed)
		key_bio(&made.key, t, bio);
	made.start_ns = bpf_ktime_get_ns();
	if (by_bios && bpf_map_lookup_elem(&stacked, &key))
		count_loss(&losses[LOSS_NO_END], 1); /* its address is used again */
	if (bpf_map_update_elem(&stacked, &key, &made, BPF_ANY)) {
		count_loss(&losses[LOSS_REQUESTS_FULL], 1);
		return;
	}
	if (!t)
		return;
	io = io_of(t);
	io_charge(io, made.start_ns);
	__sync_fetch_and_add(&io->stacked, 1);
	io->any = 1;
}

/* @count: the bio ends at this disk; otherwise it goes on to another disk. */
static __always_inline void on_bio_end(u64 bio, bool count)
{
	struct call_bio *known = bpf_map_lookup_elem(&stacked, &bio);
	u64 now = bpf_ktime_get_ns();
	struct call_thread *t;
	struct call_bio was;
	struct call_io *io;
	u32 row, class;

	if (count)
		on_refused(bio);
	if (!known)
		return;
	was = *known;
	/* Deleted first: the program that deletes it counts it. */
	if (bpf_map_delete_elem(&stacked, &bio))
		return;
	t = thread_of_call(was.call);
	if (t) {
		io = io_of_call(t, was.call);
		io_charge(io, now);
		__sync_fetch_and_add(&io->stacked, -1);
		/* The thread waits for the bio only if it made no request of it itself. */
		if (io->requests)
			return;
	}
	if (t && read_waiting_call(was.call, &class, NULL)) {
		row = table_row(class, IO_DISK, LAYER_DEVICE);
	} else {
		if (!by_bios)
			return;
		on_left_behind(was.call, now);
		row = table_row(was.class, IO_ASYNC, LAYER_DEVICE);
	}
	if (count)
		row_add(&was.key, row, now - was.start_ns, 0);
}

/* With -d of such a disk: all of its bios, whether or not a call waits for them. */
static __always_inline void on_wanted_bio(struct call_thread *t, struct bio *bio)
{
	if (call_bio_wanted(t, bio) && (t || current_process_wanted()))
		on_stacked(t, bio);
}

static __always_inline void on_bio_queue(struct bio *bio, const bool direct)
{
	bool of_stacked = is_stacked(bio, direct);
	struct call_thread *t = known_thread(bpf_get_current_task());

	forget_merged((u64)bio);
	if (by_bios)
		on_wanted_bio(t && t->open ? t : NULL, bio);
	else if (!of_stacked)
		on_arrival(t, bio);
	else if (t && t->open)
		on_stacked(t, bio);
}

/*
 * The same bio goes on to another disk (md raid0, NVMe multipath).  The kernel does not call
 * block_bio_queue there again for the same bio: a flag marks it.
 */
static __always_inline void on_remap(struct bio *bio)
{
	if (by_bios)
		return; /* it ends with its request */
	on_bio_end((u64)bio, false);
	if ((BPF_CORE_READ(bio, bi_flags) & trace_completion_mask) && !is_stacked(bio, false))
		on_arrival(known_thread(bpf_get_current_task()), bio);
}

/* ---- entry points ---- */

#include "probes/blk_cgroups.bpf.h"
#include "probes/blk_entry.bpf.h"

TP_PROGS(bio_queue, block_bio_queue, SEEN_BIO, 0, on_bio_queue(arg, direct))
QUEUE_PROG(bio_queue, block_bio_queue, 1, on_bio_queue(arg, direct))

RAW_TP_PROGS(bio_end_raw, block_bio_complete, SEEN_BIO_END, 1, on_bio_end(ctx[1], true))

/* block_bio_remap(bio, device, sector) since 5.11; (queue, bio, device, sector) before. */
RAW_TP_PROGS(bio_remap_raw, block_bio_remap, SEEN_REMAP, 0, on_remap(arg))
QUEUE_PROG(bio_remap, block_bio_remap, 1, on_remap(arg))

/* block_bio_backmerge(bio) and block_bio_frontmerge(bio) since 5.11; (queue, request, bio) before.
 */
RAW_TP_PROGS(backm_raw, block_bio_backmerge, SEEN_BIO_MERGE, 0, on_bio_merge(arg, false))
QUEUE_PROG(backm, block_bio_backmerge, 2, on_bio_merge(arg, false))
RAW_TP_PROGS(frontb_raw, block_bio_frontmerge, SEEN_BIO_MERGE, 0, on_bio_merge(arg, true))
QUEUE_PROG(frontb, block_bio_frontmerge, 2, on_bio_merge(arg, true))

/* block_rq_merge(rq) since 5.11 and in late 5.10.y; (queue, rq) before. */
RAW_TP_PROGS(merge_raw, block_rq_merge, SEEN_REQUEUE, 0, on_merge(arg))
QUEUE_PROG(merge, block_rq_merge, 1, on_merge(arg))

RAW_TP_PROGS(thread_free, sched_process_free, SEEN_THREAD_FREE, 0, on_thread_free(arg))

/* ---- system calls ---- */

static __always_inline bool syscall_wanted(u32 op, struct file *file)
{
	if (!combined && !check_files)
		return true;
	if (!syscall_has_fd(op))
		return !check_files;
	return inode_wanted(file_inode(file, false), false);
}

/* Sets *op to the enum call_syscall of system call @number, made with @regs; false: it is not
 * timed. */
static __always_inline bool is_timed(u64 number, u64 regs, u32 *op)
{
	if (number >= SYSCALL_NUMBERS)
		return false;
	*op = syscall_ops[number & (SYSCALL_NUMBERS - 1)];
	if (!*op || is_compat_task(regs))
		return false;
	--*op;
	return true;
}

/* System call @op begins, made with @regs. */
static __always_inline void on_timed_syscall(u32 op, u64 regs)
{
	bool fsync = op == SYSCALL_FSYNC || op == SYSCALL_FDATASYNC;
	struct file *file = NULL;

	if (!time_syscalls && !fsync)
		return;
	if (!current_process_wanted())
		return;
	if (combined || check_files || keyed_dev || by_file || (fsync && time_vfs))
		file = file_of_call(op, regs, first_syscall_arg((void *)regs));
	if (!syscall_wanted(op, file))
		return;
	if (time_syscalls)
		call_enter(CALL_ID(LAYER_SYSCALL, op, 0), regs, (u64)file, false);
	if (fsync && time_vfs && file)
		call_enter(FSYNC_PLACEHOLDER, regs - 1, (u64)file, false);
}

static __always_inline void on_sys_enter(u64 regs, u64 number)
{
	u32 op;

	if (is_timed(number, regs, &op))
		on_timed_syscall(op, regs);
}

/* The placeholder of thread @t, pushed at @sp, ends with its system call. */
static __always_inline void end_placeholder(struct call_thread *t, u64 sp)
{
	if (t && t->depth && time_vfs &&
	    (t->frames[0].id == FSYNC_PLACEHOLDER || t->frames[1].id == FSYNC_PLACEHOLDER))
		end_call(t, FSYNC_PLACEHOLDER, sp);
}

static __always_inline void on_sys_exit(u64 regs)
{
	struct call_thread *t = known_thread(bpf_get_current_task());
	u32 id;

	end_placeholder(t, regs - 1);
	if (t && t->depth) {
		id = t->frames[0].id;
		if (CALL_ID_LAYER(id) == LAYER_SYSCALL) {
			end_call(t, id, regs);
			return;
		}
		/* Functions end before their system call. */
		drop_stale(t, CALL_ID(LAYER_SYSCALL, 0, 0), regs);
	}
}

RAW_TP_PROGS(sys_enter_raw, sys_enter, SEEN_SYSCALL, 0, on_sys_enter(ctx[0], ctx[1]))
RAW_TP_PROGS(sys_exit_raw, sys_exit, SEEN_SYSCALL_END, 0, on_sys_exit(ctx[0]))

SEC("kprobe.multi/syscalls")
int syscall_me(struct pt_regs *ctx)
{
	u32 op = CALL_ID_OP((u32)bpf_get_attach_cookie(ctx));
	u64 regs = PT_REGS_PARM1(ctx);

	/* Calls of both word sizes may share a function: on arm64 all, on x86 sync(). */
	if (!stopped && !is_compat_task(regs))
		on_timed_syscall(op, regs);
	return 0;
}

SEC("kretprobe.multi/syscalls")
int syscall_mx(struct pt_regs *ctx)
{
	struct call_thread *t = known_thread(bpf_get_current_task());

	if (stopped)
		return 0;
	end_placeholder(t, ANY_PLACE);
	if (t && t->depth && t->frames[0].id == (u32)bpf_get_attach_cookie(ctx))
		end_call(t, t->frames[0].id, ANY_PLACE);
	return 0;
}

/* ---- functions ---- */

/*
 * The programs of one function: NAME_e and NAME_x at its entry and return, NAME_ke and NAME_kx on
 * kernels without fentry.  Kprobes run with preemption off.
 */
#define CALL_KPROBE(section, name, function, run)                                                  \
	SEC(section "/" #function)                                                                 \
	int name(struct pt_regs *ctx)                                                              \
	{                                                                                          \
		return run;                                                                        \
	}

#define CALL_PROGS(name, function, id)                                                             \
	SPARED_PROGS(SPARE_PROGS, name##_e, "fentry/" #function, SEEN_CALL,                        \
		     opaque_id((void *)ctx[0]), call_enter(id, (u64)ctx, ctx[0], true))            \
	SPARED_PROGS(SPARE_PROGS, name##_x, "fexit/" #function, SEEN_CALL_END,                     \
		     opaque_id((void *)ctx[0]), call_exit(id, (u64)ctx))                           \
	CALL_KPROBE("kprobe", name##_ke, function,                                                 \
		    call_enter(id, PT_REGS_SP(ctx), PT_REGS_PARM1(ctx), false))                    \
	CALL_KPROBE("kretprobe", name##_kx, function, call_exit(id, PT_REGS_SP(ctx)))

#define FUNCTION(name, function, module, layer, op, which)                                         \
	CALL_PROGS(name, function, CALL_ID(layer, op, which))
#include "probes/call_functions.h"

/* All functions by two programs, which run with preemption off, too. */
SEC("kprobe.multi/calls")
int call_me(struct pt_regs *ctx)
{
	return call_enter(bpf_get_attach_cookie(ctx), PT_REGS_SP(ctx), PT_REGS_PARM1(ctx), false);
}

SEC("kretprobe.multi/calls")
int call_mx(struct pt_regs *ctx)
{
	return call_exit(bpf_get_attach_cookie(ctx), MULTI_RETURN_SP(ctx));
}

char LICENSE[] SEC("license") = "GPL";
