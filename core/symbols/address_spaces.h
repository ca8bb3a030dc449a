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
 * Address spaces: which file is mapped where in which process, also of
 * processes that have ended by now.  Processes that are met for the first time are looked up in
 * /proc; what comes later the kernel tells by perf's records of
 * exec, fork, exit and of mappings that can be executed (a software event, 5.10 and before).
 */
struct spaces;
struct space_files;

/* *why says whether the kernel tells of mappings: 0, or -errno of perf_records_open(); then what is
 * mapped after a process was looked up is known late or never.  0, or -errno of a shortage
 * (core/system/limits.h). */
int spaces_open(struct spaces **out, int *why);
void spaces_free(struct spaces *s);

/* May this process read the mappings of other users' processes?  6.12 wants CAP_SYS_PTRACE for
 * that, for 6.18 CAP_PERFMON is enough (may_access_mm()).  True when it cannot be found out. */
bool spaces_reads_others(void);

/* Descriptors that it may come to hold: the roots of containers, and our own. */
#define SPACES_FILES 65

/* Takes in what the kernel has told since the last call.  @until_ns: processes that ended before
 * may be forgotten, and of others what was unmapped before. */
void spaces_update(struct spaces *s, uint64_t until_ns);

/* What was mapped at @address of process @pid at @at_ns (CLOCK_MONOTONIC); false: nobody knows.
 * Its module lives until the next spaces_update(), and longer only while it is mapped, or from
 * module_get() to spaces_put(). */
bool spaces_find(struct spaces *s, uint32_t pid, uint64_t address, uint64_t at_ns,
		 struct mapping *out);
void spaces_put(struct spaces *s, struct module *module);

/* A number of all that was mapped in process @pid at @at_ns: where it is the same, the same was
 * mapped.  0: nobody knows. */
uint64_t spaces_number(const struct spaces *s, uint32_t pid, uint64_t at_ns);

/* Where core/symbols/mapped_files.h finds the files of mappings; as long as @s. */
const struct space_files *spaces_files(const struct spaces *s);

/* Records that the kernel could not hand over because the buffer was full, and CPUs that were not
 * listened to for a while: both may leave mappings unknown or out of date. */
uint64_t spaces_lost(const struct spaces *s);

/* What is followed at most; what goes beyond is unknown.  (HISTORY_MAPPINGS per process.) */
#define SPACES_PROCESSES 32768
#define SPACES_MEMORY	 (16UL << 20) /* bytes, of mappings and modules in all processes */

/* How often something was not followed because of these, or could not be read in time. */
uint64_t spaces_full(const struct spaces *s);

/* ---- for tests ---- */

struct spaces_size {
	size_t processes, versions, mappings, modules;
	size_t memory; /* bytes */
};

void spaces_size(const struct spaces *s, struct spaces_size *out);

/* As spaces_open(), without the kernel: spaces_take() is what it tells, spaces_take_maps() what
 * /proc/PID/maps says of process @pid at @at_ns. */
int spaces_open_unfollowed(struct spaces **out);
void spaces_take(struct spaces *s, const struct perf_record *record);
void spaces_take_maps(struct spaces *s, uint32_t pid, uint64_t at_ns, FILE *maps);

#endif
