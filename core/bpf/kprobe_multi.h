/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_KPROBE_MULTI_H
#define IOTRACE_CORE_BPF_KPROBE_MULTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hook_function;

/* Where the @n @functions are, by the kernel's own look-up: *addresses is an array, which is the
 * caller's, or -errno; -ENOENT: it does not say it of each. */
int kprobe_multi_find(const struct hook_function *functions, size_t n, uint64_t **addresses);

/*
 * Attaches the program @prog_fd (BPF_TRACE_KPROBE_MULTI, Linux 5.18) to the entry of the @n
 * @functions, or to their return (@is_return); it gets the function's cookie with each call.
 * @addresses: where they are, or NULL; then the kernel looks through all of its symbols for them.
 * The link's descriptor, which is the caller's, or -errno, and then no function has it; -ESRCH, by
 * address -ENOENT: one of them is not there or cannot be traced.
 */
int kprobe_multi_attach(const struct hook_function *functions, const uint64_t *addresses, size_t n,
			bool is_return, int prog_fd);

/* How many calls the link did not hand to its program, for want of room to note where they return
 * to (counted since 6.7); 0 if the kernel does not say. */
uint64_t kprobe_multi_missed(int link_fd);

#endif
