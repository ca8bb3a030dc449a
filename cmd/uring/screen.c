// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/uring/screen.h"

#include "cmd/uring/rows.h"
#include "core/base/array.h"

#define LABELS 4

/* By all, by process and operation, by process, by operation. */
static size_t columns_by(void *ctx, size_t i, struct column columns[TABLE_SCREEN_COLUMNS])
{
	static const char *const left_out[][LABELS] = {
		{ "", "", "", "" },
		{ "ring", "mode", "", "" },
		{ "ring", "mode", "op", "" },
		{ "ring", "mode", "pid", "comm" },
	};

	(void)ctx;
	if (i >= ARRAY_SIZE(left_out))
		return 0;
	return table_screen_pick(&uring_schema, left_out[i], LABELS, false, columns);
}

const struct table_screen_spec uring_screen = {
	.kind = { .all = &uring_schema },
	.none = "no I/O by io_uring",
	.instead = "text, without --screen",
	.most = 4096,
	.graphs = { "count", "more" },
	.order = "count",
	.by = columns_by,
};
