/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows, one per virtqueue. */
#ifndef IOTRACE_CMD_VIRTIO_ROWS_H
#define IOTRACE_CMD_VIRTIO_ROWS_H

#include "cmd/virtio/options.h"
#include "core/base/text.h"
#include "output/hist.h"
#include "output/schema.h"
#include "probes/virtio.h"

/* A virtqueue in one interval. */
struct virtio_row {
	struct virtio_id id;
	const char *driver, *device, *vq;
	uint64_t in_sgs, out_sgs, in_bytes, out_bytes;
	uint64_t buffers, used_bytes, timed, time_ns;
	struct hist *latency; /* with -L, NULL when no time is known; the row's own */
};

struct virtio_rows {
	struct virtio_row *rows;
	size_t n;
	struct text_set strings; /* names, kept for the whole run */
};

/* Adds the counts of queue @of. 0 or -ENOMEM. */
int virtio_rows_add(struct virtio_rows *rows, const struct virtio_known *of,
		    const struct virtio_value *value);

/* The same for its latencies. */
int virtio_rows_add_latency(struct virtio_rows *rows, const struct virtio_known *of,
			    const struct virtio_lat *lat);

/* Joins the parts of each queue, drops queues with nothing to display, and sorts the others: by
 * device, virtio2 before virtio10, then by queue. */
void virtio_rows_finish(struct virtio_rows *rows, bool extended);

/* Ready for the next interval. */
void virtio_rows_clear(struct virtio_rows *rows);
void virtio_rows_free(struct virtio_rows *rows);

#define VIRTIO_COLUMNS 13

/* The columns for @o: *schema, with room for its columns in @columns. */
void virtio_schema(const struct virtio_options *o, struct column columns[VIRTIO_COLUMNS],
		   struct schema *schema);

#endif
