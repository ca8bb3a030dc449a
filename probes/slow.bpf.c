// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace slow, and iotrace blame: I/Os that took at least min_ns, from the arrival of the bio at
 * the block layer to the completion of its request.  For faster I/Os only arrival and issue times
 * are stored: the other fields of a record are read at the completion, while the bio still exists.
 */
#define BLK_COPY_OWN(to, from) slow_copy(to, from)

#include "probes/blk_depth.bpf.h"
#include "probes/slow.h"

static __always_inline void slow_copy(struct blk_inflight *to, const struct blk_inflight *from);
static __always_inline void slow_submitted(struct blk_inflight *entry, struct bio *bio,
					   const bool direct);
static __always_inline void slow_requeued(struct blk_inflight *entry);
static __always_inline void slow_submitter(struct blk_inflight *submitter,
					   struct task_struct *task);

/* `direct` is an argument of the function. */
#define BLK_ON_SUBMITTED(entry, bio, front_merge) slow_submitted(entry, bio, direct)
#define BLK_ON_ISSUED(entry)			  depth_enter(entry)
#define BLK_ON_FLUSHING(entry)
#define BLK_ON_REQUEUED(entry)	       slow_requeued(entry)
#define BLK_ON_LOST_COMPLETION(entry)  depth_leave(entry)
#define BLK_FOLLOWS_ALL		       true
#define BLK_BIO_OF(rq, direct)	       KREAD(direct, rq, bio)
#define BLK_READ_TASK(submitter, task) slow_submitter(submitter, task)

#include "probes/blk.bpf.h"
#include "probes/bio_file.bpf.h"
#include "probes/blk_bio_devices.bpf.h"
#include "probes/blk_record.bpf.h"

const volatile bool bio_mode = false;
const volatile bool want_stack = false, want_user = false; /* -K, -U */
const volatile bool compact = false;			   /* blame: no full records without need */
const volatile bool full_records = false;		   /* blame --by file: no others */
const volatile __u64 limit = 0;		/* full records per second (2^30 ns); 0: all */
const volatile __u64 arrivals_room = 0; /* new addresses of bios that certainly have room */

/* The limit of slow; user space changes it for -n. */
__u64 min_ns[SLOW_BUFFERS] = {};

__u64 slow_losses[SLOW_LOSSES] = {};

/* New addresses of bios so far. */
__u64 addresses = 0;

/* For --limit. */
__u64 this_second = 0, in_this_second = 0;

/* A bio that has arrived. */
struct arrival {
	u64 ns;		/* 0: a request has been made of it */
	u64 user_stack; /* slow_record.user_stack; with -U */
	s32 stack;	/* slow_record.stack; with -K */
	u32 pad;
};

/*
 * By the address of a bio.  An entry stays until its room is needed: addresses are reused.  Without
 * stacks only the time: with the kernel's own part this is one cache line.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set before loading, without stacks */
	__type(key, u64);
	__type(value, u64);
} arrivals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set before loading, with -K or -U */
	__type(key, u64);
	__type(value, struct arrival);
} arrivals_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 1); /* set before loading with -K */
	__uint(key_size, sizeof(u32));
	__uint(value_size, 127 * sizeof(u64));
} stacks SEC(".maps");

/* By slow_record.user_stack, least recently used first out: an I/O may be slow long after it
 * arrived. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set before loading with -U */
	__type(key, u64);
	__type(value, struct stack_frames);
} user_stacks SEC(".maps");

/* The programs that read user stacks. */
enum { SLOT_ARRIVAL, SLOTS = SLOT_ARRIVAL + SPARE_PROGS, NO_SLOT = SLOTS };

#define STACK_SLOTS SLOTS
#define STACKS_ON_UNREAD()
#include "probes/stacks.bpf.h"

/* ---- arrival ---- */

/* Are stacks kept? */
static __always_inline bool keeps_stacks(void)
{
	return want_stack || want_user;
}

