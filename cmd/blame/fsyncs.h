/* SPDX-License-Identifier: GPL-2.0-or-later */
/* blame --fsync: the calls in a recording of slow --fsync, whose time is divided among the requests
 * in a recording of slow -m 0 of the same time. */
#ifndef IOTRACE_CMD_BLAME_FSYNCS_H
#define IOTRACE_CMD_BLAME_FSYNCS_H

#include "cmd/blame/options.h"
#include "cmd/blame/rows.h"
#include "cmd/engine/csv.h"

#define FSYNCS_MAX (1U << 18)
#define FSYNCS_BYTES                                                                               \
	(64U << 20) /* of all their texts; of more calls, and of more texts, the rest is           \
		     * left out */

/* A call of fsync or fdatasync. */
struct fsync {
	uint64_t time, total_ns; /* ns since the epoch */
	uint32_t pid;
	const char *comm, *cgroup, *unit, *container, *file;
	const char *disks, *phases; /* as slow has them */
};

/* All zero is empty. */
struct fsyncs {
	struct fsync *list;
	size_t n, bytes;
	size_t next;	  /* those before it are divided, or left out */
	uint64_t from_ns; /* the requests are known from here on; 0: none yet */
	uint64_t end_ns;  /* of the last interval */
	uint64_t left_out;
	struct text_set texts;
	char *heading; /* of `csv` */
	struct csv csv;
	bool no_memory;
};

/* Reads the recording @o->fsync, from @o->args.begin to end.  0, or -errno with @err. */
int fsyncs_read(struct fsyncs *f, const struct blame_options *o, struct error *err);

/* The requests of interval @in have been added to @rows: the calls that ended before its end wait
 * among them.  0 or -ENOMEM. */
int fsyncs_divide(struct fsyncs *f, struct blame_rows *rows, const struct blame_options *o,
		  const struct interval *in);

/* How many calls were not divided, once all requests are there. */
uint64_t fsyncs_left(const struct fsyncs *f);

void fsyncs_free(struct fsyncs *f);

#endif
