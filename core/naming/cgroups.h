/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Paths and names of cgroups by id. */
#ifndef IOTRACE_CORE_NAMING_CGROUPS_H
#define IOTRACE_CORE_NAMING_CGROUPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct containers;
struct cgroups; /* Maps kernfs ids of control groups to paths and names. */

/* @root NULL: the mounted hierarchy that block I/O is charged in (v1 with the blkio controller if
 * it exists, otherwise cgroup2).  Not NULL: that directory alone (tests).  @files NULL: container
 * runtimes' files are below "/".  Not NULL: below that directory (tests).  Returns 0 or -ENOMEM; on
 * a machine without cgroups, or without that mount, the table is empty. */
int cgroups_open(const char *root, const char *files, struct cgroups **out);
void cgroups_free(struct cgroups *c);

/*
 * The path of cgroup @id below its hierarchy's mount point ("/" is the root,
 * "/system.slice/x.service"); @id is the kernfs node's id, which is the directory's inode number.
 * An unknown id is opened as a file handle; if the kernel does not allow this, the table walks
 * through all cgroups again (at most once a second).  A cgroup that stays unknown (removed by now)
 * is "cgroup:ID". 0 is "-" (no cgroup).  Never NULL; valid until cgroups_free().
 */
const char *cgroups_path(struct cgroups *c, uint64_t id);

/* Opens file @name ("io.max") of the cgroup at @path, a result of cgroups_path() or the path of a
 * cgroup above, for reading; the caller closes it.  NULL with errno. */
FILE *cgroups_file(const struct cgroups *c, const char *path, const char *name);

/* Cgroup @id was made, with this path from the root of the hierarchy: its names are kept even if it
 * is gone before they are requested, if half of the room is free. */
void cgroups_put(struct cgroups *c, uint64_t id, const char *path);

/* The results of cgroup_names.h for a cgroup's path, after the owner if it is not the system. */
enum cgroup_name {
	CGROUP_PATH,	  /* cgroups_path() */
	CGROUP_UNIT,	  /* systemd's: "postgresql.service", without escapes */
	CGROUP_CONTAINER, /* its name, "NAMESPACE/POD/NAME" in Kubernetes; otherwise 12 digits of
			     its id */
	CGROUP_POD,	  /* "NAMESPACE/POD", otherwise 12 digits of its UID or id */
	CGROUP_NAMES
};

/* One name of cgroup @id; "-": it has none.  Valid as long as the result of cgroups_path(); equal
 * names are the same string. */
const char *cgroups_name(struct cgroups *c, uint64_t id, enum cgroup_name what);

/* While it is @held, no file is opened: names that were not requested before are "cgroup:?". */
void cgroups_hold(struct cgroups *c, bool held);

/* The unit, container or pod (not CGROUP_PATH) of a cgroup at @path, without storing anything.
 * False: it has none. *@is_short: 12 digits, since no file has the name (yet). */
#define CGROUP_NAME_SIZE 512
bool cgroup_name_at(struct containers *containers, const char *path, enum cgroup_name what,
		    char name[CGROUP_NAME_SIZE], bool *is_short);

/* Limit for all names together: a container can make as many cgroups as it likes. */
#define CGROUPS_SIZE (8U << 20)

/* How many paths did not fit since the last call: cgroups_path() returned "cgroup:?". */
uint64_t cgroups_lost(struct cgroups *c);

/* Call when no returned name is in use any more.  If there is no more room, at most once a minute,
 * it keeps the most recently requested cgroups, in half of the room. */
void cgroups_forget(struct cgroups *c);

#endif
