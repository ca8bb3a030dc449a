/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_BREAKDOWN_H
#define IOTRACE_CMD_BREAKDOWN_BREAKDOWN_H

#include "cmd/breakdown/calls_layer.h"
#include "cmd/breakdown/options.h"
#include "cmd/breakdown/rows.h"
#include "cmd/breakdown/table.h"
#include "cmd/tool.h"
#include "probes/breakdown_blk.h"

/*
 * iotrace breakdown is two tools with one set of options and one view: -T blk is blk_layer.c, all
 * else calls.c.
 */

/* -T blk: its histograms. */
struct blk_layer {
	struct probe_hist *mapped; /* the map itself: per CPU, buffer and operation */
	size_t mapped_size;
	uint32_t n_cpus;
	bool own_start;		    /* some queue keeps no start times: we do */
	struct hist hists[BLK_OPS]; /* of the last interval */
	struct breakdown_row rows[BLK_OPS];
};

/* The layers above it, or all. */
struct calls {
	struct calls_layer layer;
	bool stopped;
	unsigned int tried; /* bits of the layers that are hooked, or cannot be */
	struct table_row table[TABLE_ROWS_MAX];
	struct breakdown_row rows[SYSCALLS + LAYERS * CALL_OPS];
};

struct breakdown {
	struct breakdown_options o;
	bool combined; /* the table of all layers: rows are struct table_row, else breakdown_row */
	uint64_t unit_ns; /* o.unit */
	struct blk_layer blk;
	struct calls calls;
};

extern const struct tool breakdown_blk_tool, breakdown_calls_tool;

/* breakdown.c: what both have. */
int breakdown_tool_options(int argc, char **argv, void *ctx, struct error *err);
#define BREAKDOWN_SETTINGS 2
extern const struct tool_setting breakdown_settings[BREAKDOWN_SETTINGS];

/* show.c */
extern const struct tool_view breakdown_view;

#endif
