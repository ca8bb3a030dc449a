// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace virtio: what goes through each virtqueue.  Every function by which a driver hands
 * buffers to a queue is hooked, at its return: a buffer for which there was no room is not counted.
 * With -x and -L the functions that give buffers back are hooked, too.
 *
 * A kernel on which no function can be hooked is left with its interrupts: virtio_irq.bpf.h.
 */
#include "probes/kernel.h"
#include "probes/virtio.h"
#include "probes/hist.h"

/* Options, fixed before loading. */
const volatile bool by_driver = false, by_device = false, by_vq = false;
const volatile __u32 only_device = 0;
const volatile __u64 only_driver[VIRTIO_NAME_SIZE / 8] = {};
const volatile __u64 only_vq[VIRTIO_NAME_SIZE / 8] = {};
const volatile __u32 most_entries = 512; /* of one list: what the verifier lets us walk */
const volatile bool follow = false;	 /* buffers, from add to get */
const volatile bool latencies = false;	 /* a histogram per queue */

/* Which of the two buffers is written; core/flip.h turns it. */
__u32 epoch = 0;

__u64 losses[VIRTIO_LOSSES] = {};

/* When everything was attached; 0: not yet, or no more.  All programs begin and end at one
 * moment: attaching and detaching takes up to a second in all. */
__u64 begin_ns = 0;

/* Queues that are gone: what they had in flight can be forgotten. */
__u64 queues_gone = 0;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct virtio_key);
	__type(value, struct virtio_value);
} rows0 SEC(".maps"), rows1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct virtio_key);
	__type(value, struct virtio_lat);
} lats0 SEC(".maps"), lats1 SEC(".maps");

/* By address of the struct virtqueue. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct virtio_queue);
} queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct virtio_id);
	__type(value, struct virtio_names);
} names SEC(".maps");

/* Buffers that the device has. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct virtio_buffer);
	__type(value, struct virtio_inflight);
} inflight SEC(".maps");

static __always_inline void count_loss(enum virtio_loss loss, u64 n)
{
	__sync_fetch_and_add(&losses[loss], n);
}

/* ---- queues ---- */

/* Both are filled up with zeros. */
static __always_inline bool same_name(const char *name, const volatile __u64 *wanted)
{
	const __u64 *words = (const void *)name;
	u64 differ = 0;

#pragma unroll
	for (int i = 0; i < VIRTIO_NAME_SIZE / 8; i++)
		differ |= words[i] ^ wanted[i];
	return !differ;
}

/*
 * Learns the queue at address @vq: who it is, and whether it is wanted.  A global
 * function is verified once, and not for each caller.  0, or 1 when there is no room.
 */
__attribute__((noinline)) int learn_queue(u64 vq)
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
	if (q.wanted && bpf_map_update_elem(&names, &q.id, &n, BPF_ANY))
		return 1;
	return bpf_map_update_elem(&queues, &vq, &q, BPF_ANY) != 0;
}

/* The queue at @vq if it is wanted. */
static __always_inline struct virtio_queue *queue_of(u64 vq)
{
	struct virtqueue *at = (void *)vq;
	struct virtio_queue *q = bpf_map_lookup_elem(&queues, &vq);

	if (!q || q->vdev != (u64)BPF_CORE_READ(at, vdev) ||
	    q->name != (u64)BPF_CORE_READ(at, name)) {
		if (learn_queue(vq)) {
			count_loss(VIRTIO_LOSS_QUEUES_FULL, 1);
			return NULL;
		}
		q = bpf_map_lookup_elem(&queues, &vq);
	}
	return q && q->wanted ? q : NULL;
}

/* ---- rows ---- */

