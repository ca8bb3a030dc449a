/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_EXPORT_TEXTFILE_H
#define IOTRACE_CMD_EXPORT_TEXTFILE_H

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base/error.h"

/*
 * The file for node_exporter.  Its directory may belong to another user, who can put anything in
 * its place, and is looked up once.  There each version is a new file, NAME.partial, which then
 * takes the name; whatever had it is neither opened nor followed.
 */
struct textfile {
	const char *path; /* NULL: not open */
	const char *name; /* within the directory */
	char partial[NAME_MAX + 1];
	int folder;
	struct stat written; /* the last version; all 0: none yet */
};

/* @path must live as long as @t.  -errno with @err (STATUS_FAILED): there is no such directory, or
 * something that is no regular file has the name. */
int textfile_open(struct textfile *t, const char *path, struct error *err);

/* A new version of what @fill writes; it returns 0 or -errno.  -errno with @err (STATUS_FAILED):
 * then there is the one before. */
int textfile_write(struct textfile *t, int (*fill)(void *ctx, FILE *stream), void *ctx,
		   struct error *err);

/* Removes the file if it is the version that was written last.  Fine if it is not open. */
void textfile_remove(struct textfile *t);

#endif
