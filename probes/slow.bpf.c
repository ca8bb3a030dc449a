// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace slow: I/Os that took at least min_ns, from the arrival of the bio at the block layer to
 * the completion of its request.  For the others no more is done than to note when they arrived and
 * were issued: whatever else a record has is read at the completion, while the bio is still there.
 */
#define BLK_INFLIGHT_NS arrival_ns /* of its bio; 0: not known */
#define BLK_INFLIGHT_OWN                                                                           \
	__u64 submit_ns;                                                                           \
	union {                                                                                    \
		__u64 got_cpu; /* as struct slow_arrival has it; until slow_submitted() */         \
		struct {                                                                           \
			__s32 stack;	   /* of slow_record.stack; with -K */                     \
			__u32 first_bytes; /* when it was first issued; 0: as many as `bytes` */   \
		};                                                                                 \
	};                                                                                         \
	__u64 user_stack; /* with -U */
#define BLK_COPY_OWN(to, from) slow_copy(to, from)
/* The last bio to arrive; its address is 0 when a request has been made of it. */
#define BLK_CPU_OWN                                                                                \
	struct slow_arrival arrived;                                                               \
	__u64 tick;    /* in which the clock was read for an arrival */                            \
	__u64 tick_ns; /* what it said */                                                          \
	__u64 pad3[2];

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
const volatile __u32 cpus_to_look_at = 1;
const volatile __u32 period_few = 0, period_many = 0; /* of struct slow_depth; 2^10 ns */
const volatile __u64 limit = 0;			      /* records per second (2^30 ns); 0: all */

/* What is slow: user space changes it for -n. */
__u64 min_ns[SLOW_BUFFERS] = {};

__u64 slow_losses[SLOW_LOSSES] = {};

/* Which disk has which place: user space gives it. */
__u32 disk_devs[SLOW_DISKS] = {};

/* Of --limit. */
__u64 this_second = 0, in_this_second = 0;

/* Arrivals that had no room. */
__u64 arrivals_dropped = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOW_ARRIVAL_SETS);
	__type(key, u32);
	__type(value, struct slow_arrival_set);
} arrivals SEC(".maps");

/* By CPU; mapped, so that no two share a cache line. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, u32);
	__type(value, struct slow_depths);
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

static __always_inline void copy_arrival(struct slow_arrival *to, const struct slow_arrival *from)
{
	to->bio = from->bio;
	to->ns = from->ns;
	to->got_cpu = from->got_cpu; /* or the stack */
	if (want_user)
		to->user_stack = from->user_stack;
}

static __always_inline struct slow_arrival_set *arrivals_of(u64 bio)
{
	u32 set = bio * 0x9e3779b97f4a7c15ull >> 52;

	return bpf_map_lookup_elem(&arrivals, &set);
}

_Static_assert(SLOW_ARRIVAL_SETS == 1 << 12, "the hash above");

/* Where no place is free the oldest goes: most likely of a bio that was merged into a request, or
 * whose driver makes none. */
static __always_inline void keep_arrival(const struct slow_arrival *arrival)
{
	struct slow_arrival_set *set = arrivals_of(arrival->bio);
	struct slow_arrival *to;

	if (!set)
		return;
	to = &set->ways[0];
	for (int i = 0; i < SLOW_ARRIVAL_WAYS; i++) {
		struct slow_arrival *way = &set->ways[i];

		if (way->bio == arrival->bio) {
			to = way;
			break;
		}
		if (to->bio && (!way->bio || way->ns < to->ns))
			to = way;
	}
	if (to->bio && to->bio != arrival->bio)
		__sync_fetch_and_add(&arrivals_dropped, 1);
	copy_arrival(to, arrival);
}

#define BIO_ISSUE_MASK ((1ull << 51) - 1)

/*
 * When @bio, which arrives, does so: until 6.17 as the kernel notes it just before
 * (bio_issue_init()), without the highest bits.
 */
