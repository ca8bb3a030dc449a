/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_PERF_MAPS_H
#define IOTRACE_CORE_SYMBOLS_PERF_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/isolation/open_regular.h"

/*
 * How much of the perf maps of processes has been read.  A map grows as long as its process
 * compiles: the added part is read each time, the whole map only for new addresses, and as often as
 * its share of time allows.  NULL has no maps.
 */
struct perf_maps;

/* NULL: out of memory. */
struct perf_maps *perf_maps_new(void);
void perf_maps_free(struct perf_maps *m);

/* Does process @pid, which began @start_ns after boot, have a map that perf_maps_begin() opened? */
bool perf_maps_has(const struct perf_maps *m, uint32_t pid, uint64_t start_ns);

/* Has that map changed since it was read, so that an address may have another name?  Checked once
 * per round. */
bool perf_maps_changed(struct perf_maps *m, uint32_t pid, uint64_t start_ns);
void perf_maps_end_round(struct perf_maps *m);

struct perf_map_reading {
	struct opened_file file;
	bool is_new;  /* nothing of this map has been read */
	bool is_read; /* read now; the caller may reset it */
	/* of perf_maps.c */
	struct perf_maps *maps;
	struct perf_map_slot *slot;
};

/* Opens the map of that process like perf_map_open(); if @uid is unknown, the one of an earlier
 * call is used. 0, then call perf_maps_end() with the CPU time of reading; or -errno. */
int perf_maps_begin(struct perf_maps *m, uint32_t pid, uint64_t start_ns, uid_t uid,
		    struct perf_map_reading *reading);
void perf_maps_end(struct perf_map_reading *reading, uint64_t took_ns);

/* Seeks to the unread part (somewhat before it).  False: all has been read, or nothing, or it is
 * too early. */
bool perf_maps_read_added(struct perf_map_reading *reading);

/* Seeks to the beginning.  False: it is too early. */
bool perf_maps_read_all(struct perf_map_reading *reading);

/* The share of CPU time for one map, and for all of them: one in this many. */
#define PERF_MAP_SHARE	20
#define PERF_MAPS_SHARE 10

#endif
