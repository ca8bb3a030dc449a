/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_NAMING_CGROUP_TREE_H
#define IOTRACE_CORE_NAMING_CGROUP_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The hierarchy of cgroups that block I/O is charged in, as it is mounted.  An id is that of the
 * kernfs node, which is the directory's inode number. */
struct cgroup_tree;

/* @root NULL: v1's hierarchy with the blkio controller where there is one, else cgroup2.  Else that
 * directory alone (tests).  0, or -ENOMEM; a machine without cgroups has an empty tree. */
int cgroup_tree_open(const char *root, struct cgroup_tree **out);
void cgroup_tree_free(struct cgroup_tree *tree);

/* Is all of the hierarchy there, so that a path's depth is the kernel's level?  (Part of it may be
 * mounted in a container.) */
bool cgroup_tree_is_whole(const struct cgroup_tree *tree);

/* The path in the hierarchy of what is at @path below its mount point; else @path as it is. */
const char *cgroup_tree_below(const struct cgroup_tree *tree, const char *path);

/* Calls @visit with each cgroup, parents first, until it returns another value than 0, which is
 * returned; paths are below the root, which is "/".  Else 0, or -ENOMEM. */
typedef int (*cgroup_visit)(void *ctx, uint64_t id, const char *path);
int cgroup_tree_walk(const struct cgroup_tree *tree, cgroup_visit visit, void *ctx);

/* The same, one cgroup after another: 1 with @id and @path, which is good until the next call; 0:
 * that was the last one; -ENOMEM.  After these two it would begin anew.  @walk begins as { 0 };
 * cgroup_walk_end() ends it before. */
struct cgroup_walk {
	void *fts;
};
int cgroup_walk_next(const struct cgroup_tree *tree, struct cgroup_walk *walk, uint64_t *id,
		     const char **path);
void cgroup_walk_end(struct cgroup_walk *walk);

/* The path of @id, by its file handle: 0; -ESTALE: there is no such cgroup (any more), or none that
 * has a path here; another -errno: the kernel does not allow that, a walk would find it. */
int cgroup_tree_path(const struct cgroup_tree *tree, uint64_t id, char *path, size_t size);

#endif
