/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The details of a row of a full screen: all of its columns, what its rows have beyond these, their
 * operations, and the times as a histogram. */
#ifndef IOTRACE_CMD_ENGINE_ROW_DETAILS_H
#define IOTRACE_CMD_ENGINE_ROW_DETAILS_H

#include "output/hist.h"
#include "output/pivot.h"

struct row_details {
	const struct pivot_kind *kind;
	const struct schema *schema; /* displayed columns */
	const void *row;
	const struct pivot_rows *parts;			    /* the rows that were added up */
	bool (*is_shown)(const void *ctx, const void *row); /* which of these */
	const void *ctx;
	double secs;		  /* see struct screen_view */
	const struct hist *times; /* NULL: none */
	size_t width;		  /* of the screen */
};

/* As text, which the caller frees; NULL: out of memory. */
char *row_details(const struct row_details *d);

#endif
