/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_SYSCALLS_H
#define IOTRACE_CMD_SYSCALLS_H

#include <stdbool.h>

#include "probes/syscalls.h"

/* The system calls that are timed, enum call_syscall. */

const char *syscalls_name(unsigned int op); /* "pread64" */

/* Fills the probe's table of this architecture's numbers, @ops: 1 + enum call_syscall.  What is
 * not timed stays as it is.  @opens: open, openat, openat2 too. */
void syscalls_numbers(bool opens, unsigned char ops[SYSCALL_NUMBERS]);

#endif
