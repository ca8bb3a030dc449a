/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which figures of which rows have changed beyond chance. */
#ifndef IOTRACE_CMD_COMPARE_CHANGES_H
#define IOTRACE_CMD_COMPARE_CHANGES_H

#include "cmd/compare/rows.h"

/* A figure of a row. */
enum compare_what {
	COMPARE_AVERAGE,  /* ns */
	COMPARE_P99,	  /* ns */
	COMPARE_SHAPE,	  /* the distribution of latencies: a distance */
	COMPARE_ERRORS,	  /* per second */
	COMPARE_REQUESTS, /* per second */
	COMPARE_BYTES,	  /* per second */
	COMPARE_WAITS,	  /* ns of threads per second */
	COMPARE_WHATS
};

/* In the order of the output. */
enum compare_verdict {
	COMPARE_WORSE,
	COMPARE_BETTER,
	COMPARE_MORE, /* another load, which is neither */
	COMPARE_LESS,
	COMPARE_SAME
};

/* A comparison. */
struct compare_change {
	const struct compare_row *row;
	const char *subcommand;
	enum compare_what what;
	double a, b;	  /* of COMPARE_SHAPE b is the distance, with a sign: stats.h */
	double low, high; /* of b/a; NAN: unknown */
	double p,
	    adjusted;	/* of stats_compare(), and after stats_holm(); NAN: compare_rows_few() */
	double time_ns; /* per second: how much I/O time the change makes */
	enum compare_verdict verdict;
};

struct compare_changes {
	struct compare_change *list; /* by importance */
	size_t n, verdicts[COMPARE_SAME + 1];
};

/* Makes the comparisons of @n tables, which must outlive them, and of which each has rows; changes
 * of less than @least percent are none.  0, or -errno with @err: -ENODATA (STATUS_USAGE): there are
 * too few intervals. */
int compare_changes_find(struct compare_table *tables, size_t n, uint64_t least,
			 struct compare_changes *out, struct error *err);

#endif
