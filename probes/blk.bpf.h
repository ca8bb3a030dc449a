/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BLK_BPF_H
#define IOTRACE_PROBES_BLK_BPF_H

/*
 * What every program that follows block requests does: classify a request,
 * find its disk, remember who submitted it and when the device got it.
 * @direct: see KREAD() in probes/kernel.h.
 */

#include "probes/kernel.h"
#include "probes/blk.h"
#include "probes/understudy.bpf.h"

/*
 * A program that wants to know more of what becomes of a request than its completion defines these
 * before it includes this: what happens in its submitter's context, when the device gets it, or the
 * flush command that it waits for, gives it back, and when it turns out that its end was not seen.
 * @entry is what is kept of the request.
 */
#ifndef BLK_ON_SUBMITTED
#define BLK_ON_SUBMITTED(entry, bio, front_merge)
#define BLK_ON_ISSUED(entry)
#define BLK_ON_FLUSHING(entry)
#define BLK_ON_REQUEUED(entry)
#define BLK_ON_SETTLED(entry)
#endif

/* And these, whoever's the request is: the device gets it or gives it back, with all its bios. */
#ifndef BLK_ON_BIOS_ISSUED
#define BLK_ON_BIOS_ISSUED(rq)
#define BLK_ON_BIOS_REQUEUED(rq)
#endif

/* Options, fixed before loading: the verifier removes what they switch off. */
const volatile __u32 filter_mode = FILTER_NONE;
const volatile __u32 filter_pid = 0;
const volatile __u64 filter_start = 0;	 /* it started in that tick of the clock that /proc shows */
const volatile __u64 filter_tick = 0;	 /* ns */
const volatile __u32 filter_dev = 0;	 /* 0: all */
const volatile bool filter_part = false; /* filter_dev is a partition */
const volatile __u64 part_start = 0;	 /* and lies here on its disk, in sectors */
const volatile __u64 part_sectors = 0;
const volatile __u32 filter_whole = 0; /* the disk that it is on */
const volatile __u32 submit_mode = SUBMIT_NONE;
const volatile bool want_cgroup = false;
const volatile bool by_process = false; /* rows, with names */
const volatile bool own_start = false;	/* queues without I/O statistics have no start_time_ns */

/* Bits of rq_flags.  Macros up to 6.11, then enumerators of an enum without a
 * name (6.12) or with one: user space looks them up by name. */
const volatile __u32 flush_seq_mask = 1 << 4; /* RQF_FLUSH_SEQ */
const volatile __u32 io_stat_mask = 0;	      /* RQF_IO_STAT; 0: not needed, see rq_made_ns() */

/* Requests are not followed one by one; that as many end as begin is checked
 * by counting both. */
const volatile bool balance = false;

/* Which of the two buffers is written; core/flip.h turns it. */
__u32 epoch = 0;

__u64 losses[BLK_LOSSES] = {};

/* When everything was attached; 0: not yet. */
__u64 begin_ns = 0;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct blk_inflight);
} inflight SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct blk_inflight);
} bio_owners SEC(".maps");

/* No LRU: that drops names when there is no room for more, and says nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct blk_process);
	__type(value, struct blk_name);
} names0 SEC(".maps"), names1 SEC(".maps");

/* COMMAND's descendants. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct blk_process);
	__type(value, u8);
} tracked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set before loading */
	__type(key, u32);
	__type(value, struct blk_cpu);
} cpus SEC(".maps");

static __always_inline void count_loss(enum blk_loss loss, u64 n)
{
	__sync_fetch_and_add(&losses[loss], n);
}

static __always_inline struct blk_cpu *this_cpu(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &cpu);
}

/* ---- requests ---- */

static __always_inline u32 zone_append_code(void)
{
	if (bpf_core_enum_value_exists(enum req_op, REQ_OP_ZONE_APPEND))
		return bpf_core_enum_value(enum req_op, REQ_OP_ZONE_APPEND);
	if (bpf_core_enum_value_exists(enum req_opf___pre_6_0, REQ_OP_ZONE_APPEND___pre_6_0))
		return bpf_core_enum_value(enum req_opf___pre_6_0, REQ_OP_ZONE_APPEND___pre_6_0);
	return 256;
}

