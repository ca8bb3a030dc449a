// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/export/textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/base/text.h"
#include "core/isolation/outfile.h"

int textfile_open(struct textfile *t, const char *path, struct error *err)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX] = ".";
	struct stat st;

	*t = (struct textfile){ .path = path, .name = slash ? slash + 1 : path, .folder = -1 };
	if (slash && snprintf(folder, sizeof(folder), "%.*s/", (int)(slash - path), path) >=
			 (int)sizeof(folder))
		return outfile_error(path, -ENAMETOOLONG, err);
	if (snprintf(t->partial, sizeof(t->partial), "%s.partial", t->name) >=
	    (int)sizeof(t->partial))
		return outfile_error(path, -ENAMETOOLONG, err);
	t->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t->folder < 0)
		return outfile_error(path, -errno, err);
	if (fstatat(t->folder, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
		return error_set(err, STATUS_FAILED, -EINVAL,
				 "cannot write %s: it is not a regular file",
				 text_shown(path).text);
	return 0;
}

/* The descriptor of a new file, or -errno. */
static int open_partial(const struct textfile *t)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
	int fd = openat(t->folder, t->partial, flags, 0666);
	struct stat st;

	/* Left by a killed run. */
	if (fd < 0 && errno == EEXIST && unlinkat(t->folder, t->partial, 0) == 0)
		fd = openat(t->folder, t->partial, flags, 0666);
	if (fd < 0)
		return -errno;
	/* Not readable by more users than the previous file. */
	if (fstatat(t->folder, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
		fchmod(fd, st.st_mode & 0777);
	return fd;
}

/* The data must be on the disk before the rename. 0 or -errno; closes @stream. */
static int finish(FILE *stream, int r, struct stat *st)
{
	errno = 0;
	if (!r && (fflush(stream) || fsync(fileno(stream)) || fstat(fileno(stream), st)))
		r = errno ? -errno : -EIO;
	if (fclose(stream) && !r)
		r = errno ? -errno : -EIO;
	return r;
}

int textfile_write(struct textfile *t, int (*fill)(void *ctx, FILE *stream), void *ctx,
		   struct error *err)
{
	int fd = open_partial(t), r;
	struct stat st;
	FILE *stream;

	if (fd < 0)
		return outfile_error(t->path, fd, err);
	stream = fdopen(fd, "w");
	if (!stream)
		close(fd);
	r = stream ? finish(stream, fill(ctx, stream), &st) : -ENOMEM;
	if (!r && renameat(t->folder, t->partial, t->folder, t->name))
		r = -errno;
	if (!r)
		t->written = st;
	else
		unlinkat(t->folder, t->partial, 0);
	return r ? outfile_error(t->path, r, err) : 0;
}

static bool is_written(const struct textfile *t)
{
	const struct stat *last = &t->written;
	struct stat st;

	return fstatat(t->folder, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       st.st_dev == last->st_dev && st.st_ino == last->st_ino &&
	       st.st_mtim.tv_sec == last->st_mtim.tv_sec &&
	       st.st_mtim.tv_nsec == last->st_mtim.tv_nsec;
}

void textfile_remove(struct textfile *t)
{
	if (!t->path || t->folder < 0)
		return;
	if (is_written(t))
		unlinkat(t->folder, t->name, 0);
	close(t->folder);
	t->folder = -1;
}
