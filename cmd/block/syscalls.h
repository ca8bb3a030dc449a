/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names and numbers of the system calls that are timed. */
#ifndef IOTRACE_CMD_BLOCK_SYSCALLS_H
#define IOTRACE_CMD_BLOCK_SYSCALLS_H

#include <stdbool.h>

#include "core/bpf/hooks.h"
#include "probes/syscalls.h"

/* X(OP, NAME, NUMBER) for each of the system calls that are timed, enum call_syscall in its order.
 */
#define SYSCALLS_EACH(X)                                                                           \
	X(READ, "read", SYS_read)                                                                  \
	X(PREAD64, "pread64", SYS_pread64)                                                         \
	X(READV, "readv", SYS_readv)                                                               \
	X(PREADV, "preadv", SYS_preadv)                                                            \
	X(PREADV2, "preadv2", SYS_preadv2)                                                         \
	X(WRITE, "write", SYS_write)                                                               \
	X(PWRITE64, "pwrite64", SYS_pwrite64)                                                      \
	X(WRITEV, "writev", SYS_writev)                                                            \
	X(PWRITEV, "pwritev", SYS_pwritev)                                                         \
	X(PWRITEV2, "pwritev2", SYS_pwritev2)                                                      \
	X(COPY_FILE_RANGE, "copy_file_range", SYS_copy_file_range)                                 \
	X(FSYNC, "fsync", SYS_fsync)                                                               \
	X(FDATASYNC, "fdatasync", SYS_fdatasync)                                                   \
	X(SYNC, "sync", SYS_sync)                                                                  \
	X(SYNCFS, "syncfs", SYS_syncfs)                                                            \
	X(SYNC_FILE_RANGE, "sync_file_range", SYS_sync_file_range)                                 \
	X(MSYNC, "msync", SYS_msync)                                                               \
	X(OPEN, "open", SYS_open)                                                                  \
	X(OPENAT, "openat", SYS_openat)                                                            \
	X(OPENAT2, "openat2", SYS_openat2)                                                         \
	X(SENDFILE, "sendfile64", SYS_sendfile)                                                    \
	X(SPLICE, "splice", SYS_splice)                                                            \
	X(IO_SUBMIT, "io_submit", SYS_io_submit)                                                   \
	X(IO_GETEVENTS, "io_getevents", SYS_io_getevents)                                          \
	X(IO_PGETEVENTS, "io_pgetevents", SYS_io_pgetevents)                                       \
	X(IO_URING_ENTER, "io_uring_enter", SYS_io_uring_enter)

const char *syscalls_name(unsigned int op); /* "pread64" */

/* Fills the probe's table of this architecture's numbers, @ops: 1 + enum call_syscall.  Entries of
 * untimed calls are unchanged.  @opens: open, openat, openat2 too. */
void syscalls_numbers(bool opens, unsigned char ops[SYSCALL_NUMBERS]);

#endif