/* The operation by the kernel's code.  These codes never moved; the rest are
 * zone management, but for zone append and what 5.10 still has as 7.  A table, and
 * not a chain of ifs: for the verifier each if is a path of its own through
 * all that follows. */
const volatile __u8 op_table[64] = {
	[0] = BLK_READ,
	[1] = BLK_WRITE,
	[2] = BLK_FLUSH,
	[3] = BLK_DISCARD,
	[4] = BLK_ZONE_MGMT,
	[5] = BLK_SECURE_ERASE,
	[6] = BLK_ZONE_MGMT,
	[7] = BLK_WRITE_SAME,
	[8] = BLK_ZONE_MGMT,
	[9] = BLK_WRITE_ZEROES,
	[10 ... 31] = BLK_ZONE_MGMT,
	[32 ... 63] = BLK_PASSTHROUGH,
};

static __always_inline u8 op_of_code(u32 code)
{
	if (code == zone_append_code())
		return BLK_ZONE_APPEND;
	return op_table[code & 63];
}

static __always_inline struct gendisk *rq_disk(struct request *rq, const bool direct)
{
	struct request_queue *q;

	if (bpf_core_field_exists(rq->rq_disk))
		return KREAD(direct, rq, rq_disk);
	q = KREAD(direct, rq, q);
	return KREAD(direct, q, disk);
}

static __always_inline u32 disk_dev(struct gendisk *disk, const bool direct)
{
	if (!disk)
		return 0;
	return (u32)KREAD(direct, disk, major) << 20 | (u32)KREAD(direct, disk, first_minor);
}

/*
 * Up to 5.11 a bio has forgotten its partition by the time that it is in a request, and the request
 * knows it only while it is accounted.  Where it lies on the disk tells, and is what 5.10 itself
 * goes by.
 */
static __always_inline u32 part_by_sector(struct request *rq)
{
	u64 sector;

	if (!bpf_core_field_exists(((struct bio *)0)->bi_disk) ||
	    disk_dev(rq_disk(rq, false), false) != filter_whole)
		return 0;
	sector = BPF_CORE_READ(rq, __sector);
	return sector - part_start < part_sectors ? filter_dev : 0;
}

/* The partition that a request was made for; the whole disk's number where it
 * is none.  0: not known.  rq->part says it only of requests that are accounted
 * (queue/iostats); the bio says it always. */
static __always_inline u32 rq_part_dev(struct request *rq)
{
	struct block_device *part = NULL;
	struct bio *bio = BPF_CORE_READ(rq, bio);
	struct hd_struct *hd;

	if (bio && bpf_core_field_exists(bio->bi_bdev))
		return BPF_CORE_READ(bio, bi_bdev, bd_dev);
	bpf_core_read(&part, sizeof(part), &rq->part);
	if (!part)
		return part_by_sector(rq);
	if (bpf_core_field_exists(part->bd_start_sect))
		return BPF_CORE_READ(part, bd_dev);
	hd = (void *)part;
	return BPF_CORE_READ(hd, __dev.devt);
}

/* ---- bios ---- */

static __always_inline struct gendisk *bio_disk(struct bio *bio, const bool direct)
{
	struct block_device *bdev;

	if (bpf_core_field_exists(bio->bi_disk))
		return KREAD(direct, bio, bi_disk);
	bdev = KREAD(direct, bio, bi_bdev);
	return bdev ? KREAD(direct, bdev, bd_disk) : NULL;
}

/* Does the disk's driver make requests of bios?  Those of dm, md and zram do not. */
static __always_inline bool makes_requests(struct gendisk *disk, const bool direct)
{
	struct block_device_operations *fops = KREAD(direct, disk, fops);

	return !(fops && KREAD(direct, fops, submit_bio));
}

/*
 * Is the bio, of disk @whole, for the partition that -d names?  Up to 5.11 block_bio_queue comes
 * after the bio was made one of the whole disk (bi_partno is 0): its place on the disk says it.
 */
static __always_inline bool bio_in_part(struct bio *bio, u32 whole, const bool direct)
{
	struct block_device *bdev;

	if (bpf_core_field_exists(bio->bi_disk))
		return whole == filter_whole &&
		       KREAD(direct, bio, bi_iter.bi_sector) - part_start < part_sectors;
	bdev = KREAD(direct, bio, bi_bdev);
	return bdev && KREAD(direct, bdev, bd_dev) == filter_dev;
}

