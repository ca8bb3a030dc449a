/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/naming/cgroups.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/naming/cgroup_names.h"
#include "core/naming/cgroup_tree.h"
#include "core/naming/containers.h"
#include "core/system/limits.h"

struct cgroup {
	uint64_t id;
	bool known;			 /* otherwise its path is "cgroup:ID" */
	uint64_t used;			 /* when it was last requested; 0: never */
	const char *names[CGROUP_NAMES]; /* NULL: not requested yet */
	uint8_t looks[CGROUP_NAMES];	 /* lookups of a name that files did not have yet */
	uint64_t next_look_ns;
};

struct cgroups {
	struct cgroup_tree *mounted;
	struct containers *containers;
	bool held;	       /* nothing is looked up */
	bool no_handles;       /* ids cannot be opened: new ones are found by walking */
	void *tree;	       /* struct cgroup by id */
	uint64_t next_walk;    /* an unknown id does not start a walk before this */
	struct text_set paths; /* all strings that were returned */
	size_t size;	       /* of all this */
	bool full;
	uint64_t lost;
	uint64_t uses;	 /* how often the table was reduced */
	uint64_t forgot; /* when it was reduced last */
};

#define TREE_NODES (2 * 4 * sizeof(void *)) /* bytes of a path and of its id, approximately */

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

/* Stores @path for @id unless a path is known already; NULL: out of memory or no room. */
static struct cgroup *add_cgroup(struct cgroups *c, uint64_t id, const char *path, bool known)
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

static int learn_walked(void *ctx, uint64_t id, const char *path)
{
	struct cgroups *c = ctx;

	/* The remaining room is for cgroups that do I/O, and have handles. */
	if (!c->no_handles && c->size > CGROUPS_SIZE / 2)
		return 1;
	if (add_cgroup(c, id, path, true))
		return 0;
	return c->full ? 1 : -ENOMEM;
}

static int walk(struct cgroups *c)
{
	int r = cgroup_tree_walk(c->mounted, learn_walked, c);

	return r < 0 ? r : 0;
}

int cgroups_open(const char *root, const char *files, struct cgroups **out)
{
	struct cgroups *c = calloc(1, sizeof(*c));
	int rc = -ENOMEM;

	if (!c)
		return rc;
	c->no_handles = root;
	c->uses = 1;
	rc = containers_open(files, &c->containers);
	if (!rc)
		rc = cgroup_tree_open(root, &c->mounted);
	if (!rc)
		rc = walk(c); /* some will be gone when their I/O is drained */
	if (rc)
		goto fail;
	*out = c;
	return 0;
fail:
	cgroups_free(c);
	return rc;
}

FILE *cgroups_file(const struct cgroups *c, const char *path, const char *name)
{
	return cgroup_tree_file(c->mounted, path, name);
}

void cgroups_free(struct cgroups *c)
{
	if (!c)
		return;
	tdestroy(c->tree, free);
	text_set_free(&c->paths);
	cgroup_tree_free(c->mounted);
	containers_free(c->containers);
	free(c);
}

/* Between two walks: a second, or longer after a long walk, since there may be very many groups. */
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

/* An unknown id: does the cgroup exist?  False: no memory, descriptor or room to find out. */
static bool look(struct cgroups *c, uint64_t id)
{
	char path[PATH_MAX];
	int r;

	if (!c->no_handles) {
		r = cgroup_tree_path(c->mounted, id, path, sizeof(path));
		if (!r)
			return add_cgroup(c, id, path, true);
		if (r == -ESTALE || limits_is_shortage(r))
			return r == -ESTALE;
		c->no_handles = true;
	}
	if (clock_mono_ns() >= c->next_walk)
		walk_again(c);
	return true;
}

/* NULL: no room for one more. */
static struct cgroup *get(struct cgroups *c, uint64_t id)
{
	struct cgroup *group = find(c, id);
	char text[sizeof("cgroup:18446744073709551615")];

	if (group)
		group->used = c->uses++;
	/* A cgroup without a handle is gone: an id is never used again. */
	if (c->held || (group && (group->known || !c->no_handles)))
		return group;
	if (!look(c, id)) {
		c->lost++;
		return NULL;
	}
	group = find(c, id);
	if (!group) {
		snprintf(text, sizeof(text), "cgroup:%" PRIu64, id);
		group = add_cgroup(c, id, text, false);
	}
	if (group)
		group->used = c->uses++;
	else
		c->lost++;
	return group;
}

/* ---- other names ---- */

#define SHORT_ID_LENGTH 12 /* like the runtimes' own tools */

static const char no_name[] = "-", no_room[] = "cgroup:?";

static void name_short(const struct text_part *id, char *name)
{
	snprintf(name, CGROUP_NAME_SIZE, "%.*s", SHORT_ID_LENGTH, id->at);
}

/* Does a file have the name? */
static bool read_name(struct containers *containers, const struct cgroup_parts *parts,
		      enum cgroup_name what, char *name)
{
	if (what == CGROUP_POD)
		return containers_pod(containers, parts->pod.at, parts->pod.len, name,
				      CGROUP_NAME_SIZE);
	return containers_name(containers, parts->container.at, parts->user, name,
			       CGROUP_NAME_SIZE);
}

/* The part of the path for @what; NULL: none. */
static const struct text_part *part_of(const struct cgroup_parts *parts, enum cgroup_name what)
{
	const struct text_part *part = what == CGROUP_UNIT	  ? &parts->unit
				       : what == CGROUP_CONTAINER ? &parts->container
								  : &parts->pod;

	return part->at ? part : NULL;
}

