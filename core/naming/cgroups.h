/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_NAMING_CGROUPS_H
#define IOTRACE_CORE_NAMING_CGROUPS_H

#include <stdbool.h>
#include <stdint.h>

struct containers;
struct cgroups; /* kernfs ids of control groups -> paths and names */

/* @root NULL: the mounted hierarchy that block I/O is charged in (v1 with the
 * blkio controller where there is one, else cgroup2).  Else that directory alone (tests).
 * @files NULL: container runtimes' files are below "/".  Else below that directory (tests).
 * Returns 0 or -ENOMEM; a machine without cgroups gives an empty table. */
int cgroups_open(const char *root, const char *files, struct cgroups **out);
void cgroups_free(struct cgroups *c);

/*
 * The path of cgroup @id below its hierarchy's mount point ("/" is the root,
 * "/system.slice/x.service"); @id is the kernfs node's id, which is the directory's inode
 * number.  An unknown id is opened as a file handle; where the kernel does not allow that, the
 * table walks through all cgroups again (at most once a second).  What stays unknown (removed
 * meanwhile) is "cgroup:ID".  0 is "-" (no cgroup).  Never NULL; lives until cgroups_free().
 */
const char *cgroups_path(struct cgroups *c, uint64_t id);

/* Cgroup @id was made, with this path from the root of the hierarchy: it keeps its names, should it
 * be gone before it is asked for, if half of the room is free. */
void cgroups_put(struct cgroups *c, uint64_t id, const char *path);

/* What cgroup_names.h finds in a cgroup's path, behind its owner where it is not the system's. */
enum cgroup_name {
	CGROUP_PATH,	  /* cgroups_path() */
	CGROUP_UNIT,	  /* systemd's: "postgresql.service", without escapes */
	CGROUP_CONTAINER, /* its name, "NAMESPACE/POD/NAME" in Kubernetes; else 12 digits of its id
			   */
	CGROUP_POD,	  /* "NAMESPACE/POD", else 12 digits of its UID or id */
	CGROUP_NAMES
};

/* One name of cgroup @id; "-" where it has none.  Lives as long as what cgroups_path() returns; two
 * names that are equal are the same string. */
const char *cgroups_name(struct cgroups *c, uint64_t id, enum cgroup_name what);

/* The unit, container or pod (no CGROUP_PATH) of a cgroup at @path, of which nothing is kept.
 * False: it has none.  *@is_short: 12 digits, since no file has the name (yet). */
#define CGROUP_NAME_SIZE 512
bool cgroup_name_at(struct containers *containers, const char *path, enum cgroup_name what,
		    char name[CGROUP_NAME_SIZE], bool *is_short);

/* All names together take no more: a container can make as many cgroups as it likes. */
#define CGROUPS_SIZE (8U << 20)

/* For how often cgroups_path() had no room for a path since the last call: it was "cgroup:?". */
uint64_t cgroups_lost(struct cgroups *c);

/* To be called when no name that was handed out is in use any more.  When there is no more room, at
 * most once a minute, it keeps those cgroups that were asked for last, in half of the room. */
void cgroups_forget(struct cgroups *c);

#endif
