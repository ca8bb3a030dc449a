/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_SYSCALLS_H
#define IOTRACE_PROBES_SYSCALLS_H

#include <linux/types.h>
#include <stdbool.h>

/* System calls. */
enum call_syscall {
	SYSCALL_READ,
	SYSCALL_PREAD64,
	SYSCALL_READV,
	SYSCALL_PREADV,
	SYSCALL_PREADV2,
	SYSCALL_WRITE,
	SYSCALL_PWRITE64,
	SYSCALL_WRITEV,
	SYSCALL_PWRITEV,
	SYSCALL_PWRITEV2,
	SYSCALL_COPY_FILE_RANGE,
	SYSCALL_FSYNC,
	SYSCALL_FDATASYNC,
	SYSCALL_SYNC,
	SYSCALL_SYNCFS,
	SYSCALL_SYNC_FILE_RANGE,
	SYSCALL_MSYNC,
	SYSCALL_OPEN, /* from here on: not in the table of all layers */
	SYSCALL_OPENAT,
	SYSCALL_OPENAT2,
	SYSCALL_SENDFILE, /* these also wait for sockets, pipes, idle rings */
	SYSCALL_SPLICE,
	SYSCALL_IO_SUBMIT,
	SYSCALL_IO_GETEVENTS,
	SYSCALL_IO_PGETEVENTS,
	SYSCALL_IO_URING_ENTER,
	SYSCALLS,
};

#define SYSCALL_NUMBERS 512 /* a power of two; calls with higher numbers are not timed */

/* Is the first argument of @op the descriptor of its file? */
static inline bool syscall_has_fd(__u32 op)
{
	return (op != SYSCALL_SYNC && op != SYSCALL_MSYNC && op < SYSCALL_OPEN) ||
	       op == SYSCALL_SENDFILE || op == SYSCALL_SPLICE;
}

/* Which argument of @op, from 0 on, is the descriptor of a second file; 0: it has none. */
static inline __u32 syscall_second_fd(__u32 op)
{
	if (op == SYSCALL_SENDFILE)
		return 1;
	return op == SYSCALL_SPLICE || op == SYSCALL_COPY_FILE_RANGE ? 2 : 0;
}

#endif