static __always_inline u64 arrival_ns(struct bio *bio, const bool direct)
{
	if (direct && bpf_core_field_exists(bio->bi_issue))
		return bio->bi_issue.value & BIO_ISSUE_MASK;
	return bpf_ktime_get_ns();
}

/* Such a time, in full; it is before @now. */
static __always_inline u64 full_ns(u64 ns, u64 now)
{
	return ns ? now - ((now - ns) & BIO_ISSUE_MASK) : 0;
}

/*
 * Since 6.18 the clock, which is most of what an arrival costs (32 of 48 ns), is read once a tick.
 * A task that has not been switched since the arrival has not waited.  Another has waited since the
 * last of two moments before: it got the CPU, and the clock was read.  So what it has computed
 * since then counts as waiting, too.
 */
#define AT_ONCE 1 /* for blk_inflight.arrival_ns: its request was made at once */

static __always_inline bool by_switches(void)
{
	return TYPED_TASK && !has_backups && !keeps_stacks() &&
	       !bpf_core_field_exists(((struct bio *)0)->bi_issue) &&
	       bpf_core_field_exists(((struct task_struct *)0)->sched_info.last_arrival);
}

/* A task that got the CPU at @got makes a request of the bio of @arrival.  When that arrived; 0:
 * not known. */
static __always_inline u64 arrived_ns(const struct slow_arrival *arrival, u64 got)
{
	u64 now, waited;

	if (!by_switches() || !arrival->ns)
		return arrival->ns;
	if (got == arrival->got_cpu)
		return AT_ONCE;
	now = bpf_ktime_get_ns();
	waited = now - arrival->ns;
	if (got > arrival->got_cpu && got - arrival->got_cpu < waited)
		waited = got - arrival->got_cpu;
	return now - waited;
}

/* The last to arrive on CPU @cpu has a place there: nearly all become a request at once, and on the
 * same CPU.  Not where programs are preempted: two could write to one place; nor with stacks, for
 * which there is no room. */
