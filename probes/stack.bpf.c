// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace stack: bytes by device, process and stack, counted where a bio is submitted.
 * docs/COUNTING.md says which bio reaches which device how often.
 *
 * With --value ios or time the requests made of these bios are followed too, and counted when they
 * are complete; on devices without requests, the bios. --value wait: probes/stack_wait.bpf.h.
 */
#define BLK_ON_SUBMITTED(entry, bio, front_merge) ((entry)->call = path_of(bio))
#define BLK_COPY_OWN(to, from)			  ((to)->call = (from)->call)
#define BLK_ON_ISSUED(entry)
#define BLK_ON_FLUSHING(entry)
#define BLK_ON_REQUEUED(entry)
#define BLK_ON_LOST_COMPLETION(entry)

#include "probes/kernel.h"
#include "probes/stack.h"

static __always_inline u64 path_of(struct bio *bio);

#include "probes/blk.bpf.h"
#include "probes/blk_bio_devices.bpf.h"
#include "probes/blk_cgroups.bpf.h"
#include "probes/file_names.bpf.h"

const volatile bool want_kernel = false, want_user = false;
const volatile bool want_read = true, want_write = true;
const volatile bool count_ios = false; /* complete I/Os and their time */

__u64 stack_losses[STACK_LOSSES] = {};

/* Entries made in each buffer since it became the active one. */
__u32 rows_made[2] = {}, stacks_made[2] = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct stack_key);
	__type(value, struct stack_value);
} rows0 SEC(".maps"), rows1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct stack_id);
	__type(value, struct stack_frames);
} stacks0 SEC(".maps"), stacks1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct stack_lost_key);
	__type(value, struct stack_value);
} lost0 SEC(".maps"), lost1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct stack_done_key);
	__type(value, struct stack_done);
} done0 SEC(".maps"), done1 SEC(".maps");

/* stack_path() of a bio, by its address, until its request is made.  The entry of a merged or
 * rejected bio stays. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384); /* blk_owners_room() */
	__type(key, u64);
	__type(value, u64);
} paths SEC(".maps");

/* The programs that read stacks (7.x preempts them). */
enum {
	SLOT_QUEUE,
	SLOT_REMAP = SLOT_QUEUE + SPARE_PROGS,
	SLOT_SWITCH = SLOT_REMAP + SPARE_PROGS,
	SLOTS,
};

#define STACK_SLOTS	   SLOTS
#define STACKS_ON_UNREAD() count_loss(&stack_losses[STACK_LOSS_UNREAD], 1)
#include "probes/stacks.bpf.h"

/* Stores the frames for user space; without room @id becomes STACK_LOST. */
static __always_inline void keep_frames(void *stacks, const struct stack_frames *frames,
					struct stack_id *id, u32 buffer)
{
	if (id->hash[0] <= STACK_LOST || bpf_map_lookup_elem(stacks, id))
		return;
	if (!bpf_map_update_elem(stacks, id, frames, BPF_NOEXIST)) {
		__sync_fetch_and_add(&stacks_made[buffer], 1);
		return;
	}
	if (bpf_map_lookup_elem(stacks, id))
		return; /* another CPU was faster */
	count_loss(&stack_losses[STACK_LOSS_FRAMES], 1);
	id->hash[0] = STACK_LOST;
	id->hash[1] = 0;
}

/* ---- rows ---- */

