/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_BLOCK_IN_FLIGHT_H
#define IOTRACE_CMD_BLOCK_IN_FLIGHT_H

#include "cmd/engine/tool.h"

/*
 * "3 requests in flight on sda, the oldest for 15 s, by dd": a disk that does not answer has no
 * I/O that completes, which would be counted.
 *
 * The number is the kernel's (/sys/block/DISK/inflight).  The age comes from
 * - iotrace stuck, if a disk completed nothing while this run started: only then its programs,
 *   which take longer to load than this run's own, are loaded;
 * - the requests that this run's programs follow, which were issued since it began;
 * - /proc/diskstats: a disk that has had requests since the last look, and has completed none.
 */
extern const struct tool_waits in_flight;

struct stuck_row;

/*
 * For those who need the requests themselves: from in_flight_watch(), if a disk of @t has requests
 * now, to in_flight_unwatch() the programs of iotrace stuck are loaded, whatever their age.
 * in_flight_each() calls @each with the rows that there are now, which live until its return;
 * false: they are not known.
 */
void in_flight_watch(struct tool_run *t);
bool in_flight_each(struct tool_run *t, void (*each)(void *ctx, const struct stuck_row *row),
		    void *ctx);
void in_flight_unwatch(struct tool_run *t);

#endif
