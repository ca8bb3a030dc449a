/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_ENGINE_TABLE_SCREEN_H
#define IOTRACE_CMD_ENGINE_TABLE_SCREEN_H

#include "output/pivot.h"
#include "output/renderer.h"

/*
 * The full screen of a subcommand whose rows are a table: its keys sort, filter, add up, freeze and
 * step through a recording, in the same way for every schema.
 */

#define TABLE_SCREEN_COLUMNS 40

/* A subcommand's description of its table.  @ctx: see table_screen_open(). */
struct table_screen_spec {
	struct pivot_kind kind;
	/* All columns, instead of kind.all; NULL: kind.all. */
	const struct schema *(*all)(void);
	/* Key of the initial sort column, or how to find it; both NULL: rows are not sorted. */
	const char *order;
	const char *(*order_of)(void *ctx);
	const char *none;    /* displayed if there are no rows: "no I/O" */
	const char *instead; /* the option that prints text, for errors: "-C" */
	const char *text;    /* name of the text next to the rows: "loadavg"; NULL: not displayed */
	/* What an interval says in addition to its rows, for the line below the title: each part
	 * behind two blanks, "" for nothing.  NULL: nothing. */
	void (*said)(const struct recording_interval *in, char *text, size_t size);
	/* What the options select, for the line below the title: safe to print, each part behind
	 * two blanks.  NULL: nothing. */
	void (*selected)(void *ctx, char *text, size_t size);
	const char *tree; /* key of a column of paths, for the key t; NULL: none */
	size_t most;	  /* limit of rows in the sum since the start */
	/* Key of the column whose largest rows stay in that sum; NULL: the initial sort column. */
	const char *largest;
	/* Each interval's rows are displayed with the rows of the intervals before. */
	bool accumulates;
	/* The sum since the start is about to get an interval: sets what @row has of the one before
	 * alone to 0.  NULL: there is nothing of that kind. */
	void (*begin_interval)(void *row);
	/* The rows to be shown are made, of a @tree or not: fills what they say of all together,
	 * as their shares.  Returns the row to be shown below them; NULL: none. */
	const void *(*made)(void *ctx, struct pivot_rows *rows, bool tree);
	/* Fills @columns with the columns of grouping @i; 0 is the initial one.  Returns how many;
	 * 0: no such grouping.  NULL: all columns, and no other grouping. */
	size_t (*by)(void *ctx, size_t i, struct column columns[TABLE_SCREEN_COLUMNS]);
	/* @row has been copied: updates columns that repeat others.  NULL: none do. */
	void (*settle)(void *ctx, void *row);
	/* The rows to be shown with the columns @shown are complete: joins some of them, and fills
	 * in texts that only the screen has.  NULL: nothing to do. */
	void (*finish)(void *ctx, struct pivot_rows *rows, const struct schema *shown);
	/* Fills @times with the times of @row; false: it has no times.  NULL: the row's histogram.
	 */
	bool (*times)(const void *row, struct hist *times);
	/* Keys of columns whose sums are graphs of the last minute; NULL: none. */
	const char *graphs[2];
	/* For a run: the rows of the interval, and of the previous one; 0 or -ENOMEM.  NULL:
	 * nothing to do. */
	int (*follow)(struct pivot_rows *now, const struct pivot_rows *before);
	/* Is @row displayed with the columns @shown?  NULL: every row. */
	bool (*is_shown)(const void *row, const struct schema *shown);
};

/* Fills @columns with those columns of @all whose key is among @keys (@with), or is not.  Returns
 * how many. */
size_t table_screen_pick(const struct schema *all, const char *const *keys, size_t n_keys,
			 bool with, struct column columns[TABLE_SCREEN_COLUMNS]);

struct table_screen;
struct bpf_object;
struct run;
struct screen;
struct tool_run;
struct trigger_events;

/* 0 or -ENOMEM. */
int table_screen_open(const struct table_screen_spec *spec, void *ctx, const char *subcommand,
		      struct table_screen **out);

/* Gives the terminal back.  NULL is fine. */
void table_screen_close(struct table_screen *s);

/* Call before the renderer's begin().  @live: not a replay.  @interval_ns: between two outputs. */
void table_screen_set(struct table_screen *s, bool live, uint64_t interval_ns);

/* A replay: the triggers that keys go to; NULL: none.  They must live until it is set again. */
void table_screen_triggers(struct table_screen *s, const struct trigger_events *triggers);

/* Valid as long as the screen. */
struct renderer *table_screen_renderer(struct table_screen *s);

/* For a run: handles keys from now on, and sets the interval of @t. -errno with @err. */
int table_screen_watch(struct table_screen *s, struct tool_run *t, struct error *err);

/* A replay: called after each interval (@end is NULL), and again and again once there is no other
 * (@end is "", or a text that says that the rest cannot be read); waits for keys until the next one
 * is wanted.  False: the replay ends. */
bool table_screen_step(struct table_screen *s, const char *end);

/* What the next output shows if it has no rows, instead of spec->none; NULL: that.  Copied. */
void table_screen_none(struct table_screen *s, const char *text);

/* Stores the CPU time of @obj's programs so far, before each output; NULL: no object. */
void table_screen_cost(struct table_screen *s, const struct bpf_object *obj);

#endif
