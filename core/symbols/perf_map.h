/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opens and parses /tmp/perf-PID.map. */
#ifndef IOTRACE_CORE_SYMBOLS_PERF_MAP_H
#define IOTRACE_CORE_SYMBOLS_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/symbols/unread.h"
#include "core/isolation/open_regular.h"

/* Code of a process outside of any file. */
struct perf_map_place {
	uint64_t address; /* must be first, for core/base/search.h */
	char *name;	  /* NULL; then the caller's to free, if it is known */
};

/* The user of process @pid, which began @start_ns after boot. 0, or -errno: it has ended. */
int perf_map_owner(uint32_t pid, uint64_t start_ns, uid_t *uid);

#define PERF_MAP_NO_OWNER ((uid_t)-1)

/* Opens /tmp/perf-PID.map of process @pid: in its own root directory, with its number in its own
 * namespace; otherwise, and when it has ended, in ours.  Any user can put a file there: it must
 * belong to the user of the process, present or former (@uid; PERF_MAP_NO_OWNER: unknown), or to
 * root.  In another root directory than ours it is untrusted. 0 with *@out, which
 * opened_file_close() closes, or -errno. */
int perf_map_open(uint32_t pid, uint64_t start_ns, uid_t uid, struct opened_file *out);

/* Limits of a map, and of a line, in bytes. */
#define MAX_PERF_MAP	  (64U << 20)
#define MAX_PERF_MAP_LINE (64U << 10)

/*
 * Names the @n places, sorted by address: lines of "START SIZE NAME", hexadecimal.  A later line
 * wins, since code is replaced.  Reads from the position of @fd, from the beginning or from the
 * first line that begins after it. *unread says whether the file or a line is too long.  It may be
 * hostile: this runs in the helper process only (core/symbols/symbol_server.h).
 */
void perf_map_read(int fd, struct perf_map_place *places, size_t n, enum unread *unread);

#endif
