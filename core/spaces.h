/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SPACES_H
#define IOTRACE_CORE_SPACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/elf_symbols.h"
#include "core/error.h"

/*
 * Address spaces: which file is mapped where in which process, also of
 * processes that have ended by now.  Processes that are met for the first time are looked up in
 * /proc; what comes later the kernel tells by perf's records of
 * exec, fork, exit and of mappings that can be executed (a software event, 5.10 and before).
 */
struct spaces;
struct space_files;

/* A file that code was mapped from. */
struct module {
	const char *path; /* as the process had it; "[vdso]", "[anon]" for what is no file */
	struct build_id id;
	uint64_t inode; /* 0: not known; with @dev, dev_t of the kernel */
	uint32_t dev;
	bool is_file;
};

struct mapping {
	uint64_t start, end; /* addresses */
	uint64_t offset;     /* of start, in the file */
	uint64_t since_ns;   /* CLOCK_MONOTONIC; 0: always */
	const struct module *module;
};

/* *why says whether the kernel tells of mappings: 0, or -errno of perf_records_open(); then what is
 * mapped after a process was looked up is known late or never.  0, or -errno of a shortage
 * (core/limits.h). */
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
 * Modules live until spaces_free(). */
bool spaces_find(struct spaces *s, uint32_t pid, uint64_t address, uint64_t at_ns,
		 struct mapping *out);

/* Where core/space_files.h finds the files of mappings; as long as @s. */
const struct space_files *spaces_files(const struct spaces *s);

/* Records that the kernel could not hand over because the buffer was full. */
uint64_t spaces_lost(const struct spaces *s);

#endif