/* The device that a bio of @disk counts for, 0 when -d asks for another. */
static __always_inline u32 bio_wanted_dev(struct bio *bio, struct gendisk *disk, const bool direct)
{
	u32 whole = disk_dev(disk, direct);

	if (!filter_dev)
		return whole;
	if (filter_part)
		return bio_in_part(bio, whole, direct) ? filter_dev : 0;
	return whole == filter_dev ? whole : 0;
}

/* The device that a request counts for, 0 when -d asks for another. */
static __always_inline u32 rq_wanted_dev(struct request *rq, const bool direct)
{
	u32 dev;

	if (filter_dev && filter_part)
		return rq_part_dev(rq) == filter_dev ? filter_dev : 0;
	dev = disk_dev(rq_disk(rq, direct), direct);
	if (filter_dev && dev != filter_dev)
		return 0;
	return dev;
}

/*
 * When a request was made, as the kernel notes it; 0 when it did not.  From 6.12 on it
 * does so for requests that are accounted (RQF_IO_STAT) and for flush commands;
 * others still have the time of the request's last use.  Before, what is not set is 0.
 */
static __always_inline u64 rq_made_ns(struct request *rq, const bool direct)
{
	if (io_stat_mask && !(KREAD(direct, rq, rq_flags) & io_stat_mask) &&
	    (KREAD(direct, rq, cmd_flags) & 0xff) != 2)
		return 0;
	return KREAD(direct, rq, start_time_ns);
}

/* A request that was made before tracing began is not ours: that its start was
 * not seen is no loss. */
static __always_inline bool began_earlier(struct request *rq, const bool direct)
{
	u64 made = rq_made_ns(rq, direct);

	return !begin_ns || (made && made < begin_ns);
}

/*
 * Of a request whose start was not seen: was it made before tracing began?  On a
 * queue whose statistics are off the kernel does not say; then it was, unless a start can have gone
 * by for want of room.
 */
static __always_inline bool unseen_began_earlier(struct request *rq, u8 op, const bool direct)
{
	if (began_earlier(rq, direct))
		return true;
	return own_start && op != BLK_PASSTHROUGH && !rq_made_ns(rq, direct) &&
	       !losses[LOSS_REQUESTS_FULL];
}

/* ---- submitters ---- */

static __always_inline bool process_wanted(const struct blk_process *process)
{
	if (filter_mode == FILTER_NONE)
		return true;
	if (process->pid == filter_pid && process->start - filter_start < filter_tick)
		return true;
	return filter_mode == FILTER_TRACKED && bpf_map_lookup_elem(&tracked, process);
}

/*
 * Since 5.11 (3ca1032ab7ab) the verifier knows the type of the task that runs: fields that are no
 * pointers are plain loads.  The helper that reads memory takes 45 ns for each (6.18).
 */
#define TYPED_TASK bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)

/* The number of the thread that runs, and of its process; start is the thread's own. */
static __always_inline u32 this_thread_of(struct blk_process *process)
{
	struct task_struct *task;
	u64 id;

	if (TYPED_TASK) {
		task = bpf_get_current_task_btf();
		process->pid = task->tgid;
		process->start = task->start_boottime;
		return task->pid;
	}
	task = (void *)bpf_get_current_task();
	id = bpf_get_current_pid_tgid();
	process->pid = id >> 32;
	process->start = BPF_CORE_READ(task, start_boottime);
	return id;
}

/*
 * When the process of the task that runs, which is not its first thread, started.  What this CPU
 * found out last is believed where no other program can have come in between.
 */
static __always_inline u64 leader_start(u64 task_start)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct blk_cpu *last = understudied ? NULL : this_cpu();
	u64 start;

	if (last && last->task == (u64)task && last->task_start == task_start)
		return last->leader_start;
	start = BPF_CORE_READ(task, group_leader, start_boottime);
	if (last) {
		last->task = (u64)task;
		last->task_start = task_start;
		last->leader_start = start;
	}
	return start;
}

