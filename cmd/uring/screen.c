// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/uring/screen.h"

#include <string.h>

#include "cmd/uring/rows.h"
#include "core/base/array.h"

#define LABELS 4

/* By all, by process and operation, by process, by operation. */
static size_t columns_by(void *ctx, size_t i, struct column columns[TABLE_SCREEN_COLUMNS])
{
	static const char *const left_out[][LABELS] = {
		{ "" },
		{ "ring", "mode" },
		{ "ring", "mode", "op" },
		{ "ring", "mode", "pid", "comm" },
	};
	size_t n = 0, label;

	(void)ctx;
	if (i >= ARRAY_SIZE(left_out))
		return 0;
	for (size_t c = 0; c < uring_schema.n; c++) {
		for (label = 0; label < LABELS && left_out[i][label]; label++)
			if (strcmp(uring_schema.columns[c].key, left_out[i][label]) == 0)
				break;
		if (label == LABELS || !left_out[i][label])
			columns[n++] = uring_schema.columns[c];
	}
	return n;
}

static const char *order(void *ctx)
{
	(void)ctx;
	return "count";
}

const struct table_screen_spec uring_screen = {
	.kind = { .all = &uring_schema },
	.none = "no I/O by io_uring",
	.instead = "text, without --screen",
	.most = 4096,
	.graphs = { "count", "more" },
	.order = order,
	.by = columns_by,
};
