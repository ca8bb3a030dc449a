/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYSTEM_CGROUPS_H
#define IOTRACE_CORE_SYSTEM_CGROUPS_H

#include <stdint.h>

struct cgroups; /* kernfs ids of control groups -> paths */

/* @root NULL: the mounted hierarchy that block I/O is charged in (v1 with the
 * blkio controller where there is one, else cgroup2).  Else that directory alone (tests).
 * Returns 0 or -ENOMEM; a machine without cgroups gives an empty table. */
int cgroups_open(const char *root, struct cgroups **out);
void cgroups_free(struct cgroups *c);

/*
 * The path of cgroup @id below its hierarchy's mount point ("/" is the root,
 * "/system.slice/x.service"); @id is the kernfs node's id, which is the directory's inode
 * number.  An unknown id makes the table walk again (at most once a second);
 * what stays unknown (removed meanwhile) is "cgroup:ID".  0 is "-" (no cgroup).  Never NULL; lives
 * until cgroups_free().
 */
const char *cgroups_path(struct cgroups *c, uint64_t id);

/* All paths together take no more: a container can make as many cgroups as it likes. */
#define CGROUPS_SIZE (8U << 20)

/* For how often cgroups_path() had no room for a path since the last call: it was "cgroup:?". */
uint64_t cgroups_lost(struct cgroups *c);

/* To be called when no path that was handed out is in use any more: drops all, and looks anew, when
 * there is no more room; at most once a minute. */
void cgroups_forget(struct cgroups *c);

#endif
