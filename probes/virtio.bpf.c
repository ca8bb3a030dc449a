// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace virtio: the traffic of each virtqueue.  All functions by which a driver adds buffers to a
 * queue are hooked, at their return: a buffer without room in the queue is not counted.  With -x
 * and -L the functions by which a driver gets buffers back are hooked, too.  On kernels without
 * function hooks, interrupts are used: virtio_irq.bpf.h.
 *
 * Counters only grow, in two banks of arrays that are mapped into user space.  User space does not
 * read them by system calls on the maps: during one the kernel runs no kprobe's program on that CPU
 * (bpf_prog_active), would miss a driver's work in an interrupt, and before 6.7 (dd8657894c11) does
 * not count the missed events.
 */
#include "probes/kernel.h"
#include "probes/virtio.h"
#include "probes/hist.h"
#include "probes/spare.bpf.h"

/* Options, fixed before loading. */
const volatile bool by_driver = false, by_device = false, by_vq = false;
const volatile __u32 only_device = 0;
const volatile __u64 only_driver[VIRTIO_NAME_SIZE / 8] = {};
const volatile __u64 only_vq[VIRTIO_NAME_SIZE / 8] = {};
const volatile __u32 max_list_entries = 512; /* of one list; limited by the verifier */
const volatile bool follow = false;	     /* buffers, from add to get */
const volatile bool latencies = false;	     /* a histogram per queue */

/* The bank to count in.  User space activates the other one to end an interval, at one moment for
 * all queues. */
__u32 active_bank = 0;

/* How many free rows were claimed: rows in use have lower numbers. */
__u32 rows_taken = 0;

__u64 losses[VIRTIO_LOSSES] = {};

/* When all programs were attached; 0: not yet, or the run is over.  So all programs begin and end
 * counting at one moment, though attaching and detaching takes up to a second. */
__u64 begin_ns = 0;

/* Number of deleted queues: their buffers in flight can be deleted. */
__u64 queues_gone = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* rows x VIRTIO_BANKS */
	__type(key, u32);
	__type(value, struct virtio_value);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the same */
	__type(key, u32);
	__type(value, struct virtio_lat);
} lats SEC(".maps");

/* The queue of each row. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct virtio_known);
} known SEC(".maps");

/* The row of a queue, which it keeps when it is created again at another address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct virtio_id);
	__type(value, u32);
} row_numbers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, u32);
} free_rows SEC(".maps");

/* By address of the struct virtqueue. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct virtio_queue);
} queues SEC(".maps");

/* Buffers owned by the device. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct virtio_buffer);
	__type(value, struct virtio_inflight);
} inflight SEC(".maps");

/* ---- queues ---- */

/* Both are padded with zeros. */
static __always_inline bool same_name(const char *name, const volatile __u64 *wanted)
{
	const __u64 *words = (const void *)name;
	u64 differ = 0;

#pragma unroll
	for (int i = 0; i < VIRTIO_NAME_SIZE / 8; i++)
		differ |= words[i] ^ wanted[i];
	return !differ;
}

/* Sets q->row to the row of @q or to a free one; VIRTIO_NO_ROW when none is free. 0, or 1: try
 * again. */
static __always_inline int find_row(struct virtio_queue *q, const struct virtio_names *names)
{
	u32 *number = bpf_map_lookup_elem(&row_numbers, &q->id), row = VIRTIO_NO_ROW;
	struct virtio_known *about;

	q->row = VIRTIO_NO_ROW;
	if (number)
		row = *number;
	else if (bpf_map_pop_elem(&free_rows, &row))
		return 0;
	else
		__sync_fetch_and_add(&rows_taken, 1);
	about = bpf_map_lookup_elem(&known, &row);
	if (!about)
		return 0;
	about->id = q->id;
	about->names = *names;
	if (!number && bpf_map_update_elem(&row_numbers, &q->id, &row, BPF_NOEXIST)) {
		/* EEXIST: another CPU was faster. */
		bpf_map_push_elem(&free_rows, &row, 0);
		number = bpf_map_lookup_elem(&row_numbers, &q->id);
		if (!number)
			return 1;
		row = *number;
	}
	q->row = row;
	return 0;
}

/*
 * Adds the queue at address @vq to `queues`: its identity, and whether it is wanted.  A global
 * function, which the verifier checks once for all callers. 0, or 1 when there is no room.
 */
