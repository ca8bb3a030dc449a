/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A directory of recordings, the segments, of which the oldest make room for new ones. */
#ifndef IOTRACE_CMD_RECORD_RING_H
#define IOTRACE_CMD_RECORD_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/*
 * A segment is the file TIME-NAME.rec: when it begins (UTC, to the millisecond), and the name of
 * its stream.  A thread of its own writes them, and may wait for a disk that does not answer:
 * meanwhile RING_MEMORY bytes wait in memory.  A stream whose bytes have no room has a gap, and
 * goes on in another segment.
 *
 * One stream has details, which are kept only around triggers: its segments are called RING_RECENT,
 * and removed after a while, unless a trigger renames them.  They have at most a quarter of the
 * directory and half of the memory, so that other streams do not suffer from them.
 */

#define RING_STREAMS	16
#define RING_NAME_SIZE	32
#define RING_MEMORY	(12U << 20)
#define RING_RECENT	"recent"
#define RING_SEGMENT_NS (3600 * 1000000000ULL) /* a segment ends with the hour, in UTC */

struct ring;

/* Makes the directory @dir if it is missing, with access for its owner only; another user's
 * directory, or one where others may write, is refused, and so is one where another run writes.
 * From then on segments that are older than @keep_ns are removed, and the oldest ones if all have
 * more than @size bytes.  @dir must outlive the ring.  -errno with @err. */
int ring_open(const char *dir, uint64_t size, uint64_t keep_ns, struct ring **out,
	      struct error *err);

/* Before ring_start(): flushes all bytes to the disk as soon as they are written. */
void ring_sync(struct ring *ring);

/* A stream, to which @name belongs: its number, less than RING_STREAMS. */
size_t ring_stream(struct ring *ring, const char *name);

/* The same for details: @before_ns is kept before a trigger, @after_ns after it.  Once at most. */
size_t ring_stream_detail(struct ring *ring, const char *name, uint64_t before_ns,
			  uint64_t after_ns);

/* Starts the thread: after capabilities were given up, which are a thread's own.  -errno with @err.
 */
int ring_start(struct ring *ring, struct error *err);

/* How large a segment may become, in bytes. */
uint64_t ring_segment_size(const struct ring *ring);

/* Ends the stream's segment, and begins another at @epoch_ns, with these bytes; adds bytes to it.
 * Neither waits. False: there was no room for any of it. */
bool ring_begin(struct ring *ring, size_t stream, uint64_t epoch_ns, const void *data, size_t size);
bool ring_put(struct ring *ring, size_t stream, const void *data, size_t size);

/* Keeps the details around @epoch_ns, and writes it and @text to the file of triggers
 * (cmd/engine/trigger_file.h).  Like ring_put(). */
bool ring_trigger(struct ring *ring, uint64_t epoch_ns, const char *text);

/* Could the stream's segment not be written? Until ring_begin(). */
bool ring_failed(struct ring *ring, size_t stream);

/* Since the last call. */
struct ring_losses {
	int trouble;		  /* the last write that failed, -errno or 0 */
	int no_trigger;		  /* the same of the file of triggers */
	uint64_t refused;	  /* bytes without room */
	uint64_t refused_details; /* of them details */
	bool too_large;		  /* some had more bytes than RING_MEMORY */
	bool shortened;		  /* recent details were removed too early, for want of room */
	bool full;		  /* segments were removed because the disk is full */
};
struct ring_losses ring_losses(struct ring *ring);

/* Waits some seconds at most for what is not written yet; false: it was dropped.  NULL is fine. */
bool ring_close(struct ring *ring);

#endif
