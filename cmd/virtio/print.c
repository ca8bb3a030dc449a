// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/virtio/print.h"

#include <errno.h>

#include "core/base/clock.h"

int virtio_print_head(void *ctx, const struct recording_interval *in, FILE *stream)
{
	const struct virtio_options *o = ctx;
	char text[CLOCK_TEXT_SIZE] = "--------";

	if (o->timestamp)
		recording_clock(in, text);
	return fprintf(stream, "%s\n", text) < 0 ? -errno : 0;
}

int virtio_print_tail(void *ctx, const struct render_interval *in, FILE *stream)
{
	char driver[4 * VIRTIO_NAME_SIZE], vq[4 * VIRTIO_NAME_SIZE], device[4 * VIRTIO_NAME_SIZE];
	const struct virtio_options *o = ctx;
	const struct virtio_row *rows = in->rows;
	int r = 0;

	for (size_t i = 0; !r && o->latency && i < in->n; i++) {
		const struct virtio_row *row = &rows[i];

		if (!row->latency)
			continue;
		render_escape(row->driver, driver, sizeof(driver));
		render_escape(row->device, device, sizeof(device));
		render_escape(row->vq, vq, sizeof(vq));
		if (fprintf(stream, "\n%s %s %s\n", driver, device, vq) < 0)
			return -errno;
		r = hist_print(row->latency, "nsecs", stream);
	}
	return r;
}
