// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace stuck: walks all block devices, their requests, and the threads that sleep, at the moment
 * when user space asks for it (BPF_PROG_TEST_RUN, and an iterator of tasks); nothing is attached.
 *
 * No lock is taken and no device is opened: what is read may change meanwhile, so every walk is
 * bounded, and a request that changed while it was read is read again or left out.
 */
#include "probes/arch.h"
#include "probes/bio_file.bpf.h"
#include "probes/blk_operations.bpf.h"
#include "probes/stuck.h"
#include "probes/syscalls.h"

const volatile __u8 syscall_ops[SYSCALL_NUMBERS] = {}; /* enum call_syscall + 1; 0: another one */

const volatile __u32 thread_size = 16384;

/* The function of a thread that waits for a page (wake_page_function); 0: not known. */
const volatile __u64 wakes_for_page = 0;

/* Where threads wait for a FUSE server (request_wait_answer): they can be interrupted until they
 * get a signal.  0: not known. */
const volatile __u64 waits_for_fuse = 0;

/* Functions that end a read or write (ki_complete); 0: not known. */
const volatile __u64 end_of_aio = 0;
const volatile __u64 end_of_uring[2] = {};

struct stuck_args args = {};
struct stuck_result result = {};
__u64 stuck_losses[STUCK_LOSSES] = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, STUCK_BATCH);
	__type(key, u32);
	__type(value, struct stuck_disk);
} disks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, STUCK_BATCH + 1); /* and a flush command */
	__type(key, u32);
	__type(value, struct stuck_request);
} requests SEC(".maps");

/* Addresses of the requests of a list. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, STUCK_LIST);
	__type(key, u32);
	__type(value, u64);
} listed SEC(".maps");

/* Addresses of disks, requests and their bios. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STUCK_INDEX);
	__type(key, u64);
	__type(value, struct stuck_at);
} addresses SEC(".maps");

/* And of their pages, of which there may be many more. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STUCK_INDEX);
	__type(key, u64);
	__type(value, struct stuck_at);
} page_addresses SEC(".maps");

/* Who has the contexts of libaio (struct kioctx) that requests are of. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STUCK_OWNERS);
	__type(key, u64);
	__type(value, struct stuck_owner);
} owners SEC(".maps");

static __always_inline void add_to(void *map, const void *at, u32 kind, u32 number)
{
	struct stuck_at value = { .kind = kind, .number = number };
	u64 key = (u64)at;

	/* An address that stands for two is of the first. */
	if (key && bpf_map_update_elem(map, &key, &value, BPF_NOEXIST) == -7 /* E2BIG */)
		count_loss(&stuck_losses[STUCK_LOSS_INDEX], 1);
}

static __always_inline void add_address(const void *at, u32 kind, u32 number)
{
	add_to(&addresses, at, kind, number);
}

static __always_inline void count_changed(void)
{
	count_loss(&stuck_losses[STUCK_LOSS_CHANGED], 1);
}

/* Kernels without CONFIG_SCHED_INFO do not have it. */
static __always_inline u64 last_arrival(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->sched_info.last_arrival))
		return 0;
	return BPF_CORE_READ(task, sched_info.last_arrival);
}

static __always_inline void begin_result(void)
{
	result.n = 0;
	result.node = 0;
	result.tags = 0;
	result.broken = 0;
	result.arrival = last_arrival((void *)bpf_get_current_task());
	result.ns = bpf_ktime_get_ns();
	result.ticks = bpf_jiffies64();
}

/* ---- disks ---- */

#define IS_PART_OF_BDEV bpf_core_field_exists(((struct block_device___with_device *)0)->bd_device)

/* A global function, so that the verifier follows it once. */
__attribute__((noinline)) int add_partition(u64 bdev, u64 disk)
{
	struct stuck_at *known = bpf_map_lookup_elem(&addresses, &disk);

	if (known)
		add_address((void *)bdev, STUCK_DISK, known->number);
	return 0;
}

