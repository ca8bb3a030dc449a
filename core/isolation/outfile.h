/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_ISOLATION_OUTFILE_H
#define IOTRACE_CORE_ISOLATION_OUTFILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "core/base/error.h"

/*
 * A file that takes its name, and replaces an older file, only when it is complete.  Until then it
 * is written next to it, as NAME.partial (NAME.partial1, ... if that exists): a killed process
 * leaves the partial file, and the older file unchanged.  Pipes, terminals and other files that are
 * not regular are written directly; so is a file in a directory where no file can be created, or
 * where this one cannot be replaced.  In a directory like /tmp no link is followed, and no other
 * user's file written or replaced: he would own the new one.
 */
struct outfile {
	FILE *stream; /* NULL: not open */
	const char *path;
	mode_t mode;		/* of a new file */
	char target[PATH_MAX];	/* replaced by the rename: @path without symbolic links */
	char partial[PATH_MAX]; /* "": written directly */
};

/* @path must live as long as @f.  A new file has @mode, minus the umask. -errno with @err
 * (STATUS_FAILED), then nothing is open. */
int outfile_open(struct outfile *f, const char *path, mode_t mode, struct error *err);

/* All of it has been written: closes the file, and gives it its name. -errno with @err: it keeps
 * its partial name until outfile_discard(). */
int outfile_commit(struct outfile *f, struct error *err);

/* Drops a file that was not committed, without another write that would fail or block; with @keep
 * it stays under its partial name.  Fine if it is not open, or all zero. */
void outfile_discard(struct outfile *f, bool keep);

/* Opens a stream that writes to @path in place, from its beginning or, with @holds, at its end;
 * then *holds says whether the file already has data.  The file is created if missing, and rejected
 * like by outfile_open() if another user has made it.  A pipe without a reader is rejected
 * (-ENXIO): opening it would block while signals are held back. -errno with @err (STATUS_FAILED),
 * then *out is unchanged. */
int outfile_stream(const char *path, bool *holds, FILE **out, struct error *err);

/* "cannot write PATH: ..." for the -errno @code, which it returns. */
int outfile_error(const char *path, int code, struct error *err);

#endif
