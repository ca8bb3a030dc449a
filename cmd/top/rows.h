/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_TOP_ROWS_H
#define IOTRACE_CMD_TOP_ROWS_H

#include "cmd/top/options.h"
#include "core/naming/cgroups.h"
#include "core/naming/process_names.h"
#include "core/naming/users.h"
#include "output/schema.h"
#include "probes/top.h"

/* A row of the output. Strings belong to the tables they come from. */
struct top_row {
	struct key_labels by; /* --by; first: cells of keys look at it */
	struct top_key key;
	uint64_t start; /* of process @pid */
	uint32_t pid, major, minor;
	const char *comm, *op, *disk, *cgroup;
	uint32_t letter; /* of @op */
	bool writeback;
	bool gone; /* on the full screen: its process has exited; without I/Os: before this interval
		    */
	uint64_t io, bytes, time_ns;
	uint64_t untimed; /* of io: those whose time is not known */
	uint64_t max_ns, p99_ns, errors;
	/* Until the rows are finished (top_tables.keep_slots), from malloc(); NULL: none. */
	struct top_slots *slots;
};

/* What rows are made with. */
struct top_tables {
	struct disks *disks;
	struct process_names *names;
	struct cgroups *cgroups; /* NULL: not asked for */
	struct users *users;	 /* NULL: not asked for */
	by_keys by;		 /* 0: rows as without --by */
	bool keep_slots;	 /* of finished rows, until top_rows_clear() */
};

struct top_rows {
	struct top_row *rows;
	size_t n, room;
	uint64_t evicted; /* rows that gave up their process, until the caller sets it back */
};

/* How many rows are kept between two outputs; what is added until top_rows_compact() comes on top.
 */
#define TOP_ROWS_MAX 65536
#define TOP_OTHERS   "[other processes]"

/* Adds the counters of @key; @slots: those that its times are in, NULL: none.  0 or -ENOMEM. */
int top_rows_add(struct top_rows *rows, const struct top_key *key, const struct top_value *value,
		 const struct top_slots *slots);

/* Joins what belongs to one row, and learns what disks and control groups are called while they are
 * there: between two outputs, now and then.  When there are too many rows the smaller half, by
 * @sort, gives up process and control group: one row for each disk and operation, TOP_OTHERS (with
 * --by all keys, keys_other). Names of processes that are in no row may be forgotten. */
void top_rows_compact(struct top_rows *rows, const struct top_tables *tables, enum top_sort sort);

/* Joins the CPUs' parts of each row, names the rows, and sorts them. */
void top_rows_finish(struct top_rows *rows, const struct top_tables *tables, enum top_sort sort);
/* Sorts @n finished rows: largest first by @sort. */
void top_rows_sort(struct top_row *rows, size_t n, by_keys by, enum top_sort sort);
/* Of @n sorted rows with --by the first @most stay; the others become one row (other) for each
 * operation.  Returns how many there are then. */
size_t top_rows_limit(struct top_row *rows, size_t n, by_keys by, uint64_t most);
/* Empties @rows. */
void top_rows_clear(struct top_rows *rows);
void top_rows_free(struct top_rows *rows);

/* Adds the figures of @from to those of @to, which gets slots of its own; the percentile is that of
 * both, and 0 where slots are missing.  0 or -ENOMEM. */
int top_row_join(struct top_row *to, const struct top_row *from);

/* The 99th percentile of the times in @slots, in ns; 0: there are none. */
uint64_t top_slots_p99(const struct top_slots *slots, uint64_t max_ns);

#define TOP_COLUMNS_MAX (KEY_COLUMNS_MAX + 18)

/* The columns of a run with these options. */
void top_schema(const struct top_options *o, struct column columns[TOP_COLUMNS_MAX],
		struct schema *schema);

#endif
