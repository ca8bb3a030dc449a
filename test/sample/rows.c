// SPDX-License-Identifier: GPL-2.0-or-later
#include "test/sample/rows.h"

#include <errno.h>
#include <stdlib.h>

#include "output/columns.h"
#include "core/base/array.h"

#define ROW struct sample_row

static const struct column columns[] = {
	LABEL(disk, "DISK", 8, "disk, named as in /proc/diskstats"),
	COUNTER(requests, "REQUESTS", 8, "requests", "requests issued in the interval"),
	COUNTER(bytes, "BYTES", 12, "bytes", "bytes they ask for"),
};

const struct schema sample_schema = SCHEMA(columns, ROW);

static struct sample_row *row_of(struct sample_rows *rows, uint32_t dev)
{
	struct sample_row *row;

	for (size_t i = 0; i < rows->n; i++)
		if (rows->rows[i].dev == dev)
			return &rows->rows[i];
	row = ARRAY_ADD(rows->rows, rows->n);
	if (row)
		row->dev = dev;
	return row;
}

int sample_rows_add(void *ctx, const void *key, const void *value)
{
	const struct sample_value *from = value;
	struct sample_row *row = row_of(ctx, ((const struct sample_key *)key)->dev);

	if (!row)
		return -ENOMEM;
	row->requests += from->requests;
	row->bytes += from->bytes;
	return 0;
}

void sample_rows_finish(struct sample_rows *rows, struct disks *disks)
{
	for (size_t i = 0; i < rows->n; i++)
		rows->rows[i].disk = disks_name(disks, rows->rows[i].dev);
}
