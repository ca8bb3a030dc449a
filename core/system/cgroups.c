/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/system/cgroups.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <mntent.h>
#include <search.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/system/cgroup_names.h"

struct cgroup {
	uint64_t id;
	bool known;			 /* else its path is "cgroup:ID" */
	const char *names[CGROUP_NAMES]; /* NULL: not asked for yet */
};

struct cgroups {
	char *root;	       /* NULL: what is mounted */
	void *tree;	       /* struct cgroup by id */
	uint64_t next_walk;    /* not before this does an unknown id make us walk */
	struct text_set paths; /* all that was handed out */
	size_t size;	       /* of all this */
	bool full;
	uint64_t lost;
	uint64_t forgot; /* when that was done last */
};

#define TREE_NODES (2 * 4 * sizeof(void *)) /* of a path and of its id, about */

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = ((const struct cgroup *)a)->id, y = ((const struct cgroup *)b)->id;

	return (x > y) - (x < y);
}

static struct cgroup *find(struct cgroups *c, uint64_t id)
{
	struct cgroup key = { .id = id };
	void *node = tfind(&key, &c->tree, compare_ids);

	return node ? *(struct cgroup **)node : NULL;
}

/* Stores @path for @id unless a path is known already; NULL without memory or room. */
static struct cgroup *learn(struct cgroups *c, uint64_t id, const char *path, bool known)
{
	struct cgroup *group = find(c, id);
	const char *kept;

	size_t size = strlen(path) + 1 + sizeof(*group) + TREE_NODES;

	if (group && (group->known || !known))
		return group;
	if (c->size + size > CGROUPS_SIZE) {
		c->full = true;
		return NULL;
	}
	kept = text_keep(&c->paths, path);
	if (!kept)
		return NULL;
	if (!group) {
		group = calloc(1, sizeof(*group));
		if (!group)
			return NULL;
		group->id = id;
		if (!tsearch(group, &c->tree, compare_ids)) {
			free(group);
			return NULL;
		}
	}
	c->size += size;
	group->known = known;
	group->names[CGROUP_PATH] = kept;
	return group;
}

/*
 * FTS_NOSTAT spares a stat() of each of the dozens of files that every cgroup
 * has, and leaves fts_statp unset.  A group that goes away during the walk is
 * passed over.
 */
static int walk_tree(struct cgroups *c, const char *top)
{
	char *root = strdup(top);
	char *roots[] = { root, NULL };
	FTS *fts = NULL;
	FTSENT *entry;
	struct stat st;
	size_t len;
	int rc = -ENOMEM;

	if (!root)
		goto out;
	for (len = strlen(root); len > 0 && root[len - 1] == '/'; len--)
		;
	if (len)
		root[len] = '\0';
	fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT | FTS_XDEV, NULL);
	if (!fts) {
		rc = errno == ENOMEM ? -ENOMEM : 0;
		goto out;
	}
	while (errno = 0, entry = fts_read(fts)) {
		const char *path = entry->fts_path + len;

		if (entry->fts_info != FTS_D || stat(entry->fts_path, &st))
			continue;
		if (!learn(c, st.st_ino, *path ? path : "/", true)) {
			rc = c->full ? 0 : -ENOMEM;
			goto out;
		}
	}
	rc = errno == ENOMEM ? -ENOMEM : 0;
out:
	if (fts)
		fts_close(fts);
	free(root);
	return rc;
}

static bool is_cgroup2(const struct mntent *mount)
{
	return !strcmp(mount->mnt_type, "cgroup2");
}

static bool is_blkio(const struct mntent *mount)
{
	return !strcmp(mount->mnt_type, "cgroup") && hasmntopt(mount, "blkio");
}

/* Walks every mount that @wanted takes; *found says whether there was one. */
static int walk_mounts(struct cgroups *c, bool (*wanted)(const struct mntent *), bool *found)
{
	/* A longer line (overlayfs) is cut by getmntent_r(), and is not ours. */
	char line[2 * PATH_MAX];
	struct mntent mount;
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	int rc = 0;

	if (!mounts)
		return errno == ENOMEM ? -ENOMEM : 0;
	while (!rc && getmntent_r(mounts, &mount, line, sizeof(line))) {
		if (!wanted(&mount))
			continue;
		*found = true;
		rc = walk_tree(c, mount.mnt_dir);
	}
	endmntent(mounts);
	return rc;
}

static int walk(struct cgroups *c)
{
	bool found = false;
	int rc;

	if (c->root)
		return walk_tree(c, c->root);
	/* Ids are unique in one hierarchy only.  Block I/O is charged in the v1
	 * hierarchy of blkio where there is one, else in cgroup2. */
	rc = walk_mounts(c, is_blkio, &found);
	return rc || found ? rc : walk_mounts(c, is_cgroup2, &found);
}

