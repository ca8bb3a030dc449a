/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stacks as text and as folded lines. */
#ifndef IOTRACE_OUTPUT_STACKS_H
#define IOTRACE_OUTPUT_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/frames.h"

/* The labels of a row, in addition to the process. */
enum stack_label {
	STACK_CGROUP,
	STACK_UNIT,
	STACK_CONTAINER,
	STACK_USER,
	STACK_FILE,
	STACK_DIR,
	STACK_LABELS
};

/* I/O of one process, by one path, to one disk: the input of the formats below. */
struct stack_row {
	const char *disk, *comm;	  /* "": not displayed */
	const char *labels[STACK_LABELS]; /* the same; also for NULL */
	uint32_t pid;			  /* 0: not displayed */
	struct frames kernel, user;
	uint64_t read_bytes, write_bytes;
	uint64_t read_ios, write_ios;	      /* completed */
	uint64_t read_time_ns, write_time_ns; /* of these, from their creation */
	uint64_t read_wait_ns, write_wait_ns; /* in page faults and reads; in writes and syncs */
};

/* The counted value. */
enum stack_unit { STACK_BYTES, STACK_IOS, STACK_TIME, STACK_WAIT };

uint64_t stack_row_reads(const struct stack_row *row, enum stack_unit unit);
uint64_t stack_row_writes(const struct stack_row *row, enum stack_unit unit);

/* Both. */
uint64_t stack_row_sum(const struct stack_row *row, enum stack_unit unit);

/* "bytes", "I/Os", "ns" */
const char *stack_unit_name(enum stack_unit unit);

/* Formatted for people; both return @buf.  "12.34 ms"; "1,234 bytes", "350 I/Os" or a time. */
char *stacks_time(uint64_t ns, char *buf, size_t size);
char *stacks_amount(uint64_t n, enum stack_unit unit, char *buf, size_t size);

/* The same of an amount per second: "40.1 MiB/s", "350/s", "12.3 ms/s". */
char *stacks_rate(double rate, enum stack_unit unit, char *buf, size_t size);

/* All return 0 or -errno of the stream, and escape names themselves. */

/* Disk, frames leaf first (the kernel's above user space's, "--" between), process, amount read and
 * written. */
int stacks_text(FILE *stream, enum stack_unit unit, const struct stack_row *rows, size_t n);

/*
 * Folded lines, one per row, root first, kernel frames marked "_[k]".  By process they are
 * iostack's, "process;user frame;-;kernel frame;disk BYTES", the "-" only with frames of both
 * kinds; by disk "disk;process;user frame;kernel frame BYTES".  Other labels come before the
 * process.  A ';' in a name is written as \x3b.
 */
enum stack_order { STACK_ORDER_PROCESS, STACK_ORDER_DISK };
int stacks_folded(FILE *stream, enum stack_order order, enum stack_unit unit,
		  const struct stack_row *rows, size_t n);

/*
 * A flame graph as one SVG file: it is complete by itself; with scripts it fits its window and can
 * be zoomed and searched.  Reads and writes have a hue each; in a frame with both, the right part
 * is for writes.  Nothing narrower than STACKS_SVG_LEAST of its width is drawn: such siblings are
 * one frame, "[rest] N frames".  @title is its heading, @caption stands below.
 */
#define STACKS_SVG_LEAST 0.0002
int stacks_svg(FILE *stream, const char *title, const char *caption, enum stack_unit unit,
	       const struct stack_row *rows, size_t n);

/* A path of two recordings, A and B, and what each has counted of it. */
struct stack_pair {
	struct stack_row row; /* its names; the values are not read */
	uint64_t sums[2];
};

/* What values of A and B are divided by: both above 0. */
struct stacks_sides {
	double whole[2]; /* seconds, or the sum of all values */
	bool shares;	 /* it is the sum */
};

/*
 * The same of the difference: a path is as wide as the larger of its values in A and B, each
 * divided by its whole; so paths that only A has are there, too.  A frame's name is followed by its
 * change, which also is its colour: red for more in B, blue for less, grey below STACKS_SVG_SAME.
 * The smallest pairs come first.
 */
#define STACKS_SVG_SAME 0.01
int stacks_svg_difference(FILE *stream, const char *title, const char *caption,
			  enum stack_unit unit, const struct stack_pair *pairs, size_t n,
			  const struct stacks_sides *sides);

#endif
