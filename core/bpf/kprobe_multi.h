/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One program at many functions. */
#ifndef IOTRACE_CORE_BPF_KPROBE_MULTI_H
#define IOTRACE_CORE_BPF_KPROBE_MULTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hook_function;

/* The addresses of the @n @functions, by the kernel's own lookup: *addresses is an array, which is
 * the caller's, or -errno; -ENOENT: one of them was not found. */
int kprobe_multi_find(const struct hook_function *functions, size_t n, uint64_t **addresses);

/*
 * Attaches the program @prog_fd (BPF_TRACE_KPROBE_MULTI, Linux 5.18) to the entry of the @n
 * @functions, or to their return (@is_return); it gets the function's cookie with each call.
 * @addresses: their addresses, or NULL; then the kernel searches all of its symbols.  Returns the
 * link's descriptor, which is the caller's, or -errno, and then no function is hooked; -ESRCH, by
 * address -ENOENT: one of them does not exist or cannot be traced.
 */
int kprobe_multi_attach(const struct hook_function *functions, const uint64_t *addresses, size_t n,
			bool is_return, int prog_fd);

/* How many calls the link did not pass to its program, for want of room for their return addresses
 * (counted since 6.7); 0 if the kernel does not count. */
uint64_t kprobe_multi_missed(int link_fd);

#endif