/* The process that runs; false: the filter does not want it. */
static __always_inline bool this_process(struct blk_process *process)
{
	u32 tid;

	if (!by_process && filter_mode == FILTER_NONE)
		return true;
	tid = this_thread_of(process);
	if (filter_mode == FILTER_PID && process->pid != filter_pid)
		return false;
	if (!process->pid)
		process->start = 0; /* one row for the idle tasks of all CPUs */
	else if (tid != process->pid)
		process->start = leader_start(process->start);
	return process_wanted(process);
}

static __always_inline bool this_process_wanted(void)
{
	struct blk_process process = {};

	return this_process(&process);
}

/* Does a worker run that writes back dirty pages?  Its description says so ("flush-MAJ:MIN", set by
 * wb_workfn). */
static __always_inline bool is_flusher(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct kthread *kthread;
	struct worker *worker;
	char desc[8] = {};
	u32 flags;

	flags = TYPED_TASK ? bpf_get_current_task_btf()->flags : BPF_CORE_READ(task, flags);
	if (!(flags & PF_WQ_WORKER))
		return false;
	if (bpf_core_field_exists(task->worker_private))
		kthread = BPF_CORE_READ(task, worker_private);
	else
		kthread = BPF_CORE_READ(task, set_child_tid);
	worker = BPF_CORE_READ(kthread, data);
	if (!worker)
		return false;
	bpf_core_read(desc, 6, &worker->desc);
	return desc[0] == 'f' && desc[1] == 'l' && desc[2] == 'u' && desc[3] == 's' &&
	       desc[4] == 'h' && desc[5] == '-';
}

/* Puts the name of @process, which runs, where the next drain finds it.  False when there is
 * no room: user space counts those whose name it does not know. */
static __always_inline bool put_name(void *names, const struct blk_process *process)
{
	struct task_struct *task = (void *)bpf_get_current_task(), *leader;
	struct blk_name name = {};

	if (bpf_map_lookup_elem(names, process))
		return true;
	leader = BPF_CORE_READ(task, group_leader);
	bpf_core_read(name.comm, sizeof(name.comm), &leader->comm);
	return !bpf_map_update_elem(names, process, &name, BPF_ANY);
}

/*
 * The same, but what this CPU did last is not done again.  Where programs are preempted, what two
 * of them write down at once may be mixed: it is the process of neither then, and nothing is left
 * out.
 */
static __always_inline void remember_name(const struct blk_process *process)
{
	struct blk_cpu *last = this_cpu();
	u32 now = epoch;
	bool put;

	barrier_var(now);
	if (!last)
		return;
	if (last->epoch == now && last->process.start == process->start &&
	    last->process.pid == process->pid && process->pid)
		return;
	put = now & 1 ? put_name(&names1, process) : put_name(&names0, process);
	if (!put)
		return;
	last->process.start = process->start;
	last->process.pid = process->pid;
	last->epoch = now;
}

/* Who is submitting: the process, its name stored, and whether this is
 * write-back.  False when the filter does not want it. */
static __always_inline bool read_submitter(struct blk_inflight *who, u8 op)
{
	if (!this_process(&who->process))
		return false;
	who->known = 1;
	if (!by_process)
		return true;
	remember_name(&who->process);
	if (op == BLK_WRITE)
		who->writeback = is_flusher();
	return true;
}

static __always_inline u64 bio_cgroup(struct bio *bio)
{
	if (!want_cgroup || !bio || !bpf_core_field_exists(bio->bi_blkg))
		return 0;
	return BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup, kn, id);
}

/*
 * A request is used again though nobody saw the end of its last use.  That
 * happens: the kernel does not run a program that is running on that CPU
 * already, and there is a vendor's kernel that runs none while pid 1 is
 * current (docs/KERNEL-NOTES.md).  What was issued has been completed, so it is
 * counted now; only its time is not known.  The program that includes this
 * says how to count.
 */
static __always_inline void on_unseen(struct blk_inflight *entry);

static __always_inline void settle(struct blk_inflight *entry)
{
	if (!entry->issue_ns)
		return;
	if (filter_mode == FILTER_NONE || entry->known) {
		count_loss(LOSS_NO_END, 1);
		on_unseen(entry);
	}
	BLK_ON_SETTLED(entry);
	entry->issue_ns = 0;
	entry->known = 0;
}

