/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What another subcommand prints. */
#ifndef IOTRACE_CMD_ENGINE_PART_H
#define IOTRACE_CMD_ENGINE_PART_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

#define PART_SIZE (4 << 20) /* bytes of text at most; the rest is cut off */

struct part {
	char *text;   /* standard output; NUL-terminated */
	char *errors; /* standard error */
	bool cut;     /* there was more text */
	int status;   /* exit status */
};

/* Takes whole lines from the beginning of @text, which it may change; returns how many bytes that
 * were. */
typedef size_t part_taker(void *ctx, char *text);

/* Runs `iotrace SUBCOMMAND ARGS...`, @args ending with NULL, as a process of its own, which
 * confines itself like every replay.  -errno with @err if it could not be run; part_free() in any
 * case. */
int part_run(const char *subcommand, const char *const *args, struct part *out, struct error *err);
/* The same; standard output of any length is passed to @take bit by bit, and not kept. */
int part_read(const char *subcommand, const char *const *args, part_taker *take, void *ctx,
	      struct part *out, struct error *err);
/* Prints the losses and notes of @part to standard error, behind "@name: ". */
void part_report(const char *name, const struct part *part);
/* The last message of @part, which notes may precede, without "iotrace: "; *len characters. */
const char *part_error(const struct part *part, int *len);
void part_free(struct part *part);

#endif
