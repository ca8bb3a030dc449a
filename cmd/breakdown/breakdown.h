/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BREAKDOWN_BREAKDOWN_H
#define IOTRACE_CMD_BREAKDOWN_BREAKDOWN_H

#include "cmd/breakdown/balance.h"
#include "cmd/breakdown/calls_layer.h"
#include "cmd/breakdown/keyed.h"
#include "cmd/breakdown/options.h"
#include "cmd/breakdown/rows.h"
#include "cmd/breakdown/table.h"
#include "cmd/tool.h"
#include "core/isolation/outfile.h"
#include "output/heatmap.h"
#include "probes/breakdown_blk.h"

/*
 * iotrace breakdown is two tools with one set of options and one view: -T blk is blk_layer.c, all
 * else calls.c.
 */

/* -T blk: its histograms. */
struct blk_layer {
	struct mapped_array mapped; /* of struct blk_hist: by HIST_INDEX() */
	uint32_t n_cpus;
	bool own_start;			/* some queue keeps no start times: we do */
	struct hist_row hists[BLK_OPS]; /* of the last interval; --by: of (other) */
	/* With -Q, unless requests have to be followed: only completions have a program. */
	bool balances;
	struct balance balance;
	struct mapped_array cpus; /* of struct blk_cpu */
	uint64_t drained;	  /* completions in all that `mapped` had before */
};

/* The layers above it, or all. */
struct calls {
	struct calls_layer layer;
	bool stopped;
	unsigned int tried; /* bits of the layers that are hooked, or cannot be */
};

struct breakdown {
	struct breakdown_options o;
	bool combined;	    /* the table of all layers */
	uint64_t unit_ns;   /* o.unit */
	struct keyed keyed; /* --by */
	struct keyed_rows rows;
	struct column columns[BREAKDOWN_COLUMNS_MAX];
	struct schema schema;
	struct blk_layer blk;
	struct calls calls;
	struct heatmap *heatmap;	      /* NULL: no interval yet */
	char title[BREAKDOWN_NAME_SIZE + 32]; /* of the heat map; "": no I/O yet */
	bool live; /* the heat map is drawn at each output, on a terminal */
	struct outfile svg;
	struct renderer svg_renderer;
};

extern const struct tool breakdown_blk_tool, breakdown_calls_tool;

/* What they have in common; to be written within their declaration. */
#define BREAKDOWN_TOOL                                                                             \
	.name = "breakdown", .ctx_size = sizeof(struct breakdown),                                 \
	.args_at = offsetof(struct breakdown, o.args),                                             \
	.filters_at = offsetof(struct breakdown, o.filters),                                       \
	.flags = TOOL_BLK | TOOL_NAMES | TOOL_DOUBLE_BUFFER, .args = &breakdown_args,              \
	.settings = breakdown_settings, .n_settings = BREAKDOWN_SETTINGS, .view = &breakdown_view, \
	.options = breakdown_tool_options, .replay = breakdown_heatmap_open,                       \
	.prepare = breakdown_prepare, .end_output = breakdown_end_output

/* breakdown.c: what both have. */
int breakdown_tool_options(int argc, char **argv, void *ctx, struct error *err);
#define BREAKDOWN_SETTINGS 4
extern const struct tool_setting breakdown_settings[BREAKDOWN_SETTINGS];

/* --by, of both. */
int breakdown_prepare(struct tool_run *run, struct error *err);
void breakdown_keeps(struct tool_run *run);
/* Drains what there is by key, with the names, and looks whether that has to be done more often.
 * 0 or -errno. */
int breakdown_drain_keyed(struct tool_run *run, int inactive);
/* Fills @rows with those of @cells, which are by row; one that is NULL has none.  How many. */
typedef size_t breakdown_fill(const struct breakdown *b, const struct hist_row *const *cells,
			      struct breakdown_row *rows);

/* The rows of an output, with --by key by key.  -ENOMEM with @err. */
int breakdown_rows(struct tool_run *run, breakdown_fill *fill, struct recording_interval *out,
		   struct error *err);
void breakdown_end_output(struct tool_run *run, bool last);
void breakdown_free_keyed(struct breakdown *b);

/* heatmap.c: opens the file of --heatmap, before a run or a replay; adds an interval; prints what
 * there is, once or (b->live) each time.  -errno with @err, or of the stream. */
int breakdown_heatmap_open(struct tool_run *run, struct error *err);
int breakdown_heatmap_take(struct breakdown *b, const struct recording_interval *in,
			   struct error *err);
int breakdown_heatmap_print(const struct breakdown *b, const struct recording_interval *in,
			    FILE *stream, struct error *err);
void breakdown_heatmap_free(struct breakdown *b);
int breakdown_begin(struct tool_run *run, struct error *err);

/* show.c */
extern const struct tool_view breakdown_view;

#endif