__attribute__((noinline)) int add_queue(u64 vq)
{
	struct virtqueue *at = (void *)vq;
	struct virtio_device *vdev = BPF_CORE_READ(at, vdev);
	struct virtio_names n __attribute__((aligned(8))) = {};
	struct virtio_queue q = {};

	q.vdev = (u64)vdev;
	q.name = (u64)BPF_CORE_READ(at, name);
	q.born_ns = bpf_ktime_get_ns();
	q.id.device = BPF_CORE_READ(vdev, index);
	q.id.vq = BPF_CORE_READ(at, index);
	q.id.type = BPF_CORE_READ(vdev, id.device);
	q.wanted = 1;
	bpf_probe_read_kernel_str(n.driver, sizeof(n.driver),
				  BPF_CORE_READ(vdev, dev.driver, name));
	bpf_probe_read_kernel_str(n.vq, sizeof(n.vq), (void *)q.name);
	if (by_device && q.id.device != only_device)
		q.wanted = 0;
	if (by_driver && !same_name(n.driver, only_driver))
		q.wanted = 0;
	if (by_vq && !same_name(n.vq, only_vq))
		q.wanted = 0;
	if (q.wanted && find_row(&q, &n))
		return 1;
	return bpf_map_update_elem(&queues, &vq, &q, BPF_ANY) != 0;
}

/* The virtio device whose sysfs directory this process has open as @fd, or NULL. */
static __always_inline struct virtio_device *device_of(u64 fd)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct file **files = BPF_CORE_READ(task, files, fdt, fd), *file = NULL;
	struct kernfs_node *node;
	u64 kobj, device;

	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	node = BPF_CORE_READ(file, f_inode, i_private);
	kobj = (u64)BPF_CORE_READ(node, priv);
	if (!kobj)
		return NULL;
	device = kobj - bpf_core_field_offset(struct device, kobj);
	return (void *)(device - bpf_core_field_offset(struct virtio_device, dev));
}

/* The result of list_queue(): the list node of a queue of the device, 0 after the last one, and the
 * name of that queue. */
__u64 listed_at = 0;
char listed_name[VIRTIO_NAME_SIZE] = {};

/*
 * Run by user space, which has the sysfs directory of a device open as ctx[0]: goes from the queue
 * at ctx[1], a listed_at, to the next one, and from 0 to the first.
 */
SEC("raw_tp")
int list_queue(u64 *ctx)
{
	struct virtio_device *vdev = device_of(ctx[0]);
	struct list_head *at = (void *)ctx[1];
	u64 head, vq;

	listed_at = 0;
	if (!vdev)
		return 0;
	head = (u64)vdev + bpf_core_field_offset(struct virtio_device, vqs);
	if (!at)
		at = (void *)head;
	at = BPF_CORE_READ(at, next);
	if (!at || (u64)at == head)
		return 0;
	vq = (u64)at - bpf_core_field_offset(struct virtqueue, list);
	bpf_probe_read_kernel_str(listed_name, sizeof(listed_name),
				  BPF_CORE_READ((struct virtqueue *)vq, name));
	listed_at = (u64)at;
	return 0;
}

/* The queue at @vq if it is wanted. */
static __always_inline struct virtio_queue *queue_of(u64 vq)
{
	struct virtqueue *at = (void *)vq;
	struct virtio_queue *q = bpf_map_lookup_elem(&queues, &vq);

	if (!q || q->vdev != (u64)BPF_CORE_READ(at, vdev) ||
	    q->name != (u64)BPF_CORE_READ(at, name)) {
		if (add_queue(vq)) {
			count_loss(&losses[VIRTIO_LOSS_QUEUES_FULL], 1);
			return NULL;
		}
		q = bpf_map_lookup_elem(&queues, &vq);
	}
	return q && q->wanted ? q : NULL;
}

/* ---- rows ---- */

/* Called once per event, which counts in one bank. */
static __always_inline u32 bank_now(void)
{
	return *(volatile u32 *)&active_bank & (VIRTIO_BANKS - 1);
}

static __always_inline struct virtio_value *row_of(const struct virtio_queue *q, u32 bank)
{
	u32 at = q->row * VIRTIO_BANKS + bank;

	return bpf_map_lookup_elem(&counts, &at);
}

static __always_inline struct virtio_lat *lat_of(const struct virtio_queue *q, u32 bank)
{
	u32 at = q->row * VIRTIO_BANKS + bank;

	return bpf_map_lookup_elem(&lats, &at);
}

