/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_DOUBLE_BUFFER_H
#define IOTRACE_CORE_BPF_DOUBLE_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

/*
 * Draining without loss.  A probe writes to one of two buffers: the lowest bit of the epoch, a word
 * that it shares with user space, selects it.  User space increments the epoch and waits for every
 * program that may have read the old value.  Then no program writes to the other buffer: it is
 * inactive, and can be read and emptied.
 */
struct double_buffer;

/* @epoch lies in the probe's mapped .bss, and must outlive *out.  @preempted: this kernel may
 * preempt one of the probe's programs (hooks_are_preempted()). */
int double_buffer_open(uint32_t *epoch, bool preempted, struct double_buffer **out,
		       struct error *err);
void double_buffer_close(struct double_buffer *f);

/* From now on this kernel may preempt one of the probe's programs. */
void double_buffer_preempted(struct double_buffer *f);

/* Swaps the buffers.  Returns the index (0 or 1) of the one that is now inactive, or -errno.
 * *end_ns, if given, is the time of the swap, CLOCK_MONOTONIC. */
int double_buffer_swap(struct double_buffer *f, uint64_t *end_ns);

/* Waits until every program that runs now has ended. 0 or -errno. */
int double_buffer_wait(struct double_buffer *f);

/*
 * Removes every entry from the inactive hash map @fd and passes it to @each; a non-zero result of
 * @each ends it and is returned. 0 or -errno.
 */
int double_buffer_drain_hash(int fd, uint32_t key_size, uint32_t value_size,
			     int (*each)(void *ctx, const void *key, const void *value), void *ctx);

#endif
