/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_ADDRESS_SPACES_H
#define IOTRACE_CORE_SYMBOLS_ADDRESS_SPACES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "core/base/error.h"
#include "core/symbols/mappings.h"
#include "core/symbols/perf_records.h"

/*
 * Address spaces: which file is mapped where in which process, also of processes that have ended.
 * A process that is asked for the first time is read from /proc; later changes come from perf's
 * records of exec, fork, exit and executable mappings (a software event, 5.10 and before).
 */
struct address_spaces;
struct address_space_files;

/* *why: 0, or -errno of perf_records_open(): there are no perf records, and what is mapped after a
 * process was looked up is known late or never.  0, or -errno of a shortage
 * (core/system/limits.h). */
int address_spaces_open(struct address_spaces **out, int *why);
void address_spaces_free(struct address_spaces *s);

/* May this process read the mappings of other users' processes?  6.12 wants CAP_SYS_PTRACE for
 * that, for 6.18 CAP_PERFMON is enough (may_access_mm()).  True when it cannot be found out. */
bool address_spaces_reads_others(void);

/* Descriptors that it may come to hold: the roots of containers, and our own. */
#define ADDRESS_SPACES_FILES 65

/* Reads the perf records since the last call.  @until_ns: processes that ended before may be
 * forgotten, and mappings that were unmapped before. */
void address_spaces_update(struct address_spaces *s, uint64_t until_ns);

/* What was mapped at @address of process @pid at @at_ns (CLOCK_MONOTONIC); false: unknown.
 * Its module lives until the next address_spaces_update(), and longer only while it is mapped, or
 * from module_get() to address_spaces_put(). */
bool address_spaces_find(struct address_spaces *s, uint32_t pid, uint64_t address, uint64_t at_ns,
			 struct mapping *out);
/* Calls @each for all that process @pid has mapped now, if that is known. */
void address_spaces_each(struct address_spaces *s, uint32_t pid,
			 int (*each)(void *ctx, const struct mapping *m), void *ctx);

void address_spaces_put(struct address_spaces *s, struct module *module);

/* The version of the mappings of process @pid at @at_ns: equal versions are equal mappings.
 * 0: unknown. */
uint64_t address_spaces_number(const struct address_spaces *s, uint32_t pid, uint64_t at_ns);

/* Where core/symbols/mapped_files.h finds the files of mappings; as long as @s. */
const struct address_space_files *address_spaces_files(const struct address_spaces *s);

/* Perf records that were lost because the buffer was full, and CPUs whose records were not read for
 * a while: both may leave mappings unknown or out of date. */
uint64_t address_spaces_lost(const struct address_spaces *s);

/* Limits; what exceeds them is unknown.  (HISTORY_MAPPINGS per process.) */
#define ADDRESS_SPACES_PROCESSES 32768
#define ADDRESS_SPACES_MEMORY	 (16UL << 20) /* bytes, of mappings and modules in all processes */

/* How often something exceeded these, or could not be read in time. */
uint64_t address_spaces_full(const struct address_spaces *s);

struct address_spaces_size {
	size_t processes, versions, mappings, modules;
	size_t memory; /* bytes */
};

void address_spaces_size(const struct address_spaces *s, struct address_spaces_size *out);

/* ---- for tests ---- */

/* As address_spaces_open(), without perf records: address_spaces_take() takes one,
 * address_spaces_take_maps() what /proc/PID/maps of process @pid held at @at_ns. */
int address_spaces_open_unfollowed(struct address_spaces **out);
void address_spaces_take(struct address_spaces *s, const struct perf_record *record);
void address_spaces_take_maps(struct address_spaces *s, uint32_t pid, uint64_t at_ns, FILE *maps);

#endif