/* Without stacks only `ns` exists. */
static __always_inline struct arrival *find_arrival(u64 bio)
{
	if (keeps_stacks())
		return bpf_map_lookup_elem(&arrivals_stacks, &bio);
	return bpf_map_lookup_elem(&arrivals, &bio);
}

/* @take: the entry is used up.  An entry that is still the bio's own after it was read was the
 * bio's own all the time: another CPU may evict it and use it for another bio. */
static __always_inline bool read_arrival(u64 bio, bool take, struct arrival *out)
{
	struct arrival *arrival = find_arrival(bio);

	if (!arrival || !arrival->ns)
		return false;
	out->ns = arrival->ns;
	if (want_stack)
		out->stack = arrival->stack;
	if (want_user)
		out->user_stack = arrival->user_stack;
	barrier();
	if (find_arrival(bio) != arrival) {
		out->ns = 0;
		return false;
	}
	if (take)
		arrival->ns = 0;
	return true;
}

/* A bio without room is counted when it is not found. */
static __always_inline void insert_arrival(u64 bio, const struct arrival *made)
{
	long r;

	if (keeps_stacks())
		r = bpf_map_update_elem(&arrivals_stacks, &bio, made, BPF_ANY);
	else
		r = bpf_map_update_elem(&arrivals, &bio, &made->ns, BPF_ANY);
	if (r)
		__sync_fetch_and_add(&addresses, arrivals_room); /* from now on */
}

#define CUTS_MAX 4 /* how often a split-off part may be split again */

/* The arrived bio that bio @part was split off from, directly or indirectly; 0: none.  A global
 * function: the verifier checks it once. */
__attribute__((noinline)) u64 whole_of(u64 part)
{
	for (int i = 0; i < CUTS_MAX; i++) {
		/* A void pointer: read directly, it is a number until 6.16 and a pointer since. */
		u64 whole = (u64)BPF_CORE_READ((struct bio *)part, bi_private);
		struct arrival *arrival = find_arrival(whole);

		if (arrival && arrival->ns)
			return whole;
		part = whole;
		if (!end_of_chain ||
		    (u64)BPF_CORE_READ((struct bio *)part, bi_end_io) != end_of_chain)
			return 0;
	}
	return 0;
}

/*
 * The arrival of the bio that @bio was split off from: bio_split() makes a bio that leads to it and
 * has not arrived itself, though an earlier bio at its address may have (@found, in @out).  Other
 * parts will ask for it, too.
 */
static __always_inline void read_whole(u64 bio, bool found, struct arrival *out)
{
	u64 address = whole_of(bio);
	struct arrival whole = { .stack = -1 };

	if (address && read_arrival(address, false, &whole) && !(found && out->ns > whole.ns))
		*out = whole;
}

/* Stores the current user stack; returns its slow_record.user_stack. */
static __always_inline u64 read_user_stack(void *ctx, u32 slot)
{
	struct stack_scratch *at = scratch_of(slot);
	struct stack_id id = {};
	u64 key;

	if (!at)
		return STACK_NONE;
	read_stack(ctx, at, slot, STACK_USER, &id);
	if (id.hash[0] <= STACK_LOST)
		return id.hash[0];
	/* As many bits of the two hashes as fit into blk_inflight. */
	key = (id.hash[0] ^ id.hash[1]) | 2;
	if (bpf_map_lookup_elem(&user_stacks, &key))
		return key;
	if (!bpf_map_update_elem(&user_stacks, &key, &at->frames[STACK_USER], BPF_ANY))
		return key;
	count_loss(&slow_losses[SLOW_LOSS_STACKS], 1);
	return STACK_LOST;
}

static __always_inline void read_stacks(void *ctx, u32 slot, struct arrival *arrival)
{
	if (want_stack) {
		arrival->stack = bpf_get_stackid(ctx, &stacks, 0);
		if (arrival->stack < 0)
			count_loss(&slow_losses[SLOW_LOSS_STACKS], 1);
	}
	if (slot != NO_SLOT)
		arrival->user_stack = read_user_stack(ctx, slot);
}

