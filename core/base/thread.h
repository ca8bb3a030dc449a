/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads. */
#ifndef IOTRACE_CORE_BASE_THREAD_H
#define IOTRACE_CORE_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Starts @run(@ctx) in a thread that gets no signals, which are for the run loop.  Its stack is the
 * @size bytes at @stack, or if that is NULL memory of its own.  0 or -errno. */
int thread_start(pthread_t *thread, void *stack, size_t size, void *(*run)(void *ctx), void *ctx);

#endif
