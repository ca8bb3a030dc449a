// SPDX-License-Identifier: GPL-2.0-or-later
#include "test/sample/rows.h"

#include <errno.h>
#include <stdlib.h>

#define AT(member) offsetof(struct sample_row, member)

static const struct column columns[] = {
	{ "disk", "DISK", COLUMN_STR, ROLE_LABEL, "", "disk, named as in /proc/diskstats", AT(disk),
	  8, true, NULL },
	{ "requests", "REQUESTS", COLUMN_U64, ROLE_COUNTER, "requests",
	  "requests issued in the interval", AT(requests), 8, false, NULL },
	{ "bytes", "BYTES", COLUMN_U64, ROLE_COUNTER, "bytes", "bytes they ask for", AT(bytes), 12,
	  false, NULL },
};

const struct schema sample_schema = {
	columns,
	sizeof(columns) / sizeof(columns[0]),
	sizeof(struct sample_row),
};

const struct schema *sample_columns(size_t i, const char **with)
{
	*with = "";
	return i ? NULL : &sample_schema;
}

static struct sample_row *row_of(struct sample_rows *rows, uint32_t dev)
{
	struct sample_row *more;

	for (size_t i = 0; i < rows->n; i++)
		if (rows->rows[i].dev == dev)
			return &rows->rows[i];
	more = reallocarray(rows->rows, rows->n + 1, sizeof(*more));
	if (!more)
		return NULL;
	rows->rows = more;
	more[rows->n] = (struct sample_row){ .dev = dev };
	return &more[rows->n++];
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
