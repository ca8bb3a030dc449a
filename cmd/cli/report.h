/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prints errors. */
#ifndef IOTRACE_CMD_CLI_REPORT_H
#define IOTRACE_CMD_CLI_REPORT_H

#include "core/base/error.h"

/* The only function that prints errors: one line on standard error, "iotrace: WHAT (HINT)".
 * Returns the exit status of @err.  Like all functions here: a signal ends a write that blocks
 * (cmd/engine/guard.h). */
int report_error(const struct error *err);

/* Any other line, "iotrace: ...", that is printed while signals may be held back. */
void report_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints nothing if the reader went away (-EPIPE), otherwise the error of standard output @code.
 * Returns the exit status. */
int report_output(int code);

/* Flushes standard output and reports an error of it. */
int report_stdout(void);

/* A line of -v. */
void report_verbose(const char *line);

#endif
