/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_KPROBE_MULTI_H
#define IOTRACE_CORE_BPF_KPROBE_MULTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hook_function;

/*
 * Attaches the program @prog_fd (BPF_TRACE_KPROBE_MULTI, Linux 5.18) to the entry of the @n
 * @functions, or to their return (@is_return); it gets the function's cookie with each call.  The
 * link's descriptor, which is the caller's, or -errno, and then no function has it; -ESRCH: one of
 * them is not in kallsyms, or cannot be traced.
 */
int kprobe_multi_attach(const struct hook_function *functions, size_t n, bool is_return,
			int prog_fd);

/* How many calls the link did not hand to its program, for want of room to note where they return
 * to (counted since 6.7); 0 if the kernel does not say. */
uint64_t kprobe_multi_missed(int link_fd);

#endif