/* A request was made of its first bio, in the context of who submitted it. */
static __always_inline void on_submit_rq(struct request *rq, const bool direct)
{
	u64 key = (u64)rq;
	struct blk_inflight who = {}, *entry = bpf_map_lookup_elem(&inflight, &key);
	u8 op = op_of_code(KREAD(direct, rq, cmd_flags) & 0xff);

	if (entry)
		settle(entry);
	if (!read_submitter(&who, op)) {
		if (entry)
			entry->known = 0; /* the request was somebody else's before */
		return;
	}
	if (own_start)
		who.submit_ns = bpf_ktime_get_ns();
	if (want_cgroup)
		who.cgroup = bio_cgroup(BPF_CORE_READ(rq, bio));
	BLK_ON_SUBMITTED(&who, BPF_CORE_READ(rq, bio), false);
	if (!entry) {
		/* Should there be no room, on_issue() counts that. */
		bpf_map_update_elem(&inflight, &key, &who, BPF_ANY);
		return;
	}
	entry->process.start = who.process.start;
	entry->process.pid = who.process.pid;
	entry->writeback = who.writeback;
	entry->stage = who.stage;
	entry->call = who.call;
	entry->known = 1;
	entry->submit_ns = who.submit_ns;
	if (want_cgroup)
		entry->cgroup = who.cgroup;
}

/* The same where no hook has the request in its submitter's context: the bio
 * that the next request will be made of, or that goes to its front. */
static __always_inline void on_submit_bio(struct bio *bio, bool front_merge, const bool direct)
{
	struct blk_inflight who = {};
	u64 key = (u64)bio;

	if (!read_submitter(&who, op_of_code(KREAD(direct, bio, bi_opf) & 0xff))) {
		bpf_map_delete_elem(&bio_owners, &key);
		return;
	}
	who.cgroup = bio_cgroup(bio);
	if (own_start)
		who.submit_ns = bpf_ktime_get_ns();
	BLK_ON_SUBMITTED(&who, bio, front_merge);
	bpf_map_update_elem(&bio_owners, &key, &who, BPF_ANY);
}

static __always_inline struct blk_inflight *bio_owner(struct request *rq)
{
	u64 key;

	if (submit_mode != SUBMIT_BIO)
		return NULL;
	key = (u64)BPF_CORE_READ(rq, bio);
	return key ? bpf_map_lookup_elem(&bio_owners, &key) : NULL;
}

/*
 * The requests that wait for a flush command are in a list of the flush machinery
 * (block/blk-flush.c), which stays as it is while the device has the command.  Its head; NULL where
 * that cannot be known, and for a command that another driver passed on to this queue (dm
 * multipath).
 */
static __always_inline struct list_head *flush_waiters(struct request *flush_rq)
{
	struct blk_flush_queue *fq;

	if (!bpf_core_field_exists(flush_rq->mq_hctx->fq->flush_queue))
		return NULL;
	fq = BPF_CORE_READ(flush_rq, mq_hctx, fq);
	if (!fq || BPF_CORE_READ(fq, flush_rq) != flush_rq)
		return NULL;
	if (BPF_CORE_READ_BITFIELD_PROBED(fq, flush_running_idx))
		return __builtin_preserve_access_index(&fq->flush_queue[1]);
	return __builtin_preserve_access_index(&fq->flush_queue[0]);
}

static __always_inline struct request *waiter_at(struct list_head *node)
{
	if (bpf_core_field_exists(((struct request *)0)->flush.list))
		return (void *)node - bpf_core_field_offset(struct request, flush.list);
	return (void *)node - bpf_core_field_offset(struct request, queuelist);
}

/* A flush command belongs to who submitted the first of those that wait for it. */
static __always_inline struct blk_inflight *flush_owner(struct request *flush_rq)
{
	struct list_head *head = flush_waiters(flush_rq);
	struct blk_inflight *entry;
	struct request *first;
	u64 key;

	if (!head)
		return NULL;
	first = waiter_at(BPF_CORE_READ(head, next));
	key = (u64)first;
	entry = bpf_map_lookup_elem(&inflight, &key);
	return entry && entry->known ? entry : bio_owner(first);
}

/*
 * The device gets the flush command that request @key, of disk @disk, waits for.  A request that is
 * empty and does nothing but wait is never issued itself: this is where it begins, so that settle()
 * counts it should no program see its end.  A global function, which the verifier looks at once.
 */