/* The disk whose device @dev is; NULL: it is a partition, whose address is added to its disk's. */
static __always_inline struct gendisk *disk_of_device(struct device *dev)
{
	struct block_device *bdev;
	struct hd_struct *part;
	struct gendisk *disk;

	if (!IS_PART_OF_BDEV) {
		part = (void *)dev - bpf_core_field_offset(struct hd_struct, __dev);
		if (BPF_CORE_READ(part, partno))
			return NULL;
		return (void *)part - bpf_core_field_offset(struct gendisk___pre_5_11, part0);
	}
	bdev = (void *)dev - bpf_core_field_offset(struct block_device___with_device, bd_device);
	disk = BPF_CORE_READ(bdev, bd_disk);
	if (!disk || BPF_CORE_READ(disk, part0) == bdev)
		return disk;
	add_partition((u64)bdev, (u64)disk);
	return NULL;
}

static __always_inline void read_queue(struct stuck_disk *to, struct request_queue *q)
{
	struct elevator_queue *elevator = BPF_CORE_READ(q, elevator);
	struct throtl_data *td = NULL;

	to->hw_queues = BPF_CORE_READ(q, nr_hw_queues);
	to->requests = BPF_CORE_READ(q, nr_requests);
	to->frozen = BPF_CORE_READ(q, mq_freeze_depth);
	to->held = 0;
	if (bpf_core_field_exists(q->td))
		td = BPF_CORE_READ(q, td);
	if (td)
		to->held = BPF_CORE_READ(td, nr_queued[0]) + BPF_CORE_READ(td, nr_queued[1]);
	to->scheduler[0] = 0;
	if (elevator)
		bpf_probe_read_kernel_str(to->scheduler, sizeof(to->scheduler),
					  BPF_CORE_READ(elevator, type, elevator_name));
}

/* Disk @number; a global function, so that the verifier follows it once. */
__attribute__((noinline)) int read_disk(u64 at, u32 n, u32 number)
{
	struct gendisk *disk = (void *)at;
	struct request_queue *q = BPF_CORE_READ(disk, queue);
	struct stuck_disk *to = bpf_map_lookup_elem(&disks, &n);

	if (!to)
		return 0;
	add_address(disk, STUCK_DISK, number);
	add_address(q, STUCK_DISK, number);
	if (IS_PART_OF_BDEV)
		add_address(BPF_CORE_READ(disk, part0), STUCK_DISK, number);
	to->queue = (u64)q;
	to->dev = disk_dev(disk, false);
	to->bios = !makes_requests(disk, false);
	bpf_probe_read_kernel_str(to->name, sizeof(to->name), disk->disk_name);
	read_queue(to, q);
	return 1;
}