struct sums {
	u64 in_sgs, out_sgs, in_bytes, out_bytes;
};

/* Atomic: a late program, or a program in an interrupt, may write at the same time. */
static __always_inline void add_sums(struct virtio_value *row, const struct sums *s)
{
	if (s->in_sgs) {
		__sync_fetch_and_add(&row->in_sgs, s->in_sgs);
		__sync_fetch_and_add(&row->in_bytes, s->in_bytes);
	}
	if (s->out_sgs) {
		__sync_fetch_and_add(&row->out_sgs, s->out_sgs);
		__sync_fetch_and_add(&row->out_bytes, s->out_bytes);
	}
}

/* Returns the row; NULL: no room. */
static __always_inline struct virtio_value *count_sums(const struct virtio_queue *q,
						       const struct sums *s)
{
	struct virtio_value *row = row_of(q, bank_now());

	if (row) {
		add_sums(row, s);
		return row;
	}
	count_loss(&losses[VIRTIO_LOSS_ROWS_FULL], 1);
	count_loss(&losses[VIRTIO_LOSS_ROWS_BYTES], s->in_bytes + s->out_bytes);
	return NULL;
}

/* ---- scatter-gather lists ---- */

#define MAX_LISTS 512
#define TRUNCATED (1ULL << 63) /* the list was longer than that */

#define RUN_ENTRIES  64
#define RUN_COUNT(r) ((u32)((r) >> 56) & 127)
#define RUN_BYTES(r) ((r) & ((1ULL << 56) - 1))
#define RUN_ENDED    (1ULL << 63)

/*
 * Walks over at most RUN_ENTRIES entries, and at most @room, of the list at @sg, and counts at most
 * @most of them.  Returns the number of counted entries (RUN_COUNT()) and their bytes, and whether
 * the list ended; with @onward instead the address at which it continues.
 *
 * (Two walks: a global function, which the verifier checks once and not for each call, returns one
 * number, and most lists are short.) The body has no branch but its end: the verifier would follow
 * each one in every round.
 */
__attribute__((noinline)) u64 walk_run(u64 sg, u32 most, u32 room, u32 onward)
{
	u64 bytes = 0, link, next, chain, last, mask;
	u32 length, n = 0;

	for (u32 i = 0; i < RUN_ENTRIES; i++) {
		struct scatterlist *entry = (void *)sg;

		if (!sg || n >= most || i >= room)
			break;
		bpf_core_read(&link, sizeof(link), &entry->page_link);
		bpf_core_read(&length, sizeof(length), &entry->length);
		chain = link & 1;
		last = (link >> 1) & ~chain & 1;
		mask = chain - 1; /* all ones unless this leads to another array */
		barrier_var(mask);
		bytes += length & mask;
		n += mask & 1;
		next = sg + bpf_core_type_size(struct scatterlist);
		sg = (next & mask) | (link & ~3ULL & ~mask);
		mask = last - 1;
		barrier_var(mask);
		sg &= mask;
	}
	if (onward)
		return sg;
	return bytes | (u64)n << 56 | (sg && n < most ? 0 : RUN_ENDED);
}

/* The bytes of the list at @sg, of at most @most entries. */
__attribute__((noinline)) u64 list_bytes(u64 sg, u32 most)
{
	u64 bytes = 0, run;

	for (u32 done = 0; done < max_list_entries; done += RUN_ENTRIES) {
		run = walk_run(sg, most, max_list_entries - done, false);
		bytes += RUN_BYTES(run);
		if (run & RUN_ENDED)
			return bytes;
		sg = walk_run(sg, most, RUN_ENTRIES, true);
		most -= RUN_COUNT(run);
	}
	return bytes | TRUNCATED;
}

/* The bytes of the @n lists in the array @sgs. */
__attribute__((noinline)) u64 lists_bytes(u64 sgs, u32 n)
{
	u64 bytes = 0, cut = 0, sg, r;

	for (u32 i = 0; i < MAX_LISTS; i++) {
		if (i >= n)
			return bytes | cut;
		bpf_probe_read_kernel(&sg, sizeof(sg), (void *)(sgs + i * sizeof(u64)));
		r = list_bytes(sg, ~0U);
		bytes += r & ~TRUNCATED;
		cut |= r & TRUNCATED;
	}
	return n > MAX_LISTS ? bytes | TRUNCATED : bytes | cut;
}