/* By disk and process. */
static __always_inline bool is_wanted(struct bio *bio, struct gendisk *disk, const bool direct)
{
	struct blk_process process = {};

	return bio_wanted_dev(bio, disk, direct) && current_process(&process);
}

/*
 * @slot: NO_SLOT: without a user stack.  Written in place if the address has an entry, which takes
 * a third of the time.
 *
 * Another CPU is unlikely to evict an entry that was just looked up; if it does, and uses the entry
 * for another bio, that happens at the time written here.  Reading the clock waits for all
 * outstanding loads, also of the kernel: so the entry is prefetched before, see fetch_place().
 */
static __always_inline void on_arrival(void *ctx, struct bio *bio, struct gendisk *disk, u32 slot,
				       struct arrival *made, const bool direct)
{
	u64 key = address_of(bio, direct);
	struct arrival *arrival = find_arrival(key);

	if (arrival && !keeps_stacks()) {
		*(volatile u64 *)&arrival->ns = 0;
		arrival->ns = bpf_ktime_get_ns();
		return;
	}
	if (!arrival)
		__sync_fetch_and_add(&addresses, 1);
	made->ns = bpf_ktime_get_ns();
	if (keeps_stacks() && is_wanted(bio, disk, direct))
		read_stacks(ctx, slot, made);
	insert_arrival(key, made);
}

/* ---- the life of a request ---- */

static __always_inline void slow_submitter(struct blk_inflight *submitter, struct task_struct *task)
{
	/* bpf_get_current_cgroup_id() takes three times as long. */
	if (HAS_CGROUPS)
		submitter->task_cgroup =
		    TYPED_TASK ? task->cgroups->dfl_cgrp->kn->id : bpf_get_current_cgroup_id();
}

static __always_inline void slow_copy(struct blk_inflight *to, const struct blk_inflight *from)
{
	to->arrival_ns = from->arrival_ns;
	to->task_cgroup = from->task_cgroup;
	to->retries = 0;
	to->first_bytes = 0;
	if (want_stack)
		to->stack = from->stack;
	if (want_user)
		to->user_stack = from->user_stack;
}

/*
 * Has @bio, or the bio that it was split off from, passed block_bio_queue?  Not true for
 * passthrough, request-based dm, and from 5.18 to 6.2 bios held back by io.max: other bios may have
 * arrived at their addresses before.
 */
static __always_inline bool has_arrived(struct bio *bio, const bool direct)
{
	return !trace_completion_mask || KREAD(direct, bio, bi_flags) & trace_completion_mask;
}

static __always_inline void read_arrival_of(struct bio *bio, struct arrival *out, const bool direct)
{
	u64 key = address_of(bio, direct);
	bool found;

	if (!has_arrived(bio, direct))
		return;
	found = read_arrival(key, true, out);
	if (!found || (end_of_chain && (u64)KREAD(direct, bio, bi_end_io) == end_of_chain))
		read_whole(key, found, out);
	/* Or it arrived before its program was attached: while there was room for all. */
	if (out->ns || !trace_completion_mask || addresses <= arrivals_room)
		return;
	/* If requests are found by bios, bios of all disks are followed: -d excludes none. */
	if (filter_dev && !is_wanted_disk(disk_dev(bio_disk(bio, direct), direct)))
		return;
	count_loss(&slow_losses[SLOW_LOSS_ARRIVALS], 1);
}

/* A request is made of @bio. */
static __always_inline void slow_submitted(struct blk_inflight *entry, struct bio *bio,
					   const bool direct)
{
	struct arrival arrival = { .stack = -1 };

	if (bio)
		read_arrival_of(bio, &arrival, direct);
	entry->arrival_ns = arrival.ns;
	entry->first_bytes = 0;
	if (want_stack)
		entry->stack = arrival.stack;
	if (want_user)
		entry->user_stack = arrival.user_stack;
}

