/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows of iotrace stuck: requests, disks, and groups of threads. */
#ifndef IOTRACE_CMD_STUCK_ROWS_H
#define IOTRACE_CMD_STUCK_ROWS_H

#include "cmd/block/stuck_row.h"
#include "cmd/stuck/names.h"
#include "cmd/stuck/walk.h"
#include "core/base/text.h"
#include "core/system/kallsyms.h"
#include "output/schema.h"

/* What a row is about, in its column `kind`. */
extern const char stuck_kind_request[], stuck_kind_disk[], stuck_kind_threads[];

/* All columns; and the columns of the text's tables of requests and of disks. */
extern const struct schema stuck_schema, stuck_request_schema, stuck_disk_schema;

struct stuck_input {
	struct stuck_tables names;
	const struct kallsyms *kallsyms; /* NULL: functions have no names */
	uint64_t min_ns;
	const uint32_t *devs; /* -d: the disks, and the devices stacked on them */
	size_t n_devs;	      /* 0: all */
};

struct stack_text;

struct stuck_rows {
	struct stuck_row *rows;
	size_t n;
	struct text_set texts;
	struct stack_text *stacks;
};

/* Makes rows of what @w has found.  0 or -ENOMEM. */
int stuck_rows_make(struct stuck_rows *rows, const struct stuck_walk *w,
		    const struct stuck_input *input);
void stuck_rows_clear(struct stuck_rows *rows);
void stuck_rows_free(struct stuck_rows *rows);

#endif
