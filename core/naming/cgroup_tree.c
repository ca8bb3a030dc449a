// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/naming/cgroup_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/base/cleanup.h"

struct cgroup_tree {
	char *root; /* without a '/' at its end; NULL: none */
	size_t root_len;
	int fd; /* of the mounted root; -1: not the kernel's mount */
	bool is_whole;
};

/* ---- mounts ---- */

#define ROOT_ID 1 /* of a hierarchy, since 5.5 (40430452fd5d) */

static bool is_cgroup2(const struct mntent *mount)
{
	return !strcmp(mount->mnt_type, "cgroup2");
}

static bool is_blkio(const struct mntent *mount)
{
	return !strcmp(mount->mnt_type, "cgroup") && hasmntopt(mount, "blkio");
}

/* Another file system may be mounted over it. */
static bool is_cgroup_root(const char *path, struct stat *st)
{
	struct statfs fs;

	if (statfs(path, &fs) || stat(path, st))
		return false;
	return fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC;
}

static int set_root(struct cgroup_tree *tree, const char *path)
{
	char *root = strdup(path);
	size_t len;

	if (!root)
		return -ENOMEM;
	for (len = strlen(root); len > 0 && root[len - 1] == '/'; len--)
		;
	if (len)
		root[len] = '\0';
	free(tree->root);
	tree->root = root;
	tree->root_len = len;
	return 0;
}

/* The whole hierarchy, otherwise the first part of it that is mounted. */
static int find_mount(struct cgroup_tree *tree, bool (*wanted)(const struct mntent *))
{
	/* getmntent_r() cuts a longer line (overlayfs), which is not a cgroup's. */
	char line[2 * PATH_MAX];
	struct mntent mount;
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct stat st;
	int r = 0;

	if (!mounts)
		return errno == ENOMEM ? -ENOMEM : 0;
	while (!r && !tree->is_whole && getmntent_r(mounts, &mount, line, sizeof(line))) {
		if (!wanted(&mount) || !is_cgroup_root(mount.mnt_dir, &st))
			continue;
		tree->is_whole = st.st_ino == ROOT_ID;
		if (tree->is_whole || !tree->root)
			r = set_root(tree, mount.mnt_dir);
	}
	endmntent(mounts);
	return r;
}

/* A line is "HIERARCHY:CONTROLLER,...:PATH", without controllers for cgroup2. */
static bool blkio_is_v1(void)
{
	FILE *file FCLOSE_AT_END = fopen("/proc/self/cgroup", "re");
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	while (file && !found && getline(&line, &size, file) > 0) {
		char *names = strchr(line, ':'), *end = names ? strchr(names + 1, ':') : NULL;

		if (!end)
			continue;
		*names = *end = ',';
		end[1] = '\0';
		found = strstr(names, ",blkio,");
	}
	free(line);
	return found;
}