/* The open file of @task with descriptor @fd; NULL: none. */
static __always_inline struct file *file_at(struct task_struct *task, u32 fd)
{
	struct file **files, *file = NULL;

	if (fd >= BPF_CORE_READ(task, files, fdt, max_fds))
		return NULL;
	files = BPF_CORE_READ(task, files, fdt, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file;
}

/* The list of all devices of the class "block", whose directory is open as args.class_fd. */
static __always_inline struct klist *devices_of_class(u32 fd)
{
	struct file *file = file_at((void *)bpf_get_current_task(), fd);
	struct subsys_private *class;
	struct kernfs_node *node;
	void *kobject;

	if (!file)
		return NULL;
	node = BPF_CORE_READ(file, f_inode, i_private);
	kobject = BPF_CORE_READ(node, priv);
	if (!kobject)
		return NULL;
	class = kobject - bpf_core_field_offset(struct subsys_private, subsys.kobj);
	return (void *)class + bpf_core_field_offset(struct subsys_private, klist_devices);
}

SEC("raw_tp/sys_enter")
int list_disks(void *ctx)
{
	struct klist *list = devices_of_class(args.class_fd);
	u64 head = (u64)list + bpf_core_field_offset(struct klist, k_list), at = args.node;
	u32 n = 0;

	begin_result();
	if (!list)
		return 1;
	if (!at)
		at = (u64)BPF_CORE_READ(list, k_list.next);
	for (int i = 0; i < STUCK_BATCH; i++) {
		struct klist_node *node =
		    (void *)at - bpf_core_field_offset(struct klist_node, n_node);
		struct device_private *private;
		struct device *dev;
		struct gendisk *disk;

		if (at == head)
			goto end;
		/* Removed since it was read: where the list goes on is not known any more. */
		if (((u64)BPF_CORE_READ(node, n_klist) & ~1ull) != (u64)list) {
			result.broken = 1;
			goto end;
		}
		private = (void *)node - bpf_core_field_offset(struct device_private, knode_class);
		dev = BPF_CORE_READ(private, device);
		disk = disk_of_device(dev);
		if (disk)
			n += read_disk((u64)disk, n, args.number + n);
		at = (u64)BPF_CORE_READ(node, n_node.next);
	}
	result.node = at == head ? 0 : at;
end:
	result.n = n;
	return 0;
}

/* ---- requests ---- */

static __always_inline struct blk_mq_hw_ctx *find_hw_queue(struct request_queue *q, u32 number)
{
	struct blk_mq_hw_ctx *hctx = NULL, **all;
	u64 entry;

	if (bpf_core_field_exists(q->queue_hw_ctx)) {
		all = BPF_CORE_READ(q, queue_hw_ctx);
		bpf_probe_read_kernel(&hctx, sizeof(hctx), all + number);
		return hctx;
	}
	/* An xarray: nodes of 64 slots, each marked by 2 in the address; three levels at most. */
	entry = (u64)BPF_CORE_READ(q, hctx_table.xa_head);
	for (int level = 0; level < 3 && (entry & 3) == 2; level++) {
		struct xa_node *node = (void *)(entry - 2);
		u32 shift = BPF_CORE_READ(node, shift) & 31;
		void **slots = (void *)node + bpf_core_field_offset(struct xa_node, slots);

		bpf_probe_read_kernel(&entry, sizeof(entry), slots + (number >> shift & 63));
		number &= (1u << shift) - 1;
	}
	return entry & 3 ? NULL : (void *)entry;
}

/* Hardware queue @number of @q; NULL: it has changed. */
static __always_inline struct blk_mq_hw_ctx *hw_queue(struct request_queue *q, u32 number)
{
	struct blk_mq_hw_ctx *hctx = find_hw_queue(q, number);

	if (!hctx || BPF_CORE_READ(hctx, queue) != q || BPF_CORE_READ(hctx, queue_num) != number)
		return NULL;
	return hctx;
}

/* The addresses of @bio that the stack of a thread that waits for it has. */
__attribute__((noinline)) int index_bio(u64 at, u32 number)
{
	struct bio *bio = (void *)at;
	u32 pages = BPF_CORE_READ(bio, bi_vcnt);
	void *vec = BPF_CORE_READ(bio, bi_io_vec);

	add_address(bio, STUCK_REQUEST, number);
	add_address(BPF_CORE_READ(bio, bi_private), STUCK_REQUEST, number);
	for (u32 i = 0; i < 32; i++) {
		struct page *page = NULL;

		if (i >= pages || !vec)
			break;
		bpf_core_read(&page, sizeof(page), &((struct bio_vec *)vec)->bv_page);
		vec += bpf_core_type_size(struct bio_vec);
		if (!page)
			break;
		page = head_of(page);
		if (mapping_inode((u64)BPF_CORE_READ(page, mapping)))
			add_to(&page_addresses, page, STUCK_REQUEST, number);
	}
	return 0;
}

static __always_inline void read_bio(struct stuck_request *to, struct bio *bio)
{
	struct cgroup_subsys_state *css = css_of_bio(bio);
	struct dentry *dentry = NULL;
	bool meta =
	    BPF_CORE_READ(bio, bi_opf) >> bpf_core_enum_value(enum req_flag_bits, __REQ_META) & 1;

	if (css)
		to->cgroup = BPF_CORE_READ(css, cgroup, kn, id);
	if (!to->bytes || !has_data(to->op))
		return;
	dentry = find_bio_file(&to->file, bio, meta);
	if (!dentry)
		return;
	to->file.kind = FILE_NAMED;
	to->path_bytes = read_path(to->path, dentry, &to->path_flags);
}

/* ---- who submitted a request and does not wait for it ---- */

static __always_inline void set_owner(struct stuck_owner *to, struct task_struct *task)
{
	to->pid = BPF_CORE_READ(task, tgid);
	bpf_probe_read_kernel_str(to->comm, sizeof(to->comm),
				  BPF_CORE_READ(task, group_leader, comm));
}

static __always_inline struct kiocb *iocb_of_bio(struct bio *bio)
{
	struct blkdev_dio *dio = NULL;
	u64 end = 0;

	bio = whole_bio(bio, &end);
	if (bpf_core_field_exists(dio->iocb)) {
		if (end == end_of_device_dio[0])
			dio = BPF_CORE_READ(bio, bi_private);
		else if (end == end_of_device_dio[1])
			dio = (void *)bio - bpf_core_field_offset(struct blkdev_dio, bio);
		/* If it is waited for, it has the thread there. */
		if (dio)
			return BPF_CORE_READ(dio, iocb);
	}
	return iocb_of_dio(bio, end);
}

/* The iterator of tasks finds whose context it is. */
static __always_inline void read_aio(struct stuck_request *to, struct kiocb *iocb)
{
	struct aio_kiocb *aio = (void *)iocb - bpf_core_field_offset(struct aio_kiocb, rw);
	struct kioctx *context = BPF_CORE_READ(aio, ki_ctx);
	struct stuck_owner none = {};

	to->context = (u64)BPF_CORE_READ(context, rq_wait);
	if (to->context)
		return;
	to->context = (u64)context;
	if (bpf_map_update_elem(&owners, &to->context, &none, BPF_NOEXIST) == -7 /* E2BIG */)
		count_loss(&stuck_losses[STUCK_LOSS_INDEX], 1);
}

static __always_inline void read_uring(struct stuck_request *to, struct io_kiocb *request)
{
	if (bpf_core_field_exists(request->task))
		set_owner(&to->owner, BPF_CORE_READ(request, task));
	else if (bpf_core_field_exists(request->tctx))
		set_owner(&to->owner, BPF_CORE_READ(request, tctx, task));
}

/* Of the bio at @at, for request @n; a global function, so that the verifier follows it once. */
__attribute__((noinline)) int read_owner(u64 at, u32 n)
{
	struct stuck_request *to = bpf_map_lookup_elem(&requests, &n);
	struct kiocb *iocb;
	u64 end;

	if (!to)
		return 0;
	iocb = iocb_of_bio((void *)at);
	end = (u64)BPF_CORE_READ(iocb, ki_complete);
	if (!end)
		return 0; /* a thread waits */
	if (end == end_of_aio && bpf_core_field_exists(((struct aio_kiocb *)0)->ki_ctx))
		read_aio(to, iocb);
	else if (IS_END(end, end_of_uring))
		read_uring(to, (void *)iocb);
	return 0;
}

/*
 * The bio of @rq: of a flush sequence whose data is written, the kernel keeps it as the last one
 * until the flush has ended.
 */
static __always_inline struct bio *bio_of(struct request *rq)
{
	struct bio *bio = BPF_CORE_READ(rq, bio);

	if (!bio && BPF_CORE_READ(rq, rq_flags) & flush_seq_mask)
		bio = BPF_CORE_READ(rq, biotail);
	return bio;
}

#define FLUSH_COMMAND 2 /* REQ_OP_FLUSH */

/* The request at @at, if it is in use by @queue, as entry @n and with @number: 1, else 0. */
__attribute__((noinline)) int read_request(u64 at, u64 queue, u32 n, u32 number)
{
	struct stuck_request *to = bpf_map_lookup_elem(&requests, &n);
	struct request *rq = (void *)at;
	u32 ref = 0, ref_after = 0, code, state;
	struct stuck_at *known;
	struct bio *bio;

	if (!to)
		return 0;
	/* Hardware queues may share their tags (5.16, e155b0c238b2): each request is of the first.
	 */
	known = bpf_map_lookup_elem(&addresses, &at);
	if (known && known->kind == STUCK_REQUEST)
		return 0;
	bpf_core_read(&ref, sizeof(ref), &rq->ref);
	state = BPF_CORE_READ(rq, state);
	if (!ref || (u64)BPF_CORE_READ(rq, q) != queue)
		return 0;
	bio = bio_of(rq);
	code = BPF_CORE_READ(rq, cmd_flags) & 0xff;
	/* Allocated for later use, in a plug; or all of it has ended, and it is about to be freed.
	 */
	if (!bio && code < 32 && code != FLUSH_COMMAND)
		return 0;
	to->rq = at;
	to->state = state;
	to->op = op_of_code(code);
	to->start_ns = rq_made_ns(rq, false);
	to->io_start_ns = BPF_CORE_READ(rq, io_start_time_ns);
	to->deadline = BPF_CORE_READ(rq, deadline);
	to->timeout = BPF_CORE_READ(rq, timeout);
	to->sector = BPF_CORE_READ(rq, __sector);
	to->bytes = BPF_CORE_READ(rq, __data_len);
	to->tag = BPF_CORE_READ(rq, tag);
	to->cgroup = 0;
	to->path_bytes = 0;
	to->path_flags = 0;
	to->file = (struct bio_file){};
	to->context = 0;
	to->owner.pid = 0;
	if (bio) {
		read_bio(to, bio);
		read_owner((u64)bio, n);
	}
	/* Empty: it only waits for a flush command. */
	if (to->op == BLK_WRITE && !to->bytes && !BPF_CORE_READ(rq, nr_phys_segments))
		to->op = BLK_SYNC;
	/* Still the same use of it? */
	bpf_core_read(&ref_after, sizeof(ref_after), &rq->ref);
	if (!ref_after || bio_of(rq) != bio || BPF_CORE_READ(rq, state) != state ||
	    rq_made_ns(rq, false) != to->start_ns || (u64)BPF_CORE_READ(rq, q) != queue ||
	    BPF_CORE_READ(rq, __sector) != to->sector || BPF_CORE_READ(rq, tag) != to->tag) {
		count_changed();
		return 0;
	}
	add_address(rq, STUCK_REQUEST, number);
	for (int i = 0; i < 16 && bio; i++) {
		index_bio((u64)bio, number);
		bio = BPF_CORE_READ(bio, bi_next);
	}
	return 1;
}

/* Where the addresses of the requests of a batch are read to. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64[STUCK_BATCH]);
} batches SEC(".maps");

/* The requests of hardware queue @hctx from tag args.from on: how many, or -1 if they changed. */
static __always_inline int read_tags(struct blk_mq_hw_ctx *hctx, u64 *batch)
{
	struct blk_mq_tags *tags = BPF_CORE_READ(hctx, sched_tags);
	u32 n = 0, there;

	if (!tags)
		tags = BPF_CORE_READ(hctx, tags);
	there = BPF_CORE_READ(tags, nr_tags);
	if (there > STUCK_TAGS)
		return -1;
	result.tags = there;
	there = there > args.from ? there - args.from : 0;
	if (there > STUCK_BATCH)
		there = STUCK_BATCH;
	if (!args.from)
		n += read_request((u64)BPF_CORE_READ(hctx, fq, flush_rq), args.queue, 0,
				  args.number);
	if (bpf_probe_read_kernel(batch, sizeof(u64) * there,
				  BPF_CORE_READ(tags, static_rqs) + args.from))
		return -1;
	for (u32 i = 0; i < STUCK_BATCH && i < there; i++)
		if (batch[i])
			n += read_request(batch[i], args.queue, n, args.number + n);
	return n;
}

/* Requests of args.queue's hardware queue args.hw_queue, from tag args.from on. */
SEC("raw_tp/sys_enter")
int walk_tags(void *ctx)
{
	struct blk_mq_hw_ctx *hctx = hw_queue((void *)args.queue, args.hw_queue);
	u32 zero = 0;
	u64 *batch;
	int n = -1;

	begin_result();
	batch = bpf_map_lookup_elem(&batches, &zero);
	if (batch && hctx)
		n = read_tags(hctx, batch);
	if (n < 0)
		count_changed();
	else
		result.n = n;
	return 0;
}

/* ---- requests that were not issued ---- */

static __always_inline struct list_head *list_of(struct request_queue *q,
						 struct blk_mq_hw_ctx *hctx, u32 list)
{
	struct blk_flush_queue *fq;

	switch (list) {
	case STUCK_LIST_REQUEUE:
		return __builtin_preserve_access_index(&q->requeue_list);
	case STUCK_LIST_FLUSHES:
		if (!bpf_core_field_exists(q->flush_list))
			return NULL;
		return __builtin_preserve_access_index(&q->flush_list);
	}
	if (!hctx)
		return NULL;
	if (list == STUCK_LIST_DISPATCH)
		return __builtin_preserve_access_index(&hctx->dispatch);
	fq = BPF_CORE_READ(hctx, fq);
	if (!fq)
		return NULL;
	if (list == STUCK_LIST_FLUSH)
		return __builtin_preserve_access_index(&fq->flush_queue[0]);
	return __builtin_preserve_access_index(&fq->flush_queue[1]);
}

/* The requests of list args.list, from args.node on. */
SEC("raw_tp/sys_enter")
int walk_list(void *ctx)
{
	u64 at = args.node, offset = bpf_core_field_offset(struct request, queuelist);
	struct request_queue *q = (void *)args.queue;
	struct list_head *head;
	u32 n = 0;

	begin_result();
	if (args.list >= STUCK_LISTS)
		return 0;
	head = list_of(q, hw_queue(q, args.hw_queue), args.list);
	if (!head)
		return 0;
	if ((args.list == STUCK_LIST_FLUSH || args.list == STUCK_LIST_FLUSH_1) &&
	    bpf_core_field_exists(((struct request *)0)->flush.list))
		offset = bpf_core_field_offset(struct request, flush.list);
	if (!at)
		at = (u64)BPF_CORE_READ(head, next);
	for (u32 i = 0; i < STUCK_LIST; i++) {
		u64 *to = bpf_map_lookup_elem(&listed, &n);

		if (at == (u64)head || !to)
			break;
		if (!at) {
			count_changed();
			break;
		}
		*to = at - offset;
		n++;
		at = (u64)BPF_CORE_READ((struct list_head *)at, next);
	}
	result.n = n;
	result.node = at == (u64)head ? 0 : at;
	return 0;
}

/* ---- threads ---- */

struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

#define STACK_WORDS 256 /* that are looked at, from the stack's end if it has more */

struct task_scratch {
	struct stuck_task task;
	u64 self;  /* the thread's address: as a number */
	u64 regs;  /* where its registers of user space are */
	u32 first; /* of the words */
	u32 pad;
	u64 words[STACK_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct task_scratch);
} scratch SEC(".maps");

#define TASK_INTERRUPTIBLE   0x1
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_NOLOAD	     0x400

#define FUSE_WAIT_BYTES 2048 /* of request_wait_answer(): more than it has */

static __always_inline u64 stack_pointer(struct task_struct *task)
{
#if defined(bpf_target_arm64)
	return BPF_CORE_READ(task, thread.cpu_context.sp);
#else
	return BPF_CORE_READ(task, thread.sp);
#endif
}

/* Not of the thread: of what it waits for.  The inode's number and file system, and its name. */
static __always_inline void read_awaited(struct stuck_task *to, u64 folio)
{
	struct inode *inode = mapping_inode((u64)BPF_CORE_READ(head_of((void *)folio), mapping));
	struct dentry *dentry;

	if (!inode)
		return;
	set_inode(&to->awaited, inode);
	if (to->awaited.magic == BDEVFS_MAGIC) {
		to->awaited.kind = FILE_DEVICE;
		to->awaited.dev = BPF_CORE_READ(inode, i_rdev);
		return;
	}
	dentry = alias_of(inode);
	if (!dentry)
		return;
	to->awaited.kind = FILE_NAMED;
	to->path_bytes = read_path(to->path, dentry, &to->path_flags);
}

/* The file that the thread's system call is about, if it names one by its first argument. */
__attribute__((noinline)) int read_call(void)
{
	struct task_struct *task;
	struct task_scratch *at;
	struct user_entry entry;
	struct stuck_task *to;
	struct inode *inode;
	struct file *file;
	u32 op, zero = 0;

	at = bpf_map_lookup_elem(&scratch, &zero);
	if (!at)
		return 0;
	to = &at->task;
	task = (struct task_struct *)at->self;
	read_entry_at(&entry, at->regs);
	if (entry.number == NO_NUMBER)
		return 0;
	if (entry.number >= SYSCALL_NUMBERS)
		return 0;
	op = syscall_ops[entry.number & (SYSCALL_NUMBERS - 1)];
	if (!op || !syscall_has_fd(op - 1))
		return 0;
	file = file_at(task, entry.arg);
	if (!file)
		return 0;
	inode = BPF_CORE_READ(file, f_inode);
	set_inode(&to->call_file, inode);
	to->call_file.kind = FILE_NAMED;
	to->call_dev = to->call_file.dev;
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFBLK)
		to->call_dev = BPF_CORE_READ(inode, i_rdev);
	to->path_bytes = read_path(to->path, BPF_CORE_READ(file, f_path.dentry), &to->path_flags);
	return 0;
}

