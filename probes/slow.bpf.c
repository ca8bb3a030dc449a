// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace slow: I/Os that took at least min_ns, from the arrival of the bio at the block layer to
 * the completion of its request.  For the others no more is done than to note when they arrived and
 * were issued: whatever else a record has is read at the completion, while the bio is still there.
 */
#define BLK_INFLIGHT_NS arrival_ns /* of its bio; 0: not known */
#define BLK_INFLIGHT_OWN                                                                           \
	__u64 submit_ns;                                                                           \
	__s32 stack;	   /* of slow_record.stack; with -K */                                     \
	__u32 first_bytes; /* when it was first issued; 0: as many as `bytes` */                   \
	__u64 user_stack;  /* with -U */
#define BLK_COPY_OWN(to, from) slow_copy(to, from)

#include "probes/kernel.h"
#include "probes/slow.h"

static __always_inline void slow_copy(struct blk_inflight *to, const struct blk_inflight *from);
static __always_inline void slow_submitted(struct blk_inflight *entry, struct bio *bio,
					   const bool direct);
static __always_inline void slow_issued(struct blk_inflight *entry);
static __always_inline void slow_requeued(struct blk_inflight *entry);
static __always_inline void slow_left(struct blk_inflight *entry);
static __always_inline void slow_submitter(struct blk_inflight *submitter,
					   struct task_struct *task);

/* `direct` is that of the function. */
#define BLK_ON_SUBMITTED(entry, bio, front_merge) slow_submitted(entry, bio, direct)
#define BLK_ON_ISSUED(entry)			  slow_issued(entry)
#define BLK_ON_FLUSHING(entry)
#define BLK_ON_REQUEUED(entry)	       slow_requeued(entry)
#define BLK_ON_LOST_COMPLETION(entry)  slow_left(entry)
#define BLK_FOLLOWS_ALL		       true
#define BLK_BIO_OF(rq, direct)	       KREAD(direct, rq, bio)
#define BLK_READ_TASK(submitter, task) slow_submitter(submitter, task)

#include "probes/blk.bpf.h"
#include "probes/bio_file.bpf.h"
#include "probes/blk_bio_devices.bpf.h"

const volatile bool bio_mode = false;
const volatile bool want_stack = false, want_user = false; /* -K, -U */
const volatile __u64 limit = 0;			/* records per second (2^30 ns); 0: all */
const volatile __u32 trace_completion_mask = 0; /* BIO_TRACE_COMPLETION as a mask of bi_flags */
const volatile __u64 arrivals_room = 0;		/* new addresses of bios that surely have room */

/* What is slow: user space changes it for -n. */
__u64 min_ns[SLOW_BUFFERS] = {};

__u64 slow_losses[SLOW_LOSSES] = {};

/* New addresses of bios so far. */
__u64 addresses = 0;

/* Of --limit. */
__u64 this_second = 0, in_this_second = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} records SEC(".maps");

/* A bio that has arrived. */
struct arrival {
	u64 ns;		/* 0: a request has been made of it */
	u64 user_stack; /* slow_record.user_stack; with -U */
	s32 stack;	/* slow_record.stack; with -K */
	u32 pad;
};

/*
 * By the address of a bio.  An entry stays until its place is needed: addresses come again.
 * Without stacks the time alone: with the kernel's own part that is one cache line.
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

/* Requests at each disk, by its number: issued and not complete. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u64);
} depths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 1); /* set before loading with -K */
	__uint(key_size, sizeof(u32));
	__uint(value_size, 127 * sizeof(u64));
} stacks SEC(".maps");

/* By slow_record.user_stack, those that were used last: an I/O may be slow long after it arrived.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set before loading with -U */
	__type(key, u64);
	__type(value, struct stack_frames);
} user_stacks SEC(".maps");

/* The programs that read user stacks. */
enum { SLOT_ARRIVAL, SLOTS = SLOT_ARRIVAL + COPIES, NO_SLOT = SLOTS };

#define STACK_SLOTS SLOTS
#define STACKS_ON_UNREAD()
#include "probes/stacks.bpf.h"

/* ---- arrival ---- */

/* Are stacks kept? */
static __always_inline bool keeps_stacks(void)
{
	return want_stack || want_user;
}

/* Without stacks only `ns` is there. */
static __always_inline struct arrival *find_arrival(u64 bio)
{
	if (keeps_stacks())
		return bpf_map_lookup_elem(&arrivals_stacks, &bio);
	return bpf_map_lookup_elem(&arrivals, &bio);
}