static int find_root(struct cgroup_tree *tree)
{
	/* Ids are unique in one hierarchy only.  Block I/O is charged in the v1 hierarchy of blkio
	 * if it exists, mounted here or not, otherwise in cgroup2. */
	int r = find_mount(tree, is_blkio);

	if (!r && !tree->root && !blkio_is_v1())
		r = find_mount(tree, is_cgroup2);
	if (!r && tree->root)
		tree->fd = open(tree->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r;
}

int cgroup_tree_open(const char *root, struct cgroup_tree **out)
{
	struct cgroup_tree *tree = calloc(1, sizeof(*tree));
	int r;

	if (!tree)
		return -ENOMEM;
	tree->fd = -1;
	tree->is_whole = root;
	r = root ? set_root(tree, root) : find_root(tree);
	if (r)
		cgroup_tree_free(tree);
	else
		*out = tree;
	return r;
}

void cgroup_tree_free(struct cgroup_tree *tree)
{
	if (!tree)
		return;
	if (tree->fd >= 0)
		close(tree->fd);
	free(tree->root);
	free(tree);
}

bool cgroup_tree_is_whole(const struct cgroup_tree *tree)
{
	return tree->is_whole;
}

const char *cgroup_tree_below(const struct cgroup_tree *tree, const char *path)
{
	const char *below = path + tree->root_len;

	if (!tree->root_len || strncmp(path, tree->root, tree->root_len) != 0 ||
	    (*below && *below != '/'))
		return path;
	return *below ? below : "/";
}

FILE *cgroup_tree_file(const struct cgroup_tree *tree, const char *path, const char *name)
{
	char whole[PATH_MAX];
	int n;

	if (!tree->root || path[0] != '/') {
		errno = ENOENT; /* no cgroups, or one without a known path */
		return NULL;
	}
	n = snprintf(whole, sizeof(whole), "%s%s/%s", tree->root, path[1] ? path : "", name);
	if (n >= (int)sizeof(whole)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	return fopen(whole, "re");
}

/* ---- walking ---- */

/*
 * FTS_NOSTAT spares a stat() for each of the dozens of files in every cgroup, and leaves fts_statp
 * unset.  A group that disappears during the walk is skipped.
 */
static int begin(const struct cgroup_tree *tree, struct cgroup_walk *walk)
{
	char *roots[] = { tree->root, NULL };

	if (walk->fts || !tree->root)
		return 0;
	walk->fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT | FTS_XDEV, NULL);
	return !walk->fts && errno == ENOMEM ? -ENOMEM : 0;
}

int cgroup_walk_next(const struct cgroup_tree *tree, struct cgroup_walk *walk, uint64_t *id,
		     const char **path)
{
	FTSENT *entry;
	struct stat st;
	int r = begin(tree, walk);

	if (!walk->fts)
		return r;
	while ((errno = 0, entry = fts_read(walk->fts)))
		if (entry->fts_info == FTS_D && !stat(entry->fts_path, &st)) {
			*id = st.st_ino;
			*path = entry->fts_path + tree->root_len;
			if (!**path)
				*path = "/";
			return 1;
		}
	r = errno == ENOMEM ? -ENOMEM : 0;
	cgroup_walk_end(walk);
	return r;
}

void cgroup_walk_end(struct cgroup_walk *walk)
{
	if (walk->fts)
		fts_close(walk->fts);
	walk->fts = NULL;
}

int cgroup_tree_walk(const struct cgroup_tree *tree, cgroup_visit visit, void *ctx)
{
	struct cgroup_walk walk = { 0 };
	const char *path;
	uint64_t id;
	int r;

	do {
		r = cgroup_walk_next(tree, &walk, &id, &path);
		if (r <= 0)
			return r;
		r = visit(ctx, id, path);
	} while (!r);
	cgroup_walk_end(&walk);
	return r;
}

/* ---- handles ---- */

#ifndef FILEID_KERNFS
#define FILEID_KERNFS 0xfe /* since 5.5 (33c5ac917519); in linux/exportfs.h */
#endif

union kernfs_handle {
	struct file_handle header;
	char bytes[sizeof(struct file_handle) + sizeof(uint64_t)];
};

/* Files have ids too: O_DIRECTORY. */
static int open_id(const struct cgroup_tree *tree, uint64_t id)
{
	union kernfs_handle handle = { .header = { .handle_bytes = sizeof(id),
						   .handle_type = FILEID_KERNFS } };
	int fd;

	memcpy(handle.header.f_handle, &id, sizeof(id));
	fd = open_by_handle_at(tree->fd, &handle.header, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOTDIR ? -ESTALE : -errno;
	return fd;
}

/* The path of @fd, unless it is gone by now, or outside of the mounted part. */
static int path_of(const struct cgroup_tree *tree, int fd, uint64_t id, char *path, size_t size)
{
	char link[64], full[PATH_MAX], *below = full + tree->root_len;
	struct stat st;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, full, sizeof(full) - 1);
	if (n < 0)
		return errno == ENAMETOOLONG ? -ESTALE : -errno;
	full[n] = 0;
	if ((size_t)n < tree->root_len || memcmp(full, tree->root, tree->root_len) != 0 ||
	    (*below && *below != '/') || stat(full, &st) || st.st_ino != id)
		return -ESTALE;
	return snprintf(path, size, "%s", *below ? below : "/") < (int)size ? 0 : -ESTALE;
}

int cgroup_tree_path(const struct cgroup_tree *tree, uint64_t id, char *path, size_t size)
{
	int fd CLOSE_AT_END = tree->fd < 0 ? -EOPNOTSUPP : open_id(tree, id);

	return fd < 0 ? fd : path_of(tree, fd, id, path, size);
}
