/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_SLOW_ROWS_H
#define IOTRACE_CMD_SLOW_ROWS_H

#include "cmd/symbolizer.h"
#include "cmd/unwinder.h"
#include "core/base/text.h"
#include "core/system/kallsyms.h"
#include "core/naming/cgroups.h"
#include "core/naming/disks.h"
#include "core/naming/mounts.h"
#include "core/naming/process_names.h"
#include "core/naming/users.h"
#include "output/frames.h"
#include "output/schema.h"
#include "probes/slow.h"

/* A row of the output.  Strings belong to struct slow_rows. */
struct slow_row {
	uint64_t time; /* it arrived, since the epoch */
	uint32_t pid;
	bool writeback;
	const char *comm, *cgroup, *disk, *op, *flags, *status, *file, *waiters;
	const char *unit, *container; /* of cgroup */
	const char *user;	      /* ""; with --by user its name */
	uint64_t sector, bytes;
	uint64_t total_ns, admit_ns, queue_ns, device_ns;
	uint32_t depth, retries, waiting;
	uint32_t letter;     /* of op */
	uint32_t utc_offset; /* seconds east of UTC, as an int32_t */
	struct frames kernel, user_frames;
};

/* What has come and was not shown. */
struct slow_rows {
	struct slow_pending *pending; /* by completion */
	size_t n, room;
	/* Until the caller sets it back: */
	uint64_t full;	       /* records that had no room */
	struct slow_row *rows; /* of slow_rows_make() */
	size_t n_rows;
	uint64_t stacks_lost;	      /* of these: user stacks that had no room */
	uint64_t stops[UNWIND_STOPS]; /* and those that end early, by enum unwind_stop */
	struct text_set texts;	      /* of rows and of named ones */
};

/* A record that is kept, without its path's room. */
struct slow_pending {
	struct slow_record *record; /* of its true size, from malloc() */
	const char *comm;	    /* NULL: not named yet */
	const char *waiters;
	uint64_t total_ns;
	uint32_t user; /* -U: its number in the batch, and then its node */
	bool lost;     /* that stack had no room */
	uint8_t stop;  /* enum unwind_stop: why it ends early */
	enum { SLOW_USER_NEW, SLOW_USER_QUEUED, SLOW_USER_NODE } user_state;
};

#define SLOW_ROWS_MAX 65536

/* What rows are made with. */
struct slow_tables {
	struct disks *disks;
	struct process_names *names;
	struct cgroups *cgroups;
	struct mounts *mounts;
	struct users *users;		 /* NULL: not asked for */
	const struct kallsyms *kallsyms; /* NULL: no stacks */
	struct slow_stacks *stacks;
	struct symbolizer *symbolizer; /* NULL: no user stacks */
	int user_stacks;	       /* the map */
	uint32_t epoch; /* the buffer that is being written: its records are of the next output */
	int64_t epoch_less; /* CLOCK_REALTIME less CLOCK_MONOTONIC, ns */
	int32_t utc_offset;
};

/* Keeps a copy of @record; beyond SLOW_ROWS_MAX it is counted as lost.  0 or -ENOMEM. */
int slow_rows_add(struct slow_rows *rows, const struct slow_record *record);

/* The time that the @most-th slowest took of those that are kept, all others of which are dropped;
 * 0: there are not so many. */
uint64_t slow_rows_limit(struct slow_rows *rows, size_t most);

/* Names what is of buffers that were drained. */
int slow_rows_name(struct slow_rows *rows, const struct slow_tables *tables);

/* Names the user stacks of the same: looks up where their frames are mapped, and then, while files
 * are read, which functions they are in.  0 or -ENOMEM. */
int slow_rows_name_stacks(struct slow_rows *rows, const struct slow_tables *tables,
			  struct unwinder *unwinder);

/* Makes rows->rows of what is of buffers that were drained: by completion, or, if @most is not 0,
 * the @most slowest, these first.  0 or -errno. */
int slow_rows_make(struct slow_rows *rows, const struct slow_tables *tables, size_t most);

/* The rows were shown. */
void slow_rows_clear(struct slow_rows *rows, uint32_t epoch);
void slow_rows_free(struct slow_rows *rows);

/* @text as it fits into @room columns (at least 4), in @buf if it is shortened: of a path the end
 * remains, of other words the beginning.  A name longer than SLOW_NAME_MAX loses its end when it is
 * written. */
#define SLOW_NAME_MAX	512
#define SLOW_SHORT_SIZE (4 * SLOW_NAME_MAX + 1)
const char *slow_shorten(const char *text, size_t room, char buf[SLOW_SHORT_SIZE]);

/* The columns that @text takes. */
size_t slow_width(const char *text);

/* The name of the process, with the mark of write-back; returns @buf. */
char *slow_comm(const struct slow_row *row, char *buf, size_t size);

/* By which of -K and -U there are: bit 0, bit 1. */
extern const struct schema slow_schemas[4];

/* ---- stacks ---- */

/* Frames by the numbers of the map `stacks`; those of a number stay the same in a run. */
struct slow_stacks;
int slow_stacks_open(int map, uint32_t entries, struct slow_stacks **out);
void slow_stacks_free(struct slow_stacks *s);
struct frames slow_stacks_frames(struct slow_stacks *s, const struct kallsyms *kallsyms,
				 int64_t number);

#endif
