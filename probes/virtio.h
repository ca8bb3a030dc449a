/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_VIRTIO_H
#define IOTRACE_PROBES_VIRTIO_H

#include <linux/types.h>

#define VIRTIO_NAME_SIZE 64
#define VIRTIO_BANKS	 2	    /* of counters: the active one, and one to read */
#define VIRTIO_NO_ROW	 0x7fffffff /* times VIRTIO_BANKS it is not an index of any array */

/* A virtqueue: queue @vq of device virtio@device. */
struct virtio_id {
	__u32 device;
	__u32 vq;
	__u32 type; /* of the device: 1 net, 2 block, ... */
};

struct virtio_names {
	char driver[VIRTIO_NAME_SIZE];
	char vq[VIRTIO_NAME_SIZE];
};

/* The queue of a row.  A row stays with its queue; a row without counts may have none. */
struct virtio_known {
	struct virtio_names names;
	struct virtio_id id;
	__u32 pad; /* elements of arrays are multiples of 8 bytes */
};

/* A row in one bank.  Not per CPU: a driver does not let two CPUs use a queue at the same time, so
 * that the row's cache lines move between CPUs as the queue's do. */
struct virtio_value {
	__u64 in_sgs, out_sgs;
	__u64 in_bytes, out_bytes;
	/* buffers that the driver got back */
	__u64 buffers;
	__u64 used_bytes;
	__u64 timed; /* of buffers: with a time */
	__u64 time_ns;
};

/* Latencies of a row in one bank. */
struct virtio_lat {
	__u64 max_ns;	/* user space resets it */
	__u64 log2[64]; /* slot i: 2^i .. 2^(i+1)-1 ns; 0 and 1 in slot 0 */
};

/* The virtqueue at an address. */
struct virtio_queue {
	__u64 vdev; /* vdev and name identify it: addresses are reused */
	__u64 name;
	__u64 born_ns; /* when it was added to the map */
	__u64 taken;   /* token of the buffer that virtqueue_get_buf_ctx() returned last; with
			  interrupts: 1 once `seen` is set */
	struct virtio_id id;
	__u16 seen;  /* the used ring was read up to here */
	__u8 wanted; /* by the filters */
	__u8 pad;
	__u32 row; /* VIRTIO_NO_ROW: none was free */
	__u32 pad2;
};

/* A buffer owned by the device. */
struct virtio_buffer {
	__u64 vq;
	__u64 token;
};

struct virtio_inflight {
	__u64 added_ns;
	__u64 born_ns; /* of its queue */
};

enum virtio_loss {
	VIRTIO_LOSS_ROWS_FULL,
	VIRTIO_LOSS_ROWS_BYTES,
	VIRTIO_LOSS_QUEUES_FULL,
	VIRTIO_LOSS_LISTS,
	VIRTIO_LOSS_CALLS,
	VIRTIO_LOSS_BUFFERS_FULL,
	VIRTIO_LOSS_NO_END,
	VIRTIO_LOSS_CLOCK,
	VIRTIO_LOSS_REAPED,
	VIRTIO_LOSS_PACKED,
	VIRTIO_LOSS_RING,
	VIRTIO_LOSSES,
};

/* Handlers of interrupts, by address. */
enum virtio_handler {
	HANDLER_QUEUE,	     /* vring_interrupt: one queue */
	HANDLER_PCI_QUEUES,  /* vp_vring_interrupt: all queues of a PCI device */
	HANDLER_PCI_SHARED,  /* vp_interrupt: the same, and the configuration (INTx) */
	HANDLER_MMIO_SHARED, /* vm_interrupt: the same of a platform device */
	VIRTIO_HANDLERS,
};

_Static_assert(sizeof(struct virtio_known) == 144, "shared with BPF");
_Static_assert(sizeof(struct virtio_queue) == 56, "shared with BPF");

#endif
