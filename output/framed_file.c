// SPDX-License-Identifier: GPL-2.0-or-later
#include "output/framed_file.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Like PNG's: a byte that is not ASCII, and line ends, which a transfer as text would change. */
static const unsigned char magic[8] = { 0x89, 'I', 'O', 'T', '\r', '\n', 0x1a, '\n' };

struct file_head {
	unsigned char magic[sizeof(magic)];
	uint32_t version;
	uint32_t crc; /* of the preceding bytes */
};

/* All little-endian.  The block's bytes follow, then the checksum of both. */
struct block_head {
	uint32_t number;
	uint32_t type;
	uint32_t size;
};

_Static_assert(sizeof(struct file_head) == 16 && sizeof(struct block_head) == 12, "as documented");

static uint32_t checksum(uint32_t crc, const void *data, size_t size)
{
	return size ? (uint32_t)crc32(crc, data, (uInt)size) : crc;
}

static bool checks(uint32_t stored, uint32_t made)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	/* A fuzzer that has to guess checksums would never reach the code behind them. */
	(void)stored;
	(void)made;
	return true;
#else
	return stored == made;
#endif
}

/* ---- writing ---- */

static int put(FILE *stream, const void *data, size_t size)
{
	errno = 0;
	if (!size || fwrite(data, 1, size, stream) == size)
		return 0;
	return errno ? -errno : -EIO;
}

int framed_begin(struct framed_out *out, FILE *stream)
{
	struct file_head head = { .version = htole32(FRAMED_VERSION) };

	memcpy(head.magic, magic, sizeof(magic));
	head.crc = htole32(checksum(0, &head, offsetof(struct file_head, crc)));
	*out = (struct framed_out){ .stream = stream };
	return put(stream, &head, sizeof(head));
}

int framed_put(struct framed_out *out, uint32_t type, const void *data, size_t size)
{
	const struct block_head head = { htole32(out->n), htole32(type), htole32((uint32_t)size) };
	uint32_t crc;
	int r;

	if (size > FRAMED_BLOCK_MAX)
		return -E2BIG;
	crc = htole32(checksum(checksum(0, &head, sizeof(head)), data, size));
	r = put(out->stream, &head, sizeof(head));
	if (!r)
		r = put(out->stream, data, size);
	if (!r)
		r = put(out->stream, &crc, sizeof(crc));
	out->n += !r;
	return r;
}

/* ---- reading ---- */

static int unreadable(const struct framed_in *in, int code, struct error *err)
{
	return error_set(err, STATUS_FAILED, code, "cannot read %s: %s", in->name, strerror(-code));
}

int framed_cut_off(const struct framed_in *in, struct error *err)
{
	error_set(err, STATUS_FAILED, -EPIPE, "%s is cut off after %llu bytes", in->name,
		  (unsigned long long)in->at);
	error_hint(err, "the run was killed, failed or is still going, or the copy is incomplete");
	return -EPIPE;
}

/* Reads up to @size bytes; returns the number of bytes, or -errno. */
static ssize_t read_upto(struct framed_in *in, void *to, size_t size)
{
	size_t n;

	errno = 0;
	n = fread(to, 1, size, in->stream);
	if (n < size && ferror(in->stream))
		return errno ? -errno : -EIO;
	in->at += n;
	return (ssize_t)n;
}

int framed_open(struct framed_in *in, FILE *stream, const char *name, struct error *err)
{
	struct file_head head = { 0 };
	ssize_t n;

	*in = (struct framed_in){ .stream = stream, .name = name };
	n = read_upto(in, &head, sizeof(head));
	if (n < 0)
		return unreadable(in, (int)n, err);
	if (n == 0)
		return error_set(err, STATUS_FAILED, -EINVAL, "%s is empty", name);
	if (memcmp(head.magic, magic, (size_t)n < sizeof(magic) ? (size_t)n : sizeof(magic)) != 0)
		return error_set(err, STATUS_FAILED, -EINVAL, "%s is not an iotrace recording",
				 name);
	if ((size_t)n < sizeof(head))
		return framed_cut_off(in, err);
	if (!checks(le32toh(head.crc), checksum(0, &head, offsetof(struct file_head, crc))))
		return error_set(err, STATUS_FAILED, -EINVAL,
				 "%s is damaged: its first bytes do not match their checksum",
				 name);
	if (le32toh(head.version) == FRAMED_VERSION)
		return 0;
	return error_set(err, STATUS_FAILED, -EINVAL,
			 "%s has format %u, written by another version of iotrace: this one reads "
			 "format %u",
			 name, le32toh(head.version), FRAMED_VERSION);
}

/* Room for @size bytes. */
static int make_room(struct framed_in *in, size_t size)
{
	unsigned char *grown;

	if (size <= in->room)
		return 0;
	grown = realloc(in->data, size);
	if (!grown)
		return -ENOMEM;
	in->data = grown;
	in->room = size;
	return 0;
}

#define FIRST_ROOM 4096

/* Reads @size bytes into in->data, which grows only as far as bytes are really there: the size
 * comes from the file.  Returns like read_upto(). */
static ssize_t read_data(struct framed_in *in, size_t size)
{
	size_t used = 0, want;
	ssize_t n;

	while (used < size) {
		want = used ? 2 * used : FIRST_ROOM;
		if (want > size)
			want = size;
		if (make_room(in, want))
			return -ENOMEM;
		n = read_upto(in, in->data + used, want - used);
		if (n < 0)
			return n;
		used += (size_t)n;
		if (used < want)
			break;
	}
	return (ssize_t)used;
}

int framed_damaged(const struct framed_in *in, const struct framed_block *block, const char *how,
		   struct error *err)
{
	return error_set(err, STATUS_FAILED, -EINVAL, "%s is damaged: the block at byte %llu %s",
			 in->name, (unsigned long long)block->at, how);
}

int framed_next(struct framed_in *in, struct framed_block *out, struct error *err)
{
	struct framed_block block = { .at = in->at };
	struct block_head head;
	uint32_t crc = 0;
	ssize_t n = read_upto(in, &head, sizeof(head));

	if (n == 0)
		return 0;
	if (n == (ssize_t)sizeof(head)) {
		block.size = le32toh(head.size);
		block.type = le32toh(head.type);
		if (block.size > FRAMED_BLOCK_MAX)
			return framed_damaged(in, &block, "is larger than the format allows", err);
		n = read_data(in, block.size);
		if (n == (ssize_t)block.size) {
			n = read_upto(in, &crc, sizeof(crc));
			if (n == (ssize_t)sizeof(crc))
				goto whole;
		}
	}
	return n < 0 ? unreadable(in, (int)n, err) : framed_cut_off(in, err);
whole:
	block.data = block.size ? in->data : (const unsigned char *)"";
	if (!checks(le32toh(crc),
		    checksum(checksum(0, &head, sizeof(head)), block.data, block.size)))
		return framed_damaged(in, &block, "does not match its checksum", err);
	if (le32toh(head.number) != in->n)
		return framed_damaged(in, &block, "is out of sequence", err);
	in->n++;
	*out = block;
	return 1;
}

void framed_close(struct framed_in *in)
{
	free(in->data);
	in->data = NULL;
	in->room = 0;
}
