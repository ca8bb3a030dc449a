/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BASE_FRAMED_FILE_H
#define IOTRACE_CORE_BASE_FRAMED_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"

/*
 * A file of numbered blocks, each with a checksum (docs/RECORDING.md): truncated, changed, missing
 * and inserted blocks are detected.  Their contents are up to output/recording.h.
 */

/* Of the whole format, what the blocks hold included. */
#define FRAMED_VERSION 1

/* The largest block, in bytes. */
#define FRAMED_BLOCK_MAX (64U << 20)

/* ---- writing ---- */

struct framed_out {
	FILE *stream;
	uint32_t n; /* blocks so far */
};

/* Writes the file's head to @stream, which stays the caller's.  0 or -errno. */
int framed_begin(struct framed_out *out, FILE *stream);

/* Writes a block of at most FRAMED_BLOCK_MAX bytes (else -E2BIG).  What stdio still holds is not on
 * the disk: fflush().  0 or -errno. */
int framed_put(struct framed_out *out, uint32_t type, const void *data, size_t size);

/* ---- reading ---- */

struct framed_in {
	FILE *stream;
	const char *name; /* of the file, for errors: fit to be shown */
	uint32_t n;	  /* blocks so far */
	uint64_t at;	  /* bytes so far */
	unsigned char *data;
	size_t room;
};

struct framed_block {
	uint32_t type;
	const unsigned char *data; /* until the next one is read */
	size_t size;
	uint64_t at; /* where it begins in the file */
};

/* Reads the head of @stream, which stays the caller's.  -errno with @err (STATUS_FAILED): it is no
 * such file, or a newer one.  framed_close() in any case. */
int framed_open(struct framed_in *in, FILE *stream, const char *name, struct error *err);

/*
 * Reads a block: 1.  0: the file ends here, between two blocks.  -errno with @err (STATUS_FAILED):
 * it ends within a block, or is damaged, or cannot be read.  Takes no more memory than twice
 * what the file really has.
 */
int framed_next(struct framed_in *in, struct framed_block *out, struct error *err);

/* Errors that the reader of the blocks finds.  -errno with @err: the file ends too early; block
 * @block is wrong, because it @how ("is not the last"). */
int framed_cut_off(const struct framed_in *in, struct error *err);
int framed_damaged(const struct framed_in *in, const struct framed_block *block, const char *how,
		   struct error *err);

/* Frees the memory. */
void framed_close(struct framed_in *in);

#endif