/* Word @i of the thread's stack: is it an address that tells what the thread waits for?  A global
 * function, which the verifier follows once, as the next ones.  Always 0. */
__attribute__((noinline)) int read_word(u32 i)
{
	struct task_scratch *at;
	struct stuck_at *found;
	struct stuck_task *to;
	u32 zero = 0;
	u64 word;

	at = bpf_map_lookup_elem(&scratch, &zero);
	if (!at || i < at->first)
		return 0;
	to = &at->task;
	word = at->words[i & (STACK_WORDS - 1)];
	/* With five levels of page tables the kernel's addresses begin here. */
	if (word < 0xff00000000000000ull)
		return 0;
	/* struct wait_page_queue: folio, bit, { flags, thread, function } */
	if (word == at->self && !to->awaited.kind &&
	    (!wakes_for_page || at->words[(i + 1) & (STACK_WORDS - 1)] == wakes_for_page))
		read_awaited(to, at->words[(i - 3) & (STACK_WORDS - 1)]);
	found = bpf_map_lookup_elem(&addresses, &word);
	if (!found)
		found = bpf_map_lookup_elem(&page_addresses, &word);
	if (!found)
		return 0;
	if (found->kind == STUCK_REQUEST && !to->request.kind)
		to->request = *found;
	else if (found->kind == STUCK_DISK && !to->disk.kind)
		to->disk = *found;
	return 0;
}

