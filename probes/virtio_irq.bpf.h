/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_VIRTIO_IRQ_BPF_H
#define IOTRACE_PROBES_VIRTIO_IRQ_BPF_H

/*
 * For kernels without function hooks: the tracepoint irq_handler_entry.  When a queue interrupts,
 * the buffers that the device has used are in the used ring, and the driver has not taken them out
 * yet: their descriptors are still there.  Of buffers that the driver takes out without an
 * interrupt (it polls, or the kernel skipped the program) only the number is known, from the ring's
 * index.
 */

/* Addresses of the interrupt handlers; 0: this kernel does not have it. */
const volatile __u64 handlers[VIRTIO_HANDLERS] = {};

#define DESC_NEXT     1
#define DESC_WRITE    2
#define DESC_INDIRECT 4

#define MAX_QUEUES	1024
#define MAX_DESCRIPTORS 32768 /* of a ring, or of one buffer */

struct chain {
	u64 table;
	struct sums sums;
	u16 at;
	bool ended;
};

/* One descriptor of a chain. */
static long next_desc(u32 round, void *data)
{
	struct chain *c = data;
	struct vring_desc *desc =
	    (void *)(c->table + c->at * bpf_core_type_size(struct vring_desc));
	u16 flags = BPF_CORE_READ(desc, flags);
	u64 len = BPF_CORE_READ(desc, len), write;

	/* Without branches: the verifier would follow each one through all rounds. */
	write = (flags / DESC_WRITE) & 1;
	c->sums.in_sgs += write;
	c->sums.in_bytes += len * write;
	c->sums.out_sgs += 1 - write;
	c->sums.out_bytes += len * (1 - write);
	c->at = BPF_CORE_READ(desc, next);
	c->ended = !(flags & DESC_NEXT);
	return c->ended;
}

struct used_ring {
	u64 vvq;
	struct virtio_queue *q;
	u32 num;
	u16 from;
};

static __always_inline void *state_data(u64 state)
{
	return BPF_CORE_READ((struct vring_desc_state_split *)state, data);
}

/* Adds up the descriptors of buffer @id; false when they cannot be read. */
static __always_inline bool walk_buffer(struct vring_virtqueue *vvq, u32 id, u64 state,
					struct chain *c)
{
	struct vring_desc *head = BPF_CORE_READ(vvq, split.vring.desc);

	c->table = (u64)head;
	c->at = id;
	head = (void *)((u64)head + id * bpf_core_type_size(struct vring_desc));
	if (BPF_CORE_READ(head, flags) & DESC_INDIRECT) {
		c->table = (u64)BPF_CORE_READ((struct vring_desc_state_split *)state, indir_desc);
		c->at = 0;
		if (!c->table)
			return false;
	}
	bpf_loop(MAX_DESCRIPTORS, next_desc, c, 0);
	return c->ended;
}

static __always_inline void count_used(struct virtio_queue *q, const struct sums *s, u32 used)
{
	struct virtio_value *row = count_sums(q, s);

	if (!row)
		return;
	__sync_fetch_and_add(&row->buffers, 1);
	__sync_fetch_and_add(&row->used_bytes, used);
}

/* One entry of the used ring. */
static long next_used(u32 round, void *data)
{
	struct used_ring *r = data;
	struct vring_virtqueue *vvq = (void *)r->vvq;
	struct vring_used *used = BPF_CORE_READ(vvq, split.vring.used);
	u32 slot = (r->from + round) & (r->num - 1);
	struct vring_used_elem *elem = (void *)&used->ring[slot];
	u32 id = BPF_CORE_READ(elem, id), len = BPF_CORE_READ(elem, len);
	u64 state = (u64)BPF_CORE_READ(vvq, split.desc_state);
	struct chain c = {};
	bool whole_chain;

	if (id >= r->num) {
		count_loss(&losses[VIRTIO_LOSS_RING], 1);
		return 0;
	}
	state += id * bpf_core_type_size(struct vring_desc_state_split);
	if (!state_data(state)) {
		count_loss(&losses[VIRTIO_LOSS_REAPED], 1);
		return 0;
	}
	whole_chain = walk_buffer(vvq, id, state, &c);
	/* Another CPU may have taken the buffer out in between. */
	if (!state_data(state))
		count_loss(&losses[VIRTIO_LOSS_REAPED], 1);
	else if (!whole_chain)
		count_loss(&losses[VIRTIO_LOSS_RING], 1);
	else
		count_used(r->q, &c.sums, len);
	return 0;
}

/* Only split rings have a used ring with an entry per buffer. */
static __always_inline bool readable(struct vring_virtqueue *vvq)
{
	if (bpf_core_field_exists(vvq->layout))
		return BPF_CORE_READ(vvq, layout) == VQ_LAYOUT_SPLIT;
	return !BPF_CORE_READ(vvq, packed_ring);
}

/*
 * The index of the first new entry in the used ring: where reading stopped, or where the driver is,
 * if that is further on. *reaped: how many buffers the driver took out unseen.
 */
