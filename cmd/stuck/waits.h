/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a thread waits for, by the functions of its stack. */
#ifndef IOTRACE_CMD_STUCK_WAITS_H
#define IOTRACE_CMD_STUCK_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In words: "lock", "NFS server". */
struct wait_reason {
	const char *what;
	/* The thread waits for I/O: for the request that its stack has the address of. */
	bool io;
	bool journal; /* of jbd2, whose thread waits for a request */
};

/* Waits for I/O. */
extern const struct wait_reason wait_io;

/* Of the @n functions @names, the innermost first; NULL: none of them
 * is known. */
const struct wait_reason *waits_reason(const char *const *names, size_t n);

/* The server that a page of a file system of this kind (s_magic) comes from; NULL: none. */
const char *waits_server(uint64_t magic);

#endif