/* @take: it is of no further use.  What is still found for the bio after it was read was the bio's
 * own all the time: another CPU may evict the entry and use it for another bio. */
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

/* One that has no room is counted when it is not found. */
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

#define CUTS_MAX 4 /* as often has a bio been cut off of one that was cut off */

/* The bio that has arrived and that bio @part was cut off of, or the one that that was cut off of;
 * 0: there is none.  A global function: the verifier checks it once. */
__attribute__((noinline)) u64 whole_of(u64 part)
{
	for (int i = 0; i < CUTS_MAX; i++) {
		/* A void pointer: read directly it is a number until 6.16 and a pointer since. */
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
 * When that which @bio was cut off of arrived: bio_split() makes one that leads to it, and has not
 * arrived itself, though one may have at its address before (@found, in @out).  Other parts will
 * ask for it, too.
 */
static __always_inline void read_whole(u64 bio, bool found, struct arrival *out)
{
	u64 address = whole_of(bio);
	struct arrival whole = { .stack = -1 };

	if (address && read_arrival(address, false, &whole) && !(found && out->ns > whole.ns))
		*out = whole;
}

/* Keeps the current user stack; its slow_record.user_stack. */
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
	/* Of the two hashes as much as blk_inflight has room for. */
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
 * @slot: NO_SLOT: without a user stack.
 *
 * Written in place where the address has an entry, which takes a third of the time.  Another CPU
 * hardly evicts an entry that was just looked up; one that was about to, and uses it for another
 * bio meanwhile, does that at the time that is written here.  Reading the clock waits for all that
 * is still being read, by the kernel too: so the entry is fetched before, as in fetch_place().
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
 * Has @bio, or what it was cut off of, passed block_bio_queue?  Not those of passthrough, of
 * request-based dm, and from 5.18 to 6.2 those that io.max held back: at their addresses others may
 * have arrived before.
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
	/* Or it arrived before its program was attached: as long as there is room for all. */
	if (out->ns || !trace_completion_mask || addresses <= arrivals_room)
		return;
	/* Bios are followed to all disks, where requests are found by them: -d keeps no others. */
	if (filter_dev && disk_dev(bio_disk(bio, direct), direct) != wanted_disk)
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

/* The count of requests at the disk; NULL: it has no room. */
static __always_inline u64 *depth_of(u32 dev)
{
	u64 *depth = bpf_map_lookup_elem(&depths, &dev), none = 0;

	if (depth || !dev)
		return depth;
	bpf_map_update_elem(&depths, &dev, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&depths, &dev);
}

/* With itself, and with those that another CPU adds between the addition and the look: 5.10 has no
 * addition that returns a value. */
static __always_inline void slow_issued(struct blk_inflight *entry)
{
	u64 *depth = depth_of(entry->dev);

	entry->depth = 0;
	if (!depth)
		return;
	__sync_fetch_and_add(depth, 1);
	entry->depth = *(volatile u64 *)depth;
}

/* The device does not have it any more. */
static __always_inline void slow_left(struct blk_inflight *entry)
{
	u64 *depth;

	if (!entry->issue_ns || entry->op == BLK_SYNC || !entry->depth)
		return;
	depth = bpf_map_lookup_elem(&depths, &entry->dev);
	if (depth)
		__sync_fetch_and_add(depth, -1);
}

/* @entry will have fewer bytes to be completed. */
static __always_inline void keep_bytes(struct blk_inflight *entry)
{
	if (!entry->first_bytes)
		entry->first_bytes = entry->bytes;
}

static __always_inline void slow_requeued(struct blk_inflight *entry)
{
	slow_left(entry);
	keep_bytes(entry);
	if (entry->retries < 255)
		entry->retries++;
}

/* ---- the file ---- */

static __always_inline void add_parts(struct slow_record *to, struct dentry *dentry)
{
	u32 at = 0;

	for (int i = 0; i < SLOW_PARTS; i++) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
		long bytes;

		if (!parent || parent == dentry) {
			to->path_bytes = at;
			return;
		}
		if (at > SLOW_PATH - SLOW_PART_MAX)
			break;
		bytes = bpf_probe_read_kernel_str(to->path + at, SLOW_PART_MAX,
						  BPF_CORE_READ(dentry, d_name.name));
		if (bytes <= 0)
			break;
		at += bytes;
		dentry = parent;
	}
	to->path_bytes = at;
	to->path_flags |= SLOW_CUT;
}

static __always_inline void read_path(struct slow_record *to, struct dentry *dentry)
{
	if (!BPF_CORE_READ(dentry, d_hash.pprev) && BPF_CORE_READ(dentry, d_parent) != dentry)
		to->path_flags |= SLOW_REMOVED;
	to->file = FILE_NAMED;
	add_parts(to, dentry);
}

static __always_inline bool has_data(u8 op)
{
	return op == BLK_READ || op == BLK_WRITE || op == BLK_ZONE_APPEND;
}

static __always_inline void read_file(struct slow_record *to, struct bio *bio)
{
	struct bio_file file = {};
	struct dentry *dentry = find_bio_file(&file, bio, to->flags & SLOW_META);

	to->inode = file.inode;
	to->magic = file.magic;
	to->file_dev = file.dev;
	to->file = file.kind;
	if (dentry)
		read_path(to, dentry);
}

/*
 * ---- records ----
 *
 * Whether there was room is asked once, just behind bpf_ringbuf_reserve(): the verifier of 5.10
 * takes it for possible that a second look finds none, and a record that is not submitted.
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
	if (in_this_second >= limit) {
		count_loss(&slow_losses[SLOW_LOSS_LIMIT], 1);
		return true;
	}
	__sync_fetch_and_add(&in_this_second, 1);
	return false;
}

/* For all: what @entry knows. */
static __always_inline void fill(struct slow_record *to, const struct blk_inflight *entry, u8 op)
{
	to->op = op;
	to->epoch = epoch;
	to->stack = -1;
	to->user_stack = STACK_NONE;
	to->known = 0;
	to->writeback = 0;
	to->retries = 0;
	to->start = 0;
	to->pid = 0;
	to->uid = 0;
	to->task_cgroup = 0;
	to->depth = 0;
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

/* User space looks at the buffer now and then; it is woken only when that may be too late. */
static __always_inline void submit_record(struct slow_record *record)
{
	u64 flags = BPF_RB_NO_WAKEUP;

	if (bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) >=
	    bpf_ringbuf_query(&records, BPF_RB_RING_SIZE) / 8)
		flags = BPF_RB_FORCE_WAKEUP;
	bpf_ringbuf_submit(record, flags);
}

/* Of the submitter of request @key the start (of its process), or the number; 0: not known.  A
 * global function: what the verifier knows of the caller would differ after each round. */
__attribute__((noinline)) u64 waiter_of(u64 key, u32 number)
{
	struct blk_inflight of_bio = {}, *entry = entry_of(key);

	if (!(entry && entry->known)) {
		if (!read_bio_owner((void *)key, &of_bio))
			return 0;
		entry = &of_bio;
	}
	return number ? entry->process.pid : entry->process.start;
}

/* Who waits for the flush command @rq. */
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
			to->waiters[i].start = waiter_of(key, false);
			to->waiters[i].pid = waiter_of(key, true);
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
 * 0 where it did not begin, or that is not known; each as late as the one before.  Since 6.9
 * (da4c8c3d0975) the kernel may take a time that it has read earlier for that at which it makes a
 * request; where requests are followed by their bios, the bio may have been merged into one.
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

/* Request @key is complete, and was slow.  A global function: the verifier checks it once. */
__attribute__((noinline)) int record_rq(u64 key, u64 end_ns, u32 bytes, s32 error, u32 op)
{
	struct request *rq = (void *)key;
	struct blk_inflight of_bio, *entry = completing_entry(rq, &of_bio, false);
	u32 data = BPF_CORE_READ(rq, __data_len), first = bytes;
	struct bio *bio = BPF_CORE_READ(rq, bio);
	struct slow_record *to;
	struct slow_times t;

	if (beyond_limit(end_ns))
		return 0;
	read_times(rq, entry, &t, false);
	to = bpf_ringbuf_reserve(&records, sizeof(*to), 0);
	if (!to) {
		count_loss(&slow_losses[SLOW_LOSS_RING], 1);
		return 0;
	}
	fill(to, entry, op);
	to->dev = completing_dev(rq, entry);
	to->end_ns = end_ns;
	to->admit_ns = between(t.arrival, t.made);
	to->queue_ns = between(t.made, t.issue);
	to->device_ns = between(t.issue, end_ns);
	to->sector = BPF_CORE_READ(rq, __sector);
	if (entry && entry->issue_ns && op != BLK_SYNC) {
		first = entry->first_bytes ? entry->first_bytes : entry->bytes;
		to->depth = entry->depth;
	}
	/* Parts that are complete are not in the request any more. */
	if (first > data && op != BLK_SYNC)
		to->sector -= (first - data) >> 9;
	to->bytes = first;
	if (to->sector == ~0ull || op == BLK_FLUSH || op == BLK_SYNC)
		to->sector = 0;
	to->flags = flags_of(BPF_CORE_READ(rq, cmd_flags));
	to->error = error;
	fill_bio(to, bio);
	if (op == BLK_FLUSH)
		read_waiters(to, rq);
	else if (bio && first && has_data(op))
		read_file(to, bio);
	submit_record(to);
	return 0;
}

/* Completions that no program saw have no time. */
static __always_inline void on_lost_completion(struct blk_inflight *entry)
{
}

static __always_inline void on_complete(struct request *rq, s32 error, u32 bytes, const bool direct)
{
	struct blk_done done = classify(rq, bytes, direct);
	struct blk_inflight of_bio, *entry;
	struct slow_times t;
	u64 now = 0;

	if (bio_mode)
		end_bios_of(rq, error, bytes);
	if (done.none)
		return;
	fetch_place(address_of(rq, direct));
	if (done.final)
		now = bpf_ktime_get_ns(); /* before the entry, as in on_issue() */
	entry = completing_entry(rq, &of_bio, direct);
	if (!(entry && entry->known) &&
	    (filters_submitters() || unseen_start_predates_trace(rq, done.op, direct)))
		goto release;
	if (filter_dev && !completing_dev(rq, entry))
		goto release;
	if (!done.final && entry && entry->issue_ns)
		keep_bytes(entry);
	bytes = step_bytes(entry, &done);
	if (!done.final)
		return;
	read_times(rq, entry, &t, direct);
	if (!t.arrival)
		count_loss(&losses[LOSS_NO_START], 1);
	else if (now < t.arrival)
		count_loss(&losses[LOSS_CLOCK], 1);
	else if (now - t.arrival >= slow_enough())
		record_rq(load_scalar_rq(rq), now, bytes, error, done.op);
release:
	if (!entry || !done.final)
		return;
	slow_left(entry);
	release_entry(rq, entry, &of_bio, direct);
}

/* ---- bio-based devices ---- */

static __always_inline void on_bio_done(const struct blk_inflight *entry, u64 ns)
{
	struct bio *bio = (void *)entry->bio;
	struct slow_record *to;
	u64 now;

	if (ns < slow_enough())
		return;
	now = bpf_ktime_get_ns();
	if (beyond_limit(now))
		return;
	to = bpf_ringbuf_reserve(&records, sizeof(*to), 0);
	if (!to) {
		count_loss(&slow_losses[SLOW_LOSS_RING], 1);
		return;
	}
	fill(to, entry, entry->op);
	to->dev = entry->dev;
	to->end_ns = now;
	to->admit_ns = 0;
	to->queue_ns = 0;
	to->device_ns = ns;
	to->sector = entry->issue_ns;
	to->bytes = entry->bytes;
	to->flags = flags_of(BPF_CORE_READ(bio, bi_opf));
	to->error = entry->failed ? (s32)BPF_CORE_READ(bio, bi_status) : 0;
	fill_bio(to, bio);
	if (entry->bytes && has_data(entry->op))
		read_file(to, bio);
	submit_record(to);
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
	/* A driver that makes no requests may pass the bio on, to the disk of -d too. */
	if (filter_dev && disk_dev(disk, direct) != wanted_disk && makes_requests(disk, direct))
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

/* With -U, which are programs of their own: the walker takes the verifier of older kernels a while,
 * whether it is called or not.  Not inline: the object has the code once, not once for each copy.
 */
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

TP_COPIES(bio_user, block_bio_queue, SEEN_BIO, 0,
	  direct ? on_typed_bio_queue(ctx, arg, SLOT_ARRIVAL + copy)
		 : on_raw_bio_queue(ctx, arg, SLOT_ARRIVAL + copy))
QUEUE_PROG(bio_user, block_bio_queue, 1, on_raw_bio_queue(ctx, arg, SLOT_ARRIVAL))

RAW_TP_PROGS(bio_end_raw, block_bio_complete, SEEN_BIO_END, 1,
	     on_bio_end(ctx[1], !!BPF_CORE_READ((struct bio *)arg, bi_status)))

char LICENSE[] SEC("license") = "GPL";