/* The end of the stack, and from where on it is one. */
__attribute__((noinline)) int read_words(void)
{
	struct task_struct *task;
	struct task_scratch *at;
	u64 top, sp;
	u32 zero = 0;

	at = bpf_map_lookup_elem(&scratch, &zero);
	if (!at)
		return 0;
	task = (struct task_struct *)at->self;
	sp = stack_pointer(task);
	top = (u64)BPF_CORE_READ(task, stack) + thread_size;
	at->first = STACK_WORDS;
	if (sp >= top || top - sp > thread_size)
		return 0;
	at->first = 0;
	/* Of a fixed size: there is nothing behind the stack. */
	if (top - sp > sizeof(at->words)) {
		bpf_probe_read_kernel(at->words, sizeof(at->words), (void *)sp);
		return 0;
	}
	bpf_probe_read_kernel(at->words, sizeof(at->words), (void *)(top - sizeof(at->words)));
	at->first = STACK_WORDS - (top - sp) / sizeof(u64);
	return 0;
}

/* BLOCKER_TYPE_MASK and two of its values */
#define BLOCKED_MASK	 3
#define BLOCKED_BY_MUTEX 0
#define BLOCKED_BY_SEM	 1 /* it has no owner */

/* In the two lowest bits of a rwsem's owner; a mutex has three. */
#define OWNER_FLAGS  7
#define READER_OWNED 1 /* of a rwsem: by the last of the readers that came, which may be gone */

