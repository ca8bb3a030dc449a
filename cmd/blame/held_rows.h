/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iotrace blame --held: the rows made of drained counts. */
#ifndef IOTRACE_CMD_BLAME_HELD_ROWS_H
#define IOTRACE_CMD_BLAME_HELD_ROWS_H

#include <stdint.h>
#include <stdio.h>

#include "cmd/blame/options.h"
#include "core/base/intern.h"
#include "core/base/text.h"
#include "core/naming/cgroups.h"
#include "core/naming/disks.h"
#include "core/naming/process_names.h"
#include "core/naming/users.h"
#include "output/hist.h"
#include "output/renderer.h"
#include "probes/blame_held.h"
#include "probes/keyed_hist.h"

/* What held I/O of a victim, on one disk. */
struct held_row {
	const char *disk, *victim, *kind, *limit;
	uint64_t count, timed, total_ns, avg_ns, p99_ns, max_ns;
};

extern const struct schema held_schema;

/* The inputs of rows; process names and cgroups are drained before the counts. */
struct held_tables {
	const struct blame_options *o;
	struct disks *disks;
	struct process_names *names;
	struct cgroups *cgroups;
	struct users *users; /* with --by user */
};

struct held_entry;

#define HELD_ROWS 4096 /* 12 MB */

/* All zero is empty. */
struct held_rows {
	struct held_tables from;
	struct intern keys;
	struct text_set texts;
	struct held_entry **entries;
	size_t n_entries;
	struct held_row *rows; /* of held_rows_make() */
	size_t n;
	uint64_t full; /* holds without room for their row, until the caller resets it */
};

/* Adds @value, a struct keyed_hist, of @key, a struct hist_key. 0 or -ENOMEM.  (Has the type of a
 * callback of double_buffer_drain_hash(); @ctx is a struct held_rows.) */
int held_rows_add(void *ctx, const void *key, const void *value);

/* Makes rows->rows, by disk, most time first. 0 or -ENOMEM. */
int held_rows_make(struct held_rows *rows);

/* The averages of rows whose counts were added up. */
void held_rows_average(struct held_row *rows, size_t n);

/* Call after the rows were shown. */
void held_rows_clear(struct held_rows *rows);
void held_rows_free(struct held_rows *rows);

/* --victim: leaves the rows of @in whose victim contains @part; *@own is to be freed.  -errno with
 * @err. */
int held_rows_of(struct render_interval *in, const char *part, void **own, struct error *err);

/* The table of the rows whose victim contains @part (NULL: all). 0 or -errno of @stream. */
int held_rows_print(const struct held_row *rows, size_t n, const char *part, FILE *stream);

#endif
