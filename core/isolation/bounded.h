/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_ISOLATION_BOUNDED_H
#define IOTRACE_CORE_ISOLATION_BOUNDED_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Reads and opens files that another process can block.  Some files of /proc/PID (cmdline, maps
 * before 6.17, map_files) take the lock of its address space; a thread of the process may hold the
 * lock while it waits for a file system of its own (FUSE).  Such a file system may never answer,
 * and then even a killed task does not end.
 *
 * A task that shares our memory (except in bounded_forked()) does the work and is killed after half
 * a second.  Together such tasks may take 2 % of the time; when that is used up each has 10 ms.  A
 * task that only waits for a CPU has a second.
 */

struct bounded_text {
	char *text; /* of @len bytes and a NUL */
	size_t len;
	/* of bounded.c */
	void *room;
	size_t room_size;
};

/* Reads the first @most bytes of @path. 0 with @out, whose memory bounded_text_free() frees, or
 * -errno; -ETIMEDOUT. */
int bounded_read(const char *path, size_t most, struct bounded_text *out);
/* The same for @fd, which stays open, from its current position. */
int bounded_read_fd(int fd, size_t most, struct bounded_text *out);
void bounded_text_free(struct bounded_text *text);

/*
 * Runs @call(@ctx, @result) in a task that has no descriptor except @dir (-1: none at all), so that
 * we do not hold descriptors of a task that was killed.  Returns the call's result: a descriptor,
 * which is then ours, with the @size bytes at @result as the task left them, or -errno; -ETIMEDOUT.
 * The call must not allocate memory nor use stdio's streams, nor let the kernel write to our memory
 * except at @result and on its stack: it may be killed at any time, and be gone much later.
 */
int bounded_open(int (*call)(void *ctx, void *result), void *ctx, int dir, void *result,
		 size_t size);

/* Closes @fd in a task, since closing can block too (FUSE_FLUSH).  We do not have it any more,
 * unless no task can be made. */
void bounded_close(int fd);

/*
 * Runs @call(@ctx) in a task with a copy of our memory, for calls that hold the memory's lock while
 * they wait (mmap()): we see only its writes to shared mappings.  Of our descriptors it has the
 * @n_kept at @kept, in ascending order.  Returns the call's result; -ETIMEDOUT.  It must not use
 * the heap, stdio's streams nor locks.
 */
int bounded_forked(int (*call)(void *ctx), void *ctx, const int *kept, size_t n_kept);

#endif
