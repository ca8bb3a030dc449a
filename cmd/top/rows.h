/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows by process, operation and disk, and their columns. */
#ifndef IOTRACE_CMD_TOP_ROWS_H
#define IOTRACE_CMD_TOP_ROWS_H

#include "cmd/block/file_names.h"
#include "cmd/top/options.h"
#include "core/naming/cgroups.h"
#include "core/naming/process_names.h"
#include "core/naming/users.h"
#include "output/hist.h"
#include "output/schema.h"
#include "probes/top.h"

/* A row of the output. Strings belong to the tables they come from. */
struct top_row {
	struct key_labels by; /* --by; first: cells of keys read it */
	struct top_key key;
	uint64_t start; /* of process @pid */
	uint32_t pid, major, minor;
	const char *comm, *op, *disk, *cgroup;
	uint32_t letter; /* of @op */
	bool writeback;
	const char *command; /* on the full screen, of the rows to be shown */
	uint32_t exited;     /* there: the number of processes, if it is the row of several that
			      * are gone */
	bool gone; /* on the full screen: its process has exited; without I/Os: before this interval
		    */
	uint64_t io, bytes, time_ns;
	uint64_t untimed; /* requests in io whose time is unknown */
	uint64_t max_ns, p99_ns, errors;
	/* Until the rows are finished (top_tables.keep_slots), from malloc(); NULL: none. */
	struct top_slots *slots;
};

/* The inputs of rows. */
struct top_tables {
	struct disks *disks;
	struct process_names *names;
	struct cgroups *cgroups;  /* NULL: not requested */
	struct users *users;	  /* NULL: not asked for */
	by_keys by;		  /* 0: rows like without --by */
	bool keep_slots;	  /* of finished rows, until top_rows_clear() */
	struct file_names *files; /* NULL: not asked for */
	unsigned int depth;	  /* of directories, see file_names_dir() */
};

struct top_rows {
	struct top_row *rows;
	size_t n;
	uint64_t evicted; /* rows that lost their process, until the caller resets it */
};

/* How many rows are kept between two outputs; rows added before top_rows_compact() are in
 * addition. */
#define TOP_ROWS_MAX 65536
#define TOP_OTHERS   "[other processes]"

/* struct top_key.known: of many processes, or files. */
#define TOP_EVICTED 2

/* Adds the counters of @key; @slots: the slots of its times, NULL: none. 0 or -ENOMEM. */
int top_rows_add(struct top_rows *rows, const struct top_key *key, const struct top_value *value,
		 const struct top_slots *slots);

/* Joins the parts of each row, and looks up the names of disks and control groups while they exist:
 * between two outputs, now and then.  If there are too many rows the smaller half, by @sort, loses
 * process and control group: one row for each disk and operation, TOP_OTHERS (with --by all keys,
 * keys_other).  Names of processes that are not in any row may be forgotten. */
void top_rows_compact(struct top_rows *rows, const struct top_tables *tables, enum top_sort sort);

/* Joins the CPUs' parts of each row, names the rows, and sorts them. */
void top_rows_finish(struct top_rows *rows, const struct top_tables *tables, enum top_sort sort);
/* Sorts @n finished rows: largest first by @sort. */
void top_rows_sort(struct top_row *rows, size_t n, by_keys by, enum top_sort sort);
/* Keeps the first @most of @n sorted rows with --by; the others become one row (other) for each
 * operation.  Returns the new number of rows. */
size_t top_rows_limit(struct top_row *rows, size_t n, by_keys by, uint64_t most);
/* Empties @rows. */
void top_rows_clear(struct top_rows *rows);
void top_rows_free(struct top_rows *rows);

/* Adds the figures of @from to @to, which takes over its slots; the percentile becomes the larger
 * one. */
void top_row_add(struct top_row *to, struct top_row *from);

/* Adds the figures of @from to @to, which gets slots of its own; the percentile is computed from
 * both, and 0 if slots are missing. 0 or -ENOMEM. */
int top_row_join(struct top_row *to, const struct top_row *from);

/* Fills @times from its slots; false: it has none, or not all of its times are in them. */
bool top_row_times(const struct top_row *row, struct hist *times);

#define TOP_COLUMNS_MAX (KEY_COLUMNS_MAX + 18)

/* The columns of a run with these options. */
void top_schema(const struct top_options *o, struct column columns[TOP_COLUMNS_MAX],
		struct schema *schema);

#endif
