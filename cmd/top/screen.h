/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Properties of its rows for the full screen; processes that have exited. */
#ifndef IOTRACE_CMD_TOP_SCREEN_H
#define IOTRACE_CMD_TOP_SCREEN_H

#include "cmd/engine/table_screen.h"
#include "cmd/top/rows.h"
#include "core/naming/command_lines.h"

/* The full screen of top; its ctx begins with this. */
struct top_shown {
	struct top_options o;		/* of the run */
	struct top_options *options;	/* of the initial rows */
	by_keys rows;			/* grouping keys of the rows; 0: like without --by */
	struct command_lines *commands; /* NULL: not shown */
};

extern const struct table_screen_spec top_screen;

/* Marks the rows of @now whose process has exited.  Rows of @before that were not marked, and whose
 * process has exited without a row in @now, are added, without I/Os. 0 or -ENOMEM. */
int top_mark_gone(struct pivot_rows *now, const struct pivot_rows *before,
		  bool (*exists)(uint32_t pid));

#endif