__attribute__((noinline)) int on_waiter(u64 key, u32 disk)
{
	struct request *rq = (void *)key;
	struct blk_inflight made = {}, *owner, *fresh, *entry;
	u64 since;

	entry = bpf_map_lookup_elem(&inflight, &key);
	fresh = bio_owner(rq);
	owner = entry && entry->known ? entry : fresh;
	if (owner && owner->known)
		BLK_ON_FLUSHING(owner);
	if (op_of_code(BPF_CORE_READ(rq, cmd_flags) & 0xff) != BLK_WRITE ||
	    BPF_CORE_READ(rq, nr_phys_segments))
		return 0;
	since = rq_made_ns(rq, false);
	if (!since && fresh && fresh->known)
		since = fresh->submit_ns;
	else if (!since && entry && (entry->known || entry->issue_ns))
		since = entry->submit_ns;
	if (entry && entry->issue_ns && entry->op == BLK_SYNC && entry->submit_ns == since)
		return 0; /* it waits still: the device had given the command back */
	if (entry)
		settle(entry);
	made.dev = filter_part ? rq_wanted_dev(rq, false) : disk;
	if (filter_dev && made.dev != filter_dev)
		return 0;
	owner = entry && entry->known ? entry : fresh;
	if (owner && owner->known) {
		made.cgroup = owner->cgroup;
		made.call = owner->call;
		made.process = owner->process;
		made.writeback = owner->writeback;
		made.stage = owner->stage;
		made.submit_ns = owner->submit_ns;
		made.known = 1;
	} else if (filter_mode != FILTER_NONE ||
		   (since ? !begin_ns || since < begin_ns
			  : unseen_began_earlier(rq, BLK_SYNC, false))) {
		return 0;
	}
	made.op = BLK_SYNC;
	made.submit_ns = since ? since : made.submit_ns;
	made.issue_ns = bpf_ktime_get_ns();
	if (entry)
		*entry = made;
	else if (bpf_map_update_elem(&inflight, &key, &made, BPF_ANY))
		return 0; /* its end is counted all the same, for the bio's owner */
	if (fresh)
		fresh->known = 0; /* spent, as in follow_issue() */
	return 0;
}

/* One takes the verifier 20 us. */
#define WAITERS_MAX 64

__attribute__((noinline)) int each_waiter(u64 flush_rq)
{
	struct request *rq = (void *)flush_rq;
	struct list_head *head = flush_waiters(rq), *node;
	u32 disk = disk_dev(rq_disk(rq, false), false);

	if (!head)
		return 0;
	node = BPF_CORE_READ(head, next);
	for (int i = 0; i < WAITERS_MAX; i++) {
		if (!node || node == head)
			return 0;
		on_waiter((u64)waiter_at(node), disk);
		node = BPF_CORE_READ(node, next);
	}
	return 0;
}

/* A typed argument is no number that a global function would take: read from the stack by a helper
 * it is. */
static __always_inline u64 rq_number(struct request *rq)
{
	u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), &rq);
	return number;
}

/* The device gets a flush command. */
static __always_inline void on_flush(struct request *rq)
{
	each_waiter(rq_number(rq));
}

static __always_inline void count_issued(struct request *rq, const bool direct)
{
	struct blk_cpu *cpu = this_cpu();

	if (cpu && !began_earlier(rq, direct) && (!filter_dev || rq_wanted_dev(rq, false)))
		__sync_fetch_and_add(&cpu->issued, 1);
	if ((KREAD(direct, rq, cmd_flags) & 0xff) == 2)
		on_flush(rq);
}

static __always_inline void count_requeued(struct request *rq)
{
	struct blk_cpu *cpu = this_cpu();

	if (cpu && !began_earlier(rq, false) && (!filter_dev || rq_wanted_dev(rq, false)))
		__sync_fetch_and_add(&cpu->requeued, 1);
}

static __always_inline void count_completed(void)
{
	struct blk_cpu *cpu = this_cpu();

	if (cpu)
		__sync_fetch_and_add(&cpu->completed, 1);
}

