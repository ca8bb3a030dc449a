/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An iterator over the frames of a stack, independent of how it is stored. */
#ifndef IOTRACE_CORE_BASE_FRAMES_H
#define IOTRACE_CORE_BASE_FRAMES_H

#include <stdint.h>

/*
 * A stack, leaf first, in the form chosen by its owner: next() returns the name of the frame at *at
 * and steps to its caller; NULL: no more frames.  Two frames with the same name return the same
 * pointer. { 0 } has no frames.
 */
struct frames {
	const char *(*next)(const void *owner, uint32_t *at);
	const void *owner;
	uint32_t at;
};

/* The next frame of @frames, which is advanced. */
static inline const char *frames_next(struct frames *frames)
{
	return frames->next ? frames->next(frames->owner, &frames->at) : 0;
}

#endif
