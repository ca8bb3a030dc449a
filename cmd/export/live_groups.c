// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/export/live_groups.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/system/cgroup_tree.h"
#include "core/system/cgroups.h"

static const struct {
	const char *key;
	enum cgroup_name name;
} kinds[] = {
	{ "cgroup", CGROUP_PATH },
	{ "unit", CGROUP_UNIT },
	{ "container", CGROUP_CONTAINER },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct name_list {
	char **names; /* sorted, once they are all there */
	size_t n;
};

struct live_groups {
	struct cgroup_tree *tree;
	struct cgroups *cgroups;
	struct name_list lists[KINDS];
	uint64_t looked_ns;
	bool looked; /* by the last live_groups_update(): the lists are what there is */
};

int live_groups_open(const char *root, const char *files, struct live_groups **out)
{
	struct live_groups *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	if (cgroup_tree_open(root, &g->tree) || cgroups_open(root, files, &g->cgroups)) {
		live_groups_free(g);
		return -ENOMEM;
	}
	*out = g;
	return 0;
}

static void clear(struct live_groups *g)
{
	for (size_t k = 0; k < KINDS; k++) {
		for (size_t i = 0; i < g->lists[k].n; i++)
			free(g->lists[k].names[i]);
		free(g->lists[k].names);
		g->lists[k] = (struct name_list){ 0 };
	}
	g->looked = false;
}

void live_groups_free(struct live_groups *g)
{
	if (!g)
		return;
	clear(g);
	cgroup_tree_free(g->tree);
	cgroups_free(g->cgroups);
	free(g);
}

static int add_name(struct name_list *list, const char *text)
{
	char label[METRICS_LABEL_SIZE], **at;

	metrics_label(label, text);
	/* Many cgroups of one unit are met one after another. */
	if (list->n && strcmp(list->names[list->n - 1], label) == 0)
		return 0;
	at = ARRAY_ADD(list->names, list->n);
	if (!at)
		return -ENOMEM;
	*at = strdup(label);
	if (!*at)
		list->n--;
	return *at ? 0 : -ENOMEM;
}

static int add_group(void *ctx, uint64_t id, const char *path)
{
	struct live_groups *g = ctx;
	int r = 0;

	if (cgroup_tree_is_whole(g->tree))
		cgroups_put(g->cgroups, id, path);
	for (size_t k = 0; !r && k < KINDS; k++)
		r = add_name(&g->lists[k], kinds[k].name == CGROUP_PATH
					       ? path
					       : cgroups_name(g->cgroups, id, kinds[k].name));
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void live_groups_update(struct live_groups *g, uint64_t now_ns)
{
	clear(g);
	if (g->looked_ns && now_ns - g->looked_ns < LIVE_GROUPS_NS)
		return;
	cgroups_forget(g->cgroups);
	if (cgroup_tree_walk(g->tree, add_group, g))
		return;
	for (size_t k = 0; k < KINDS; k++)
		if (g->lists[k].n)
			qsort(g->lists[k].names, g->lists[k].n, sizeof(char *), by_name);
	g->looked = true;
	g->looked_ns = now_ns;
}

enum metrics_presence live_groups_look(const struct live_groups *g, const char *key,
				       const char *value)
{
	for (size_t k = 0; g->looked && k < KINDS; k++) {
		const struct name_list *list = &g->lists[k];

		if (strcmp(kinds[k].key, key) != 0 || strcmp(value, "-") == 0 || !list->n)
			continue;
		return bsearch(&value, list->names, list->n, sizeof(char *), by_name)
			   ? METRICS_THERE
			   : METRICS_GONE;
	}
	return METRICS_NOT_LOOKED;
}
