/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_FRAMES_H
#define IOTRACE_OUTPUT_FRAMES_H

#include <stdint.h>

/*
 * A stack, leaf first, in whatever form its owner keeps it: next() gives the name of the frame
 * at *at and steps to its caller; NULL: that was the last.  Two frames with the same name give the
 * same pointer.  { 0 } has no frames.
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
