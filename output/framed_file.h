/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_FRAMED_FILE_H
#define IOTRACE_OUTPUT_FRAMED_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"

/*
 * A file of numbered blocks, each with a checksum (docs/RECORDING.md): truncated, changed, missing
 * and inserted blocks are detected. output/recording.h defines the contents of the blocks.
 */

/* Version of the whole format, including the contents of the blocks. */
#define FRAMED_VERSION 1

/* The largest block, in bytes. */
#define FRAMED_BLOCK_MAX (64U << 20)

/* ---- writing ---- */

struct framed_out {
	FILE *stream;
	uint32_t n; /* blocks so far */
};

/* Writes the file's head to @stream, which stays the caller's. 0 or -errno. */
int framed_begin(struct framed_out *out, FILE *stream);

/* Writes a block of at most FRAMED_BLOCK_MAX bytes (otherwise -E2BIG).  The data may still be in
 * stdio's buffer: call fflush(). 0 or -errno. */
int framed_put(struct framed_out *out, uint32_t type, const void *data, size_t size);

/* ---- reading ---- */

struct framed_in {
	FILE *stream;
	const char *name; /* of the file, for errors: safe to print */
	uint32_t n;	  /* blocks so far */
	uint64_t at;	  /* bytes so far */
	unsigned char *data;
	size_t room;
};

struct framed_block {
	uint32_t type;
	const unsigned char *data; /* valid until the next block is read */
	size_t size;
	uint64_t at; /* where it begins in the file */
};

/* Reads the head of @stream, which stays the caller's. -errno with @err (STATUS_FAILED): not such a
 * file, or a newer version. framed_close() in any case. */
int framed_open(struct framed_in *in, FILE *stream, const char *name, struct error *err);

/*
 * Reads a block: 1. 0: the file ends here, between two blocks. -errno with @err (STATUS_FAILED): it
 * ends within a block, is damaged, or cannot be read.  Uses at most twice the memory of the file's
 * real size.
 */
int framed_next(struct framed_in *in, struct framed_block *out, struct error *err);

/* Errors that the reader of the blocks finds. -errno with @err: the file ends too early; block
 * @block is wrong for the reason @how ("is not the last"). */
int framed_cut_off(const struct framed_in *in, struct error *err);
int framed_damaged(const struct framed_in *in, const struct framed_block *block, const char *how,
		   struct error *err);

/* Frees the memory. */
void framed_close(struct framed_in *in);

#endif
