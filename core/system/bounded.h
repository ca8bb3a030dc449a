/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_BOUNDED_H
#define IOTRACE_CORE_SYSTEM_BOUNDED_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Reading and opening what another process can keep waiting.  Some files of /proc/PID (cmdline,
 * maps before 6.17, map_files) take the lock of its address space, which a thread of it holds while
 * it waits for a file system of its own (FUSE); such a file system may answer nobody at all.
 *
 * A task that shares our memory does it and is killed after half a second.  Together such tasks may
 * take 2 % of the time; when that is used up each has 10 ms.  One that waits for a CPU and nothing
 * else has a second.
 */

struct bounded_text {
	char *text; /* of @len bytes and a NUL */
	size_t len;
	/* of bounded.c */
	void *room;
	size_t room_size;
};

/* Reads the first @most bytes of @path.  0 with @out, whose memory bounded_text_free() frees, or
 * -errno; -ETIMEDOUT. */
int bounded_read(const char *path, size_t most, struct bounded_text *out);
void bounded_text_free(struct bounded_text *text);

/* What @call(@ctx) returns: a descriptor or -errno; -ETIMEDOUT.  It must not allocate memory nor
 * use stdio's streams, as it may be killed at any time. */
int bounded_open(int (*call)(void *ctx), void *ctx);

#endif
