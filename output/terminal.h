/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_TERMINAL_H
#define IOTRACE_OUTPUT_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Control of a terminal for lines of text.  A full screen is output/screen.h. */

struct terminal_size {
	unsigned int lines, columns; /* 0: unknown, or not a terminal */
};

struct terminal_size terminal_size(FILE *stream);

/* Is it a terminal that supports control sequences (TERM is not "dumb"), and not another job's? */
bool terminal_controls(FILE *stream);

/* Does another job of this session have the terminal @fd?  Then we are in the background. */
bool terminal_is_others(int fd);

/* Is it a terminal of 256 colours, whose user wants colours (NO_COLOR)? */
bool terminal_colours(FILE *stream);

/* Empties the screen; the cursor is at its top.  0 or -errno. */
int terminal_clear(FILE *stream);

/* Lines that are too long are continued on the next one, or cut. 0 or -errno. */
int terminal_wrap(FILE *stream, bool wrap);

/* Empties the cursor's line; the cursor moves to its beginning. 0 or -errno. */
int terminal_clear_line(FILE *stream);

#endif
