// SPDX-License-Identifier: GPL-2.0-or-later
#include "output/tar_gz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define BLOCK	  512
#define GZIP_BITS (MAX_WBITS + 16)

struct tar_gz {
	z_stream z;
	FILE *stream;
	uint64_t n; /* bytes so far */
	int failed; /* -errno */
	unsigned char out[16384];
};

/* POSIX.1-1988, ustar */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100],
	    magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is a block");

struct tar_gz *tar_gz_open(FILE *stream)
{
	struct tar_gz *tar = calloc(1, sizeof(*tar));

	if (!tar)
		return NULL;
	tar->stream = stream;
	if (deflateInit2(&tar->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_BITS, 8,
			 Z_DEFAULT_STRATEGY) == Z_OK)
		return tar;
	free(tar);
	return NULL;
}

static void compress_some(struct tar_gz *tar, const void *data, size_t size, int flush)
{
	tar->z.next_in = (unsigned char *)data;
	tar->z.avail_in = (unsigned int)size;
	do {
		size_t n;

		tar->z.next_out = tar->out;
		tar->z.avail_out = sizeof(tar->out);
		deflate(&tar->z, flush);
		n = sizeof(tar->out) - tar->z.avail_out;
		if (!tar->failed && fwrite(tar->out, 1, n, tar->stream) != n)
			tar->failed = errno ? -errno : -EIO;
	} while (!tar->z.avail_out);
}

void tar_gz_put(struct tar_gz *tar, const void *data, size_t size)
{
	const char *at = data;

	tar->n += size;
	while (size) {
		const size_t some = size < 1 << 20 ? size : 1 << 20;

		compress_some(tar, at, some, Z_NO_FLUSH);
		at += some;
		size -= some;
	}
}

/* Zeros up to a block. */
static void fill_block(struct tar_gz *tar)
{
	static const char zeros[BLOCK];

	tar_gz_put(tar, zeros, (BLOCK - tar->n % BLOCK) % BLOCK);
}

static void put_octal(char *to, size_t size, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%0*llo", (int)size - 1, (unsigned long long)value);
	memcpy(to, text, size);
}

void tar_gz_file(struct tar_gz *tar, const char *name, uint64_t size, uint64_t epoch_ns)
{
	struct header h = { .type = '0', .magic = "ustar", .version = { '0', '0' } };
	unsigned int sum = 0;

	fill_block(tar);
	snprintf(h.name, sizeof(h.name), "%s", name);
	put_octal(h.mode, sizeof(h.mode), 0600);
	put_octal(h.uid, sizeof(h.uid), 0);
	put_octal(h.gid, sizeof(h.gid), 0);
	put_octal(h.size, sizeof(h.size), size & 077777777777);
	put_octal(h.mtime, sizeof(h.mtime), epoch_ns / 1000000000 & 077777777777);
	memset(h.checksum, ' ', sizeof(h.checksum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	put_octal(h.checksum, sizeof(h.checksum) - 1, sum);
	tar_gz_put(tar, &h, sizeof(h));
}

int tar_gz_close(struct tar_gz *tar)
{
	static const char end[2 * BLOCK];
	int r;

	fill_block(tar);
	tar_gz_put(tar, end, sizeof(end));
	compress_some(tar, NULL, 0, Z_FINISH);
	deflateEnd(&tar->z);
	r = tar->failed;
	free(tar);
	return r;
}
