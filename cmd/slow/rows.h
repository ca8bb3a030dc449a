/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records that wait for their output, and the rows made of them: names, flags, paths, stacks. */
#ifndef IOTRACE_CMD_SLOW_ROWS_H
#define IOTRACE_CMD_SLOW_ROWS_H

#include "core/symbols/symbolizer.h"
#include "core/symbols/unwinder.h"
#include "core/base/text.h"
#include "core/system/kallsyms.h"
#include "core/naming/cgroups.h"
#include "core/naming/disks.h"
#include "core/naming/mounts.h"
#include "core/naming/process_names.h"
#include "core/naming/users.h"
#include "core/base/frames.h"
#include "output/schema.h"
#include "probes/slow.h"

/* A row of the output.  Strings belong to struct slow_rows. */
struct slow_row {
	uint64_t time; /* its arrival, since the epoch */
	uint32_t pid;
	bool writeback;
	const char *comm, *cgroup, *disk, *op, *flags, *status, *file, *waiters;
	const char *unit, *container; /* of cgroup */
	const char *user;	      /* ""; with --by user its name */
	uint64_t sector, bytes;
	uint64_t total_ns, admit_ns, queue_ns, device_ns;
	uint32_t depth, retries, waiting;
	uint32_t lost;	     /* I/Os, just before it */
	uint32_t letter;     /* of op */
	uint32_t utc_offset; /* seconds east of UTC, as an int32_t */
	struct frames kernel, user_frames;
	bool dated; /* text shows the date too */
};

/* Records not displayed yet. */
struct slow_rows {
	struct slow_pending *pending; /* by completion */
	size_t n, room;
	struct slow_owner *owners;   /* of compact records */
	struct slow_owner **numbers; /* the last one of each blk_record.owner */
	/* Until the caller resets them: */
	uint64_t full;	       /* records without room */
	struct slow_row *rows; /* of slow_rows_make() */
	size_t n_rows, rows_room;
	uint64_t stacks_lost;	      /* of these: user stacks without room */
	uint64_t stops[UNWIND_STOPS]; /* and incomplete ones, by enum unwind_stop */
	struct text_set texts;	      /* of rows and of named ones */
	const char *flags[32];	      /* of `texts`, by enum slow_flag; NULL: not made yet */
};

/* A stored record. */
struct slow_pending {
	struct slow_record *record; /* cut after its path, from malloc(); NULL: `plain` */
	struct blk_record plain;
	struct slow_owner *owner; /* of plain */
	uint64_t end_ns, total_ns;
	const char *comm; /* NULL: not named yet */
	const char *waiters;
	uint32_t user; /* -U: its number in the batch, and later its node */
	uint32_t lost; /* I/Os that were lost just before it */
	bool stack_lost;
	uint8_t stop; /* enum unwind_stop: why it ends early */
	enum { SLOW_USER_NEW, SLOW_USER_QUEUED, SLOW_USER_NODE } user_state;
};

#define SLOW_ROWS_MAX (1 << 19)

/* The inputs of rows. */
struct slow_tables {
	struct disks *disks;
	struct process_names *names;
	struct cgroups *cgroups;
	struct mounts *mounts;
	struct users *users;		 /* NULL: not requested */
	const struct kallsyms *kallsyms; /* NULL: no stacks */
	struct slow_stacks *stacks;
	struct symbolizer *symbolizer; /* NULL: no user stacks */
	int user_stacks;	       /* the map */
	uint32_t epoch;		       /* the buffer being written: records of the next output */
	int64_t epoch_less;	       /* CLOCK_REALTIME less CLOCK_MONOTONIC, ns */
	int32_t utc_offset;
};

/* Stores a copy of @record, before which @lost others were lost; beyond SLOW_ROWS_MAX it is counted
 * as lost. 0 or -ENOMEM. */
int slow_rows_add(struct slow_rows *rows, const struct slow_record *record, uint32_t lost);

/* The same for a compact record; @epoch: the buffer that contains @owner and its name. */
int slow_rows_add_plain(struct slow_rows *rows, const struct blk_record *record,
			const struct blk_owner *owner, uint32_t epoch, uint32_t lost);

/* The time of the @most-th slowest stored record; all faster ones are dropped; 0: there are
 * fewer. */
uint64_t slow_rows_limit(struct slow_rows *rows, size_t most);

/* Names the records of drained buffers. */
int slow_rows_name(struct slow_rows *rows, const struct slow_tables *tables);

/* Names the user stacks of these records: looks up where their frames are mapped, and then, while
 * files are read, which functions contain them. 0 or -ENOMEM. */
int slow_rows_name_stacks(struct slow_rows *rows, const struct slow_tables *tables,
			  struct unwinder *unwinder);

/* Makes rows->rows from the records of drained buffers: by completion or, if @most is not 0, the
 * @most slowest, slowest first. 0 or -errno. */
int slow_rows_make(struct slow_rows *rows, const struct slow_tables *tables, size_t most);

/* Call after the rows were displayed. */
void slow_rows_clear(struct slow_rows *rows, uint32_t epoch);
void slow_rows_free(struct slow_rows *rows);

/* @text shortened to @room columns (at least 4), in @buf if it is shortened: a path keeps its
 * end, other words their beginning.  A name longer than SLOW_NAME_MAX loses its end when it is
 * written. */
#define SLOW_NAME_MAX	512
#define SLOW_SHORT_SIZE (4 * SLOW_NAME_MAX + 1)
const char *slow_shorten(const char *text, size_t room, char buf[SLOW_SHORT_SIZE]);

/* The columns that @text takes. */
size_t slow_width(const char *text);

/* The name of the process, with the mark of write-back; returns @buf. */
char *slow_comm(const struct slow_row *row, char *buf, size_t size);

/* By the use of -K and -U: bit 0, bit 1. */
extern const struct schema slow_schemas[4];

/* ---- stacks ---- */

/* Frames by the numbers of the map `stacks`; a number's frames are the same for the whole run. */
struct slow_stacks;
int slow_stacks_open(int map, uint32_t entries, struct slow_stacks **out);
void slow_stacks_free(struct slow_stacks *s);
struct frames slow_stacks_frames(struct slow_stacks *s, const struct kallsyms *kallsyms,
				 int64_t number);

#endif