static __always_inline struct stack_value *value_of(void *map, const void *key)
{
	struct stack_value *value = bpf_map_lookup_elem(map, key), made = {};

	if (value)
		return value;
	bpf_map_update_elem(map, key, &made, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

/* No room for a row: the bytes are counted for the process alone, or for the device alone; of all
 * files together. */
static __always_inline struct stack_value *lost_row(void *lost, const struct stack_key *of)
{
	struct stack_lost_key key = { .process = of->process,
				      .cgroup = of->cgroup,
				      .dev = of->dev,
				      .file_kind = by_file ? FILE_OTHERS : FILE_NONE };
	struct stack_value *value;

	count_loss(&stack_losses[STACK_LOSS_ROWS], 1);
	value = value_of(lost, &key);
	if (value)
		return value;
	count_loss(&stack_losses[STACK_LOSS_PROCESSES], 1);
	key.process.start = 0;
	key.process.pid = STACK_ANY_PID;
	return value_of(lost, &key);
}

/* Makes a row for a stack that has none in this buffer; its frames first. */
static __always_inline struct stack_value *
new_row(void *rows, void *stacks, struct stack_scratch *at, struct stack_key *key, u32 buffer)
{
	if (want_kernel)
		keep_frames(stacks, &at->frames[STACK_KERNEL], &key->kernel, buffer);
	if (want_user)
		keep_frames(stacks, &at->frames[STACK_USER], &key->user, buffer);
	__sync_fetch_and_add(&rows_made[buffer], 1);
	return value_of(rows, key);
}

static __always_inline void add(struct stack_scratch *at, struct stack_key *key, bool write,
				u64 bytes)
{
	u32 buffer = epoch & 1;
	struct stack_value *value;

	value = buffer ? bpf_map_lookup_elem(&rows1, key) : bpf_map_lookup_elem(&rows0, key);
	if (!value)
		value = buffer ? new_row(&rows1, &stacks1, at, key, 1)
			       : new_row(&rows0, &stacks0, at, key, 0);
	if (!value)
		value = buffer ? lost_row(&lost1, key) : lost_row(&lost0, key);
	if (!value) {
		count_loss(&stack_losses[STACK_LOSS_BIOS], 1);
		count_loss(&stack_losses[STACK_LOSS_BYTES], bytes);
		return;
	}
	if (write)
		__sync_fetch_and_add(&value->bytes[1], bytes);
	else
		__sync_fetch_and_add(&value->bytes[0], bytes);
}

/* ---- bios ---- */

/* Sets @id to the file of @bio, if the bio has data. */
static __always_inline void find_data_file(struct bio *bio, struct file_id *id)
{
	if (has_data(op_of_code(BPF_CORE_READ(bio, bi_opf) & 0xff)))
		find_id_now(bio, id);
}

/* Sets @process to the current one, stores its name, and sets @cgroup to the cgroup of @bio if
 * requested.  False when the filter excludes one of them. */
static __always_inline bool name_submitter(struct bio *bio, struct blk_process *process,
					   u64 *cgroup)
{
	if (!current_process(process) || !bio_cgroup_wanted(bio, cgroup))
		return false;
	remember_name(process);
	if (by_user)
		process->uid = bpf_get_current_uid_gid();
	return true;
}

#define OP_DISCARD	3 /* in all kernels */
#define BLOCK_EXT_MAJOR 259

/* Is the bio counted?  @dev: its device, 0 if it is not selected. */
static __always_inline bool counts(struct bio *bio, u32 dev, bool *write, const bool direct)
{
	u32 op = KREAD(direct, bio, bi_opf) & 0xff;

	/* Counted by diskstats as sectors written. */
	*write = op & 1;
	return dev && op != OP_DISCARD && (*write ? want_write : want_read);
}

/* The device makes no requests of @bio: the bio itself is followed.  Not inline, to save 512 bytes
 * of stack, which the walker of user stacks needs too. */
static __noinline int follow_path(u64 bio, const struct stack_key *key, u64 path, u64 bytes,
				  bool write)
{
	struct blk_inflight made = {};

	if (!key) /* for the verifier of 5.10 */
		return RUN_DONE;
	made.process = key->process;
	made.cgroup = key->cgroup;
	made.dev = key->dev;
	made.call = path;
	made.op = write ? BLK_WRITE : BLK_READ;
	made.bytes = bytes;
	if (by_file)
		made.own_bio = bio;
	follow_bio(bio, &made);
	return RUN_DONE;
}

/* Stores the stacks of @key: for the request that will be made of @bio or, on a device without
 * requests, for the bio itself. */
static __always_inline void note_path(struct bio *bio, const struct stack_key *key, u64 bytes,
				      bool write, bool remapped, const bool direct)
{
	u64 address = (u64)bio, path = stack_path(&key->kernel, &key->user);
	struct gendisk *disk = bio_disk(bio, direct);
	int done;

	if (!disk)
		return;
	if (makes_requests(disk, direct)) {
		/* Without room: STACK_LOSS_PATHS. */
		bpf_map_update_elem(&paths, &address, &path, BPF_ANY);
		return;
	}
	if (remapped)
		return; /* it is followed for the device above */
	done = follow_path(address, key, path, bytes, write);
	barrier_var(done);
}

static __always_inline void on_bio(void *ctx, struct bio *bio, u32 slot, const bool direct)
{
	u32 dev = bio_wanted_dev(bio, bio_disk(bio, direct), direct);
	struct stack_key key = {};
	struct stack_scratch *at;
	bool write;
	u64 bytes;

	if (!counts(bio, dev, &write, direct))
		return;
	bytes = KREAD(direct, bio, bi_iter.bi_size);
	/* A flush without data is an I/O of 0 bytes. */
	if (!(bytes || count_ios) || !name_submitter(bio, &key.process, &key.cgroup))
		return;
	at = scratch_of(slot);
	if (!at)
		return;
	if (want_kernel)
		read_stack(ctx, at, slot, STACK_KERNEL, &key.kernel);
	if (want_user)
		read_stack(ctx, at, slot, STACK_USER, &key.user);
	key.dev = dev;
	key.cpu = bpf_get_smp_processor_id();
	if (by_file && bytes)
		find_data_file(bio, &key.file);
	add(at, &key, write, bytes);
	if (count_ios)
		note_path(bio, &key, bytes, write, slot >= SLOT_REMAP, direct);
}

/* Not inline: the object has the code once, not once for each caller. */
static __noinline int on_typed_bio(void *ctx, struct bio *bio, u32 slot)
{
	on_bio(ctx, bio, slot, true);
	return RUN_DONE;
}

static __noinline int on_raw_bio(void *ctx, struct bio *bio, u32 slot)
{
	on_bio(ctx, bio, slot, false);
	return RUN_DONE;
}

/*
 * block_bio_remap: the bio itself goes on to another device (md's raid0 and linear, NVMe
 * multipath), where block_bio_queue is not called again.  The kernel also calls it for the step
 * from a partition to its disk; then @from is the partition that bi_bdev or bi_partno still name.
 */
static __always_inline bool from_partition(struct bio *bio, u32 from)
{
	u32 partno, whole;

	if (!bpf_core_field_exists(bio->bi_disk))
		return BPF_CORE_READ(bio, bi_bdev, bd_dev) == from;
	partno = BPF_CORE_READ(bio, bi_partno);
	whole = disk_dev(BPF_CORE_READ(bio, bi_disk), false);
	/* Extended numbers have no order; no md device has one. */
	return partno && (from == whole + partno || from >> 20 == BLOCK_EXT_MAJOR);
}

static __always_inline int on_remap(void *ctx, struct bio *bio, u32 from, u32 slot)
{
	if (!(BPF_CORE_READ(bio, bi_flags) & trace_completion_mask) || from_partition(bio, from))
		return 0;
	return on_raw_bio(ctx, bio, slot);
}

/*
 * block_bio_complete.  On a disk with requests it is called only for a bio that is in no request
 * (blk_update_request() clears BIO_TRACE_COMPLETION): a bio that the disk rejected after
 * block_bio_queue, in its submitter's context.
 */
static __always_inline void on_refused_bio(struct bio *bio)
{
	struct gendisk *disk = bio_disk(bio, false);
	struct blk_process process = {};
	u64 bytes, cgroup;
	bool write;

	if (!BPF_CORE_READ(bio, bi_status) || !makes_requests(disk, false))
		return;
	if (!counts(bio, bio_wanted_dev(bio, disk, false), &write, false))
		return;
	bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	if (!bytes || !current_process(&process) || !bio_cgroup_wanted(bio, &cgroup))
		return;
	count_loss(&stack_losses[STACK_LOSS_REFUSED], 1);
	count_loss(&stack_losses[STACK_LOSS_REFUSED_BYTES], bytes);
}

static __always_inline void on_end_of_bio(struct bio *bio)
{
	if (count_ios)
		on_bio_end((u64)bio, false);
	on_refused_bio(bio);
}

/* ---- complete I/Os ---- */

/* For the first bio of a request.  A split-off bio does not pass block_bio_queue; the bio that it
 * was split from does (bio_chain()). */
static __always_inline u64 path_of(struct bio *bio)
{
	u64 address = (u64)bio, *path;

	if (!bio)
		return 0;
	path = bpf_map_lookup_elem(&paths, &address);
	if (path)
		return *path;
	address = (u64)BPF_CORE_READ(bio, bi_private);
	path = bpf_map_lookup_elem(&paths, &address);
	return path ? *path : 0;
}

static __always_inline struct stack_done *done_of(void *map, const struct stack_done_key *key)
{
	struct stack_done *done = bpf_map_lookup_elem(map, key), made = {};

	if (done)
		return done;
	bpf_map_update_elem(map, key, &made, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

/* @ns: 0 if unknown */
static __always_inline void add_done(const struct stack_done_key *key, bool write, u64 ns)
{
	struct stack_done *done = epoch & 1 ? done_of(&done1, key) : done_of(&done0, key);

	if (!done) {
		count_loss(&stack_losses[STACK_LOSS_IOS], 1);
		return;
	}
	if ((want_kernel || want_user) && !key->path)
		count_loss(&stack_losses[STACK_LOSS_PATHS], 1);
	/* Nothing is added where @ns is 0: see atomics_rule.py. */
	if (write) {
		__sync_fetch_and_add(&done->ios[1], 1);
		if (ns)
			__sync_fetch_and_add(&done->ns[1], ns);
	} else {
		__sync_fetch_and_add(&done->ios[0], 1);
		if (ns)
			__sync_fetch_and_add(&done->ns[0], ns);
	}
}

/* Sets the submitter fields of @key. */
static __always_inline void done_for(struct stack_done_key *key, const struct blk_inflight *entry)
{
	key->cpu = bpf_get_smp_processor_id();
	if (entry && entry->known) {
		key->process.start = entry->process.start;
		key->process.pid = entry->process.pid;
		key->process.uid = entry->process.uid;
		key->path = entry->call;
		key->cgroup = entry->cgroup;
	} else {
		key->process.pid = STACK_ANY_PID;
	}
}

/* Does diskstats count @op as a read or a write? */
static __always_inline bool op_counts(u8 op)
{
	if (op == BLK_DISCARD || op == BLK_FLUSH || op == BLK_PASSTHROUGH)
		return false;
	return op == BLK_READ ? want_read : want_write;
}

static __always_inline void on_lost_completion(struct blk_inflight *entry)
{
	struct stack_done_key key = { .dev = entry->dev };

	if (!op_counts(entry->op))
		return;
	done_for(&key, entry);
	if (by_file && has_data(entry->op))
		key.file.kind = FILE_UNREAD;
	add_done(&key, entry->op != BLK_READ, 0);
}

static __always_inline void on_bio_done(const struct blk_inflight *bio, u64 ns)
{
	struct stack_done_key key = { .dev = bio->dev };

	done_for(&key, bio);
	if (by_file && bio->bytes)
		find_data_file((struct bio *)bio->own_bio, &key.file);
	add_done(&key, bio->op != BLK_READ, ns);
}

static __always_inline void complete(struct request *rq, u32 bytes, const bool direct)
{
	struct blk_done done = classify(rq, bytes, direct);
	struct stack_done_key key = {};
	struct blk_inflight of_bio, *entry;
	bool predates = false;
	u64 now, ns = 0;

	if (done.none || !done.final)
		return;
	if (by_file && has_data(done.op))
		find_id_now(BPF_CORE_READ(rq, bio), &key.file);
	now = bpf_ktime_get_ns();
	entry = completing_entry(rq, &of_bio, direct);
	if (!(entry && entry->known)) {
		if (filters_submitters()) {
			release_entry(rq, entry, &of_bio, direct);
			return;
		}
		predates = unseen_start_predates_trace(rq, done.op);
	}
	key.dev = completing_dev(rq, entry);
	if (predates || (filter_dev && !key.dev)) {
		release_entry(rq, entry, &of_bio, direct);
		return;
	}
	done_for(&key, entry);
	if (!rq_latency(rq, entry, done.op, true, now, &ns, direct))
		ns = 0;
	release_entry(rq, entry, &of_bio, direct);
	if (op_counts(done.op))
		add_done(&key, done.op != BLK_READ, ns);
}

/* Not inline: their stack is used again for the bios. */
static __noinline int typed_done(struct request *rq, u32 bytes)
{
	complete(rq, bytes, true);
	return RUN_DONE;
}

static __noinline int raw_done(struct request *rq, u32 bytes)
{
	complete(rq, bytes, false);
	return RUN_DONE;
}

static __always_inline void on_complete(struct request *rq, bool failed, u32 bytes,
					const bool direct)
{
	end_bios_of(rq, failed, bytes);
	if (direct)
		typed_done(rq, bytes);
	else
		raw_done(rq, bytes);
}

/* ---- entry points; cmd/block/blk.c says which is used when ---- */

#include "probes/blk_entry.bpf.h"

/* Each program has a slot of its own: the program before it may be preempted while it reads a
 * stack. */
LONG_TP_PROGS(stk_queue, block_bio_queue, SEEN_BIO, 0,
	      direct ? on_typed_bio(ctx, arg, SLOT_QUEUE + program)
		     : on_raw_bio(ctx, arg, SLOT_QUEUE + program))
QUEUE_PROG(stk_queue, block_bio_queue, 1, on_raw_bio(ctx, arg, SLOT_QUEUE))

/* block_bio_remap(bio, from device, from sector) since 5.11; (queue, ...) before. */
LONG_RAW_TP_PROGS(stk_remap_raw, block_bio_remap, SEEN_REMAP, 0,
		  on_remap(ctx, arg, ctx[1], SLOT_REMAP + program))
QUEUE_PROG(stk_remap, block_bio_remap, 1, on_remap(ctx, arg, ctx[2], SLOT_REMAP))

RAW_TP_PROGS(stk_end_raw, block_bio_complete, SEEN_BIO_END, 1, on_end_of_bio(arg))

#include "probes/stack_wait.bpf.h"

char LICENSE[] SEC("license") = "GPL";
