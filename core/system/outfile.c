// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/preflight.h"
#include "core/base/text.h"

#define PARTIAL_MAX 1000

int outfile_error(const char *path, int code, struct error *err)
{
	struct shown name = text_shown(path);

	/* A signal came while a pipe was full: not what run_guarded() takes for standard output. */
	if (code == -EINTR)
		return error_set(err, STATUS_FAILED, -EPIPE, "cannot write %s: no reader",
				 name.text);
	error_set(err, STATUS_FAILED, code, "cannot write %s: %s", name.text, strerror(-code));
	if (code == -ENXIO)
		error_hint(err, "open the reading end of the pipe first");
	return code;
}

int outfile_stream(const char *path, bool *holds, FILE **out, struct error *err)
{
	const int flags = holds ? O_APPEND : 0;
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | flags, 0666), r;
	FILE *stream = NULL;
	struct stat st;

	if (fd >= 0 && fcntl(fd, F_SETFL, flags) == 0)
		stream = fdopen(fd, holds ? "a" : "w");
	if (stream) {
		if (holds)
			*holds = fstat(fd, &st) == 0 && st.st_size > 0;
		*out = stream;
		return 0;
	}
	r = -errno;
	if (fd >= 0)
		close(fd);
	return outfile_error(path, r, err);
}

/* Takes @fd over.  0 or -errno. */
static int open_stream(struct outfile *f, int fd)
{
	int r;

	if (fd >= 0 && fcntl(fd, F_SETFL, 0) == 0)
		f->stream = fdopen(fd, "w");
	if (f->stream)
		return 0;
	r = -errno;
	if (fd >= 0)
		close(fd);
	return r;
}

static int write_directly(struct outfile *f, int fd, const struct stat *st)
{
	if (S_ISREG(st->st_mode) && ftruncate(fd, 0)) {
		int r = -errno;

		close(fd);
		return r;
	}
	return open_stream(f, fd);
}

/* The descriptor of the file beside f->target, or -errno. */
static int open_partial(struct outfile *f)
{
	char number[16] = "";
	int fd = -1, r = -EEXIST;

	for (unsigned int i = 0; fd < 0 && r == -EEXIST && i < PARTIAL_MAX; i++) {
		if (i)
			snprintf(number, sizeof(number), "%u", i);
		if (snprintf(f->partial, sizeof(f->partial), "%s.partial%s", f->target, number) >=
		    (int)sizeof(f->partial))
			r = -ENAMETOOLONG;
		else if ((fd = open(f->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) < 0)
			r = -errno;
	}
	if (fd < 0)
		f->partial[0] = 0; /* it is not ours */
	return fd < 0 ? r : fd;
}

/* Where the file @fd, which @path led to, is; false: it has no name of its own any more, or another
 * file has it. */
static bool find_target(struct outfile *f, const struct stat *st)
{
	struct stat now;

	return realpath(f->path, f->target) && !stat(f->target, &now) && now.st_dev == st->st_dev &&
	       now.st_ino == st->st_ino;
}

/* May the file @st be replaced, as far as its directory is concerned?  In one like /tmp no user may
 * remove another's file, though it may be written. */
static bool may_replace(const struct outfile *f, const struct stat *st)
{
	int len = (int)(strrchr(f->target, '/') - f->target);
	char folder[PATH_MAX + 1];
	struct stat in;

	snprintf(folder, sizeof(folder), "%.*s/", len, f->target);
	return stat(folder, &in) || !(in.st_mode & S_ISVTX) || in.st_uid == geteuid() ||
	       st->st_uid == geteuid() || preflight_caps() >> CAP_FOWNER & 1;
}

/* There is a file of that name, open as @fd, which this closes or takes over. */
static int open_beside(struct outfile *f, int fd)
{
	struct stat st;
	int partial, r;

	if (fstat(fd, &st)) {
		r = -errno;
		close(fd);
		return r;
	}
	if (!S_ISREG(st.st_mode) || !find_target(f, &st) || !may_replace(f, &st))
		return write_directly(f, fd, &st);
	partial = open_partial(f);
	if (partial == -EACCES || partial == -EPERM || partial == -EROFS)
		return write_directly(f, fd, &st);
	close(fd);
	if (partial < 0)
		return partial;
	/* No more readers than before.  Somebody else's file becomes ours if it must. */
	if (fchown(partial, st.st_uid, st.st_gid) == 0 || errno == EPERM)
		fchmod(partial, st.st_mode & 0777);
	return open_stream(f, partial);
}

static int open_new(struct outfile *f)
{
	struct stat st;
	int fd;

	/* A symbolic link to what is not there yet: what it leads to is made. */
	if (lstat(f->path, &st) == 0) {
		fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
		return fd < 0 ? -errno : open_stream(f, fd);
	}
	if (snprintf(f->target, sizeof(f->target), "%s", f->path) >= (int)sizeof(f->target))
		return -ENAMETOOLONG;
	fd = open_partial(f);
	return fd < 0 ? fd : open_stream(f, fd);
}

int outfile_open(struct outfile *f, const char *path, struct error *err)
{
	int fd, r;

	*f = (struct outfile){ .path = path };
	/* It must be one that may be written, though it is not: by its mode, and where symbolic
	 * links of others are restricted.  A pipe without a reader would block here. */
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		r = open_beside(f, fd);
	else
		r = errno == ENOENT ? open_new(f) : -errno;
	if (!r)
		return 0;
	outfile_discard(f, false);
	return outfile_error(path, r, err);
}

int outfile_commit(struct outfile *f, struct error *err)
{
	FILE *stream = f->stream;
	int r = 0;

	errno = 0;
	/* On the disk before the name is: after a power failure it is the old one or the new one.
	 */
	if (fflush(stream) || (f->partial[0] && fsync(fileno(stream))))
		r = errno ? -errno : -EIO;
	if (r)
		return outfile_error(f->path, r, err);
	f->stream = NULL;
	if (fclose(stream) || (f->partial[0] && rename(f->partial, f->target)))
		return outfile_error(f->path, errno ? -errno : -EIO, err);
	f->partial[0] = 0;
	return 0;
}

void outfile_discard(struct outfile *f, bool keep)
{
	if (f->stream) {
		__fpurge(f->stream);
		fclose(f->stream);
	}
	f->stream = NULL;
	if (f->partial[0] && !keep)
		unlink(f->partial);
	f->partial[0] = 0;
}
