/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A recording of iotrace slow, whose requests are divided. */
#ifndef IOTRACE_CMD_BLAME_RECORDED_H
#define IOTRACE_CMD_BLAME_RECORDED_H

#include "cmd/blame/fsyncs.h"
#include "cmd/blame/options.h"
#include "cmd/blame/rows.h"
#include "output/recording.h"

/* The columns of its rows that are needed. */
extern const struct schema recorded_schema;

#define RECORDED_LOSSES 40

/* All zero is empty. */
struct recorded {
	uint64_t lost; /* I/Os that are in no row */
	struct loss losses[RECORDED_LOSSES];
	size_t n_losses;
	struct text_set texts; /* of these */
	struct fsyncs fsyncs;  /* --fsync: they are the victims, and not the I/Os */
};

/* Has it all I/Os, and what @o needs?  -EINVAL with @err. */
int recorded_check(const struct recording_reader *reader, const struct blame_options *o,
		   struct error *err);

/* Adds the I/Os of an interval to @rows. 0 or -ENOMEM. */
int recorded_take(struct recorded *r, struct blame_rows *rows, const struct blame_options *o,
		  const struct recording_interval *in);

/* Divides all, and makes the rows, in @out, with the losses of all intervals. 0 or -ENOMEM. */
int recorded_give(struct recorded *r, struct blame_rows *rows, struct recording_interval *out);

void recorded_free(struct recorded *r);

#endif