/* @entry will have fewer bytes to complete. */
static __always_inline void keep_bytes(struct blk_inflight *entry)
{
	if (!entry->first_bytes)
		entry->first_bytes = entry->bytes;
}

static __always_inline void slow_requeued(struct blk_inflight *entry)
{
	depth_leave(entry);
	keep_bytes(entry);
	if (entry->retries < 255)
		entry->retries++;
}

/* ---- the file ---- */

static __always_inline void read_file(struct slow_record *to, struct bio *bio)
{
	struct bio_file file = {};
	struct dentry *dentry = find_bio_file(&file, bio, to->flags & SLOW_META);

	to->inode = file.inode;
	to->magic = file.magic;
	to->file_dev = file.dev;
	to->file = file.kind;
	if (dentry) {
		to->file = FILE_NAMED;
		to->path_bytes = read_path(to->path, dentry, &to->path_flags);
	}
}

/*
 * ---- records ----
 *
 * The result of bpf_ringbuf_reserve() is checked once, directly after the call: the verifier of
 * 5.10 assumes that a second check may differ, and reports a record that is not submitted.
 */

static __always_inline bool beyond_limit(u64 now)
{
	u64 second = now >> 30;

	if (!limit)
		return false;
	if (this_second != second) {
		this_second = second;
		in_this_second = 0;
	}
	if (in_this_second >= limit)
		return true;
	__sync_fetch_and_add(&in_this_second, 1);
	return false;
}

/* Is a full record written for an I/O that ends now?  Full records take at most half of the ring
 * buffer.  A global function: up to 6.1 the verifier follows the code after it once for each of its
 * paths. */
__attribute__((noinline)) int has_details(u64 now)
{
	return !beyond_limit(now) && records_used() < records_bytes / 2;
}

/* @entry may be NULL.  Fills everything except `io`; fill_bio() fills the fields of the bio. */
static __always_inline void fill(struct slow_record *to, const struct blk_inflight *entry,
				 s32 error, u32 op)
{
	to->error = error;
	to->op = op;
	to->epoch = epoch;
	to->lost = records_lost;
	to->stack = -1;
	to->user_stack = STACK_NONE;
	to->known = 0;
	to->writeback = 0;
	to->retries = 0;
	to->start = 0;
	to->pid = 0;
	to->uid = 0;
	to->task_cgroup = 0;
	if (!entry)
		return;
	to->retries = entry->retries;
	if (entry->known) {
		to->known = 1;
		to->writeback = entry->writeback;
		to->start = entry->process.start;
		to->pid = entry->process.pid;
		to->uid = entry->process.uid;
		to->task_cgroup = entry->task_cgroup;
		if (want_stack)
			to->stack = entry->stack;
		if (want_user)
			to->user_stack = entry->user_stack;
	}
}

static __always_inline void fill_bio(struct slow_record *to, struct bio *bio)
{
	struct cgroup_subsys_state *css = css_of_bio(bio);

	to->cgroup = 0;
	to->cgroup2 = 0;
	to->path_bytes = 0;
	to->path_flags = 0;
	to->waiting = 0;
	to->file = FILE_NONE;
	to->file_dev = 0;
	to->inode = 0;
	to->magic = 0;
	if (css) {
		to->cgroup = BPF_CORE_READ(css, cgroup, kn, id);
		to->cgroup2 = !BPF_CORE_READ(css, cgroup, root, hierarchy_id);
	}
}

/* The submitter of request @key; false: unknown. */
static __always_inline bool waiter_of(u64 key, struct blk_inflight *of_bio,
				      struct blk_inflight **entry)
{
	*entry = entry_of(key);
	if (*entry && (*entry)->known)
		return true;
	*entry = of_bio;
	return read_bio_owner((void *)key, of_bio);
}

