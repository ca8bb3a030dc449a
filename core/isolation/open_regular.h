/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_ISOLATION_OPEN_REGULAR_H
#define IOTRACE_CORE_ISOLATION_OPEN_REGULAR_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * Files that any local user or container may have made: programs, libraries, debug files, perf
 * maps.  A file is looked at before it is opened, so that no device is ever opened; only regular
 * files of file systems that hold data are.  (Reading a file of /proc or tracefs may have
 * effects.)  All descriptors are close-on-exec.
 */

struct opened_file {
	int fd;
	struct stat st; /* as its file system says */
	bool
	    is_claimed; /* which any user may serve: FUSE, nosuid, or an overlay that is not ours */
	bool is_foreign; /* could another than root have made what is in it? */
};

/* Of @out->fd, the rest of *@out.  0, or -errno.  It asks the file system, for as long as that
 * takes. */
int opened_file_look(struct opened_file *out);

/* Closes it, which may be left to a task as below. */
void opened_file_close(struct opened_file *file);

/* A directory below which files are opened ("/", "/proc/PID/root"), with O_PATH.  @path is ours to
 * trust.  A descriptor, or -errno. */
int open_root(const char *path);

/* Which directory @root is; no file system is asked.  0, or -errno. */
struct root_id {
	dev_t dev;
	ino_t inode;
};
int open_root_id(int root, struct root_id *out);
bool open_root_is_same(const struct root_id *a, const struct root_id *b);

#define OPEN_NOFOLLOW	 1U /* the last component is no symbolic link */
#define OPEN_NO_SYMLINKS 2U /* none is: for paths from the kernel, which have none */

/*
 * Opens @path read-only as a process with the root directory @root would: an absolute link leads
 * to a place below @root, ".." not above it, and links of /proc that are none (/proc/PID/root)
 * nowhere.  A task does it, as a file system may not answer (core/isolation/bounded.h).  0 with
 * *@out, which opened_file_close() closes, or -errno: -EACCES where the file is not regular, -ELOOP
 * where the path has too many links, -ETIMEDOUT.
 */
int open_regular(int root, const char *path, unsigned int flags, struct opened_file *out);

/* The same where a link of /proc leads (/proc/PID/map_files/...); its path is ours to trust. */
int open_regular_link(const char *path, struct opened_file *out);

#endif
