// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/grace.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool grace_wait_rcu(void)
{
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

void grace_wait(void)
{
	/* A program takes a microsecond. */
	const struct timespec long_enough = { 0, 10000000 };

	if (!grace_wait_rcu())
		nanosleep(&long_enough, NULL);
}
