/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_PERF_RECORDS_H
#define IOTRACE_CORE_SYMBOLS_PERF_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "core/symbols/elf_symbols.h"

/*
 * The kernel's records about all processes: executable
 * mappings, exec, fork and exit, in buffers of their own for each CPU.  (Software
 * event "dummy" of perf_event_open(2); no sample is ever taken.)
 */
struct perf_records;

enum perf_record_kind { PERF_MAPPED, PERF_EXEC, PERF_FORK, PERF_EXIT };

struct perf_record {
	enum perf_record_kind kind;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t pid;
	uint32_t parent; /* PERF_FORK */
	/* PERF_MAPPED */
	uint64_t start, length, offset;
	struct build_id id; /* 5.12, where the file has one */
	uint32_t dev;	    /* else these */
	uint64_t inode;
	char *path;
};

/* The buffers of all CPUs that are online, or none: 0, or -errno of perf_event_open() or mmap(). */
int perf_records_open(struct perf_records **out);
void perf_records_close(struct perf_records *p);

/* Passes the records since the last call to @each, oldest first (except one that a CPU was
 * interrupted in writing); a record is valid during the call only.  Then looks for new CPUs. */
void perf_records_read(struct perf_records *p,
		       void (*each)(void *ctx, const struct perf_record *record), void *ctx);

/* How many records had no room in the kernel's buffers so far, and how often a CPU without a buffer
 * was found. */
uint64_t perf_records_lost(const struct perf_records *p);

/* CPUs with a buffer. */
size_t perf_records_cpus(const struct perf_records *p);

#endif
