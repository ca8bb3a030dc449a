// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/syscalls.h"

#include <sys/syscall.h>

/* The numbers are those of the architecture that iotrace is built for; newer ones may lack some. */
static const struct {
	const char *name;
	int number; /* -1: this architecture has no such call */
} syscalls[SYSCALLS] = {
	[SYSCALL_READ] = { "read", SYS_read },
	[SYSCALL_PREAD64] = { "pread64", SYS_pread64 },
	[SYSCALL_READV] = { "readv", SYS_readv },
	[SYSCALL_PREADV] = { "preadv", SYS_preadv },
	[SYSCALL_PREADV2] = { "preadv2", SYS_preadv2 },
	[SYSCALL_WRITE] = { "write", SYS_write },
	[SYSCALL_PWRITE64] = { "pwrite64", SYS_pwrite64 },
	[SYSCALL_WRITEV] = { "writev", SYS_writev },
	[SYSCALL_PWRITEV] = { "pwritev", SYS_pwritev },
	[SYSCALL_PWRITEV2] = { "pwritev2", SYS_pwritev2 },
	[SYSCALL_FSYNC] = { "fsync", SYS_fsync },
	[SYSCALL_FDATASYNC] = { "fdatasync", SYS_fdatasync },
	[SYSCALL_SYNC] = { "sync", SYS_sync },
	[SYSCALL_SYNCFS] = { "syncfs", SYS_syncfs },
#ifdef SYS_sync_file_range
	[SYSCALL_SYNC_FILE_RANGE] = { "sync_file_range", SYS_sync_file_range },
#else
	/* powerpc: another order of arguments, and the descriptor comes first too */
	[SYSCALL_SYNC_FILE_RANGE] = { "sync_file_range", SYS_sync_file_range2 },
#endif
	[SYSCALL_MSYNC] = { "msync", SYS_msync },
#ifdef SYS_open
	[SYSCALL_OPEN] = { "open", SYS_open },
#else
	[SYSCALL_OPEN] = { "open", -1 },
#endif
	[SYSCALL_OPENAT] = { "openat", SYS_openat },
	[SYSCALL_OPENAT2] = { "openat2", SYS_openat2 },
};

const char *syscalls_name(unsigned int op)
{
	return op < SYSCALLS ? syscalls[op].name : "unknown";
}

void syscalls_numbers(bool opens, unsigned char ops[SYSCALL_NUMBERS])
{
	for (unsigned int i = 0; i < (opens ? SYSCALLS : SYSCALL_OPEN); i++)
		if (syscalls[i].number >= 0 && syscalls[i].number < SYSCALL_NUMBERS)
			ops[syscalls[i].number] = (unsigned char)(i + 1);
}
