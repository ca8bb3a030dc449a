// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/virtio/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/columns.h"
#include "core/base/array.h"

/* ---- columns ---- */

static void cell_latency(const void *row, char *buf, size_t size)
{
	const struct virtio_row *r = row;

	if (r->timed)
		snprintf(buf, size, "%.1fus", (double)r->time_ns / 1e3 / (double)r->timed);
	else
		snprintf(buf, size, "-");
}

#define ROW struct virtio_row

static const struct column base[] = {
	COLUMN(LABEL, "driver", driver, "Driver", 14, "", "driver of the device"),
	COLUMN(LABEL, "device", device, "Device", 8, "", "device, as in /sys/bus/virtio/devices"),
	COLUMN(LABEL, "vq", vq, "VQ Name", 10, "", "name of the virtqueue, from its driver"),
	COUNTER(in_sgs, "In SGs", 7, "lists", "scatter-gather lists for the device to write to",
		.rate = "In SGs/s"),
	COUNTER(out_sgs, "Out SGs", 7, "lists", "scatter-gather lists for the device to read",
		.rate = "Out SGs/s"),
	COUNTER(in_bytes, "In BW", 14, "bytes", "size of the lists for the device to write to",
		.help = "size of the lists for the device to write to", .rate = "In KiB/s"),
	COUNTER(out_bytes, "Out BW", 14, "bytes", "size of the lists for the device to read",
		.help = "size of the lists for the device to read", .rate = "Out KiB/s"),
};

static const struct column extended_columns[] = {
	COUNTER(used_bytes, "In used", 14, "bytes", "bytes written, as reported by the device",
		.help = "bytes written, as reported by the device", .rate = "Used KiB/s"),
	COUNTER(buffers, NULL, 0, "buffers", "buffers returned by the device"),
	COUNTER(timed, NULL, 0, "buffers",
		"of these, buffers added since tracing began, whose time is known",
		.help = "returned buffers with a known time"),
	COUNTER(time_ns, "Latency", 12, "ns",
		"sum of their times from add to get; text shows the average", .cell = cell_latency,
		.help = "sum of the times from adding a buffer to getting it back"),
};

static const struct column latency_column =
    COLUMN(HISTOGRAM, "slots", latency, NULL, 0, "ns", "histogram of the times from add to get",
	   .help = "time from adding a buffer to getting it back");

#define COUNT(array) (ARRAY_SIZE(array))
_Static_assert(COUNT(base) + COUNT(extended_columns) + 1 <= VIRTIO_COLUMNS, "room");

void virtio_schema(const struct virtio_options *o, struct column columns[VIRTIO_COLUMNS],
		   struct schema *schema)
{
	size_t n = COUNT(base);

	memcpy(columns, base, sizeof(base));
	for (size_t i = 0; (o->extended || o->latency) && i < COUNT(extended_columns); i++) {
		columns[n] = extended_columns[i];
		/* -L draws its histograms below the usual table. */
		if (!o->extended)
			columns[n].heading = NULL;
		n++;
	}
	if (o->latency)
		columns[n++] = latency_column;
	*schema = (struct schema){ columns, n, sizeof(struct virtio_row) };
}

/* ---- rows ---- */

static int name_row(struct virtio_rows *rows, struct virtio_row *row, struct virtio_names names)
{
	char device[32];

	names.driver[VIRTIO_NAME_SIZE - 1] = names.vq[VIRTIO_NAME_SIZE - 1] = 0;
	snprintf(device, sizeof(device), "virtio%u", row->id.device);
	row->driver = text_keep(&rows->strings, names.driver);
	row->vq = text_keep(&rows->strings, names.vq);
	row->device = text_keep(&rows->strings, device);
	return row->driver && row->vq && row->device ? 0 : -ENOMEM;
}

static struct virtio_row *new_row(struct virtio_rows *rows, const struct virtio_known *of)
{
	struct virtio_row *row = ARRAY_ADD(rows->rows, rows->n);

	if (!row)
		return NULL;
	row->id = of->id;
	return name_row(rows, row, of->names) ? NULL : row;
}