/* The start time of its process, and its number; 0: unknown.  Global functions: the verifier's
 * knowledge of the caller would differ after each round.  Two functions, since one with a flag
 * takes 32 bytes more of stack, which the callers do not have. */
__attribute__((noinline)) u64 waiter_start(u64 key)
{
	struct blk_inflight of_bio = {}, *entry;

	return waiter_of(key, &of_bio, &entry) ? entry->process.start : 0;
}

__attribute__((noinline)) u32 waiter_pid(u64 key)
{
	struct blk_inflight of_bio = {}, *entry;

	return waiter_of(key, &of_bio, &entry) ? entry->process.pid : 0;
}

/* The processes that wait for the flush command @rq. */
static __always_inline void read_waiters(struct slow_record *to, struct request *rq)
{
	struct list_head *head = flush_waiters(rq), *node;

	if (!head)
		return;
	node = BPF_CORE_READ(head, next);
	for (u32 i = 0; i < SLOW_WAITING_MAX; i++) {
		u64 key = (u64)waiter_at(node);

		if (!node || node == head)
			return;
		if (i < SLOW_WAITERS) {
			to->waiters[i].start = waiter_start(key);
			to->waiters[i].pid = waiter_pid(key);
		}
		to->waiting = i + 1;
		node = BPF_CORE_READ(node, next);
	}
}

static __always_inline u64 slow_enough(void)
{
	return min_ns[epoch & 1];
}

