// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/block/syscalls.h"

#include <sys/syscall.h>

#ifndef SYS_open
#define SYS_open -1 /* newer architectures lack them */
#endif
#ifndef SYS_sync_file_range /* powerpc: another order of arguments, the descriptor first too */
#define SYS_sync_file_range SYS_sync_file_range2
#endif

/* The numbers of the architecture that iotrace is built for. */
static const struct {
	const char *name;
	int number;
} syscalls[SYSCALLS] = {
#define SYSCALL(op, name, number) [SYSCALL_##op] = { name, number },
	SYSCALLS_EACH(SYSCALL)
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
