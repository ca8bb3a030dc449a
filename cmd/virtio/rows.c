// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/virtio/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- columns ---- */

static void cell_latency(const void *row, char *buf, size_t size)
{
	const struct virtio_row *r = row;

	if (r->timed)
		snprintf(buf, size, "%.1fus", (double)r->time_ns / 1e3 / (double)r->timed);
	else
		snprintf(buf, size, "-");
}

#define AT(member) offsetof(struct virtio_row, member)

static const struct column base[] = {
	{ "driver", "Driver", COLUMN_STR, ROLE_LABEL, "", "driver of the device", AT(driver), 14,
	  false, NULL },
	{ "device", "Device", COLUMN_STR, ROLE_LABEL, "", "device, as in /sys/bus/virtio/devices",
	  AT(device), 8, false, NULL },
	{ "vq", "VQ Name", COLUMN_STR, ROLE_LABEL, "", "virtqueue, as its driver calls it", AT(vq),
	  10, false, NULL },
	{ "in_sgs", "In SGs", COLUMN_U64, ROLE_COUNTER, "lists",
	  "scatter-gather lists for the device to write to", AT(in_sgs), 7, false, NULL },
	{ "out_sgs", "Out SGs", COLUMN_U64, ROLE_COUNTER, "lists",
	  "scatter-gather lists for the device to read", AT(out_sgs), 7, false, NULL },
	{ "in_bytes", "In BW", COLUMN_U64, ROLE_COUNTER, "bytes",
	  "their size, for the device to write", AT(in_bytes), 14, false, NULL,
	  .help = "size of the lists for the device to write to" },
	{ "out_bytes", "Out BW", COLUMN_U64, ROLE_COUNTER, "bytes",
	  "their size, for the device to read", AT(out_bytes), 14, false, NULL,
	  .help = "size of the lists for the device to read" },
};

static const struct column extended_columns[] = {
	{ "used_bytes", "In used", COLUMN_U64, ROLE_COUNTER, "bytes",
	  "what the device says it has written", AT(used_bytes), 14, false, NULL,
	  .help = "bytes that the device says it has written" },
	{ "buffers", NULL, COLUMN_U64, ROLE_COUNTER, "buffers", "buffers that the device gave back",
	  AT(buffers), 0, false, NULL },
	{ "timed", NULL, COLUMN_U64, ROLE_COUNTER, "buffers",
	  "of these, buffers that were added since tracing began: their time is known", AT(timed),
	  0, false, NULL, .help = "buffers that the device gave back and whose time is known" },
	{ "time_ns", "Latency", COLUMN_U64, ROLE_COUNTER, "ns",
	  "time from add to get, added up over these; text shows the average", AT(time_ns), 12,
	  false, cell_latency, .help = "time from adding a buffer to getting it back, added up" },
};

static const struct column latency_column = { "slots",
					      NULL,
					      COLUMN_HIST,
					      ROLE_HISTOGRAM,
					      "ns",
					      "histogram of that time",
					      AT(latency),
					      0,
					      false,
					      NULL,
					      .help =
						  "time from adding a buffer to getting it back" };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
_Static_assert(COUNT(base) + COUNT(extended_columns) + 1 <= VIRTIO_COLUMNS, "room");

void virtio_schema(const struct virtio_options *o, struct column columns[VIRTIO_COLUMNS],
		   struct schema *schema)
{
	size_t n = COUNT(base);

	memcpy(columns, base, sizeof(base));
	for (size_t i = 0; (o->extended || o->latency) && i < COUNT(extended_columns); i++) {
		columns[n] = extended_columns[i];
		/* -L draws its histograms below a table that is the usual one. */
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
	struct virtio_row *row;

	if (rows->n == rows->room) {
		size_t room = rows->room ? rows->room * 2 : 64;
		struct virtio_row *grown = realloc(rows->rows, room * sizeof(*grown));

		if (!grown)
			return NULL;
		rows->rows = grown;
		rows->room = room;
	}
	row = &rows->rows[rows->n++];
	memset(row, 0, sizeof(*row));
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