/* Who holds the lock that @task waits for. */
static __always_inline void read_holder(struct stuck_task *to, struct task_struct *task)
{
	struct task_struct *holder;
	u64 blocker = 0, owner = 0;

	to->holder = 0;
	if (bpf_core_field_exists(task->blocker))
		blocker = BPF_CORE_READ(task, blocker);
	if (!(blocker & ~BLOCKED_MASK) || (blocker & BLOCKED_MASK) == BLOCKED_BY_SEM)
		return;
	if ((blocker & BLOCKED_MASK) == BLOCKED_BY_MUTEX) {
		struct mutex *mutex = (void *)blocker;

		if (bpf_core_field_exists(mutex->owner))
			bpf_core_read(&owner, sizeof(owner), &mutex->owner);
	} else {
		struct rw_semaphore *rwsem = (void *)(blocker & ~BLOCKED_MASK);

		if (bpf_core_field_exists(rwsem->owner))
			bpf_core_read(&owner, sizeof(owner), &rwsem->owner);
		if (owner & READER_OWNED)
			return;
	}
	holder = (void *)(owner & ~OWNER_FLAGS);
	if (!holder)
		return;
	to->holder = BPF_CORE_READ(holder, tgid);
	bpf_probe_read_kernel_str(to->holder_comm, sizeof(to->holder_comm), holder->comm);
}

