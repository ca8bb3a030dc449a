/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_FUZZ_FUZZ_H
#define IOTRACE_TEST_FUZZ_FUZZ_H

/* Shared by the fuzzers.  Each is one file that defines LLVMFuzzerTestOneInput(). */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file in memory that holds the input; the same descriptor each time. */
static inline int fuzz_fd(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("input", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size ||
	    lseek(fd, 0, SEEK_SET))
		abort();
	return fd;
}

/* Its name, for what opens files by name. */
static inline const char *fuzz_path(const uint8_t *data, size_t size)
{
	static char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fuzz_fd(data, size));
	return path;
}

/* The input as text, the caller's to free. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	return text;
}

#endif