bool cgroup_name_at(struct containers *containers, const char *path, enum cgroup_name what,
		    char name[CGROUP_NAME_SIZE], bool *is_short)
{
	static const enum cgroup_part kinds[CGROUP_NAMES] = {
		[CGROUP_UNIT] = CGROUP_PART_UNIT,
		[CGROUP_CONTAINER] = CGROUP_PART_CONTAINER,
		[CGROUP_POD] = CGROUP_PART_POD,
	};
	char own[CGROUP_NAME_SIZE];
	struct cgroup_parts parts;
	const struct text_part *part;
	struct text_part owner;

	*is_short = false;
	cgroup_parts(path, &parts);
	part = part_of(&parts, what);
	if (!part)
		return false;
	if (what == CGROUP_UNIT || (what == CGROUP_CONTAINER && !parts.has_container_id)) {
		cgroup_unescape(part, own, sizeof(own));
	} else {
		*is_short = !read_name(containers, &parts, what, own);
		if (*is_short)
			name_short(part, own);
	}
	owner = cgroup_owner(&parts, kinds[what]);
	cgroup_label(&owner, own, name, CGROUP_NAME_SIZE);
	return true;
}

/* NULL: out of memory or no room. */
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

/* Kubernetes creates the files when the container is already running. */
#define MAX_LOOKS   30
#define LOOK_PERIOD NS_PER_SEC

static bool is_settled(const struct cgroup *group, enum cgroup_name what)
{
	if (!group->names[what])
		return false;
	return !group->looks[what] || group->looks[what] > MAX_LOOKS ||
	       clock_mono_ns() < group->next_look_ns;
}

static void find_name(struct cgroups *c, struct cgroup *group, enum cgroup_name what)
{
	char name[CGROUP_NAME_SIZE];
	bool is_short,
	    has = cgroup_name_at(c->containers, group->names[CGROUP_PATH], what, name, &is_short);

	group->next_look_ns = clock_mono_ns() + LOOK_PERIOD;
	group->looks[what] = is_short ? group->looks[what] + 1 : 0;
	if (is_short && group->names[what]) /* again */
		return;
	group->names[what] = has ? keep_name(c, name) : no_name;
}

static const char *name_of(struct cgroups *c, struct cgroup *group, enum cgroup_name what)
{
	if (!group->known)
		return no_name;
	if (!c->held && !is_settled(group, what))
		find_name(c, group, what);
	if (!c->held && !group->names[what])
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

void cgroups_hold(struct cgroups *c, bool held)
{
	c->held = held;
}

const char *cgroups_path(struct cgroups *c, uint64_t id)
{
	return cgroups_name(c, id, CGROUP_PATH);
}

void cgroups_put(struct cgroups *c, uint64_t id, const char *path)
{
	/* If only a part is mounted, paths begin elsewhere. */
	if (!cgroup_tree_is_whole(c->mounted))
		return;
	/* The remaining room is for cgroups that do I/O. */
	if (c->size > CGROUPS_SIZE / 2)
		c->full = true;
	else
		add_cgroup(c, id, path, true);
}

uint64_t cgroups_lost(struct cgroups *c)
{
	uint64_t lost = c->lost;

	c->lost = 0;
	return lost;
}

/* ---- no more room ---- */

struct listed {
	struct cgroup **groups;
	size_t n;
};

static void list(const void *node, VISIT which, void *ctx)
{
	struct listed *listed = ctx;

	if (which == preorder || which == leaf)
		listed->groups[listed->n++] = *(struct cgroup *const *)node;
}

static int last_used_first(const void *a, const void *b)
{
	const struct cgroup *x = *(struct cgroup *const *)a, *y = *(struct cgroup *const *)b;

	return (x->used < y->used) - (x->used > y->used);
}

static void keep_group(void *group)
{
	(void)group;
}

/* Removes all from the table. */
static int take_out(struct cgroups *c, struct listed *listed)
{
	listed->groups = calloc(c->size / sizeof(struct cgroup) + 1, sizeof(void *));
	if (!listed->groups)
		return -ENOMEM;
	twalk_r(c->tree, list, listed);
	qsort(listed->groups, listed->n, sizeof(void *), last_used_first);
	tdestroy(c->tree, keep_group);
	return 0;
}

/* The most recently used, up to half of the room. */
static void put_back(struct cgroups *c, struct listed *listed)
{
	for (size_t i = 0; i < listed->n; i++) {
		const struct cgroup *old = listed->groups[i];
		struct cgroup *group = NULL;

		if (old->used && c->size < CGROUPS_SIZE / 2)
			group = add_cgroup(c, old->id, old->names[CGROUP_PATH], old->known);
		if (group)
			group->used = old->used;
		free(listed->groups[i]);
	}
	free(listed->groups);
}

void cgroups_forget(struct cgroups *c)
{
	uint64_t now = clock_mono_ns();
	struct text_set old = c->paths;
	struct listed listed = { 0 };

	if (!c->full || (c->forgot && now - c->forgot < 60 * NS_PER_SEC) || take_out(c, &listed))
		return;
	c->paths = (struct text_set){ 0 };
	c->tree = NULL;
	c->size = 0;
	c->full = false;
	c->forgot = now;
	put_back(c, &listed);
	text_set_free(&old);
	if (c->no_handles)
		walk(c); /* without memory some stay unknown */
}
