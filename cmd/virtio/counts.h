/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The arrays in which the programs count. */
#ifndef IOTRACE_CMD_VIRTIO_COUNTS_H
#define IOTRACE_CMD_VIRTIO_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "cmd/virtio/rows.h"
#include "probes/virtio.h"

/* The mapped arrays of the programs, in which they count (probes/virtio.bpf.c). */
struct virtio_arrays {
	uint32_t *active;		   /* the bank that they add to */
	const uint32_t *taken;		   /* upper bound of the rows in use */
	size_t n;			   /* number of rows */
	const struct virtio_known *known;  /* the owner of each row */
	const struct virtio_value *values; /* VIRTIO_BANKS for each row */
	struct virtio_lat *lats;	   /* the same; NULL: not counted */
};

/* What they have counted, interval by interval. */
struct virtio_counts;

/* @arrays must outlive *out.  0 or -ENOMEM. */
int virtio_counts_open(const struct virtio_arrays *arrays, struct virtio_counts **out);
void virtio_counts_close(struct virtio_counts *c);

/*
 * Ends an interval for all queues at once, at *end_ns of CLOCK_MONOTONIC, and adds its counts to
 * @rows.  @last: everything is detached, and nothing is left for another interval. 0 or -ENOMEM.
 */
int virtio_counts_take(struct virtio_counts *c, bool last, struct virtio_rows *rows,
		       uint64_t *end_ns);

#endif
