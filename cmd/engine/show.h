/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sends outputs to the renderer, to the file of -o and to a recording; replays a recording. */
#ifndef IOTRACE_CMD_ENGINE_SHOW_H
#define IOTRACE_CMD_ENGINE_SHOW_H

#include <stddef.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "cmd/cli/args.h"
#include "core/isolation/outfile.h"
#include "output/renderer.h"

/*
 * Shows the drained rows of a subcommand, the same way in a run, where they may be recorded as
 * well, and from a recording.
 *
 *   a run:     show_open(), show_start(), show_output() for each, show_close()
 *   a replay:  show_replay()
 */

struct rerecord;
struct show;
struct table_screen_spec;

/* An option that affects the output: it is stored in the recording, and read from there unless it
 * is given with --replay. */
struct show_setting {
	const char *name; /* NULL ends a table */
	int key;	  /* own option (struct args_spec); 0: it cannot be given with --replay */
	size_t at, size;  /* in @ctx, an unsigned integer, an enum or a bool */
	uint64_t max;	  /* larger values are invalid */
	int other_key;	  /* another option that sets it, too; 0: none */
};
#define SHOW_SETTING(type, name, key, member, max)                                                 \
	{                                                                                          \
		name, key, offsetof(type, member), sizeof(((type *)0)->member), max                \
	}

/* The output of a subcommand, in a run and from a recording; its functions get its structure, @ctx.
 * Functions that return int return 0, or -errno with @err.  All except @columns and @tables may be
 * NULL. */
struct tool_view {
	/* The one table, "rows", whose columns are the same whatever the options are; otherwise
	 * NULL, and columns() and tables() declare it. */
	const struct schema *schema;
	/* The columns of variant @i, with the options that *@with names: "" for the first, the
	 * columns without any option.  A variant that lacks no column of the earlier ones has them
	 * all.  NULL after the last. */
	const struct schema *(*columns)(size_t i, const char **with);
	/* Declares show->tables: their columns may depend on the settings.  It may change @show's
	 * own copies. */
	void (*tables)(void *ctx, struct show *show);
	const struct show_setting *settings;
	/* A replay: do its options go with the settings? */
	int (*check)(void *ctx, struct error *err);
	/* A replay with options that choose among the @n rows (cmd/engine/narrow.h): these are
	 * left, or (--by, @joined) were added up.  Restores their order, and figures of several
	 * rows. 0 or -errno. */
	int (*narrowed)(void *ctx, void *rows, size_t n, bool joined);
	/* How one row is added to another, by --by; NULL: by the roles of its columns. 0 or
	 * -ENOMEM. */
	int (*join)(void *to, const void *from);
	/* An interval has arrived, from the run or a recording. */
	int (*take)(void *ctx, const struct recording_interval *in, struct error *err);
	/* The rows to display, instead of the first table's; *@own is freed afterwards.  Not called
	 * for text with a body of its own. */
	int (*rows)(void *ctx, struct render_interval *in, void **own, struct error *err);
	/* The interval was displayed, or could not be. */
	void (*done)(void *ctx, const struct recording_interval *in);
	struct text_view text; /* its ctx is @ctx */
	/* The columns of the first table whose sum is the number of events that were counted; the
	 * losses (keys; NULL ends) that are not events; those whose events are in the rows, too,
	 * only without all of their data. */
	const char *events[2];
	const char *const *not_events, *const *in_rows;
	bool moments; /* each row is a moment, and is not added up with rows of other intervals */
	/* Printed on standard error at the end of a run without any row or loss. */
	const char *empty;
	/* A file named by an option, written in addition to the last output by write(), -errno;
	 * without write(), by the subcommand itself, instead of the output.  @caption: what the
	 * numbers are from: kernel, date, time, losses. */
	struct {
		const char *option; /* NULL: none */
		size_t at;	    /* its name, a const char *, in @ctx */
		int (*write)(void *ctx, const char *caption, const struct render_interval *in,
			     FILE *stream);
	} file;
	/* A recording of another subcommand, of which it makes one output, at the end. */
	struct {
		const char *subcommand;	     /* NULL: none */
		const struct schema *schema; /* for its table "rows" */
		/* Is it of use? */
		int (*check)(void *ctx, const struct recording_reader *reader, struct error *err);
		/* An interval of it has arrived. */
		int (*take)(void *ctx, const struct recording_interval *in, struct error *err);
		/* The rows and losses of the output, whose times are filled in. */
		int (*give)(void *ctx, struct recording_interval *out, struct error *err);
	} other;
	/* The full screen, if args.screen requests it. */
	const struct table_screen_spec *screen;
};