/* Does it wait for what may never come? */
static __always_inline bool is_stuck(struct task_struct *task)
{
	u32 state = bpf_core_field_exists(task->__state) ? task->__state : (u32)task->state;
	u64 function = 0;

	if (state & TASK_UNINTERRUPTIBLE)
		return !(state & TASK_NOLOAD);
	if (!(state & TASK_INTERRUPTIBLE) || !waits_for_fuse)
		return false;
	bpf_get_task_stack(task, &function, sizeof(function), 0);
	return function - waits_for_fuse < FUSE_WAIT_BYTES;
}

#define CONTEXTS 256 /* of a process, that are looked at */

/* The context at @at, of the thread's process; a global function, as the next one. */
__attribute__((noinline)) int read_context(u64 at)
{
	struct stuck_owner *owner;
	struct task_scratch *of;
	u64 context = 0;
	u32 zero = 0;

	bpf_probe_read_kernel(&context, sizeof(context), (void *)at);
	owner = bpf_map_lookup_elem(&owners, &context);
	of = bpf_map_lookup_elem(&scratch, &zero);
	if (owner && of && !owner->pid)
		set_owner(owner, (struct task_struct *)of->self);
	return 0;
}

/* The contexts of libaio belong to the memory of a process: this thread has it. */
__attribute__((noinline)) int read_contexts(void)
{
	struct kioctx_table *table;
	struct task_struct *task;
	struct task_scratch *at;
	u32 zero = 0, n;

	at = bpf_map_lookup_elem(&scratch, &zero);
	if (!at)
		return 0;
	task = (struct task_struct *)at->self;
	table = BPF_CORE_READ(task, mm, ioctx_table);
	if (!table)
		return 0;
	n = BPF_CORE_READ(table, nr);
	for (u32 i = 0; i < CONTEXTS && i < n; i++)
		read_context((u64)&table->table[i]);
	return 0;
}

