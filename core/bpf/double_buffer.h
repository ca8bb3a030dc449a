/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BPF_DOUBLE_BUFFER_H
#define IOTRACE_CORE_BPF_DOUBLE_BUFFER_H

#include <stdint.h>

#include "core/base/error.h"

/*
 * Draining without loss.  A probe writes to one of two buffers, by the lowest
 * bit of a word that it shares with user space.  Turning the word and waiting
 * until every program that may have read the old value has ended leaves a
 * buffer that nobody writes to: it can be read and emptied at leisure.
 */
struct flip;

/* @epoch is the probe's word in its mapped .bss; it must outlive *out. */
int flip_open(uint32_t *epoch, struct flip **out, struct error *err);
void flip_close(struct flip *f);

/* Turns.  Returns the index (0 or 1) of the buffer that is now quiet, or -errno.
 * *end_ns, if given, is the moment of the turn, CLOCK_REALTIME. */
int flip_turn(struct flip *f, uint64_t *end_ns);

/*
 * Takes every entry out of the quiet hash map @fd and hands it to @each; a non-zero return of @each
 * ends it and is returned.  0 or -errno.
 */
int flip_drain_hash(int fd, uint32_t key_size, uint32_t value_size,
		    int (*each)(void *ctx, const void *key, const void *value), void *ctx);

#endif
