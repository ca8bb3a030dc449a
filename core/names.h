/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_NAMES_H
#define IOTRACE_CORE_NAMES_H

#include <stdint.h>

#include "core/error.h"

/*
 * Names of processes.  The probes store a process's name when it first
 * submits I/O; that name outlives the process, and is kept here once read.
 */
struct names;

#define NAME_SIZE 16 /* TASK_COMM_LEN */

/* @lookup asks the probe's map: 0 and the NUL-terminated name, or -errno. */
int names_open(int (*lookup)(void *ctx, uint32_t pid, char comm[NAME_SIZE]), void *ctx,
	       struct names **out);
void names_free(struct names *n);

/* The name of process @pid as the kernel has it, bytes that cannot be printed
 * included; "?" when nobody knows.  Never NULL; lives until names_forget() or
 * names_free(). */
const char *names_of(struct names *n, uint32_t pid);

/* Drops what was learnt if there is a lot of it.  To be called when no name
 * that was handed out is in use any more. */
void names_forget(struct names *n);

#endif
