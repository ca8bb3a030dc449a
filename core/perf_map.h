/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_PERF_MAP_H
#define IOTRACE_CORE_PERF_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Code of a process that is in no file. */
struct perf_map_place {
	uint64_t address; /* first, for core/search.h */
	char *name;	  /* NULL; then the caller's to free, if it is known */
};

/* Names the @n places, sorted by address, as process @pid has it in /tmp/perf-PID.map (in its own
 * root, with the number that it knows itself by). */
void perf_map_names(uint32_t pid, struct perf_map_place *places, size_t n);

/* The same from an open file: lines of "START SIZE NAME", hexadecimal.  A later line wins, since
 * code is replaced. */
void perf_map_read(FILE *file, struct perf_map_place *places, size_t n);

#endif
