/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_BENCH_STARTUP_H
#define IOTRACE_BENCH_STARTUP_H

/* The process that startup.bpf.c watches, and what it saw. */
struct startup {
	unsigned long long exec_ns;   /* when its exec was done, CLOCK_MONOTONIC */
	unsigned long long attach_ns; /* when it last attached a program */
	unsigned int attaches;
	unsigned int pid;
	unsigned int bpf_nr;  /* number of the system call bpf() */
	unsigned int command; /* of the bpf() call that it is in, plus 1 */
};

#endif
