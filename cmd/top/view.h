/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_TOP_VIEW_H
#define IOTRACE_CMD_TOP_VIEW_H

#include "cmd/top/rows.h"
#include "core/base/text.h"
#include "output/recording.h"

/* What the full-screen view shows, apart from how it is drawn. */

/* The rows of an interval, copied: by as many keys as there are. */
struct top_snapshot {
	struct top_row *rows;
	size_t n;
	struct text_set texts;
	char *load; /* NULL: none */
	uint64_t end_ns;
	uint64_t ns; /* that were counted */
	int32_t utc_offset;
};

/* A copy of @in, whose rows are @by these keys (0: as without --by).  0 or -ENOMEM. */
int top_snapshot_take(struct top_snapshot *to, const struct recording_interval *in, by_keys by);
void top_snapshot_free(struct top_snapshot *s);

/* Bytes of memory in use, about. */
size_t top_snapshot_memory(const struct top_snapshot *s);

/* Adds @from to @sum, in bounded memory: beyond TOP_ROWS_MAX rows the smaller half becomes (other).
 * All zero is an empty one.  0 or -ENOMEM. */
int top_snapshot_add(struct top_snapshot *sum, const struct top_snapshot *from, by_keys have);

/* Marks the rows of @now whose process has exited.  Those of @before that had not been marked, and
 * whose process has exited without a row in @now, are added, without I/Os.  0 or -ENOMEM. */
int top_snapshot_mark_gone(struct top_snapshot *now, const struct top_snapshot *before,
			   bool (*exists)(uint32_t pid));

enum top_filter {
	TOP_FILTER_NAME,
	TOP_FILTER_PROCESS,
	TOP_FILTER_DISK,
	TOP_FILTER_CGROUP,
	TOP_FILTERS
};

struct top_view {
	by_keys have;			/* keys that rows have */
	by_keys first, by;		/* at first, and now; 0: process and disk */
	bool extended, with_cgroup;	/* columns, as of struct top_options */
	bool tree;			/* of control groups */
	char filters[TOP_FILTERS][256]; /* "": none */
	/* top_view_columns(): */
	struct column columns[TOP_COLUMNS_MAX];
	struct schema schema;
	/* top_view_rows(): */
	struct top_row *rows; /* unsorted; those of a tree in its order */
	size_t n;
	struct text_set texts; /* of a tree */
};

/* The keys of rows that are @by these: 0 is process and disk. */
by_keys top_keys_of(by_keys by, bool with_cgroup);

/* The next of: what was shown first, each of the keys that rows have. */
void top_view_next_by(struct top_view *v);

/* Makes the columns as @v has it; so does top_view_rows(). */
void top_view_columns(struct top_view *v);

/* Makes the rows of @s as @v has it.  0 or -ENOMEM. */
int top_view_rows(struct top_view *v, const struct top_snapshot *s);
void top_view_free(struct top_view *v);

/* I/O of a disk, by top_disks(). */
struct top_disk {
	const char *name;	    /* the snapshot's */
	uint64_t io, bytes, p99_ns; /* p99_ns 0: not known */
};

/* The busiest disks of @s, most bytes first; returns how many, at most @most. */
size_t top_disks(const struct top_snapshot *s, struct top_disk *disks, size_t most);

#endif
