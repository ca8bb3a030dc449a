// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/grace.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void grace_wait(void)
{
	/* On kernels with nohz_full there is no such call: a program takes a microsecond. */
	const struct timespec long_enough = { 0, 10000000 };

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		nanosleep(&long_enough, NULL);
}
