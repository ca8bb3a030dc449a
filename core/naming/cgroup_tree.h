/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The mounted hierarchy of cgroups: a walk through it, the path of an id. */
#ifndef IOTRACE_CORE_NAMING_CGROUP_TREE_H
#define IOTRACE_CORE_NAMING_CGROUP_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The mounted hierarchy of cgroups that block I/O is charged in.  An id is the id of the kernfs
 * node, which is the directory's inode number. */
struct cgroup_tree;

/* @root NULL: v1's hierarchy with the blkio controller if it exists, otherwise cgroup2.  Not NULL:
 * that directory alone (tests). 0, or -ENOMEM; on a machine without cgroups, or without that mount,
 * the tree is empty. */
int cgroup_tree_open(const char *root, struct cgroup_tree **out);
void cgroup_tree_free(struct cgroup_tree *tree);

/* Is all of the hierarchy mounted, so that a path's depth is the kernel's level?  (A container may
 * have only a part of it.) */
bool cgroup_tree_is_whole(const struct cgroup_tree *tree);

/* The path in the hierarchy of the directory at @path below its mount point; otherwise @path
 * itself. */
const char *cgroup_tree_below(const struct cgroup_tree *tree, const char *path);

/* Opens file @name ("io.max") of the cgroup at @path, below the root, for reading; the caller
 * closes it.  NULL with errno. */
FILE *cgroup_tree_file(const struct cgroup_tree *tree, const char *path, const char *name);

/* Calls @visit with each cgroup, parents first, until it returns another value than 0, which is
 * returned; paths are below the root, which is "/".  Otherwise 0, or -ENOMEM. */
typedef int (*cgroup_visit)(void *ctx, uint64_t id, const char *path);
int cgroup_tree_walk(const struct cgroup_tree *tree, cgroup_visit visit, void *ctx);

/* The same, one cgroup after another: 1 with @id and @path, which is valid until the next call; 0:
 * no more cgroups; -ENOMEM.  After these two it would begin again.  @walk begins as { 0 };
 * cgroup_walk_end() ends it before. */
struct cgroup_walk {
	void *fts;
};
int cgroup_walk_next(const struct cgroup_tree *tree, struct cgroup_walk *walk, uint64_t *id,
		     const char **path);
void cgroup_walk_end(struct cgroup_walk *walk);

/* The path of @id, by its file handle: 0; -ESTALE: the cgroup is gone, or has no path here; another
 * -errno: the kernel does not allow it, but a walk would find it. */
int cgroup_tree_path(const struct cgroup_tree *tree, uint64_t id, char *path, size_t size);

#endif
