/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Name and start time of a process, from /proc. */
#ifndef IOTRACE_CORE_SYSTEM_PROCESS_H
#define IOTRACE_CORE_SYSTEM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Contents of /proc for the process that has number @pid now. */
struct process {
	char comm[64];	   /* a kernel worker's name is longer than TASK_COMM_LEN */
	char state;	   /* 'R': running, or waiting for a CPU */
	uint64_t start_ns; /* since boot, rounded down to a tick */
};

/* The clock of /proc, in nanoseconds. */
uint64_t process_tick_ns(void);

/* 0 or -errno. */
int process_read(uint32_t pid, struct process *out);

/* False: the process with number @pid is gone.  True if unknown, in another PID namespace. */
bool process_exists(uint32_t pid);

/* Memory of this process in bytes. */
struct process_memory {
	uint64_t address_space, resident;
};

/* 0 or -errno. */
int process_own_memory(struct process_memory *out);

/* The size of a thread's stack in the kernel, bytes: THREAD_SIZE of x86 and arm64 without KASAN. */
uint64_t process_kernel_stack(void);

#endif
