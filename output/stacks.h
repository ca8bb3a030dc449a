/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_STACKS_H
#define IOTRACE_OUTPUT_STACKS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "output/frames.h"

/* Bytes of one process, by one path, to one disk: the input of the formats below. */
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
 * Folded lines, one a row, root first, kernel frames marked "_[k]".  By process they are
 * iostack's, "process;user frame;-;kernel frame;disk BYTES", the "-" where there are frames of both
 * kinds; by disk "disk;process;user frame;kernel frame BYTES".  A ';' in a name is shown as \x3b.
 */
enum stack_order { STACK_ORDER_PROCESS, STACK_ORDER_DISK };
int stacks_folded(FILE *stream, enum stack_order order, const struct stack_row *rows, size_t n);

/*
 * A flame graph as one SVG file: it can be read as it is, and zoomed and searched where scripts
 * run. Nothing narrower than STACKS_SVG_LEAST of its width is drawn: such siblings are one frame,
 * "[rest] N frames".  @title is its heading.
 */
#define STACKS_SVG_LEAST 0.0002
int stacks_svg(FILE *stream, const char *title, const struct stack_row *rows, size_t n);

#endif
