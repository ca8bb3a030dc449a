// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/isolation/outfile.h"

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

	/* A signal came while a pipe was full: a different error than run_guarded() expects for
	 * standard output. */
	if (code == -EINTR)
		return error_set(err, STATUS_FAILED, -EPIPE, "cannot write %s: no reader",
				 name.text);
	error_set(err, STATUS_FAILED, code, "cannot write %s: %s", name.text, strerror(-code));
	if (code == -ENXIO)
		error_hint(err, "start the reader of the pipe first");
	return code;
}

/* ---- directories like /tmp ---- */

/* The directory of @path; false: not a directory where every user may create files. */
static bool is_shared(const char *path, struct stat *folder)
{
	const char *slash = strrchr(path, '/');
	char name[PATH_MAX];

	return snprintf(name, sizeof(name), "%.*s/", slash ? (int)(slash - path) : 1,
			slash ? path : ".") < (int)sizeof(name) &&
	       !stat(name, folder) && (folder->st_mode & S_ISVTX) && (folder->st_mode & S_IWOTH);
}

/* Has another user made the file @st in such a directory?  He would own the data written to it; or
 * he has linked a file from elsewhere. */
static bool is_foreign(const char *path, const struct stat *st)
{
	struct stat folder;

	return is_shared(path, &folder) &&
	       ((st->st_uid != geteuid() && st->st_uid != folder.st_uid) || st->st_nlink > 1);
}

/* Like open(2), but like with the sysctls fs.protected_symlinks, _regular and _fifos, which need
 * not be set: no link in such a directory is followed, and no other user's file is opened.  A
 * descriptor or -errno. */
static int open_own(const char *path, int flags, mode_t mode)
{
	char target[PATH_MAX];
	struct stat folder, st;
	int fd;

	if (is_shared(path, &folder))
		flags |= O_NOFOLLOW;
	fd = open(path, flags, mode);
	if (fd < 0)
		return -errno;
	/* A link elsewhere may lead to such a directory. */
	if (fstat(fd, &st) == 0 && !is_foreign(path, &st) &&
	    !(realpath(path, target) && is_foreign(target, &st)))
		return fd;
	close(fd);
	return -EACCES;
}

/* Adds the reason to the error @code of open_own(). */
static void hint_own(const char *path, int code, struct error *err)
{
	struct stat folder;

	if ((code == -EACCES || code == -ELOOP) && is_shared(path, &folder))
		error_hint(err, "files of other users and links are refused in a directory like "
				"/tmp: use another directory, or remove the file");
}

/* Makes a stream of @fd, which it owns from now on. 0 or -errno. */
static int open_stream(int fd, int flags, const char *mode, FILE **out)
{
	FILE *stream = fcntl(fd, F_SETFL, flags) == 0 ? fdopen(fd, mode) : NULL;
	int r = stream ? 0 : -errno;

	if (stream)
		*out = stream;
	else
		close(fd);
	return r;
}

/* ---- a file in place ---- */

int outfile_stream(const char *path, bool *holds, FILE **out, struct error *err)
{
	const int flags = holds ? O_APPEND : 0;
	int r = open_own(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | flags, 0666);
	struct stat st;

	if (r >= 0)
		r = open_stream(r, flags, holds ? "a" : "w", out);
	if (!r && holds)
		*holds = fstat(fileno(*out), &st) == 0 && st.st_size > 0;
	if (r) {
		outfile_error(path, r, err);
		hint_own(path, r, err);
	}
	return r;
}

/* ---- a file that takes its name at the end ---- */

static int write_directly(struct outfile *f, int fd, const struct stat *st)
{
	if (S_ISREG(st->st_mode) && ftruncate(fd, 0)) {
		int r = -errno;

		close(fd);
		return r;
	}
	return open_stream(fd, 0, "w", &f->stream);
}

/* The descriptor of the file next to f->target, or -errno. */
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
		else if ((fd = open(f->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, f->mode)) <
			 0)
			r = -errno;
	}
	if (fd < 0)
		f->partial[0] = 0; /* it is not ours */
	return fd < 0 ? r : fd;
}

/* The path of the file @fd, which @path led to; false: its name is gone, or another file has it. */
static bool find_target(struct outfile *f, const struct stat *st)
{
	struct stat now;

	return realpath(f->path, f->target) && !stat(f->target, &now) && now.st_dev == st->st_dev &&
	       now.st_ino == st->st_ino;
}

/* Does its directory allow to replace the file @st?  In a directory like /tmp no user may remove
 * another's file, even if he may write to it. */
static bool may_replace(const struct outfile *f, const struct stat *st)
{
	int len = (int)(strrchr(f->target, '/') - f->target);
	char folder[PATH_MAX + 1];
	struct stat in;

	snprintf(folder, sizeof(folder), "%.*s/", len, f->target);
	return stat(folder, &in) || !(in.st_mode & S_ISVTX) || in.st_uid == geteuid() ||
	       st->st_uid == geteuid() || preflight_caps() >> CAP_FOWNER & 1;
}

/* A file of that name exists, open as @fd, which this closes or takes over.  The output goes to a
 * new file in the same directory, which replaces it at the end; if that is not possible, to @fd. */
static int open_replacement(struct outfile *f, int fd)
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
	/* Not readable by more users than before.  The file changes its owner if necessary. */
	if (fchown(partial, st.st_uid, st.st_gid) == 0 || errno == EPERM)
		fchmod(partial, st.st_mode & 0777);
	return open_stream(partial, 0, "w", &f->stream);
}

static int open_new(struct outfile *f)
{
	struct stat st;
	int fd;

	/* A symbolic link to a missing file: creates its target. */
	if (lstat(f->path, &st) == 0) {
		fd = open_own(f->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, f->mode);
		if (fd >= 0)
			fstat(fd, &st);
		return fd < 0 ? fd : write_directly(f, fd, &st);
	}
	if (snprintf(f->target, sizeof(f->target), "%s", f->path) >= (int)sizeof(f->target))
		return -ENAMETOOLONG;
	fd = open_partial(f);
	return fd < 0 ? fd : open_stream(fd, 0, "w", &f->stream);
}

int outfile_open(struct outfile *f, const char *path, mode_t mode, struct error *err)
{
	int fd, r;

	*f = (struct outfile){ .path = path, .mode = mode };
	/* It must be writable, though it is not written: by its mode, and by the rules for symbolic
	 * links of other users.  A pipe without a reader would block here. */
	fd = open_own(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd >= 0)
		r = open_replacement(f, fd);
	else
		r = fd == -ENOENT ? open_new(f) : fd;
	if (!r)
		return 0;
	outfile_discard(f, false);
	outfile_error(path, r, err);
	hint_own(path, r, err);
	return r;
}

int outfile_commit(struct outfile *f, struct error *err)
{
	FILE *stream = f->stream;
	int r = 0;

	errno = 0;
	/* The data must be on the disk before the rename: after a power failure the name has the
	 * old file or the new one. */
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
