/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_WIDE_H
#define IOTRACE_OUTPUT_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Values as a log: a line per interval, a column per name; as text like vmstat, or as CSV. */

#define WIDE_NAME_SIZE 192

/* The value of a column, by its index among all values, which is fixed. */
struct wide_value {
	const char *name;
	int parent;  /* the value that contains it; -1: none */
	bool shown;  /* it has a column */
	bool others; /* CSV: NAME(other) has one, the sum of the parts without a column */
	uint64_t total, delta;
};

struct wide_values {
	const struct wide_value *v;
	size_t n;
};

/* Initialize the first six members only. */
struct wide {
	FILE *stream; /* the caller's; it may change */
	bool csv;
	bool skip_zero;	   /* no line if all are 0 */
	bool all;	   /* on a terminal, too */
	bool begun;	   /* CSV: has its heading */
	unsigned int left; /* lines before the next heading */
	struct wide_column *columns;
	size_t n, left_out;
	bool made;	    /* the columns, possibly none */
	unsigned int width; /* of the terminal when the columns were made; 0: not a terminal */
};

/* The heading alone, before anything is counted; see wide_line(). */
int wide_heading(struct wide *wide, const struct wide_values *values);

/*
 * The line of the interval that ended at @epoch_ns in the time zone @utc_offset, with its heading
 * if one is due: in text before the first, every 20, and when there is another column; in CSV
 * before the first.  CSV's columns are fixed: a later part is added to NAME(other).  On a terminal
 * the columns are the values that are not 0 in total, the largest ones, as many as fit. 0, -errno
 * of the stream, or -ENOMEM.
 */
int wide_line(struct wide *wide, const struct wide_values *values, uint64_t epoch_ns,
	      int32_t utc_offset);

void wide_free(struct wide *wide);

#endif