#define SHOW_HOOKS 160

struct show {
	const struct args *args;
	const char *subcommand;
	const struct tool_view *view;
	void *ctx; /* ctx of its functions */
	struct recording_table tables[RECORDING_TABLES];
	size_t n_tables;
	const struct schema *schema; /* for the displayed rows; NULL: for the first table */
	/* See @view, unless tables() changes it. */
	struct text_view text;
	const char *empty;
	/* The renderer: the format's before tables(), which may change it. */
	struct renderer *display;
	/* Its stream: standard output or the file of -o, from show_open() on. */
	FILE *stream;
	struct table_screen *screen; /* replaces it; NULL: none */
	bool started;		     /* the beginning was written: the end may follow */
	/* Private: */
	bool seen;	       /* a row, or a loss */
	uint64_t begin_ns;     /* of the first output; 0: none yet */
	int64_t first_day;     /* of clock_day(), and 1; 0: not known yet */
	uint64_t lost, events; /* so far: struct interval */
	bool dated;	       /* it has gone beyond midnight, or will */
	struct renderer of_format;
	struct meta about;
	struct meta_hook hooks[SHOW_HOOKS];
	struct utsname uts;
	char boot[40];
	struct outfile extra_file; /* view->file */
	struct outfile file;
	struct recorder *recorder; /* NULL: not recorded, or no more */
	struct rerecord *rerecord; /* a replay with args.rerecord */
	FILE *rerecord_to;
	bool recorded; /* something was counted, and is in the recording */
};

/* The columns of variant @i: tool_view.columns. */
const struct schema *view_columns(const struct tool_view *view, size_t i, const char **with);

/* A recording of @show's run that begins now: its head is written to @stream, which stays the
 * caller's.  0, or -errno of the stream, or -ENOMEM; recorder_close(*out) if it is 0. */
int show_recorder(const struct show *show, FILE *stream, struct recorder **out);

/* Sets @show's fields from its view, and calls its tables(). */
void show_tables(struct show *show);

/* The recorded data must live as long as @show.  @hooks, @n: from choices_meta().  Opens the files
 * of --record, -o and the view, if given. -errno with @err. */
int show_open(struct show *show, const struct meta_hook *hooks, size_t n, const char *const *notes,
	      size_t n_notes, struct error *err);

/* Are both the same file, by any name, also one that does not exist yet? */
bool show_is_one_file(const char *a, const char *b);

/* The first line; with -o it empties the file.  For run_emit, with a struct show. */
int show_start(void *show, struct error *err);

/* The end of the text. 0 or -errno, see show_error(); for run_guarded(). */
int show_end(void *show);

/* Is the output on a terminal that can be cleared?  False without output. */
bool show_on_terminal(const struct show *show);

/* Records @in, whose time zone is filled in, and prints it; the last one ends the recording. 0, or
 * -errno of standard output, or -errno with @err. */
int show_output(struct show *show, struct recording_interval *in, struct error *err);

/* Fills @err for an error @r of the stream that shows the intervals, unless that is standard
 * output, whose errors the caller reports, or the file of -o whose reader has gone or does not read
 * (-EPIPE, -EINTR: like for standard output), or @err is filled already.  Returns @r. */
int show_error(const struct show *show, int r, struct error *err);

/* Closes the file of -o, and the recording, which has no end if @status is not 0 before the last
 * output; returns @status, or the status of an error which it reports. */
int show_close(struct show *show, int status);

/* --replay: all of it.  Returns the exit status; errors are reported. */
int show_replay(struct show *show);

#endif
