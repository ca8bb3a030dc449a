// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/virtio/print.h"

#include <errno.h>

static int print_separator(const struct virtio_options *o, time_t now, FILE *stream)
{
	char text[16] = "--------";
	struct tm tm;

	if (o->timestamp) {
		localtime_r(&now, &tm);
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
	}
	return fprintf(stream, "%s\n", text) < 0 ? -errno : 0;
}

static int print_latencies(const struct virtio_rows *rows, FILE *stream)
{
	char driver[4 * VIRTIO_NAME_SIZE], vq[4 * VIRTIO_NAME_SIZE], device[4 * VIRTIO_NAME_SIZE];
	int r = 0;

	for (size_t i = 0; !r && i < rows->n; i++) {
		const struct virtio_row *row = &rows->rows[i];

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

int virtio_print(const struct virtio_options *o, const struct schema *schema,
		 const struct virtio_rows *rows, const struct interval *interval, time_t now,
		 FILE *stream)
{
	enum format format = o->args.format;
	int r = format == FORMAT_TEXT ? print_separator(o, now, stream) : 0;

	if (!r)
		r = render_interval(format, stream, interval, schema, rows->rows, rows->n);
	if (!r && format == FORMAT_TEXT && o->latency)
		r = print_latencies(rows, stream);
	return r ? r : render_flush(stream);
}
