/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_RECORDING_H
#define IOTRACE_OUTPUT_RECORDING_H

#include "core/base/error.h"
#include "output/render.h"

/*
 * A run as a file: its metadata, the columns of its rows, and interval by interval the rows, their
 * times and losses (docs/RECORDING.md has the format).  All columns with a key are written, those
 * of ROLE_STATE too; a replay renders to the same bytes in every format.
 */

#define RECORDING_TABLES   4
#define RECORDING_SETTINGS 32

/* The largest interval in memory, in bytes. */
#define RECORDING_MEMORY_MAX (256U << 20)

/* An option that shaped the run, as a number. */
struct recording_setting {
	const char *name;
	uint64_t value;
};

struct recording_table {
	const char *name;
	const struct schema *schema;
};

struct recording_head {
	struct meta meta;
	const struct recording_setting *settings; /* at most RECORDING_SETTINGS */
	size_t n_settings;
};

struct recording_rows {
	const void *rows;
	size_t n;
};

struct recording_interval {
	struct interval interval;
	int32_t utc_offset; /* of the machine's time zone then: seconds east of UTC */
	bool last;	    /* of the run */
	const char *text;   /* what text shows beside the rows, one line; never NULL */
	struct recording_rows tables[RECORDING_TABLES];
	struct recording_reader *reader; /* that it came from; NULL: it is of a run */
};

/* ---- writing: 0, or -errno of the stream, or -ENOMEM ---- */

struct recorder;
struct renderer;

/* @stream stays the caller's. */
int recorder_open(FILE *stream, struct recorder **out);

/* The recorder as a renderer: it takes what was drained.  Lives as long as the recorder. */
struct renderer *recorder_renderer(struct recorder *r);

/* First and once.  @tables (at most RECORDING_TABLES; the array is not kept) must outlive the
 * recorder with what they point to. */
int recorder_head(struct recorder *r, const struct recording_head *head,
		  const struct recording_table *tables, size_t n_tables);

/* An interval, whole and flushed when it returns. */
int recorder_interval(struct recorder *r, const struct recording_interval *interval);

/* Last: says that the run has ended.  Flushed. */
int recorder_end(struct recorder *r);

/* NULL is fine. */
void recorder_close(struct recorder *r);

/* ---- reading: errors are -errno with @err filled, STATUS_FAILED ---- */

struct recording_reader;

/* Reads up to the first interval of @stream, which stays the caller's.  @name is for errors: fit
 * to be shown, and to outlive the reader. */
int recording_reader_open(FILE *stream, const char *name, struct recording_reader **out,
			  struct error *err);

/* The head of the file; lives as long as the reader. */
const struct recording_head *recording_reader_head(const struct recording_reader *p);

/* The value of setting @name, or @otherwise. */
uint64_t recording_reader_setting(const struct recording_reader *p, const char *name,
				  uint64_t otherwise);

/*
 * Once, before recording_reader_next(): the rows are to be made by @tables, which must outlive the
 * reader. Tables and columns are matched by name: those that only the file has are skipped,
 * values that the file lacks are 0 or empty.  A column of another type is an error.
 */
int recording_reader_bind(struct recording_reader *p, const struct recording_table *tables,
			  size_t n_tables, struct error *err);

/*
 * The next interval: 1; all it points to lives until the next call.  0: that was the last, the run
 * has ended.  An error: the file is damaged or cut off; the intervals before are whole.  No
 * interval takes more than RECORDING_MEMORY_MAX.
 */
int recording_reader_next(struct recording_reader *p, struct recording_interval *out,
			  struct error *err);

/* An interval of a recording that stays, and what it takes in bytes. */
struct recording_kept {
	struct recording_interval in;
	size_t memory;
	struct chunk *chunks; /* private, as are the rest */
	void *texts;	      /* of a struct text_set */
	void *rows[RECORDING_TABLES];
};

/* Takes over the memory that @in points to, which has just been read, and stays valid: *out is for
 * recording_kept_free(). */
void recording_keep(const struct recording_interval *in, struct recording_kept *out);
void recording_kept_free(struct recording_kept *kept);

/* NULL is fine. */
void recording_reader_close(struct recording_reader *p);

#endif
