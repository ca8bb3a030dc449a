/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_SHOW_H
#define IOTRACE_CMD_SHOW_H

#include <stdio.h>
#include <sys/utsname.h>

#include "cmd/blk.h"
#include "core/system/outfile.h"
#include "output/recording.h"

/*
 * What a subcommand shows of what it has drained: the same way in a run, where it may be recorded
 * as well, and from a recording.
 *
 *   a run:     show_open(), show_start(), show_output() for each, show_close()
 *   a replay:  show_replay()
 */

/* An option that shapes what is shown: it goes into the recording, and comes from there unless it
 * is given anew. */
struct show_setting {
	const char *name;
	int key; /* own option (struct args_spec); 0: it cannot be given with --replay */
	void *at;
	size_t size;  /* of what @at points to: an unsigned integer, an enum or a bool */
	uint64_t max; /* more is no value of it */
};
#define SHOW_SETTING(name, key, what, max)                                                         \
	{                                                                                          \
		name, key, &(what), sizeof(what), max                                              \
	}

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
	/* Text: what comes first and last.  NULL: nothing.  0 or -errno of standard output. */
	int (*start)(void *ctx);
	int (*end)(void *ctx);
	/* The notes come before all else; else they come last.  JSON has them in the metadata. */
	bool notes_first;
	/* JSON and CSV: what comes first; NULL: render_meta() with the first table. */
	int (*meta)(void *ctx, const struct meta *meta);
	/* Said at the end of a run that has had no row and no loss; NULL: nothing.  In JSON the
	 * intervals say it. */
	const char *empty;
	/* One output, losses included.  0, or -errno of standard output, or -errno with @err. */
	int (*print)(void *ctx, const struct recording_interval *in, struct error *err);
	struct recording_table tables[RECORDING_TABLES];
	size_t n_tables;
	bool started; /* the first line was due: what comes last may follow */
	/* Private: */
	bool seen; /* a row, or a loss */
	struct meta about;
	struct meta_hook hooks[BLK_META_HOOKS];
	struct utsname uts;
	struct outfile file;
	struct recorder *recorder; /* NULL: not recorded, or no more */
	bool recorded;		   /* something was counted, and is in the recording */
};

/* What is recorded must live as long as @show.  @hooks, @n: as choices_meta() makes them.  Opens
 * the files of --record and -o, if they are given.  -errno with @err. */
int show_open(struct show *show, const struct meta_hook *hooks, size_t n, const char *const *notes,
	      size_t n_notes, struct error *err);

/* The first line; with -o it empties the file.  For run_emit, with a struct show. */
int show_start(void *show, struct error *err);

/* Records @in, whose time zone is filled in, and prints it; the last one ends the recording.  As
 * print(). */
int show_output(struct show *show, struct recording_interval *in, struct error *err);

/* Closes the recording, which has no end if @status is not 0 before the last output; returns
 * @status, or that of an error which it reports. */
int show_close(struct show *show, int status);

/* --replay: all of it.  Returns the exit status; errors are reported. */
int show_replay(struct show *show);

#endif
