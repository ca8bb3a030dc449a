/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_SHOW_H
#define IOTRACE_CMD_SHOW_H

#include <stdio.h>
#include <sys/utsname.h>

#include "cmd/blk.h"
#include "core/isolation/outfile.h"
#include "output/renderer.h"

/*
 * Shows the drained rows of a subcommand, the same way in a run, where they may be recorded as
 * well, and from a recording.
 *
 *   a run:     show_open(), show_start(), show_output() for each, show_close()
 *   a replay:  show_replay()
 */

/* An option that shapes what is shown: it goes into the recording, and comes from there unless it
 * is given with --replay. */
struct show_setting {
	const char *name;
	int key;       /* own option (struct args_spec); 0: it cannot be given with --replay */
	int other_key; /* another that sets it, too; 0: none */
	void *at;
	size_t size;  /* of what @at points to: an unsigned integer, an enum or a bool */
	uint64_t max; /* more is no value of it */
};

struct show {
	const struct args *args;
	const char *subcommand;
	void *ctx; /* of the functions */
	const struct show_setting *settings;
	size_t n_settings;
	/* A file that is written, too, and by which option; NULL: none. */
	const char *written, *written_by;
	bool written_beside; /* and not instead of the output */
	/* A replay: do its options go with the settings?  NULL: they do.  -errno with @err. */
	int (*check)(void *ctx, struct error *err);
	/* Declares the tables: which columns they have may depend on the settings. */
	void (*prepare)(void *ctx, struct show *show);
	/* The notes come before all else; else they come last.  JSON has them in the metadata. */
	bool notes_first;
	/* Said on standard error at the end of a run that has had no row and no loss; NULL:
	 * nothing. */
	const char *empty;
	struct recording_table tables[RECORDING_TABLES];
	size_t n_tables;
	const struct schema *schema; /* of the rows that are shown; NULL: of the first table */
	/* An interval has come, of the run or of a recording.  1: it is not shown; 0; -errno with
	 * @err.  NULL: 0. */
	int (*take)(void *ctx, const struct recording_interval *in, struct error *err);
	/* The rows to be shown, in place of the first table's; *@own is freed once they are.  Not
	 * called for text that has a body of its own.  0, or -errno with @err.  NULL: as they are.
	 */
	int (*rows)(void *ctx, struct render_interval *in, void **own, struct error *err);
	struct text_view text;
	/* A replay: called after each interval (@end is NULL), and again and again once there is no
	 * other (@end is "", or a text that says that the rest cannot be read); waits until the
	 * next one is wanted.  False: the replay is to end.  NULL: none is waited for. */
	bool (*step)(void *ctx, const char *end);
	/* It was shown, or could not be. */
	void (*done)(void *ctx, const struct recording_interval *in);
	/* What shows it: that of the format before prepare(), which may change it. */
	struct renderer *display;
	/* What it writes to: standard output or the file of -o, from show_open() on. */
	FILE *stream;
	struct renderer *beside; /* and what shows it, too; NULL: nothing */
	bool started;		 /* the first line was due: what comes last may follow */
	/* Private: */
	bool seen; /* a row, or a loss */
	struct renderer of_format;
	struct meta about;
	struct meta_hook hooks[BLK_META_HOOKS];
	struct utsname uts;
	struct outfile file;
	struct recorder *recorder; /* NULL: not recorded, or no more */
	bool recorded;		   /* something was counted, and is in the recording */
};

/* The recorded data must live as long as @show.  @hooks, @n: as choices_meta() makes them.  Opens
 * the files of --record and -o, if they are given.  -errno with @err. */
int show_open(struct show *show, const struct meta_hook *hooks, size_t n, const char *const *notes,
	      size_t n_notes, struct error *err);

/* The first line; with -o it empties the file.  For run_emit, with a struct show. */
int show_start(void *show, struct error *err);

/* The end of the text.  0 or -errno as of show_error(); for run_guarded(). */
int show_end(void *show);

/* Is the output shown on a terminal that can be cleared?  False where there is no output. */
bool show_on_terminal(const struct show *show);

/* Records @in, whose time zone is filled in, and prints it; the last one ends the recording.  0, or
 * -errno of standard output, or -errno with @err. */
int show_output(struct show *show, struct recording_interval *in, struct error *err);

/* Fills @err for an error @r of the stream that shows the intervals, unless that is standard
 * output, whose errors the caller reports, or the file of -o whose reader has gone or does not read
 * (-EPIPE, -EINTR: as of standard output), or @err is filled already.  Returns @r. */
int show_error(const struct show *show, int r, struct error *err);

/* Closes the file of -o, and the recording, which has no end if @status is not 0 before the last
 * output; returns
 * @status, or that of an error which it reports. */
int show_close(struct show *show, int status);

/* --replay: all of it.  Returns the exit status; errors are reported. */
int show_replay(struct show *show);

#endif
