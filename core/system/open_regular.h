/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_OPEN_REGULAR_H
#define IOTRACE_CORE_SYSTEM_OPEN_REGULAR_H

/*
 * Files that any local user or container may have made: programs, libraries, debug files, perf
 * maps.  A file is looked at before it is opened, so that no device is ever opened; only regular
 * files of file systems that hold data are.  (Reading a file of /proc or tracefs may have
 * effects.)  All descriptors are close-on-exec.
 */

/* A directory below which files are opened ("/", "/proc/PID/root"), with O_PATH.  @path is ours to
 * trust.  A descriptor, or -errno. */
int open_root(const char *path);

#define OPEN_NOFOLLOW	 1U /* the last component is no symbolic link */
#define OPEN_NO_SYMLINKS 2U /* none is: for paths as the kernel tells them, which have none */

/*
 * Opens @path read-only as a process with the root directory @root would: an absolute link leads
 * to a place below @root, ".." not above it, and links of /proc that are none (/proc/PID/root)
 * nowhere.  A descriptor, or -errno: -EACCES where the file is not regular, -ELOOP where the path
 * has too many links.
 */
int open_regular(int root, const char *path, unsigned int flags);

/* The same where a link of /proc leads (/proc/PID/map_files/...); its path is ours to trust. */
int open_regular_link(const char *path);

#endif
