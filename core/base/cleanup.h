/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Descriptors and files that are closed wherever their block is left. */
#ifndef IOTRACE_CORE_BASE_CLEANUP_H
#define IOTRACE_CORE_BASE_CLEANUP_H

/* A variable with one of these attributes is closed when its block is left; errno is preserved.  It
 * may hold -1 or NULL. */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define CLOSE_AT_END	__attribute__((cleanup(cleanup_fd)))
#define FCLOSE_AT_END	__attribute__((cleanup(cleanup_file)))
#define CLOSEDIR_AT_END __attribute__((cleanup(cleanup_dir)))

#define CLEANUP(name, type, is_open, close_it)                                                     \
	static inline void name(type const *held)                                                  \
	{                                                                                          \
		int code = errno;                                                                  \
                                                                                                   \
		if (is_open)                                                                       \
			close_it(*held);                                                           \
		errno = code;                                                                      \
	}

CLEANUP(cleanup_fd, int, *held >= 0, close)
CLEANUP(cleanup_file, FILE *, *held, fclose)
CLEANUP(cleanup_dir, DIR *, *held, closedir)

#undef CLEANUP

#endif
