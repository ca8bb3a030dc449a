/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes a compressed archive (tar, ustar, gzip). */
#ifndef IOTRACE_OUTPUT_TAR_GZ_H
#define IOTRACE_OUTPUT_TAR_GZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tar_gz;

/* @stream stays the caller's.  NULL: out of memory. */
struct tar_gz *tar_gz_open(FILE *stream);

/* Begins a regular file of @size bytes with a @name of less than 100; tar_gz_put() adds exactly
 * these. */
void tar_gz_file(struct tar_gz *tar, const char *name, uint64_t size, uint64_t epoch_ns);
void tar_gz_put(struct tar_gz *tar, const void *data, size_t size);

/* Writes the end, and frees @tar.  0, or -errno of any write. */
int tar_gz_close(struct tar_gz *tar);

#endif
