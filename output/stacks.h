/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_STACKS_H
#define IOTRACE_OUTPUT_STACKS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "output/frames.h"

/* Bytes of one process, by one path, to one disk: what the forms below are made from. */
struct stack_row {
	const char *disk, *comm;
	uint32_t pid; /* 0: not shown */
	struct frames kernel, user;
	uint64_t read_bytes, write_bytes;
};

/* All return 0 or -errno of the stream, and escape names themselves. */

/* Disk, frames leaf first (the kernel's above those of user space), process, bytes. */
int stacks_text(FILE *stream, const struct stack_row *rows, size_t n);

/*
 * One line a row: "disk;process;frame;frame BYTES", root first, what is of the kernel marked
 * "_[k]".  A ';' in a name is shown as \x3b.
 */
int stacks_folded(FILE *stream, const struct stack_row *rows, size_t n);

/*
 * A flame graph as one SVG file: it can be read as it is, and zoomed and searched where scripts
 * run. Nothing narrower than STACKS_SVG_LEAST of its width is drawn.  @title is its heading.
 */
#define STACKS_SVG_LEAST 0.0002
int stacks_svg(FILE *stream, const char *title, const struct stack_row *rows, size_t n);

#endif
