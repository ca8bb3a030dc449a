/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The requests that were in flight when a run of blame began: whose they are, and which of them are
 * in flight still. */
#ifndef IOTRACE_CMD_BLAME_EARLY_H
#define IOTRACE_CMD_BLAME_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/block/by.h"
#include "cmd/engine/tool.h"
#include "core/base/text.h"

/* What iotrace stuck knows of it. */
struct early_request {
	struct key_labels labels; /* of its submitter, or a thread that waits for it */
	const char *op;
	uint64_t since_ns; /* when it was made, CLOCK_MONOTONIC; later by the time of the walk */
	uint64_t sector, bytes;
	uint32_t tag;
	bool in_flight; /* at the last walk */
	bool at_device; /* the same */
	bool taken;	/* early_take() has returned it */
};

/* Further ones are like those whose owner is not known. */
#define EARLY_MOST 4096

/* All zero is empty.  The requests stay where they are until early_free(). */
struct early {
	struct early_request *requests;
	size_t n;
	uint64_t begin_ns;
	struct text_set texts;
	bool looking; /* private: early_look() */
};

/* The run begins: finds them.  in_flight_watch() was called before the programs of @t were
 * attached. */
void early_begin(struct early *e, struct tool_run *t, uint64_t begin_ns);

/* Looks which of them are still in flight.  To be called before the records are read: one that is
 * not has its record in the ring buffer. */
void early_look(struct early *e, struct tool_run *t);

/* One of them with these, which is taken: it has its record, or an entry in the programs' map,
 * which lacks the @sector (NULL).  NULL: none. */
const struct early_request *early_take(struct early *e, const char *disk, const char *op,
				       uint64_t bytes, const uint64_t *sector);

void early_free(struct early *e);

#endif
