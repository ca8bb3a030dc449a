/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_SYSCALLS_H
#define IOTRACE_CMD_SYSCALLS_H

#include <stdbool.h>

#include "probes/syscalls.h"

/* X(OP, NAME) for each of the system calls that are timed, enum call_syscall in its order. */
#define SYSCALLS_EACH(X)                                                                           \
	X(READ, read)                                                                              \
	X(PREAD64, pread64)                                                                        \
	X(READV, readv)                                                                            \
	X(PREADV, preadv)                                                                          \
	X(PREADV2, preadv2)                                                                        \
	X(WRITE, write)                                                                            \
	X(PWRITE64, pwrite64)                                                                      \
	X(WRITEV, writev)                                                                          \
	X(PWRITEV, pwritev)                                                                        \
	X(PWRITEV2, pwritev2)                                                                      \
	X(FSYNC, fsync)                                                                            \
	X(FDATASYNC, fdatasync)                                                                    \
	X(SYNC, sync)                                                                              \
	X(SYNCFS, syncfs)                                                                          \
	X(SYNC_FILE_RANGE, sync_file_range)                                                        \
	X(MSYNC, msync)                                                                            \
	X(OPEN, open)                                                                              \
	X(OPENAT, openat)                                                                          \
	X(OPENAT2, openat2)

/* The kernel's functions of system calls; not called where a filter or a tracer refuses the call.
 * 32-bit programs call some of them, too. */
#if defined(__x86_64__)
#define SYSCALLS_FUNCTION(name) "__x64_sys_" name
#elif defined(__aarch64__)
#define SYSCALLS_FUNCTION(name) "__arm64_sys_" name
#else
#define SYSCALLS_FUNCTION(name) "" /* not known */
#endif

const char *syscalls_name(unsigned int op); /* "pread64" */

/* Fills the probe's table of this architecture's numbers, @ops: 1 + enum call_syscall.  What is
 * not timed stays as it is.  @opens: open, openat, openat2 too. */
void syscalls_numbers(bool opens, unsigned char ops[SYSCALL_NUMBERS]);

#endif