static __always_inline u64 strip_truncated(u64 bytes)
{
	if (bytes & TRUNCATED)
		count_loss(&losses[VIRTIO_LOSS_LISTS], 1);
	return bytes & ~TRUNCATED;
}

/* ---- buffers given to the device ---- */

static __always_inline void follow_buffer(const struct virtio_queue *q, u64 vq, u64 token)
{
	struct virtio_buffer key = { .vq = vq, .token = token };
	struct virtio_inflight made = { .born_ns = q->born_ns }, *last;

	last = bpf_map_lookup_elem(&inflight, &key);
	if (last && last->born_ns == q->born_ns)
		count_loss(&losses[VIRTIO_LOSS_NO_END], 1);
	made.added_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&inflight, &key, &made, BPF_ANY))
		count_loss(&losses[VIRTIO_LOSS_BUFFERS_FULL], 1);
}

/* Buffer @token was added to the queue. */
static __always_inline void on_added(u64 vq, u64 token, const struct sums *s)
{
	struct virtio_queue *q = begin_ns ? queue_of(vq) : NULL;

	if (!q)
		return;
	count_sums(q, s);
	if (!follow)
		return;
	if (q->taken == token)
		q->taken = 0;
	follow_buffer(q, vq, token);
}

/* ---- buffers got back ---- */

static __always_inline void count_latency(const struct virtio_queue *q, u32 bank, u64 ns)
{
	struct virtio_lat *lat = lat_of(q, bank);
	u64 slot = probe_log2(ns);

	if (!lat)
		return;	   /* on_got() has found its row */
	barrier_var(slot); /* for the verifier, which does not know its bound */
	__sync_fetch_and_add(&lat->log2[slot & 63], 1);
	if (ns > lat->max_ns)
		lat->max_ns = ns;
}

static __always_inline void time_buffer(struct virtio_value *row, u32 bank,
					const struct virtio_queue *q, u64 vq, u64 token)
{
	struct virtio_buffer buffer = { .vq = vq, .token = token };
	struct virtio_inflight *entry = bpf_map_lookup_elem(&inflight, &buffer);
	u64 now = bpf_ktime_get_ns(), added;

	if (!entry)
		return; /* the device had it before tracing began */
	added = entry->born_ns == q->born_ns ? entry->added_ns : 0;
	bpf_map_delete_elem(&inflight, &buffer);
	if (!added)
		return;
	if (now < added) {
		count_loss(&losses[VIRTIO_LOSS_CLOCK], 1);
		return;
	}
	__sync_fetch_and_add(&row->timed, 1);
	__sync_fetch_and_add(&row->time_ns, now - added);
	if (latencies)
		count_latency(q, bank, now - added);
}

/*
 * The driver got buffer @token back; the device has written @used bytes to it. virtqueue_get_buf()
 * is virtqueue_get_buf_ctx() with one argument less: the compiler makes it call the other, jump to
 * it, or inlines it.  The inner one returns first; @outer: this is the outer one.
 */
static __always_inline void on_got(u64 vq, u64 token, u32 used, const bool outer)
{
	struct virtio_queue *q;
	struct virtio_value *row;
	u32 bank = bank_now();

	if (!token || !begin_ns)
		return;
	q = queue_of(vq);
	if (!q)
		return;
	if (outer && q->taken == token) {
		q->taken = 0;
		return;
	}
	q->taken = outer ? 0 : token;
	row = row_of(q, bank);
	if (!row) {
		count_loss(&losses[VIRTIO_LOSS_ROWS_FULL], 1);
		return;
	}
	__sync_fetch_and_add(&row->buffers, 1);
	__sync_fetch_and_add(&row->used_bytes, used);
	time_buffer(row, bank, q, vq, token);
}

/* The driver takes back a buffer that the device has not used. */
static __always_inline void on_detached(u64 vq, u64 token)
{
	struct virtio_buffer buffer = { .vq = vq, .token = token };

	if (token)
		bpf_map_delete_elem(&inflight, &buffer);
}

static __always_inline void on_gone(u64 vq)
{
	if (!bpf_map_delete_elem(&queues, &vq))
		__sync_fetch_and_add(&queues_gone, 1);
}

#include "probes/virtio_entry.bpf.h"
#include "probes/virtio_irq.bpf.h"

char LICENSE[] SEC("license") = "GPL";
