/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of processes, kept after they exit. */
#ifndef IOTRACE_CORE_NAMING_PROCESS_NAMES_H
#define IOTRACE_CORE_NAMING_PROCESS_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

/*
 * Names of processes.  The probes report a process's name when it submits I/O; here it outlives the
 * process.  A process is identified by its PID and its start time, in nanoseconds since boot.
 */
struct process_names;

#define PROCESS_NAME_SIZE 16 /* TASK_COMM_LEN */

int process_names_open(struct process_names **out);
void process_names_free(struct process_names *n);

/* The name of process @pid from now on: @comm, which ends with a NUL or is PROCESS_NAME_SIZE bytes,
 * of which the last does not count. 0 or -ENOMEM. */
int process_names_put(struct process_names *n, uint32_t pid, uint64_t start_ns, const char *comm);

/* The kernel's name of process @pid, unprintable bytes included.  Names that iotrace itself gives
 * to rows, such as "(other)", begin with an escape ("\\x28other)"); "?": unknown.  Never NULL;
 * valid until process_names_forget() or process_names_free(). */
const char *process_names_get(struct process_names *n, uint32_t pid, uint64_t start_ns);

/* The same for the kernel's name @comm, as process_names_put() has it. */
void process_names_escape(const char *comm, char to[PROCESS_NAME_SIZE]);

/* For how many processes process_names_get() had no name since the last call, each counted once. */
uint64_t process_names_lost(struct process_names *n);

/* Drops names that were not requested for a long time, if there are many: true if it did.  Call
 * when no returned name is in use any more. */
bool process_names_forget(struct process_names *n);

/* The name of @pid, if any, is in use: it outlives the next process_names_forget(). */
void process_names_keep(struct process_names *n, uint32_t pid, uint64_t start_ns);

#endif
