/* SPDX-License-Identifier: GPL-2.0-or-later */
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

/* What process @pid is called from now on: @comm, which ends with a NUL or is PROCESS_NAME_SIZE
 * bytes, of which the last does not count.  0 or -ENOMEM. */
int process_names_put(struct process_names *n, uint32_t pid, uint64_t start_ns, const char *comm);

/* The name of process @pid as the kernel has it, bytes that cannot be printed
 * included, but for names that iotrace itself gives rows, as "(other)", which begin with an escape
 * then ("\\x28other)"); "?" if it is unknown.  Never NULL; lives until process_names_forget() or
 * process_names_free(). */
const char *process_names_get(struct process_names *n, uint32_t pid, uint64_t start_ns);

/* For how many processes process_names_get() had no name since the last call, each of them once. */
uint64_t process_names_lost(struct process_names *n);

/* Drops the names that were not asked for in a long time, if there are many names: true if it did.
 * To be called when no returned name is in use any more. */
bool process_names_forget(struct process_names *n);

/* The name of @pid, if there is one, is in use: it outlives the next process_names_forget(). */
void process_names_keep(struct process_names *n, uint32_t pid, uint64_t start_ns);

#endif
