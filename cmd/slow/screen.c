// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/slow/screen.h"

#include "cmd/slow/rows.h"

/* Each I/O is a row of its own. */
const struct table_screen_spec slow_screen = {
	.kind = { .all = &slow_schemas[0], .apart = true },
	.none = "no slow I/O so far",
	.instead = "text, without --screen",
	.most = 10000,
	.accumulates = true,
	.order = "total_ns",
};
