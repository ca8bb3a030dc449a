// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/export/live_groups.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/naming/cgroup_tree.h"
#include "core/naming/cgroups.h"
#include "core/naming/containers.h"

static const struct {
	const char *key;
	enum cgroup_name name;
} kinds[] = {
	{ "cgroup", CGROUP_PATH },
	{ "unit", CGROUP_UNIT },
	{ "container", CGROUP_CONTAINER },
};

#define KINDS ARRAY_SIZE(kinds)

struct name {
	char *text; /* first: by_text() */
	bool found; /* by the walk */
};

struct names {
	struct name *v;
	size_t n;
};

struct live_groups {
	struct cgroup_tree *tree;
	struct containers *containers;
	struct names wanted[KINDS]; /* requested since the last update */
	struct names sought[KINDS]; /* by the walk; sorted */
	struct cgroup_walk walk;
	uint64_t walked_ns; /* the last part of it */
	bool met_any;	    /* so it has met cgroups */
	bool looked;	    /* the last update ended it */
};

int live_groups_open(const char *root, const char *files, struct live_groups **out)
{
	struct live_groups *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	if (cgroup_tree_open(root, &g->tree) || containers_open(files, &g->containers)) {
		live_groups_free(g);
		return -ENOMEM;
	}
	*out = g;
	return 0;
}

static void clear(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->v[i].text);
	free(names->v);
	*names = (struct names){ 0 };
}

void live_groups_free(struct live_groups *g)
{
	if (!g)
		return;
	for (size_t k = 0; k < KINDS; k++) {
		clear(&g->wanted[k]);
		clear(&g->sought[k]);
	}
	cgroup_walk_end(&g->walk);
	cgroup_tree_free(g->tree);
	containers_free(g->containers);
	free(g);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct name *find(const struct names *names, const char *text)
{
	return names->n ? bsearch(&text, names->v, names->n, sizeof(*names->v), by_text) : NULL;
}

static void meet(struct live_groups *g, const char *path)
{
	char text[CGROUP_NAME_SIZE], label[METRICS_LABEL_SIZE];
	bool is_short;

	g->met_any = true;
	for (size_t k = 0; k < KINDS; k++) {
		bool is_path = kinds[k].name == CGROUP_PATH;
		struct name *name;

		if (!g->sought[k].n || !(is_path || cgroup_name_at(g->containers, path,
								   kinds[k].name, text, &is_short)))
			continue;
		metrics_label(label, is_path ? path : text);
		name = find(&g->sought[k], label);
		if (name)
			name->found = true;
	}
}

/* True: it has met all. */
static bool walk_on(struct live_groups *g)
{
	uint64_t begun_ns = clock_mono_ns(), id;
	const char *path;
	int r;

	do {
		r = cgroup_walk_next(g->tree, &g->walk, &id, &path);
		if (r > 0)
			meet(g, path);
	} while (r > 0 && clock_mono_ns() - begun_ns < LIVE_GROUPS_STEP_NS);
	return !r && g->met_any;
}

/* Begins a walk for the requested groups; false: none is requested. */
static bool begin(struct live_groups *g)
{
	size_t n = 0;

	for (size_t k = 0; k < KINDS; k++) {
		clear(&g->sought[k]);
		g->sought[k] = g->wanted[k];
		g->wanted[k] = (struct names){ 0 };
		if (g->sought[k].n)
			qsort(g->sought[k].v, g->sought[k].n, sizeof(struct name), by_text);
		n += g->sought[k].n;
	}
	g->met_any = false;
	return n;
}

void live_groups_update(struct live_groups *g, uint64_t now_ns)
{
	bool due = !g->walked_ns || now_ns - g->walked_ns >= LIVE_GROUPS_NS;

	g->looked = false;
	if (due && (g->walk.fts || begin(g))) {
		g->walked_ns = now_ns;
		g->looked = walk_on(g);
	}
	for (size_t k = 0; k < KINDS; k++)
		clear(&g->wanted[k]);
}

/* If out of memory it is not added. */
static void want(struct names *names, const char *text)
{
	struct name *name = ARRAY_ADD(names->v, names->n);

	if (!name)
		return;
	*name = (struct name){ .text = strdup(text) };
	if (!name->text)
		names->n--;
}

enum metrics_presence live_groups_look(struct live_groups *g, const char *key, const char *value)
{
	for (size_t k = 0; k < KINDS; k++) {
		const struct name *name;

		if (strcmp(kinds[k].key, key) != 0 || strcmp(value, "-") == 0)
			continue;
		want(&g->wanted[k], value);
		name = g->looked ? find(&g->sought[k], value) : NULL;
		if (name)
			return name->found ? METRICS_THERE : METRICS_GONE;
	}
	return METRICS_NOT_LOOKED;
}
