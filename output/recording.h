/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Recordings (the writer is a renderer); recording_internal.h is shared by the two. */
#ifndef IOTRACE_OUTPUT_RECORDING_H
#define IOTRACE_OUTPUT_RECORDING_H

#include "core/base/clock.h"
#include "core/base/error.h"
#include "output/render.h"

/*
 * A run as a file: its metadata, the columns of its rows, and interval by interval the rows, their
 * times and losses (docs/RECORDING.md has the format).  All columns with a key are written, also
 * ROLE_STATE columns; a replay produces the same bytes in every format.
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
	int32_t utc_offset; /* of the machine's time zone at that time: seconds east of UTC */
	bool last;	    /* of the run */
	const char *text;   /* text shown in addition to the rows, one line; never NULL */
	struct recording_rows tables[RECORDING_TABLES];
	bool dated; /* the run goes beyond midnight: its times of day have their date */
};

/* The time of its end, as text shows it; returns @buf. */
char *recording_clock(const struct recording_interval *in, char buf[CLOCK_TEXT_SIZE]);

/* ---- writing: 0, or -errno of the stream, or -ENOMEM ---- */

struct recorder;
struct renderer;

/* @stream stays the caller's. */
int recorder_open(FILE *stream, struct recorder **out);

/* The recorder as a renderer: it receives the drained data.  Lives as long as the recorder. */
struct renderer *recorder_renderer(struct recorder *r);

/* First and once.  @tables (at most RECORDING_TABLES; the array is copied) must outlive the
 * recorder, including everything that they point to. */
int recorder_head(struct recorder *r, const struct recording_head *head,
		  const struct recording_table *tables, size_t n_tables);

/* Writes an interval, complete and flushed on return. */
int recorder_interval(struct recorder *r, const struct recording_interval *interval);

/* Last: marks the end of the run.  Flushed. */
int recorder_end(struct recorder *r);

/* NULL is fine. */
void recorder_close(struct recorder *r);

/* ---- reading: errors are -errno with @err filled, STATUS_FAILED ---- */

struct recording_reader;

/* Reads up to the first interval of @stream, which stays the caller's.  @name is for errors: safe
 * to print, and must outlive the reader. */
int recording_reader_open(FILE *stream, const char *name, struct recording_reader **out,
			  struct error *err);

/* The head of the file; valid as long as the reader. */
const struct recording_head *recording_reader_head(const struct recording_reader *p);

/* The value of setting @name, or @otherwise. */
uint64_t recording_reader_setting(const struct recording_reader *p, const char *name,
				  uint64_t otherwise);

/* Does the file's table @table have a column @key, and of which type? */
bool recording_reader_column(const struct recording_reader *p, const char *table, const char *key,
			     enum column_type *type);

/*
 * Once, before recording_reader_next(): describes the rows to make by @tables, which must outlive
 * the reader.  Tables and columns are matched by name: extra ones in the file are skipped, missing
 * values are 0 or empty.  A column of another type is an error, and so is a file
 * without any of the tables.
 */
int recording_reader_bind(struct recording_reader *p, const struct recording_table *tables,
			  size_t n_tables, struct error *err);

/*
 * The next interval: 1; all its data is valid until the next call. 0: no more intervals, the run
 * has ended.  An error: the file is damaged or truncated; earlier intervals are complete.  No
 * interval takes more than RECORDING_MEMORY_MAX.
 */
int recording_reader_next(struct recording_reader *p, struct recording_interval *out,
			  struct error *err);

/* NULL is fine. */
void recording_reader_close(struct recording_reader *p);

#endif
