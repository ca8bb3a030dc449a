/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_EXPORT_TEXTFILE_H
#define IOTRACE_CMD_EXPORT_TEXTFILE_H

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base/error.h"

/*
 * The file for node_exporter.  Its directory may belong to another user, who can replace it by
 * anything, and is looked up once.  Each version is a new file there, NAME.partial, which is then
 * renamed; a file that had the name is neither opened nor followed.
 */
struct textfile {
	const char *path; /* NULL: not open */
	const char *name; /* within the directory */
	char partial[NAME_MAX + 1];
	int folder;
	struct stat written; /* the last version; all 0: none yet */
};

/* @path must live as long as @t. -errno with @err (STATUS_FAILED): the directory does not exist, or
 * a file that is not regular has the name. */
int textfile_open(struct textfile *t, const char *path, struct error *err);

/* Writes a new version by @fill, which returns 0 or -errno. -errno with @err (STATUS_FAILED): then
 * the previous version stays. */
int textfile_write(struct textfile *t, int (*fill)(void *ctx, FILE *stream), void *ctx,
		   struct error *err);

/* Removes the file if it is the version that was written last.  Fine if it is not open. */
void textfile_remove(struct textfile *t);

#endif
