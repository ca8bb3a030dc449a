/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What --replay reads: a file, or the segments that iotrace record wrote to a directory. */
#ifndef IOTRACE_CMD_ENGINE_SEGMENTS_H
#define IOTRACE_CMD_ENGINE_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/engine/trigger_file.h"
#include "core/base/error.h"

/* ---- their names ---- */

#define SEGMENTS_DIR	   "/var/log/iotrace" /* by default */
#define SEGMENTS_NAME_SIZE 64
#define SEGMENTS_MOST	   10000 /* of a stream, which iotrace record retains */

/* "20261128T031200.000Z-top.rec" of a segment of @stream that begins at @epoch_ns. */
void segment_name(char name[SEGMENTS_NAME_SIZE], uint64_t epoch_ns, const char *stream);

/* The stream of the segment @name; "": not a segment. */
void segment_stream(const char *name, char stream[SEGMENTS_NAME_SIZE]);

/* Is @name a segment of @stream? */
bool segment_is_of(const char *name, const char *stream);

struct segment_names {
	struct segment_called {
		char name[SEGMENTS_NAME_SIZE];
		uint64_t epoch_ns; /* when it begins */
	} * list;		   /* by time */
	size_t n;
};

/* The segments in directory @dir_fd, of @stream, or all (NULL); of very many, some. 0, or -errno.
 */
int segment_names_read(int dir_fd, const char *stream, struct segment_names *out);
void segment_names_free(struct segment_names *names);

/* ---- reading ---- */

struct segments {
	FILE **files; /* by time; each at its beginning */
	struct segment_names names;
	size_t n;
	bool is_directory;
	struct trigger_events triggers; /* of the directory */
};

/*
 * Opens @path: a recording, which may also be a pipe, or a directory, whose segments of @stream are
 * opened; DIR/NAME is the stream NAME of a directory.  -errno with @err; segments_close() in any
 * case.
 */
int segments_open(const char *path, const char *stream, struct segments *out, struct error *err);

/* Of a directory, closes all segments but those from @first on, @n of them. */
void segments_keep(struct segments *s, size_t first, size_t n);

void segments_close(struct segments *s);

#endif