/* One thread of each process, and no thread of the kernel, has its memory looked at. */
static __always_inline bool stands_for_memory(struct task_struct *task)
{
	if (!bpf_core_field_exists(((struct mm_struct *)0)->ioctx_table) ||
	    task->flags & PF_KTHREAD)
		return false;
	return task->pid == task->tgid || !BPF_CORE_READ(task, group_leader, mm);
}

SEC("iter/task")
int stuck_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_scratch *at;
	struct stuck_task *to;
	u32 zero = 0;
	long bytes;

	at = bpf_map_lookup_elem(&scratch, &zero);
	if (!task || !at)
		return 0;
	at->self = (u64)task;
	if (stands_for_memory(task))
		read_contexts();
	if (!is_stuck(task) || task->tgid == bpf_get_current_pid_tgid() >> 32)
		return 0;
	to = &at->task;
	to->stack_at = (u64)BPF_CORE_READ(task, stack);
	to->pid = task->tgid;
	to->since_ns = last_arrival(task);
	to->now_ns = bpf_ktime_get_ns();
	to->kernel = !!(task->flags & PF_KTHREAD);
	to->cgroup = HAS_CGROUPS ? BPF_CORE_READ(io_cgroup_of(task, NULL), kn, id) : 0;
	to->call_file = to->awaited = (struct bio_file){};
	to->request = to->disk = (struct stuck_at){};
	to->call_dev = 0;
	to->path_bytes = 0;
	to->path_flags = 0;
	bpf_probe_read_kernel_str(to->comm, sizeof(to->comm), task->comm);
	read_holder(to, task);
	bytes = bpf_get_task_stack(task, to->stack, sizeof(to->stack), 0);
	to->depth = bytes > 0 ? bytes / sizeof(u64) : 0;
	to->called = to->depth ? called_before(to->stack[0]) : 0;
	if (!to->kernel) {
		if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
			at->regs = (u64)bpf_task_pt_regs(task);
		else
			at->regs = (u64)BPF_CORE_READ(task, stack) + thread_size -
				   bpf_core_type_size(KERNEL_REGS);
		read_call();
	}
	read_words();
	for (u32 i = 0; i < STACK_WORDS; i++)
		read_word(i);
	bpf_seq_write(ctx->meta->seq, to, sizeof(*to));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
