/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iotrace slow --fsync: records of calls and commits, and the rows made of them. */
#ifndef IOTRACE_CMD_SLOW_FSYNC_ROWS_H
#define IOTRACE_CMD_SLOW_FSYNC_ROWS_H

#include <stdint.h>
#include <stdio.h>

#include "core/base/text.h"
#include "core/naming/cgroups.h"
#include "core/naming/disks.h"
#include "core/naming/mounts.h"
#include "output/schema.h"
#include "probes/slow_fsync.h"

/* A row of the output.  Strings belong to struct fsync_rows. */
struct fsync_row {
	uint64_t time; /* of its begin, since the epoch */
	uint32_t pid;
	const char *comm, *call, *fs, *disk, *file, *status, *covered, *holder, *ordered_files;
	const char *disks, *phases;
	const char *cgroup, *unit, *container;
	uint64_t transaction;
	uint64_t total_ns, data_ns, previous_ns, locking_ns, ordered_ns, log_ns, flush_ns, rest_ns;
	uint32_t utc_offset; /* seconds east of UTC, as an int32_t */
};

#define FSYNC_ROWS_MAX	  (1 << 17)
#define FSYNC_COMMITS_MAX (1 << 17)
#define FSYNC_FILES_MAX	  (1 << 15)

struct fsync_rows {
	/* In the order of their ends; what is not shown yet, or may be needed by later calls. */
	struct fsync_call_record **calls; /* each from malloc(), cut after its path */
	size_t n_calls;
	struct fsync_commit *commits;
	size_t n_commits;
	struct fsync_file_record **files;
	size_t n_files;
	uint64_t full; /* records without room; until the caller resets it */
	struct fsync_row *rows;
	size_t n_rows;
	/* The files of the last commit whose ordered data a call waited for from begin to end;
	 * while the rows are made. */
	const struct fsync_commit *whole_commit;
	const char *whole_text;
	/* The disks below the last devices. */
	struct fsync_below {
		uint32_t dev;
		const char *text; /* NULL: none */
	} below[16];
	struct text_set texts;
};

/* The inputs of rows. */
struct fsync_tables {
	struct disks *disks;
	struct cgroups *cgroups;
	struct mounts *mounts;
	uint32_t epoch;	    /* the buffer being written: records of the next output */
	int64_t epoch_less; /* CLOCK_REALTIME less CLOCK_MONOTONIC, ns */
	int32_t utc_offset;
};

extern const struct schema fsync_schema;

/* Stores a copy of a record of the ring buffer, if its size fits its type. 0 or -ENOMEM. */
int fsync_rows_add(struct fsync_rows *rows, const void *record, size_t size);

/* Makes rows->rows of the calls of drained buffers: by their end or, if @most is not 0, the @most
 * slowest, slowest first. 0 or -ENOMEM. */
int fsync_rows_make(struct fsync_rows *rows, const struct fsync_tables *tables, size_t most);

/* Forgets the commits and files that no stored call needs, nor a later one.  @oldest_ns: no call or
 * commit that is not stored yet began before. */
void fsync_rows_forget(struct fsync_rows *rows, uint64_t oldest_ns);

/* Forgets all calls but the @most slowest. */
void fsync_rows_limit(struct fsync_rows *rows, size_t most);

/* Call after the rows were displayed; @oldest_ns: see fsync_rows_forget(). */
void fsync_rows_clear(struct fsync_rows *rows, uint32_t epoch, uint64_t oldest_ns);
void fsync_rows_free(struct fsync_rows *rows);

/* Text of @n rows: each a line of the table, and lines with its names.  -errno of the stream. */
int fsync_print_rows(FILE *stream, const struct fsync_row *rows, size_t n);

#endif
