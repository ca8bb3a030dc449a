// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"

uint64_t process_tick_ns(void)
{
	long per_second = sysconf(_SC_CLK_TCK);

	return NS_PER_SEC / (uint64_t)(per_second > 0 ? per_second : 100);
}

/* "PID (COMM) STATE PPID ...": the 22nd is the start time.  COMM may contain anything. */
static int parse(char *text, struct process *out)
{
	char *begin = strchr(text, '('), *end = strrchr(text, ')');
	unsigned long long start;

	if (!begin || !end || end < begin ||
	    sscanf(end + 1,
		   " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
		   "%llu",
		   &out->state, &start) != 2)
		return -EINVAL;
	*end = 0;
	snprintf(out->comm, sizeof(out->comm), "%s", begin + 1);
	out->start_ns = start * process_tick_ns();
	return 0;
}

int process_read(uint32_t pid, struct process *out)
{
	char path[64], text[1024];
	FILE *file FCLOSE_AT_END = NULL;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	len = fread(text, 1, sizeof(text) - 1, file);
	text[len] = 0;
	return parse(text, out);
}

/* The first PID namespace has the same number on all kernels (PROC_PID_INIT_INO, 3.8). */
static bool in_first_pid_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == 0xEFFFFFFCU;
}

bool process_exists(uint32_t pid)
{
	return kill((pid_t)pid, 0) == 0 || errno != ESRCH || !in_first_pid_ns();
}

int process_own_memory(struct process_memory *out)
{
	unsigned long long size, resident;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	FILE *file FCLOSE_AT_END = fopen("/proc/self/statm", "re");

	if (!file)
		return -errno;
	if (fscanf(file, "%llu %llu", &size, &resident) != 2)
		return -EIO;
	*out = (struct process_memory){ size * page, resident * page };
	return 0;
}

uint64_t process_kernel_stack(void)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return page > 16384 ? page : 16384;
}
