/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Command lines of processes, from /proc, read once for each. */
#ifndef IOTRACE_CORE_NAMING_COMMAND_LINES_H
#define IOTRACE_CORE_NAMING_COMMAND_LINES_H

#include <stdint.h>

struct command_lines;

/* NULL: out of memory. */
struct command_lines *command_lines_open(void);
void command_lines_free(struct command_lines *c);

/* Until the next call of this a limited number of files is read: begins an output. */
void command_lines_begin(struct command_lines *c);

/* The command line of process @pid, which started at @start and is called @comm now (exec changes
 * both); "" if it has none, is gone, or will be read later.  Untrusted, and bounded; valid until
 * the next command_lines_begin(). */
const char *command_lines_find(struct command_lines *c, uint32_t pid, uint64_t start,
			       const char *comm);

#endif
