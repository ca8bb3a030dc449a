/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_PROCESS_NAMES_H
#define IOTRACE_CORE_SYSTEM_PROCESS_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

/*
 * Names of processes.  The probes tell a process's name when it submits I/O; it outlives the
 * process here.  A process is its number and when it started, in nanoseconds since boot.
 */
struct names;

#define NAME_SIZE 16 /* TASK_COMM_LEN */

int names_open(struct names **out);
void names_free(struct names *n);

/* What process @pid is called from now on: @comm, which ends with a NUL or is NAME_SIZE bytes, of
 * which the last does not count.  0 or -ENOMEM. */
int names_put(struct names *n, uint32_t pid, uint64_t start_ns, const char *comm);

/* The name of process @pid as the kernel has it, bytes that cannot be printed
 * included; "?" when nobody knows.  Never NULL; lives until names_forget() or
 * names_free(). */
const char *names_of(struct names *n, uint32_t pid, uint64_t start_ns);

/* For how many processes names_of() had no name since the last call, each of them once. */
uint64_t names_lost(struct names *n);

/* Drops what has not been in use for long if there is a lot: true if it did.  To be called when no
 * name that was handed out is in use any more. */
bool names_forget(struct names *n);

/* The name of @pid, if there is one, is in use: it outlives the next names_forget(). */
void names_keep(struct names *n, uint32_t pid, uint64_t start_ns);

#endif
