/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The interface of an output format, and the list of formats. */
#ifndef IOTRACE_OUTPUT_RENDERER_H
#define IOTRACE_OUTPUT_RENDERER_H

#include "core/base/error.h"
#include "output/recording.h"

/*
 * An output format of a run, or its recording: each is a file of output/.
 *
 * Call begin() once, then for each interval interval() and losses(), then end().  Every function
 * returns 0, or -errno of the renderer's stream with @err unchanged, or -errno with @err filled.
 * Arguments belong to the caller and need not outlive the call.
 */

/* A run before its first interval. */
struct render_head {
	const struct recording_head *recorded;
	const struct recording_table *tables; /* as drained */
	size_t n_tables;
	const struct schema *schema; /* of the displayed rows */
};

/* An interval: the drained data, and the rows to display. */
struct render_interval {
	struct interval interval;
	const struct recording_interval *drained;
	const struct schema *schema;
	const void *rows;
	size_t n;
	/* The further tables, @n_more of them; their rows are the drained ones. */
	const struct recording_table *more;
	size_t n_more;
};

struct renderer;

/* Each may be NULL. */
struct renderer_ops {
	int (*begin)(struct renderer *r, const struct render_head *head, struct error *err);
	int (*interval)(struct renderer *r, const struct render_interval *in, struct error *err);
	int (*losses)(struct renderer *r, const struct interval *interval, struct error *err);
	int (*end)(struct renderer *r, struct error *err);
	bool says_all; /* notes and losses are part of its output */
	bool must_end; /* without end() the output is no file of its format, and memory is left */
	bool own_text; /* struct text_view replaces the rows, if it has a body() */
};

struct renderer {
	const struct renderer_ops *ops;
	FILE *stream;		      /* the caller's */
	bool appends;		      /* CSV: the stream has its header line already */
	const struct text_view *text; /* text; NULL: a table */
	void *own;		      /* of the format, until end() or an error */
	bool slots;		      /* CSV: for iotrace itself, see csv_renderer */
};

/* The text of a subcommand in addition to the table, or (body) instead of it; NULL: none. 0, or
 * -errno of the stream, or, from body(), -errno with @err. */
struct text_view {
	void *ctx; /* of the functions */
	int (*begin)(void *ctx, FILE *stream);
	int (*head)(void *ctx, const struct recording_interval *in, FILE *stream);
	int (*body)(void *ctx, const struct render_interval *in, FILE *stream, struct error *err);
	int (*tail)(void *ctx, const struct render_interval *in, FILE *stream);
	int (*end)(void *ctx, FILE *stream);
	size_t head_lines; /* number of lines of head() */
	/* The stream is a terminal, and each interval has an empty screen: losses are at its top,
	 * where they stay visible, and only the rows that fit are printed. */
	bool clears;
	/* Widths of the schema's columns so far, all 0 initially: no table is narrower than the
	 * previous one.  NULL: each is as wide as its own rows need. */
	size_t *widths;
};

/* The renderer of @format. */
struct renderer renderer_of(enum format format, FILE *stream);

int renderer_begin(struct renderer *r, const struct render_head *head, struct error *err);
int renderer_interval(struct renderer *r, const struct render_interval *in, struct error *err);
int renderer_losses(struct renderer *r, const struct interval *interval, struct error *err);
int renderer_end(struct renderer *r, struct error *err);

/*
 * Text: a table for each interval.  Losses go to standard error, one line for each that is not 0.
 * JSON: a line of metadata, then one line for each interval:
 * {"type":"interval","start":S.NNNNNNNNN,"end":...,"rows":[...],"losses":{...}}; losses that are 0
 * are absent.  A further table that has rows is a list like "rows".
 * CSV: a header line, then one line for each row, beginning with start and end.  Losses: like text.
 * With renderer.slots histograms are cells, "SLOT:COUNT;SLOT:COUNT" of the fine slots, strings are
 * exact, and an interval without rows is a line with its times only.
 */
extern const struct renderer_ops text_renderer, json_renderer, csv_renderer;

/*
 * A trace for ui.perfetto.dev, in the JSON format of chrome://tracing: one object for the whole
 * run.  Each row, a request with columns `disk`, `op`, `time` and `total_ns`, is a slice on a lane
 * of its disk, with the phases in it; its arguments are the row of --json.  Rows without a `time`,
 * sums with `count`, `total_ns` and `p99_ns`, are counters by their labels.  Losses: like text.
 */
extern const struct renderer_ops perfetto_renderer;

#endif
