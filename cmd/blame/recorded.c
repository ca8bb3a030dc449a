// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/blame/recorded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "output/columns.h"

struct recorded_row {
	uint64_t time, admit_ns, queue_ns, device_ns, bytes;
	uint32_t pid, lost;
	bool writeback;
	const char *comm, *cgroup, *unit, *container, *user, *disk, *op, *file;
};

#define ROW struct recorded_row

/* As slow declares them. */
static const struct column columns[] = {
	COLUMN(LABEL, "time", time, NULL, 0, "ns", ""),
	LABEL(pid, NULL, 0, ""),
	LABEL(comm, NULL, 0, ""),
	LABEL(disk, NULL, 0, ""),
	LABEL(op, NULL, 0, ""),
	GAUGE(bytes, NULL, 0, "bytes", ""),
	GAUGE(admit_ns, NULL, 0, "ns", ""),
	GAUGE(queue_ns, NULL, 0, "ns", ""),
	GAUGE(device_ns, NULL, 0, "ns", ""),
	LABEL(cgroup, NULL, 0, ""),
	LABEL(unit, NULL, 0, ""),
	LABEL(container, NULL, 0, ""),
	COLUMN(LABEL, "user_name", user, NULL, 0, "", ""),
	LABEL(file, NULL, 0, ""),
	LABEL(writeback, NULL, 0, ""),
	GAUGE(lost, NULL, 0, "", ""),
};

const struct schema recorded_schema = SCHEMA(columns, struct recorded_row);

int recorded_check(const struct recording_reader *reader, const struct blame_options *o,
		   struct error *err)
{
	const bool users = keys_have(o->by, KEY_USER);
	const char *what = NULL;

	if (recording_reader_setting(reader, "fsync", 0))
		what = "the recording of slow has fsyncs, not I/Os";
	else if (recording_reader_setting(reader, "min_ns", 0) ||
		 recording_reader_setting(reader, "most", 0))
		what = "the recording of slow lacks the faster I/Os";
	else if (recording_reader_setting(reader, "filtered", 0))
		what = "the recording of slow lacks I/Os (-p, --cgroup, COMMAND or a partition)";
	else if (users && !keys_have(recording_reader_setting(reader, "by", 0), KEY_USER))
		what = "the recording of slow has no users";
	if (!what)
		return 0;
	error_set(err, STATUS_USAGE, -EINVAL, "%s", what);
	error_hint(err, "record with `iotrace slow -m 0%s`", users ? " --by user" : "");
	return -EINVAL;
}

static int add_row(struct blame_rows *rows, const struct blame_options *o,
		   const struct recorded_row *row)
{
	const struct key_labels labels = { .disk = row->disk,
					   .comm = row->comm,
					   .cgroup = row->cgroup,
					   .unit = row->unit,
					   .container = row->container,
					   .user = row->user,
					   .file = row->file,
					   .pid = row->pid };
	struct blame_io io = { .arrival = row->time,
			       .admit = row->admit_ns,
			       .queue = row->queue_ns,
			       .device = row->device_ns,
			       .weight = blame_weight(o, row->op, row->bytes),
			       .uncounted = o->fsync };
	struct blame_disk *disk = blame_disk_of(rows, row->disk);
	uint64_t end;
	int r;

	/* No times that such a file has can be added up to more. */
	if (__builtin_add_overflow(io.arrival, io.admit, &end) ||
	    __builtin_add_overflow(end, io.queue, &end) ||
	    __builtin_add_overflow(end, io.device, &end) || end == UINT64_MAX) {
		rows->full++;
		return 0;
	}
	if (!disk)
		return 0;
	r = blame_label(rows, o, disk, &labels, row->writeback, &io.owner);
	if (!r)
		r = blame_sweep_add(disk->sweep, &io);
	if (!r && rows->room.kept > BLAME_KEPT_MAX && end > BLAME_DELAY_MAX_NS)
		r = blame_sweep_to(disk->sweep, end - BLAME_DELAY_MAX_NS);
	return r;
}

static int add_loss(struct recorded *r, const struct loss *loss)
{
	size_t k = 0;

	while (k < r->n_losses && strcmp(r->losses[k].key, loss->key) != 0)
		k++;
	if (k == RECORDED_LOSSES)
		return 0;
	if (k == r->n_losses) {
		r->losses[k] = (struct loss){ .key = text_keep(&r->texts, loss->key),
					      .text = text_keep(&r->texts, loss->text) };
		if (!r->losses[k].key || !r->losses[k].text)
			return -ENOMEM;
		r->n_losses++;
	}
	r->losses[k].count += loss->count;
	return 0;
}

static int add_losses(struct recorded *r, const struct interval *in)
{
	int code = 0;

	for (size_t i = 0; !code && i < in->n_losses; i++)
		code = add_loss(r, &in->losses[i]);
	return code;
}

int recorded_take(struct recorded *r, struct blame_rows *rows, const struct blame_options *o,
		  const struct recording_interval *in)
{
	int code = add_losses(r, &in->interval);

	for (size_t i = 0; !code && i < in->tables[0].n; i++) {
		const struct recorded_row *row =
		    (const struct recorded_row *)in->tables[0].rows + i;

		r->lost += row->lost;
		code = add_row(rows, o, row);
	}
	if (!code && o->fsync)
		code = fsyncs_divide(&r->fsyncs, rows, o, &in->interval);
	return code;
}

int recorded_give(struct recorded *r, struct blame_rows *rows, struct recording_interval *out)
{
	const struct loss left = { .key = "fsyncs",
				   .text =
				       "fsyncs in no row: when no I/Os were recorded, on none of "
				       "their disks, or without room",
				   .count = fsyncs_left(&r->fsyncs) };
	int code = left.count ? add_loss(r, &left) : 0;

	for (size_t i = 0; !code && i < rows->n_disks; i++) {
		code = blame_sweep_to(rows->disks[i]->sweep, UINT64_MAX);
		r->lost += blame_sweep_losses(rows->disks[i]->sweep).missed;
	}
	if (!code)
		code = blame_rows_make(rows, r->lost);
	out->tables[0] = (struct recording_rows){ rows->rows, rows->n };
	out->interval.losses = r->losses;
	out->interval.n_losses = r->n_losses;
	return code;
}

void recorded_free(struct recorded *r)
{
	fsyncs_free(&r->fsyncs);
	text_set_free(&r->texts);
}