static __always_inline struct blk_cpu *last_arrival(u32 cpu)
{
	return has_backups || keeps_stacks() ? NULL : bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline void note_arrival(const struct slow_arrival *arrival, struct blk_cpu *last)
{
	struct slow_arrival before;

	if (!last) {
		keep_arrival(arrival);
		return;
	}
	copy_arrival(&before, &last->arrived);
	copy_arrival(&last->arrived, arrival);
	if (before.bio && before.bio != arrival->bio)
		keep_arrival(&before);
}

static __always_inline bool take_from(struct slow_arrival *way, u64 bio, bool keep,
				      struct slow_arrival *out)
{
	if (way->bio != bio)
		return false;
	copy_arrival(out, way);
	if (!keep)
		way->bio = 0;
	return true;
}

static __always_inline bool take_last(u32 cpu, u64 bio, bool keep, struct slow_arrival *out)
{
	struct blk_cpu *last = last_arrival(cpu);

	return last && take_from(&last->arrived, bio, keep, out);
}

static __always_inline bool take_kept(u64 bio, bool keep, struct slow_arrival *out)
{
	struct slow_arrival_set *set = arrivals_of(bio);

	for (int i = 0; set && i < SLOW_ARRIVAL_WAYS; i++)
		if (take_from(&set->ways[i], bio, keep, out))
			return true;
	return false;
}

/* @keep: it may be asked for again. */
static __always_inline bool take_arrival(u64 bio, bool keep, struct slow_arrival *out)
{
	return take_last(bpf_get_smp_processor_id(), bio, keep, out) || take_kept(bio, keep, out);
}

/* The CPU, and 1, on which @bio was the last to arrive, where its task was then; 0: none.  A global
 * function: the verifier checks its loop once. */
__attribute__((noinline)) u32 arrival_cpu(u64 bio)
{
	struct slow_arrival found;

	for (u32 cpu = 0; cpu < SLOW_CPUS_MAX; cpu++) {
		if (cpu >= cpus_to_look_at)
			return 0;
		if (take_last(cpu, bio, true, &found))
			return cpu + 1;
	}
	return 0;
}

static __always_inline bool is_later(const struct slow_arrival *a, const struct slow_arrival *b)
{
	return a->ns > b->ns || (by_switches() && a->ns == b->ns && a->got_cpu > b->got_cpu);
}

/* take_arrival() of a bio of which a request is made; its task may be on another CPU now. */
static __always_inline bool take_own(u64 bio, struct slow_arrival *out)
{
	struct slow_arrival other;
	bool kept;
	u32 cpu;

	if (take_last(bpf_get_smp_processor_id(), bio, false, out))
		return true;
	kept = take_kept(bio, false, out);
	cpu = has_backups || keeps_stacks() ? 0 : arrival_cpu(bio);
	if (!cpu || !take_last(cpu - 1, bio, false, &other))
		return kept;
	/* The bio before may have had its address. */
	if (!kept || is_later(&other, out))
		copy_arrival(out, &other);
	return true;
}

/* The clock at the first arrival in this tick. */
static __always_inline u64 tick_ns(struct blk_cpu *last)
{
	u64 tick = bpf_jiffies64();

	if (last->tick != tick) {
		last->tick = tick;
		last->tick_ns = bpf_ktime_get_ns();
	}
	return last->tick_ns;
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

static __always_inline void read_stacks(void *ctx, u32 slot, struct slow_arrival *arrival)
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
static __always_inline bool is_wanted(struct bio *bio, const bool direct)
{
	struct gendisk *disk = bio_disk(bio, direct);
	struct blk_process process = {};

	return disk && bio_wanted_dev(bio, disk, direct) && current_process(&process);
}

/* @slot: NO_SLOT: without a user stack. */
static __always_inline void on_arrival(void *ctx, struct bio *bio, u32 slot,
				       struct slow_arrival *arrival, const bool direct)
{
	struct blk_cpu *last = last_arrival(bpf_get_smp_processor_id());

	arrival->bio = address_of(bio, direct);
	if (by_switches()) {
		if (!last)
			return;
		arrival->ns = tick_ns(last);
		arrival->got_cpu = bpf_get_current_task_btf()->sched_info.last_arrival;
	} else {
		arrival->ns = arrival_ns(bio, direct);
	}
	if (keeps_stacks() && is_wanted(bio, direct))
		read_stacks(ctx, slot, arrival);
	note_arrival(arrival, last);
}

/* ---- the life of a request ---- */

static __always_inline void slow_submitter(struct blk_inflight *submitter, struct task_struct *task)
{
	/* bpf_get_current_cgroup_id() takes three times as long. */
	if (HAS_CGROUPS)
		submitter->task_cgroup =
		    TYPED_TASK ? task->cgroups->dfl_cgrp->kn->id : bpf_get_current_cgroup_id();
	if (by_switches())
		submitter->got_cpu = task->sched_info.last_arrival;
}

/* When that which @bio was cut off of arrived: bio_split() makes one that leads to it, and has not
 * arrived itself, though one may have at its address before. */
static __always_inline bool take_whole(struct bio *bio, struct slow_arrival *out)
{
	/* A void pointer: read directly it is a number until 6.16 and a pointer since. */
	u64 private = (u64)KREAD(false, bio, bi_private);
	struct slow_arrival whole;

	if (!take_arrival(private, true, &whole) || is_later(out, &whole))
		return false;
	copy_arrival(out, &whole);
	return true;
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

/* A request is made of @bio. */
static __always_inline void slow_submitted(struct blk_inflight *entry, struct bio *bio,
					   const bool direct)
{
	struct slow_arrival arrival = { .stack = -1 };
	u64 key = address_of(bio, direct);
	bool found;

	found = take_own(key, &arrival);
	if (!found || (end_of_chain && (u64)KREAD(direct, bio, bi_end_io) == end_of_chain))
		found |= take_whole(bio, &arrival);
	if (!found && (arrivals_dropped || cpus_to_look_at > SLOW_CPUS_MAX))
		count_loss(&slow_losses[SLOW_LOSS_ARRIVALS], 1);
	entry->arrival_ns = arrived_ns(&arrival, entry->got_cpu);
	entry->first_bytes = 0;
	if (want_stack)
		entry->stack = arrival.stack;
	if (want_user)
		entry->user_stack = arrival.user_stack;
}

/* The count of CPU @cpu for place @at. */
static __always_inline struct slow_depth *depth_at(u32 cpu, u32 at)
{
	struct slow_depths *of = bpf_map_lookup_elem(&depths, &cpu);

	return of ? &of->disks[at % SLOW_DISKS] : NULL;
}

/* This CPU's count of requests at the disk; NULL: it has no place, or there are too many CPUs to
 * add up.  The place goes to @at. */
static __always_inline struct slow_depth *depth_of(u32 dev, u32 *at)
{
	u32 hash = SLOW_DISK_HASH(dev);

	if (!dev || cpus_to_look_at > SLOW_CPUS_MAX)
		return NULL;
	for (int i = 0; i < SLOW_TRIES; i++) {
		*at = (hash + i) % SLOW_DISKS;
		if (disk_devs[*at] == dev)
			return depth_at(bpf_get_smp_processor_id(), *at);
	}
	return NULL;
}

/* The sum of the counts at place @at, but for that of CPU @own.  A global function: the verifier
 * checks its loop once. */
__attribute__((noinline)) u32 others_depth(u32 at, u32 own)
{
	u32 sum = 0;

	for (u32 cpu = 0; cpu < SLOW_CPUS_MAX; cpu++) {
		struct slow_depth *depth;

		if (cpu >= cpus_to_look_at)
			break;
		depth = cpu == own ? NULL : depth_at(cpu, at);
		if (depth)
			sum += *(volatile u32 *)&depth->count;
	}
	return sum;
}

/* How the others' sum, which was @depth's and is @others now, changes with each request issued
 * here.  Requests that are issued on one CPU and return on another change it by one at most. */
static __always_inline s32 change_of(const struct slow_depth *depth, u32 others)
{
	s32 by = others - depth->others;
	u32 size = by < 0 ? -by : by;

	if (!depth->issued)
		return 0;
	size = size < depth->issued ? (size << SLOW_CHANGE_BITS) / depth->issued
				    : 1 << SLOW_CHANGE_BITS;
	return by < 0 ? -(s32)size : (s32)size;
}

/*
 * How the others' sum has changed since it was read, of which @own is what this CPU's count has
 * changed by.  Requests that are issued here and return there raise one by what they lower the
 * other; more than that is not believed, so that an old change does not raise the sum for long.
 */
static __always_inline s32 others_change(const struct slow_depth *depth, s32 own)
{
	s32 by = (s32)depth->issued * depth->change >> SLOW_CHANGE_BITS;

	if (own < 0)
		return by < 0 ? 0 : by > -own ? -own : by;
	return by > 0 ? 0 : by < -own ? -own : by;
}

/* Reads the others' sum, if it is time for that. */
static __always_inline bool read_others(struct slow_depth *depth, u32 at, u64 ns)
{
	u32 period = depth->many ? period_many : period_few;
	u32 now = ns >> 10, saved = now - depth->spent_to, others = 0;

	if (saved < period)
		return false;
	if (saved > SLOW_SAVED * period)
		depth->spent_to = now - SLOW_SAVED * period;
	depth->spent_to += period;
	if (cpus_to_look_at > 1)
		others = others_depth(at, bpf_get_smp_processor_id());
	depth->change = change_of(depth, others);
	depth->others = others;
	depth->issued = 0;
	depth->then = depth->count;
	return true;
}

static __always_inline void slow_issued(struct blk_inflight *entry)
{
	struct slow_depth *depth;
	u32 at = 0;
	s32 sum;

	entry->depth = 0;
	depth = depth_of(entry->dev, &at);
	if (!depth)
		return;
	if (read_others(depth, at, entry->issue_ns)) {
		sum = depth->count + 1 + depth->others;
		depth->many = sum >= SLOW_MANY;
	} else {
		sum = depth->count + 1 + depth->others +
		      others_change(depth, depth->count - depth->then);
	}
	entry->depth = sum > 1 ? sum : 1;
	depth->issued++;
	/* Atomic: an interrupt may complete a request meanwhile. */
	__sync_fetch_and_add(&depth->count, 1);
}

/* The device does not have it any more. */
static __always_inline void slow_left(struct blk_inflight *entry)
{
	struct slow_depth *depth;
	u32 at;

	if (!entry->issue_ns || entry->op == BLK_SYNC || !entry->depth)
		return;
	depth = depth_of(entry->dev, &at);
	if (depth)
		__sync_fetch_and_add(&depth->count, -1);
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

/* 0 where it did not begin, or that is not known; each as late as the one before. */
static __always_inline void read_times(struct request *rq, const struct blk_inflight *entry,
				       u64 now, struct slow_times *t, const bool direct)
{
	t->made = rq_made_ns(rq, direct);
	t->issue = entry ? entry->issue_ns : 0;
	if (!t->made && entry)
		t->made = entry->submit_ns;
	if (!t->made || (t->issue && t->made > t->issue))
		t->made = t->issue;
	if (!entry || !entry->known || entry->arrival_ns == AT_ONCE)
		t->arrival = 0;
	else
		t->arrival = full_ns(entry->arrival_ns, now);
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
	read_times(rq, entry, end_ns, &t, false);
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
	read_times(rq, entry, now, &t, direct);
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

static __always_inline void follow(struct bio *bio, const struct slow_arrival *arrival,
				   const bool direct)
{
	struct gendisk *disk = bio_disk(bio, direct);
	struct blk_inflight made = {};

	if (!disk || makes_requests(disk, direct))
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
	struct slow_arrival arrival = { .stack = -1 };

	on_arrival(ctx, bio, slot, &arrival, direct);
	if (bio_mode)
		follow(bio, &arrival, direct);
}

#include "probes/blk_cgroups.bpf.h"
#include "probes/blk_entry.bpf.h"

/* block_bio_queue(bio) since 5.11; (queue, bio) before. */
TP_BTF_PROGS(bio_queue_btf, block_bio_queue, SEEN_BIO, bio, on_bio_queue(ctx, bio, NO_SLOT, true),
	     struct bio *bio)

RAW_TP_PROGS(bio_queue_raw, block_bio_queue, SEEN_BIO, ctx[0],
	     on_bio_queue(ctx, (void *)ctx[0], NO_SLOT, false))

SEC("raw_tp/block_bio_queue")
int bio_queue_raw_q(u64 *ctx)
{
	if (!stopped)
		on_bio_queue(ctx, (void *)ctx[1], NO_SLOT, false);
	return 0;
}

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

TP_BTF_COPIES(bio_user_btf, block_bio_queue, SEEN_BIO, bio,
	      on_typed_bio_queue(ctx, bio, SLOT_ARRIVAL + copy), struct bio *bio)

RAW_TP_COPIES(bio_user_raw, block_bio_queue, SEEN_BIO, ctx[0],
	      on_raw_bio_queue(ctx, (void *)ctx[0], SLOT_ARRIVAL + copy))

SEC("raw_tp/block_bio_queue")
int bio_user_raw_q(u64 *ctx)
{
	return stopped ? 0 : on_raw_bio_queue(ctx, (void *)ctx[1], SLOT_ARRIVAL);
}

RAW_TP_PROGS(bio_end_raw, block_bio_complete, SEEN_BIO_END, ctx[1],
	     on_bio_end(ctx[1], !!BPF_CORE_READ((struct bio *)ctx[1], bi_status)))

char LICENSE[] SEC("license") = "GPL";
