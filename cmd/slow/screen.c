// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/slow/screen.h"

#include <string.h>

#include "cmd/slow/rows.h"

/* Each I/O is a row of its own. */
static size_t columns_by(void *ctx, size_t i, struct column columns[TABLE_SCREEN_COLUMNS])
{
	const struct schema *schema = &slow_schemas[0];

	(void)ctx;
	if (i)
		return 0;
	memcpy(columns, schema->columns, schema->n * sizeof(*columns));
	return schema->n;
}

static const char *order(void *ctx)
{
	(void)ctx;
	return "total_ns";
}

const struct table_screen_spec slow_screen = {
	.kind = { .all = &slow_schemas[0], .apart = true },
	.none = "no slow I/O so far",
	.instead = "text, without --screen",
	.most = 10000,
	.accumulates = true,
	.order = order,
	.by = columns_by,
};