/* Notes that the device has request @rq now. */
static __always_inline void mark_issued(struct blk_inflight *entry, struct request *rq, u32 dev,
					const bool direct)
{
	entry->dev = dev;
	entry->op = op_of_code(KREAD(direct, rq, cmd_flags) & 0xff);
	entry->bytes = KREAD(direct, rq, __data_len);
	entry->issue_ns = bpf_ktime_get_ns();
}

/* The submitter of a request that has no entry from its start. */
static __always_inline struct blk_inflight *late_owner(struct request *rq, bool flush)
{
	struct blk_inflight *owner;

	if (submit_mode == SUBMIT_NONE)
		return NULL;
	owner = flush ? flush_owner(rq) : bio_owner(rq);
	return owner && owner->known ? owner : NULL;
}

/* The device gets the request (again, after a requeue). */
static __always_inline void follow_issue(struct request *rq, const bool direct)
{
	/*
	 * First of all, before any branch: for each pointer that is read from the request, the
	 * verifier searches the kernel's types by name (btf_nested_type_is_trusted, 6.3), some
	 * milliseconds on each path that leads there.
	 */
	u32 dev = rq_wanted_dev(rq, direct);
	u64 key = (u64)rq;
	struct blk_inflight made = {}, *owner, *entry = bpf_map_lookup_elem(&inflight, &key);
	bool flush = (KREAD(direct, rq, cmd_flags) & 0xff) == 2;

	if (flush)
		on_flush(rq); /* before it asks for the first one's owner */
	BLK_ON_BIOS_ISSUED(rq);
	if (entry)
		settle(entry);
	if (filter_dev && !dev)
		return;
	if (entry && (submit_mode == SUBMIT_NONE || (!flush && entry->known))) {
		mark_issued(entry, rq, dev, direct);
		BLK_ON_ISSUED(entry);
		return;
	}
	owner = late_owner(rq, flush);
	if (filter_mode != FILTER_NONE && !owner)
		return;
	if (owner) {
		made.process = owner->process;
		made.cgroup = owner->cgroup;
		made.writeback = owner->writeback;
		made.submit_ns = owner->submit_ns;
		made.call = owner->call;
		made.stage = flush ? 0 : owner->stage;
		made.known = 1;
		/* Spent: should the bio's next submission not be seen, it is nobody's. */
		if (!flush)
			owner->known = 0;
	}
	mark_issued(&made, rq, dev, direct);
	BLK_ON_ISSUED(&made);
	if (entry)
		*entry = made;
	else if (bpf_map_update_elem(&inflight, &key, &made, BPF_ANY))
		count_loss(LOSS_REQUESTS_FULL, 1);
}

static __always_inline void on_issue(struct request *rq, const bool direct)
{
	if (balance)
		count_issued(rq, direct);
	else
		follow_issue(rq, direct);
}

/* The device did not take it, or gave it back: it will be issued again. */
static __always_inline void on_requeue(struct request *rq)
{
	u64 key = (u64)rq;
	struct blk_inflight *entry;

	if (balance) {
		count_requeued(rq);
		return;
	}
	BLK_ON_BIOS_REQUEUED(rq);
	entry = bpf_map_lookup_elem(&inflight, &key);
	if (entry) {
		BLK_ON_REQUEUED(entry);
		entry->issue_ns = 0;
	}
}

/* ---- completion ---- */

/* What one completion event says about a request. */
struct blk_done {
	u32 bytes; /* moved by this step */
	u8 op;
	bool final; /* the request is through: count it */
	bool none;  /* says nothing: to be ignored */
};

/*
 * block_rq_complete fires for every part that a driver completes, and twice
 * for requests that went through a flush sequence: once for their data with
 * RQF_FLUSH_SEQ set, once with no bytes when the sequence is over.  Request-
 * based dm also reports an original twice; the second time nothing of it is
 * left.
 */
static __always_inline struct blk_done classify(struct request *rq, u32 bytes, const bool direct)
{
	struct blk_done done = { .bytes = bytes };
	u32 code = KREAD(direct, rq, cmd_flags) & 0xff;
	bool sequence = KREAD(direct, rq, rq_flags) & flush_seq_mask;

	done.op = op_of_code(code);
	if (done.op == BLK_FLUSH) {
		done.final = true;
		return done;
	}
	if (sequence)
		return done;
	done.final = bytes >= KREAD(direct, rq, __data_len);
	if (bytes || done.op == BLK_PASSTHROUGH)
		return done;
	if (!BPF_CORE_READ(rq, bio))
		done.none = true;
	else if (done.op == BLK_WRITE && !KREAD(direct, rq, nr_phys_segments))
		done.op = BLK_SYNC;
	return done;
}