static __always_inline u16 new_from(const struct virtio_queue *q, u16 taken_out, u16 used,
				    u16 *reaped)
{
	u16 ahead = q->seen - taken_out;

	*reaped = 0;
	if (ahead <= (u16)(used - taken_out))
		return q->seen;
	*reaped = taken_out - q->seen;
	return taken_out;
}

/* Reads the entries of the used ring that are new. */
static __always_inline void read_used(struct virtio_queue *q, u64 vq, bool count)
{
	struct used_ring r = { .q = q };
	struct vring_virtqueue *vvq;
	struct vring_used *used_ring;
	u16 taken_out, used, reaped;

	if (!bpf_core_type_exists(struct vring_virtqueue))
		return; /* irq_rest() reports it to user space */
	vvq = (void *)(vq - bpf_core_field_offset(struct vring_virtqueue, vq));
	r.vvq = (u64)vvq;
	if (!readable(vvq)) {
		if (count)
			count_loss(&losses[VIRTIO_LOSS_PACKED], 1);
		return;
	}
	used_ring = BPF_CORE_READ(vvq, split.vring.used);
	taken_out = BPF_CORE_READ(vvq, last_used_idx);
	used = BPF_CORE_READ(used_ring, idx);
	r.num = BPF_CORE_READ(vvq, split.vring.num);
	if (!q->taken) { /* seen for the first time */
		q->seen = taken_out;
		q->taken = 1;
	}
	r.from = new_from(q, taken_out, used, &reaped);
	if (reaped)
		count_loss(&losses[VIRTIO_LOSS_REAPED], reaped);
	q->seen = r.from;
	if (!count || (u16)(used - r.from) > r.num)
		return;
	q->seen = used;
	bpf_loop((u16)(used - r.from), next_used, &r, 0);
}

static __always_inline void on_queue_irq(u64 vq, bool count)
{
	struct virtio_queue *q = queue_of(vq);

	if (q)
		read_used(q, vq, count);
}

struct device_queues {
	u64 head, at;
	bool count;
};

static long next_queue(u32 round, void *data)
{
	struct device_queues *d = data;
	struct list_head *node = (void *)d->at;
	u64 vq = (u64)node - bpf_core_field_offset(struct virtqueue, list);

	if (!node || (u64)node == d->head)
		return 1;
	on_queue_irq(vq, d->count);
	d->at = (u64)BPF_CORE_READ(node, next);
	return 0;
}

static __always_inline void each_queue(struct virtio_device *vdev, bool count)
{
	struct device_queues d = { .count = count };

	d.head = (u64)vdev + bpf_core_field_offset(struct virtio_device, vqs);
	d.at = (u64)BPF_CORE_READ(vdev, vqs.next);
	bpf_loop(MAX_QUEUES, next_queue, &d, 0);
}

static __always_inline void on_own_irq(u64 vq)
{
	struct virtqueue *at = (void *)vq;

	/* A new device: from now on the positions of the drivers of its other queues are known,
	 * too. */
	if (!bpf_map_lookup_elem(&queues, &vq))
		each_queue(BPF_CORE_READ(at, vdev), false);
	on_queue_irq(vq, true);
}

SEC("raw_tp/irq_handler_entry")
int irq_raw(u64 *ctx)
{
	struct irqaction *action = (void *)ctx[1];
	u64 handler = (u64)BPF_CORE_READ(action, thread_fn), of;

	/* Real-time kernels, and any with threadirqs, run the handler in a thread. */
	if (!handler)
		handler = (u64)BPF_CORE_READ(action, handler);
	if (!handler || !begin_ns)
		return 0;
	of = (u64)BPF_CORE_READ(action, dev_id);
	if (handler == handlers[HANDLER_QUEUE]) {
		on_own_irq(of);
		return 0;
	}
	if (bpf_core_type_exists(struct virtio_pci_device) &&
	    (handler == handlers[HANDLER_PCI_QUEUES] || handler == handlers[HANDLER_PCI_SHARED]))
		of += bpf_core_field_offset(struct virtio_pci_device, vdev);
	else if (bpf_core_type_exists(struct virtio_mmio_device) &&
		 handler == handlers[HANDLER_MMIO_SHARED])
		of += bpf_core_field_offset(struct virtio_mmio_device, vdev);
	else
		return 0;
	each_queue((void *)of, true);
	return 0;
}

/*
 * Run by user space for the queue at address ctx[0], when counting has ended: counts the buffers
 * that the driver took out since the last interrupt.  Returns 1 when the kernel's BTF does not
 * describe a queue.
 */
SEC("raw_tp")
int irq_rest(u64 *ctx)
{
	u64 vq = ctx[0];

	if (bpf_map_lookup_elem(&queues, &vq))
		on_queue_irq(vq, false);
	return !bpf_core_type_exists(struct vring_virtqueue);
}

/*
 * Run by user space, which has the sysfs directory of a virtio device open as ctx[0]: from now on
 * the positions of the drivers of its queues are known, including queues that never interrupt.
 */
SEC("raw_tp")
int irq_device(u64 *ctx)
{
	struct virtio_device *vdev = device_of(ctx[0]);

	if (vdev)
		each_queue(vdev, false);
	return 0;
}

#endif
