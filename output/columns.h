/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_COLUMNS_H
#define IOTRACE_OUTPUT_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/frames.h"
#include "output/schema.h"

/*
 * Columns, each on a line.  ROW is the struct of the rows; a column has the name and the type of
 * its member.  @heading is the heading of the text, where it is at least @width wide; NULL: not
 *there. Other members of struct column (.cell, .text, .help, .metric) may follow.
 *
 *	#define ROW struct top_row
 *	LABEL(comm, "COMM", 16, "name of the process"),
 *	COUNTER(io, "I/O", 5, "requests", "requests completed", .help = "block I/O requests"),
 */
#define LABEL(member, heading, width, meaning, ...)                                                \
	COLUMN(LABEL, #member, member, heading, width, "", meaning, .left = true, ##__VA_ARGS__)
#define COUNTER(member, heading, width, unit, meaning, ...)                                        \
	COLUMN(COUNTER, #member, member, heading, width, unit, meaning, ##__VA_ARGS__)
#define GAUGE(member, heading, width, unit, meaning, ...)                                          \
	COLUMN(GAUGE, #member, member, heading, width, unit, meaning, ##__VA_ARGS__)
#define HISTOGRAM(member, unit, meaning, ...)                                                      \
	COLUMN(HISTOGRAM, #member, member, NULL, 0, unit, meaning, ##__VA_ARGS__)
#define STACK(member, meaning)	     COLUMN(STACK, #member, member, NULL, 0, "", meaning)
#define STATE(member, unit, meaning) COLUMN(STATE, #member, member, NULL, 0, unit, meaning)

/* Any other: @key NULL is for text only. */
#define COLUMN(role_, key_, member, heading_, width_, unit_, meaning_, ...)                        \
	{                                                                                          \
		.key = (key_), .heading = (heading_), .type = COLUMN_TYPE(member),                 \
		.role = ROLE_##role_, .unit = (unit_), .meaning = (meaning_),                      \
		.offset = offsetof(ROW, member), .width = (width_), ##__VA_ARGS__                  \
	}

/* clang-format off */
#define COLUMN_TYPE(member)                                                                        \
	_Generic(((ROW){}).member,                                                                 \
		 uint64_t: COLUMN_U64, uint32_t: COLUMN_U32, bool: COLUMN_BOOL,                    \
		 const char *: COLUMN_STR, char *: COLUMN_STR,                                     \
		 const struct hist *: COLUMN_HIST, struct hist *: COLUMN_HIST,                     \
		 struct frames: COLUMN_FRAMES)
/* clang-format on */

struct hist;

/* For .text: nanoseconds as milliseconds or microseconds, with two decimals. */
void column_ms(uint64_t ns, char *buf, size_t size);
void column_us(uint64_t ns, char *buf, size_t size);

/* For .text: bytes as kilobytes, with a decimal where they are no whole number. */
void column_kbytes(uint64_t bytes, char *buf, size_t size);

#endif