#define FLAG(bits, flag)                                                                           \
	((bits) >> bpf_core_enum_value(enum req_flag_bits, __REQ_##flag) & 1 ? SLOW_##flag : 0)

static __always_inline u32 flags_of(u32 bits)
{
	u32 ahead = (bits) >> bpf_core_enum_value(enum req_flag_bits, __REQ_RAHEAD) & 1;

	return FLAG(bits, SYNC) | FLAG(bits, META) | FLAG(bits, FUA) | FLAG(bits, PREFLUSH) |
	       (ahead ? SLOW_AHEAD : 0);
}

static __always_inline u64 between(u64 from, u64 to)
{
	return from && to > from ? to - from : 0;
}

struct slow_times {
	u64 arrival, made, issue;
};

/*
 * 0 if it did not begin or is unknown; each time is at least the one before.  Since 6.9
 * (da4c8c3d0975) the kernel may use a time that it has read earlier as the creation time of a
 * request; if requests are followed by their bios, the bio may have been merged into a request.
 */
static __always_inline void read_times(struct request *rq, const struct blk_inflight *entry,
				       struct slow_times *t, const bool direct)
{
	t->made = rq_made_ns(rq, direct);
	t->issue = entry ? entry->issue_ns : 0;
	t->arrival = entry && entry->known ? entry->arrival_ns : 0;
	if (!t->made && entry)
		t->made = entry->submit_ns;
	if (t->made && t->arrival > t->made && submit_mode == SUBMIT_RQ)
		t->made = t->arrival;
	if (!t->made || (t->issue && t->made > t->issue))
		t->made = t->issue;
	if (!t->arrival || (t->made && t->arrival > t->made))
		t->arrival = t->made;
	if (!t->issue)
		t->issue = t->made;
}

/* Hides @value from the verifier: up to 6.1 it follows the code after this once for each
 * combination of constants. */
__attribute__((noinline)) u64 opaque(u64 value)
{
	barrier_var(value);
	return value;
}

static __always_inline void read_io(struct slow_io *io, struct request *rq,
				    const struct blk_inflight *entry, u64 end_ns, u32 bytes, u32 op)
{
	u32 data = BPF_CORE_READ(rq, __data_len);
	struct slow_times t;

	read_times(rq, entry, &t, false);
	t.arrival = opaque(t.arrival);
	t.made = opaque(t.made);
	t.issue = opaque(t.issue);
	io->dev = opaque(completing_dev(rq, entry));
	io->end_ns = end_ns;
	io->admit_ns = opaque(between(t.arrival, t.made));
	io->queue_ns = opaque(between(t.made, t.issue));
	io->device_ns = opaque(between(t.issue, end_ns));
	io->flags = opaque(flags_of(BPF_CORE_READ(rq, cmd_flags)));
	io->sector = BPF_CORE_READ(rq, __sector);
	io->depth = 0;
	if (entry && entry->issue_ns && op != BLK_SYNC) {
		bytes = entry->first_bytes ? entry->first_bytes : entry->bytes;
		io->depth = entry->depth;
	}
	/* Completed parts are not in the request any more. */
	if (bytes > data && op != BLK_SYNC)
		io->sector -= (bytes - data) >> 9;
	io->bytes = opaque(bytes);
	if (io->sector == ~0ull || op == BLK_FLUSH || op == BLK_SYNC)
		io->sector = 0;
	io->sector = opaque(io->sector);
	io->depth = opaque(io->depth);
}

/* Does @io, with @entry, fit into a struct blk_record? */
static __always_inline bool is_plain(const struct slow_io *io, const struct blk_inflight *entry)
{
	return !((io->admit_ns | io->queue_ns | io->device_ns) >> 32 |
		 io->sector >> BLK_RECORD_SECTOR_BITS | io->depth >> 16 | io->bytes % 512 |
		 (entry ? entry->retries : 0));
}

/* number_of_owner() for an I/O with @entry (may be NULL) and @bio. */
static __always_inline u32 find_owner(const struct blk_inflight *entry, struct bio *bio)
{
	struct cgroup_subsys_state *css = css_of_bio(bio);
	u64 start = 0, task_cgroup = 0, cgroup = 0, pid_uid = 0;
	u32 flags = 0;

	if (entry && entry->known) {
		flags = OWNER_KNOWN | (entry->writeback ? OWNER_WRITEBACK : 0);
		start = entry->process.start;
		pid_uid = (u64)entry->process.pid << 32 | entry->process.uid;
		task_cgroup = entry->task_cgroup;
	}
	if (css) {
		cgroup = BPF_CORE_READ(css, cgroup, kn, id);
		if (!BPF_CORE_READ(css, cgroup, root, hierarchy_id))
			flags |= OWNER_CGROUP2;
	}
	return number_of_owner(start, task_cgroup, cgroup, pid_uid, flags);
}

/* Writes a struct blk_record.  Returns false, with nothing written, if @io does not fit, or its
 * owner has no room. */
static __always_inline bool write_plain(const struct slow_io *io, const struct blk_inflight *entry,
					u32 owner, s32 error, u32 op)
{
	struct blk_record made = {
		.end_ns = io->end_ns,
		.admit_ns = io->admit_ns,
		.queue_ns = io->queue_ns,
		.device_ns = io->device_ns,
		.dev = io->dev,
		.sector = io->sector,
		.sectors = io->bytes / 512,
		.op = op,
		.flags = io->flags,
		.owner = owner,
		.depth = io->depth,
	};

	if (owner == OWNER_NONE || error || !is_plain(io, entry))
		return false;
	if (write_record(&made) && !compact)
		count_loss(&slow_losses[SLOW_LOSS_LIMIT], 1);
	return true;
}

/* Request @key is complete, and was slow: writes a struct blk_record. 0: not possible.  A global
 * function, like the next one: the verifier checks it once. */
__attribute__((noinline)) int plain_record_rq(u64 key, u64 end_ns, u32 bytes, s32 error, u32 op)
{
	struct request *rq = (void *)key;
	struct blk_inflight of_bio, *entry = completing_entry(rq, &of_bio, false);
	u32 owner = find_owner(entry, BPF_CORE_READ(rq, bio));
	struct slow_io io;

	read_io(&io, rq, entry, end_ns, bytes, op);
	return write_plain(&io, entry, owner, error, op);
}

/* `op` of record_rq() also says whether the request was made before the run began. */
#define OP_EARLY 0x100

/* The same with a struct slow_record. */
__attribute__((noinline)) int record_rq(u64 key, u64 end_ns, u32 bytes, s32 error, u32 op_early)
{
	u32 op = op_early % OP_EARLY;
	struct request *rq = (void *)key;
	struct blk_inflight of_bio, *entry = completing_entry(rq, &of_bio, false);
	struct bio *bio = BPF_CORE_READ(rq, bio);
	struct slow_record *to;

	to = bpf_ringbuf_reserve(&records, sizeof(*to), 0);
	if (!to) {
		count_loss(&records_lost, 1);
		return 0;
	}
	read_io(&to->io, rq, entry, end_ns, bytes, op);
	if (compact && op_early >= OP_EARLY)
		to->flags |= SLOW_EARLY;
	fill(to, entry, error, op);
	fill_bio(to, bio);
	if (op == BLK_FLUSH)
		read_waiters(to, rq);
	else if (bio && to->bytes && has_data(op))
		read_file(to, bio);
	submit_record(to, end_ns);
	return 0;
}

/* One of the two. */
static __always_inline void record(u64 rq, u64 end_ns, u32 bytes, s32 error, u32 op)
{
	if (full_records || (!compact && has_details(end_ns)) || op >= OP_EARLY ||
	    !plain_record_rq(rq, end_ns, bytes, error, op))
		record_rq(rq, end_ns, bytes, error, op);
}

/* Missed completions have no time. */
static __always_inline void on_lost_completion(struct blk_inflight *entry)
{
}

static __always_inline void on_complete(struct request *rq, s32 error, u32 bytes, const bool direct)
{
	struct blk_done done = classify(rq, bytes, direct);
	struct blk_inflight of_bio, *entry;
	struct slow_times t;
	u32 early = 0;
	u64 now = 0;

	if (bio_mode)
		end_bios_of(rq, error, bytes);
	if (done.none)
		return;
	fetch_place(address_of(rq, direct));
	if (done.final)
		now = bpf_ktime_get_ns(); /* before the entry, see on_issue() */
	entry = completing_entry(rq, &of_bio, direct);
	if (!(entry && entry->known)) {
		if (filters_submitters())
			goto release;
		if (unseen_start_predates_trace(rq, done.op))
			early = OP_EARLY;
		/* It may be what others wait for. */
		if (early && !(compact && begin_ns))
			goto release;
	}
	if (filter_dev && !completing_dev(rq, entry))
		goto release;
	if (!done.final && entry && entry->issue_ns)
		keep_bytes(entry);
	bytes = step_bytes(entry, &done);
	if (!done.final)
		return;
	read_times(rq, entry, &t, direct);
	if (!t.arrival && !early)
		count_loss(&losses[LOSS_NO_START], 1);
	else if (now < t.arrival)
		count_loss(&losses[LOSS_CLOCK], 1);
	else if (now - t.arrival >= slow_enough())
		record(load_scalar_rq(rq), now, bytes, error, done.op | early);
release:
	if (!entry || !done.final)
		return;
	depth_leave(entry);
	release_entry(rq, entry, &of_bio, direct);
}

/* ---- bio-based devices ---- */

static __always_inline void on_bio_done(const struct blk_inflight *entry, u64 ns)
{
	struct bio *bio = (void *)entry->bio;
	struct slow_record *to;
	struct slow_io io;
	s32 error;

	if (ns < slow_enough())
		return;
	io = (struct slow_io){
		.end_ns = bpf_ktime_get_ns(),
		.device_ns = ns,
		.sector = entry->issue_ns,
		.dev = entry->dev,
		.bytes = entry->bytes,
		.flags = flags_of(BPF_CORE_READ(bio, bi_opf)),
	};
	error = entry->failed ? (s32)BPF_CORE_READ(bio, bi_status) : 0;
	if ((compact || !has_details(io.end_ns)) &&
	    write_plain(&io, entry, find_owner(entry, bio), error, entry->op))
		return;
	to = bpf_ringbuf_reserve(&records, sizeof(*to), 0);
	if (!to) {
		count_loss(&records_lost, 1);
		return;
	}
	to->io = io;
	fill(to, entry, error, entry->op);
	fill_bio(to, bio);
	if (entry->bytes && has_data(entry->op))
		read_file(to, bio);
	submit_record(to, io.end_ns);
}

static __always_inline void follow(struct bio *bio, struct gendisk *disk,
				   const struct arrival *arrival, const bool direct)
{
	struct blk_inflight made = {};

	if (makes_requests(disk, direct))
		return;
	made.dev = bio_wanted_dev(bio, disk, direct);
	if (!made.dev)
		return;
	made.bytes = KREAD(direct, bio, bi_iter.bi_size);
	made.issue_ns = KREAD(direct, bio, bi_iter.bi_sector); /* no time: its sector */
	made.op = op_of_code(KREAD(direct, bio, bi_opf) & 0xff);
	if (made.op == BLK_WRITE && !made.bytes)
		made.op = BLK_SYNC;
	if (!read_submitter(&made, bio, made.op))
		return;
	made.bio = address_of(bio, direct);
	made.stack = arrival->stack;
	made.first_bytes = 0;
	if (want_user)
		made.user_stack = arrival->user_stack;
	follow_bio(made.bio, &made);
}

static __always_inline void on_bio_queue(void *ctx, struct bio *bio, u32 slot, const bool direct)
{
	struct gendisk *disk = bio_disk(bio, direct);
	struct arrival arrival = { .stack = -1 };

	if (!disk)
		return;
	/* A driver without requests may pass the bio on, also to the disk of -d. */
	if (filter_dev && !is_wanted_disk(disk_dev(disk, direct)) && makes_requests(disk, direct))
		return;
	on_arrival(ctx, bio, disk, slot, &arrival, direct);
	if (bio_mode)
		follow(bio, disk, &arrival, direct);
}

#include "probes/blk_cgroups.bpf.h"
#include "probes/blk_entry.bpf.h"

/* block_bio_queue(bio) since 5.11; (queue, bio) before. */
TP_PROGS(bio_queue, block_bio_queue, SEEN_BIO, 0, on_bio_queue(ctx, arg, NO_SLOT, direct))
QUEUE_PROG(bio_queue, block_bio_queue, 1, on_bio_queue(ctx, arg, NO_SLOT, direct))

/* With -U, as separate programs: older verifiers take a while for the walker, even if it is not
 * called.  Not inline: the object has the code once, not once for each program. */
static __noinline int on_typed_bio_queue(void *ctx, struct bio *bio, u32 slot)
{
	on_bio_queue(ctx, bio, slot, true);
	return RUN_DONE;
}

static __noinline int on_raw_bio_queue(void *ctx, struct bio *bio, u32 slot)
{
	on_bio_queue(ctx, bio, slot, false);
	return RUN_DONE;
}

LONG_TP_PROGS(bio_user, block_bio_queue, SEEN_BIO, 0,
	      direct ? on_typed_bio_queue(ctx, arg, SLOT_ARRIVAL + program)
		     : on_raw_bio_queue(ctx, arg, SLOT_ARRIVAL + program))
QUEUE_PROG(bio_user, block_bio_queue, 1, on_raw_bio_queue(ctx, arg, SLOT_ARRIVAL))

RAW_TP_PROGS(bio_end_raw, block_bio_complete, SEEN_BIO_END, 1,
	     on_bio_end(ctx[1], !!BPF_CORE_READ((struct bio *)arg, bi_status)))

char LICENSE[] SEC("license") = "GPL";