int virtio_rows_add(struct virtio_rows *rows, const struct virtio_known *of,
		    const struct virtio_value *v)
{
	struct virtio_row *row = new_row(rows, of);

	if (!row)
		return -ENOMEM;
	row->in_sgs = v->in_sgs;
	row->out_sgs = v->out_sgs;
	row->in_bytes = v->in_bytes;
	row->out_bytes = v->out_bytes;
	row->buffers = v->buffers;
	row->used_bytes = v->used_bytes;
	row->timed = v->timed;
	row->time_ns = v->time_ns;
	return 0;
}

int virtio_rows_add_latency(struct virtio_rows *rows, const struct virtio_known *of,
			    const struct virtio_lat *lat)
{
	struct virtio_row *row = new_row(rows, of);

	if (!row)
		return -ENOMEM;
	row->latency = calloc(1, sizeof(*row->latency));
	if (!row->latency)
		return -ENOMEM;
	row->latency->max = lat->max_ns;
	for (size_t i = 0; i < HIST_LOG2_SLOTS; i++) {
		row->latency->log2[i] = lat->log2[i];
		row->latency->count += lat->log2[i];
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct virtio_id *x = &((const struct virtio_row *)a)->id;
	const struct virtio_id *y = &((const struct virtio_row *)b)->id;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->vq != y->vq)
		return x->vq < y->vq ? -1 : 1;
	return (x->type > y->type) - (x->type < y->type);
}

static void join_latency(struct virtio_row *to, struct virtio_row *from)
{
	if (!from->latency)
		return;
	if (!to->latency) {
		to->latency = from->latency;
		from->latency = NULL;
		return;
	}
	for (size_t i = 0; i < HIST_LOG2_SLOTS; i++)
		to->latency->log2[i] += from->latency->log2[i];
	to->latency->count += from->latency->count;
	if (from->latency->max > to->latency->max)
		to->latency->max = from->latency->max;
	free(from->latency);
	from->latency = NULL;
}

static void join(struct virtio_row *to, struct virtio_row *from)
{
	to->in_sgs += from->in_sgs;
	to->out_sgs += from->out_sgs;
	to->in_bytes += from->in_bytes;
	to->out_bytes += from->out_bytes;
	to->buffers += from->buffers;
	to->used_bytes += from->used_bytes;
	to->timed += from->timed;
	to->time_ns += from->time_ns;
	join_latency(to, from);
}

/* Sorts, and leaves one row per queue. */
static void join_all(struct virtio_rows *rows)
{
	size_t used = 0;

	qsort(rows->rows, rows->n, sizeof(*rows->rows), compare);
	for (size_t i = 1; i < rows->n; i++) {
		if (compare(&rows->rows[used], &rows->rows[i]) == 0)
			join(&rows->rows[used], &rows->rows[i]);
		else
			rows->rows[++used] = rows->rows[i];
	}
	rows->n = used + 1;
}

static bool is_shown(const struct virtio_row *row, bool extended)
{
	return row->in_sgs || row->out_sgs || (extended && row->buffers) || row->latency;
}

static void drop_unused(struct virtio_rows *rows, bool extended)
{
	size_t used = 0;

	for (size_t i = 0; i < rows->n; i++)
		if (is_shown(&rows->rows[i], extended))
			rows->rows[used++] = rows->rows[i];
	rows->n = used;
}

void virtio_rows_finish(struct virtio_rows *rows, bool extended)
{
	if (!rows->n)
		return;
	join_all(rows);
	drop_unused(rows, extended);
	for (size_t i = 0; i < rows->n; i++)
		if (rows->rows[i].latency)
			rows->rows[i].latency->total = rows->rows[i].time_ns;
}

void virtio_rows_clear(struct virtio_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		free(rows->rows[i].latency);
	rows->n = 0;
}

void virtio_rows_free(struct virtio_rows *rows)
{
	virtio_rows_clear(rows);
	free(rows->rows);
	text_set_free(&rows->strings);
	memset(rows, 0, sizeof(*rows));
}
