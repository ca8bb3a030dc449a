/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows of iotrace stuck, for those who run it next to what they count. */
#ifndef IOTRACE_CMD_BLOCK_STUCK_ROW_H
#define IOTRACE_CMD_BLOCK_STUCK_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/frames.h"

/* Kinds of rows: the others are groups of threads. */
#define STUCK_KIND_REQUEST "request"
#define STUCK_KIND_DISK	   "disk"

struct stuck_row {
	const char *kind;
	const char *disk;
	const char *where; /* of a request; what threads wait for */
	const char *op;
	uint32_t letter; /* of op in text */
	bool at_least;
	uint64_t age_ns, device_ns, sector, bytes;
	uint32_t tag;
	uint32_t threads; /* in the group; that wait for the request */
	uint32_t in_flight, queued, held, frozen, suspended;
	const char *scheduler, *mapped;
	/* Of the first of the threads, or that submitted the request by libaio or io_uring; 0: not
	 * known. */
	uint32_t pid;
	uint32_t holder; /* of the lock that the threads wait for; 0: not known */
	const char *holder_comm;
	const char *comm, *cgroup, *unit, *container, *file;
	struct frames kernel;
};

#endif