/* The entry of a request that completes; in the mode that follows bios also that of one that was
 * not issued, nor noted as waiting for a flush command. */
static __always_inline struct blk_inflight *followed(struct request *rq)
{
	u64 key = (u64)rq;
	struct blk_inflight *entry = bpf_map_lookup_elem(&inflight, &key);

	if (submit_mode == SUBMIT_BIO && (!entry || !(entry->known || entry->issue_ns)))
		return bio_owner(rq);
	return entry;
}

/*
 * Bytes that this step of a completion accounts for.  The last step takes what
 * steps that no program saw have left.
 */
static __always_inline u32 step_bytes(struct blk_inflight *entry, const struct blk_done *done)
{
	u32 left;

	if (!entry || !entry->issue_ns)
		return done->bytes;
	left = entry->bytes;
	if (done->final)
		return left > done->bytes ? left : done->bytes;
	entry->bytes = left > done->bytes ? left - done->bytes : 0;
	return done->bytes;
}

static __always_inline void end_use(struct blk_inflight *entry)
{
	entry->known = 0;
	entry->issue_ns = 0;
}

/*
 * The time of a request that is through, from issue (or, with @queued, from
 * when it was made) until now.  False, and the loss counted, when it cannot be
 * known.  An empty request that waits for a flush command is never issued
 * itself: its time counts from when it was made.
 */
static __always_inline bool rq_latency(struct request *rq, const struct blk_inflight *entry, u8 op,
				       bool queued, u64 *ns, const bool direct)
{
	u64 start, now;

	if (queued || op == BLK_SYNC) {
		start = rq_made_ns(rq, direct);
		if (!start && entry)
			start = entry->submit_ns;
	} else {
		start = entry ? entry->issue_ns : 0;
	}
	if (!start) {
		if (!unseen_began_earlier(rq, op, direct))
			count_loss(LOSS_NO_START, 1);
		return false;
	}
	now = bpf_ktime_get_ns();
	if (now < start) {
		count_loss(LOSS_CLOCK, 1);
		return false;
	}
	*ns = now - start;
	return true;
}

/* ---- descendants of COMMAND ---- */

static __always_inline void on_fork(struct task_struct *parent, struct task_struct *child,
				    const bool direct)
{
	struct blk_process from = { .pid = KREAD(direct, parent, tgid) };
	struct blk_process made = { .pid = KREAD(direct, child, tgid) };
	u8 one = 1;

	from.start = BPF_CORE_READ(parent, group_leader, start_boottime);
	if (from.pid == made.pid || !process_wanted(&from))
		return;
	made.start = KREAD(direct, child, start_boottime);
	if (bpf_map_update_elem(&tracked, &made, &one, BPF_ANY))
		count_loss(LOSS_TRACKED_FULL, 1);
}

/*
 * A process is gone, with all that it submitted while it exited.  The kernel says so late (from an
 * RCU callback): its number may be another one's by now.
 */
static __always_inline void on_free(struct task_struct *task, const bool direct)
{
	struct blk_process process = { .pid = KREAD(direct, task, tgid) };

	process.start = KREAD(direct, task, start_boottime);
	if ((u32)KREAD(direct, task, pid) == process.pid)
		bpf_map_delete_elem(&tracked, &process);
}

/* The first thread of a process gets another name (exec, prctl): the process
 * has it from now on.  The tracepoint comes before the change. */
static __always_inline void on_rename(struct task_struct *task, const char *comm, const bool direct)
{
	struct blk_process process = { .pid = KREAD(direct, task, tgid) };
	struct blk_name *known;

	if ((u32)KREAD(direct, task, pid) != process.pid)
		return;
	process.start = KREAD(direct, task, start_boottime);
	known = epoch & 1 ? bpf_map_lookup_elem(&names1, &process)
			  : bpf_map_lookup_elem(&names0, &process);
	if (known)
		bpf_probe_read_kernel_str(known->comm, sizeof(known->comm), comm);
}

#endif
