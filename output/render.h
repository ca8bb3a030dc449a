/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_RENDER_H
#define IOTRACE_OUTPUT_RENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "output/schema.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV };

/* A hook that was considered for an event. */
struct meta_hook {
	const char *event;  /* what it is for: "submit", "issue", "complete" */
	const char *kind;   /* "tp_btf", "raw_tp", "fentry", "kprobe", ... */
	const char *target; /* tracepoint or function */
	const char *reason; /* why it was passed over; NULL: it is in use */
};

struct meta {
	const char *version;
	const char *kernel; /* release as uname has it */
	const char *subcommand;
	const struct meta_hook *hooks;
	size_t n_hooks;
	const char *const *notes; /* on what this run cannot see, one sentence each; may be NULL */
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
	bool partial; /* it was ended before its time: JSON says so */
};

/* The footer: one line per loss that is not 0, on @stream (standard error), "iotrace: lost: N
 * TEXT".  Returns 0 or -errno. */
int render_losses(FILE *stream, const struct interval *interval);

/* One such line without its end, in @out as snprintf() does: returns its length. */
size_t render_loss(char *out, size_t size, const struct loss *loss);

/* Text table pieces for subcommands that need them apart. */
int render_table_heading(FILE *stream, const struct schema *schema);
int render_table_rows(FILE *stream, const struct schema *schema, const void *rows, size_t n);

/* All of a table, each column as wide as its widest cell.  An empty line comes before each row but
 * the first for which @is_gap, which may be NULL, is true.  0 or -errno. */
int render_table(FILE *stream, const struct schema *schema, const void *rows, size_t n,
		 bool (*is_gap)(const void *row));

/*
 * How strings are shown; renderers escape by themselves, none is escaped before.
 *
 * For people (text, folded lines, flame graphs): what is not UTF-8 and every control or format
 * character (unicode_is_control()) is \xNN, byte by byte, a backslash is \\.
 *
 * For programs (JSON, CSV): the string itself, but for bytes that are not UTF-8, which are \xNN; a
 * backslash is a backslash.  A row of JSON names the keys of such strings in "escaped"; in these a
 * backslash is \x5c, so that the bytes can be told.  On a terminal control and format characters
 * are escaped: by JSON its own way, in CSV as \xNN.  So is, in CSV, a first character that would
 * make the cell a formula of a spreadsheet (= + - @, tab, carriage return).
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

/* Steps over the first character of *@text, and returns how many columns it takes in this form; 0:
 * there is none. */
size_t render_step(const char **text);

/* Flushes @stream; -EPIPE etc. when that fails or failed before. */
int render_flush(FILE *stream);

/* Has the other end of @stream, a pipe or a socket, been closed?  Known without a write. */
bool render_nobody_reads(FILE *stream);

#endif
