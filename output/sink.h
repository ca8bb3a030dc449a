/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_SINK_H
#define IOTRACE_OUTPUT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Private to output/: a stream together with its first error. stdio stores only that a write
 * failed, and drops its buffer; the cause (has the reader gone, is the disk full?) must be read
 * when it happens.  After an error nothing more is written.
 */
struct sink {
	FILE *stream;
	int error;     /* errno of the first failed write, 0: none */
	bool terminal; /* for programs' formats: the stream is a terminal */
};

/* One that checks whether @stream is a terminal. */
struct sink sink_of(FILE *stream);

void sink_write(struct sink *sink, const char *data, size_t len);
void sink_puts(struct sink *sink, const char *text);
void sink_integer(struct sink *sink, uint64_t value);
void sink_fill(struct sink *sink, char c, size_t times);
void sink_printf(struct sink *sink, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* 0 or -errno of the writes so far, which may still be buffered. */
int sink_result(const struct sink *sink);
/* The same after flushing. */
int sink_flush(struct sink *sink);

#endif
