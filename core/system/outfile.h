/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_OUTFILE_H
#define IOTRACE_CORE_SYSTEM_OUTFILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/base/error.h"

/*
 * A file that takes its name, and the place of an older one, only when it is whole.  Until then it
 * is written beside it, as NAME.partial (NAME.partial1, ... if there is such a one): what is killed
 * leaves that, and the older one as it was.  What is no regular file (a pipe, a terminal) is
 * written directly; so is one in a directory where no file can be made, or this one not be
 * replaced.
 */
struct outfile {
	FILE *stream; /* NULL: not open */
	const char *path;
	char target[PATH_MAX];	/* what the rename replaces: @path without symbolic links */
	char partial[PATH_MAX]; /* "": written directly */
};

/* @path must live as long as @f.  -errno with @err (STATUS_FAILED), then nothing is open. */
int outfile_open(struct outfile *f, const char *path, struct error *err);

/* All of it has been written: closes it, and gives it its name.  -errno with @err: it does not have
 * it, and is there until outfile_discard(). */
int outfile_commit(struct outfile *f, struct error *err);

/* Gives up what was not committed, without a write that would fail or block once more; with @keep
 * what is there stays under its partial name.  Fine for what is not open, or all zero. */
void outfile_discard(struct outfile *f, bool keep);

/* A descriptor of @path to write to in place, made if it is not there; @flags: 0 or O_APPEND.  A
 * pipe without a reader is refused (-ENXIO): opening it would block while signals are held
 * back. Else -errno, too. */
int outfile_descriptor(const char *path, int flags);

/* "cannot write PATH: ..." for the -errno @code, which it returns. */
int outfile_error(const char *path, int code, struct error *err);

#endif
