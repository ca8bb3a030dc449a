/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_PERF_MAP_H
#define IOTRACE_CORE_SYMBOLS_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/symbols/unread.h"
#include "core/isolation/open_regular.h"

/* Code of a process that is in no file. */
struct perf_map_place {
	uint64_t address; /* first, for core/base/search.h */
	char *name;	  /* NULL; then the caller's to free, if it is known */
};

/* The user that process @pid, which began @start_ns after boot, runs as.  0, or -errno: it has
 * ended. */
int perf_map_owner(uint32_t pid, uint64_t start_ns, uid_t *uid);

#define PERF_MAP_NO_OWNER ((uid_t)-1)

/* Opens /tmp/perf-PID.map of process @pid: in its own root directory, with the number that it knows
 * itself by; else, and when it has ended, in ours.  Anybody can put a file there: it must belong to
 * the user that the process runs as, or ran as (@uid; PERF_MAP_NO_OWNER: not known), or to root. In
 * another root directory than ours it is foreign.  0 with *@out, which opened_file_close() closes,
 * or -errno. */
int perf_map_open(uint32_t pid, uint64_t start_ns, uid_t uid, struct opened_file *out);

/* Bytes that are read of a map; of a line. */
#define MAX_PERF_MAP	  (64U << 20)
#define MAX_PERF_MAP_LINE (64U << 10)

/*
 * Names the @n places, sorted by address: lines of "START SIZE NAME", hexadecimal.  A later line
 * wins, since code is replaced.  It is read from where @fd stands, from the beginning or from the
 * first line that begins behind that.  *unread says whether the file or a line is too long.  It
 * may be hostile: this runs in the helper process only (core/symbols/symbol_server.h).
 */
void perf_map_read(int fd, struct perf_map_place *places, size_t n, enum unread *unread);

#endif