int cgroups_open(const char *root, const char *files, struct cgroups **out)
{
	struct cgroups *c = calloc(1, sizeof(*c));
	int rc = -ENOMEM;

	(void)files;
	if (!c)
		return rc;
	if (root) {
		c->root = strdup(root);
		if (!c->root)
			goto fail;
	}
	rc = walk(c);
	if (rc)
		goto fail;
	*out = c;
	return 0;
fail:
	cgroups_free(c);
	return rc;
}

void cgroups_free(struct cgroups *c)
{
	if (!c)
		return;
	tdestroy(c->tree, free);
	text_set_free(&c->paths);
	free(c->root);
	free(c);
}

/* Between two walks, and how much longer than a walk: there may be very many groups. */
#define WALK_PERIOD NS_PER_SEC
#define WALK_SHARE  50

static void walk_again(struct cgroups *c)
{
	uint64_t before = clock_mono_ns(), after, rest;

	walk(c); /* without memory some stay unknown */
	after = clock_mono_ns();
	rest = WALK_SHARE * (after - before);
	c->next_walk = after + (rest > WALK_PERIOD ? rest : WALK_PERIOD);
}

/* NULL: there is no room for one more. */
static struct cgroup *get(struct cgroups *c, uint64_t id)
{
	struct cgroup *group = find(c, id);
	char text[sizeof("cgroup:18446744073709551615")];

	if (group && group->known)
		return group;
	if (clock_mono_ns() >= c->next_walk) {
		walk_again(c);
		group = find(c, id);
	}
	if (!group) {
		snprintf(text, sizeof(text), "cgroup:%" PRIu64, id);
		group = learn(c, id, text, false);
	}
	if (!group)
		c->lost++;
	return group;
}

/* ---- other names ---- */

#define NAME_SIZE	512
#define SHORT_ID_LENGTH 12 /* as the runtimes' own tools show them */

static const char no_name[] = "-", no_room[] = "cgroup:?";

static void name_short(const struct text_part *id, char *name)
{
	snprintf(name, NAME_SIZE, "%.*s", SHORT_ID_LENGTH, id->at);
}

/* False: it has none. */
static bool make_name(const char *path, enum cgroup_name what, char *name)
{
	struct cgroup_parts parts;

	cgroup_parts(path, &parts);
	if (what == CGROUP_UNIT && parts.unit.at)
		cgroup_unescape(&parts.unit, name, NAME_SIZE);
	else if (what == CGROUP_CONTAINER && parts.has_container_id)
		name_short(&parts.container, name);
	else if (what == CGROUP_CONTAINER && parts.container.at)
		cgroup_unescape(&parts.container, name, NAME_SIZE);
	else if (what == CGROUP_POD && parts.pod.at)
		name_short(&parts.pod, name);
	else
		return false;
	return true;
}

/* NULL: no memory or no room. */
static const char *keep_name(struct cgroups *c, const char *name)
{
	const char *kept;
	size_t size = strlen(name) + 1;

	if (c->size + size > CGROUPS_SIZE) {
		c->full = true;
		return NULL;
	}
	kept = text_keep(&c->paths, name);
	c->size += kept ? size : 0;
	return kept;
}

static const char *name_of(struct cgroups *c, struct cgroup *group, enum cgroup_name what)
{
	char name[NAME_SIZE];

	if (!group->known)
		return no_name;
	if (!group->names[what])
		group->names[what] =
		    make_name(group->names[CGROUP_PATH], what, name) ? keep_name(c, name) : no_name;
	if (!group->names[what])
		c->lost++;
	return group->names[what] ? group->names[what] : no_room;
}

const char *cgroups_name(struct cgroups *c, uint64_t id, enum cgroup_name what)
{
	struct cgroup *group = id ? get(c, id) : NULL;

	if (!id)
		return no_name;
	if (!group)
		return no_room;
	return what == CGROUP_PATH ? group->names[CGROUP_PATH] : name_of(c, group, what);
}

const char *cgroups_path(struct cgroups *c, uint64_t id)
{
	return cgroups_name(c, id, CGROUP_PATH);
}

uint64_t cgroups_lost(struct cgroups *c)
{
	uint64_t lost = c->lost;

	c->lost = 0;
	return lost;
}

void cgroups_forget(struct cgroups *c)
{
	uint64_t now = clock_mono_ns();

	if (!c->full || (c->forgot && now - c->forgot < 60 * NS_PER_SEC))
		return;
	tdestroy(c->tree, free);
	text_set_free(&c->paths);
	c->tree = NULL;
	c->size = 0;
	c->full = false;
	c->forgot = now;
	walk(c); /* without memory some stay unknown */
}