static __always_inline struct virtio_value *row_in(void *rows, const struct virtio_key *key)
{
	struct virtio_value *row = bpf_map_lookup_elem(rows, key), zero = {};

	if (row)
		return row;
	bpf_map_update_elem(rows, key, &zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(rows, key);
}

static __always_inline struct virtio_lat *lat_in(void *lats, const struct virtio_key *key)
{
	struct virtio_lat *lat = bpf_map_lookup_elem(lats, key);
	static const struct virtio_lat zero;

	if (lat)
		return lat;
	bpf_map_update_elem(lats, key, &zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(lats, key);
}

static __always_inline struct virtio_key key_of(const struct virtio_queue *q)
{
	return (struct virtio_key){ .id = q->id, .cpu = bpf_get_smp_processor_id() };
}

static __always_inline struct virtio_value *row_of(const struct virtio_key *key)
{
	return (epoch & 1) ? row_in(&rows1, key) : row_in(&rows0, key);
}

struct sums {
	u64 in_sgs, out_sgs, in_bytes, out_bytes;
};

/* Atomic, though the row is this CPU's own: an interrupt may come in between. */
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

static __always_inline void count_sums(const struct virtio_queue *q, const struct sums *s)
{
	struct virtio_key key = key_of(q);
	struct virtio_value *row = row_of(&key);

	if (row) {
		add_sums(row, s);
		return;
	}
	count_loss(VIRTIO_LOSS_ROWS_FULL, 1);
	count_loss(VIRTIO_LOSS_ROWS_BYTES, s->in_bytes + s->out_bytes);
}

/* ---- scatter-gather lists ---- */

#define MOST_LISTS 512
#define CUT	   (1ULL << 63) /* there was more than that */

/*
 * The bytes of the list at @sg, of at most @most entries.  The body has no
 * branch but for its end: each would be a path of its own for the verifier, in
 * every round.
 */
__attribute__((noinline)) u64 list_bytes(u64 sg, u32 most)
{
	u64 bytes = 0, link, onward, chain, last, mask;
	u32 length, n = 0;

	for (u32 i = 0; i < most_entries; i++) {
		struct scatterlist *entry = (void *)sg;

		if (!sg || n >= most)
			return bytes;
		bpf_core_read(&link, sizeof(link), &entry->page_link);
		bpf_core_read(&length, sizeof(length), &entry->length);
		chain = link & 1;
		last = (link >> 1) & ~chain & 1;
		mask = chain - 1; /* all ones unless this leads to another array */
		barrier_var(mask);
		bytes += length & mask;
		n += mask & 1;
		onward = sg + bpf_core_type_size(struct scatterlist);
		sg = (onward & mask) | (link & ~3ULL & ~mask);
		mask = last - 1;
		barrier_var(mask);
		sg &= mask;
	}
	return sg && n < most ? bytes | CUT : bytes;
}

/* The bytes of the @n lists that the array @sgs leads to. */
__attribute__((noinline)) u64 lists_bytes(u64 sgs, u32 n)
{
	u64 bytes = 0, cut = 0, sg, r;

	for (u32 i = 0; i < MOST_LISTS; i++) {
		if (i >= n)
			return bytes | cut;
		bpf_probe_read_kernel(&sg, sizeof(sg), (void *)(sgs + i * sizeof(u64)));
		r = list_bytes(sg, ~0U);
		bytes += r & ~CUT;
		cut |= r & CUT;
	}
	return n > MOST_LISTS ? bytes | CUT : bytes | cut;
}

static __always_inline u64 whole(u64 bytes)
{
	if (bytes & CUT)
		count_loss(VIRTIO_LOSS_LISTS, 1);
	return bytes & ~CUT;
}

/* ---- buffers given to the device ---- */

static __always_inline void follow_buffer(const struct virtio_queue *q, u64 vq, u64 token)
{
	struct virtio_buffer key = { .vq = vq, .token = token };
	struct virtio_inflight made = { .born_ns = q->born_ns }, *last;

	last = bpf_map_lookup_elem(&inflight, &key);
	if (last && last->born_ns == q->born_ns)
		count_loss(VIRTIO_LOSS_NO_END, 1);
	made.added_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&inflight, &key, &made, BPF_ANY))
		count_loss(VIRTIO_LOSS_BUFFERS_FULL, 1);
}

/* Buffer @token was taken by the queue. */
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

static __always_inline void count_latency(const struct virtio_key *key, u64 ns)
{
	struct virtio_lat *lat = (epoch & 1) ? lat_in(&lats1, key) : lat_in(&lats0, key);
	u64 slot = probe_log2(ns);

	if (!lat) {
		count_loss(VIRTIO_LOSS_ROWS_FULL, 1);
		return;
	}
	barrier_var(slot); /* the compiler knows that it is small enough, the verifier does not */
	__sync_fetch_and_add(&lat->log2[slot & 63], 1);
	if (ns > lat->max_ns)
		lat->max_ns = ns;
}

static __always_inline void time_buffer(struct virtio_value *row, const struct virtio_key *key,
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
		count_loss(VIRTIO_LOSS_CLOCK, 1);
		return;
	}
	__sync_fetch_and_add(&row->timed, 1);
	__sync_fetch_and_add(&row->time_ns, now - added);
	if (latencies)
		count_latency(key, now - added);
}

/*
 * The driver got buffer @token back, of which the device has written @used bytes.
 * virtqueue_get_buf() is virtqueue_get_buf_ctx() with an argument less: it may call it, jump to it,
 * or have it inlined, as the compiler likes.  The inner one returns first.
 */
static __always_inline void on_got(u64 vq, u64 token, u32 used, const bool outer)
{
	struct virtio_queue *q;
	struct virtio_value *row;
	struct virtio_key key;

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
	key = key_of(q);
	row = row_of(&key);
	if (!row) {
		count_loss(VIRTIO_LOSS_ROWS_FULL, 1);
		return;
	}
	__sync_fetch_and_add(&row->buffers, 1);
	__sync_fetch_and_add(&row->used_bytes, used);
	time_buffer(row, &key, q, vq, token);
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
