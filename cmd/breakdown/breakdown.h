/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A run of iotrace breakdown, shared by its files. */
#ifndef IOTRACE_CMD_BREAKDOWN_BREAKDOWN_H
#define IOTRACE_CMD_BREAKDOWN_BREAKDOWN_H

#include "cmd/block/base.h"
#include "cmd/breakdown/balance.h"
#include "cmd/breakdown/calls_layer.h"
#include "cmd/breakdown/keyed.h"
#include "cmd/breakdown/options.h"
#include "cmd/breakdown/rows.h"
#include "cmd/breakdown/table.h"
#include "cmd/breakdown/value.h"
#include "cmd/engine/tool.h"
#include "core/isolation/outfile.h"
#include "output/heatmap.h"
#include "probes/breakdown_blk.h"

/*
 * iotrace breakdown is two tools with one set of options and one view: -T blk is blk_layer.c,
 * everything else calls.c.
 */

/* -T blk: its histograms. */
struct blk_layer {
	struct mapped_array mapped; /* of struct blk_hist: by HIST_INDEX() */
	uint32_t n_cpus;
	bool own_start; /* some queue has no start times: the programs store them */
	uint32_t rows;	/* operations; with --value VALUE_ROWS */
	struct hist_row hists[VALUE_ROWS]; /* of the last interval; --by: of (other) */
	uint64_t evicted;		   /* struct value_stream, so far */
	/* With -Q, unless requests must be followed: only completions have a program. */
	bool balances;
	struct balance balance;
	struct mapped_array cpus; /* of struct blk_cpu */
	uint64_t drained;	  /* all completions that `mapped` had before */
};

/* The layers above it, or all. */
struct calls {
	struct calls_layer layer;
	bool stopped;
	unsigned int tried; /* bits of the layers that are hooked, or cannot be hooked */
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
};

extern const struct tool breakdown_blk_tool, breakdown_value_tool, breakdown_calls_tool;

/* Their common fields; to be written within their declaration. */
#define BREAKDOWN_TOOL                                                                             \
	.name = "breakdown", BLOCK_TOOL(struct breakdown, o),                                      \
	.flags = TOOL_NAMES | TOOL_DOUBLE_BUFFER, .view = &breakdown_view,                         \
	.options = breakdown_tool_options, .prepare = breakdown_prepare,                           \
	.end_output = breakdown_end_output

/* breakdown.c: the common part. */
int breakdown_tool_options(struct tool_run *run, int argc, char **argv, struct error *err);

/* --by, of both. */
int breakdown_prepare(struct tool_run *run, struct error *err);
void breakdown_keeps(struct tool_run *run);
/* Drains the counts by key, with the names, and adapts the time until the next drain. 0 or
 * -errno. */
int breakdown_drain_keyed(struct tool_run *run, int inactive);
/* Fills @rows with the rows of @cells, by row; NULL cells are skipped.  Returns how many. */
typedef size_t breakdown_fill(const struct breakdown *b, const struct hist_row *const *cells,
			      struct breakdown_row *rows);

/* The rows of an output, with --by key by key. -ENOMEM with @err. */
int breakdown_rows(struct tool_run *run, breakdown_fill *fill, struct recording_interval *out,
		   struct error *err);
void breakdown_end_output(struct tool_run *run, bool last);
void breakdown_free_keyed(struct breakdown *b);

/* heatmap.c: adds an interval; prints what there is, once or (b->live) each time; writes a picture
 * of it.  -errno with @err, or of the stream. */
int breakdown_heatmap_take(struct breakdown *b, const struct recording_interval *in,
			   struct error *err);
int breakdown_heatmap_print(const struct breakdown *b, const struct recording_interval *in,
			    FILE *stream, struct error *err);
int breakdown_heatmap_write(void *ctx, const char *caption, const struct render_interval *in,
			    FILE *stream);
int breakdown_begin(struct tool_run *run, struct error *err);

/* show.c */
extern const struct tool_view breakdown_view;

#endif
