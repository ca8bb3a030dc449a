/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_PROCESS_H
#define IOTRACE_CORE_SYSTEM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* What /proc says about the process with number @pid now. */
struct process {
	char comm[64];	   /* a worker of a workqueue's is longer than TASK_COMM_LEN */
	char state;	   /* 'R': it runs, or waits for a CPU */
	uint64_t start_ns; /* since boot, cut to a tick */
};

/* The clock of /proc, in nanoseconds. */
uint64_t process_tick_ns(void);

/* 0 or -errno. */
int process_read(uint32_t pid, struct process *out);

/* False: the process with number @pid is gone.  In a PID namespace of its own, where that is not
 * known, true. */
bool process_exists(uint32_t pid);

/* Bytes of this process. */
struct process_memory {
	uint64_t address_space, resident;
};

/* 0 or -errno. */
int process_own_memory(struct process_memory *out);

#endif
