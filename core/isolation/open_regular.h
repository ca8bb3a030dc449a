/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opens files that other users may have made. */
#ifndef IOTRACE_CORE_ISOLATION_OPEN_REGULAR_H
#define IOTRACE_CORE_ISOLATION_OPEN_REGULAR_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * Files that any local user or container may have made: programs, libraries, debug files, perf
 * maps.  A file is checked before it is opened, so that no device is ever opened; only regular
 * files of file systems that hold data are opened.  (Reading a file of /proc or tracefs may have
 * side effects.) All descriptors are close-on-exec.
 */

struct opened_file {
	int fd;
	struct stat st;	 /* reported by its file system */
	bool is_claimed; /* any user may serve it: FUSE, nosuid, foreign overlay */
	bool is_foreign; /* may another user than root have written its contents? */
};

/* Fills the rest of *@out for @out->fd. 0, or -errno.  It asks the file system, and may block. */
int opened_file_look(struct opened_file *out);

/* Closes it, in a task if closing may block. */
void opened_file_close(struct opened_file *file);

/* Opens a directory below which files are opened ("/", "/proc/PID/root"), with O_PATH.  @path must
 * be trusted.  A descriptor, or -errno. */
int open_root(const char *path);

/* Identifies directory @root; no file system is asked. 0, or -errno. */
struct root_id {
	dev_t dev;
	ino_t inode;
};
int open_root_id(int root, struct root_id *out);
bool open_root_is_same(const struct root_id *a, const struct root_id *b);

#define OPEN_NOFOLLOW	 1U /* the last component must not be a symbolic link */
#define OPEN_NO_SYMLINKS 2U /* no component: for paths from the kernel, which have no links */

/*
 * Opens @path read-only as a process with the root directory @root would: an absolute link leads to
 * a place below @root, ".." not above it, and the magic links of /proc (/proc/PID/root) nowhere.  A
 * task does it, since a file system may block (core/isolation/bounded.h). 0 with *@out, which
 * opened_file_close() closes, or -errno: -EACCES if the file is not regular, -ELOOP if the path has
 * too many links, -ETIMEDOUT.
 */
int open_regular(int root, const char *path, unsigned int flags, struct opened_file *out);

/* The same for a link of /proc (/proc/PID/map_files/...); its path must be trusted. */
int open_regular_link(const char *path, struct opened_file *out);

#endif
