/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the formats: metadata, tables, losses. */
#ifndef IOTRACE_OUTPUT_RENDER_H
#define IOTRACE_OUTPUT_RENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "output/schema.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV, FORMAT_PERFETTO };

/* A hook that was considered for an event. */
struct meta_hook {
	const char *event;  /* its purpose: "submit", "issue", "complete" */
	const char *kind;   /* "tp_btf", "raw_tp", "fentry", "kprobe", ... */
	const char *target; /* tracepoint or function */
	const char *reason; /* why it was rejected; NULL: it is in use */
};

struct meta {
	const char *version;
	const char *kernel; /* release like in uname */
	const char *subcommand;
	/* The machine's name, its boot (boot_id), and the command line without COMMAND's arguments;
	 * NULL or "": unknown, like in recordings of older versions. */
	const char *host, *boot, *command;
	const struct meta_hook *hooks;
	size_t n_hooks;
	const char *const *notes; /* limitations of this run, one sentence each; may be NULL */
	size_t n_notes;
};

struct loss {
	const char *key; /* JSON: "no_start" */
	const char
	    *text;	/* footer, with the number before it: "completions without a start (...)" */
	uint64_t count; /* in this interval */
};

struct interval {
	uint64_t start_ns, end_ns; /* since the epoch */
	const struct loss *losses;
	size_t n_losses;
	bool partial; /* it was ended early: a flag in JSON */
	/* Of the losses, how many may be events; how many events were counted, 0: unknown. */
	uint64_t lost, events;
};

/* The footer: one line per loss that is not 0, on @stream (standard error), "iotrace: lost: N
 * TEXT".  Returns 0 or -errno. */
int render_losses(FILE *stream, const struct interval *interval);

/* Whether to worry: "422 of 1,234,567 events (0.03%): too few to matter".  @events is not 0.
 * Returns
 * @buf. */
#define RENDER_WORRY_SIZE 160
char *render_worry(uint64_t lost, uint64_t events, char buf[RENDER_WORRY_SIZE]);

/* One such line without its end, in @out like snprintf(): returns its length. */
size_t render_loss(char *out, size_t size, const struct loss *loss);

/* Text table pieces for subcommands that need them separately. */
int render_table_heading(FILE *stream, const struct schema *schema);
int render_table_rows(FILE *stream, const struct schema *schema, const void *rows, size_t n);

/* Writes a complete table, each column as wide as its widest cell.  An empty line comes before each
 * row but the first for which @is_gap, which may be NULL, is true. 0 or -errno. */
int render_table(FILE *stream, const struct schema *schema, const void *rows, size_t n,
		 bool (*is_gap)(const void *row));

/* Writes @row as text, "HEADING: value" for each column of the table whose cell is not empty.
 * @secs: counters with a rate are per second; 0: as they are.  0 or -errno. */
int render_row(FILE *stream, const struct schema *schema, const void *row, double secs);

/*
 * How strings are displayed; renderers escape by themselves, no string is escaped before.
 *
 * For people (text, folded lines, flame graphs): invalid UTF-8 and every control or format
 * character (unicode_is_control()) is \xNN, byte by byte, a backslash is \\.
 *
 * For programs (JSON, CSV): the string itself, except invalid UTF-8, which is \xNN; a backslash is
 * a backslash.  A row of JSON names the keys of such strings in "escaped"; in these a backslash is
 * \x5c, so that the bytes can be decoded.  On a terminal control and format characters are escaped:
 * by JSON its own way, in CSV as \xNN.  CSV also escapes a first character that would make the cell
 * a formula of a spreadsheet (= + - @, tab, carriage return).
 *
 * A name of more than 512 characters is cut and ends with "..."; for programs, one of more than
 * 4096.
 *
 * This is the form for people; @buf gets at most @size bytes with the NUL, never half an escape.
 * Returns buf.
 */
char *render_escape(const char *text, char *buf, size_t size);

/* Writes all of it, without an end of line.  0 or -errno. */
int render_name(FILE *stream, const char *name);

/* Writes @text as a string of JSON, with its quotes.  0 or -errno. */
int render_json(FILE *stream, const char *text);

/* Steps over the first character of *@text, and returns how many columns it takes in this form; 0:
 * end of the text. */
size_t render_step(const char **text);

/* The end of @path, which needs @width columns, that fits into @room: it says more than the
 * beginning. */
const char *render_path_end(const char *path, size_t width, size_t room);

/* Flushes @stream; -EPIPE etc. if that fails or failed before. */
int render_flush(FILE *stream);

/* Has the other end of @stream, a pipe or a socket, been closed?  Checked without a write. */
bool render_reader_is_gone(FILE *stream);

#endif
