// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/modules.h"

#include <limits.h>
#include <search.h>
#include <stdio.h>

#define DELETED " (deleted)"

static int compare_modules(const void *a, const void *b)
{
	const struct module *x = a, *y = b;
	int r = memcmp(&x->id, &y->id, sizeof(x->id));

	if (r)
		return r;
	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return strcmp(x->path, y->path);
}

/* Memory that has at most the name of a file: "//anon", "/memfd:doublemapper". */
static const char *memory_name(const char *path)
{
	static const char *const memory[] = { "/memfd:", "/dev/zero", "/SYSV", "[anon" };

	if (strlen(path) >= PATH_MAX || strcmp(path, "//toolong") == 0)
		return MODULE_LONG_PATH;
	if (path[0] != '[' && (path[0] != '/' || path[1] == '/'))
		return "[anon]";
	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
		if (strncmp(path, memory[i], strlen(memory[i])) == 0)
			return "[anon]";
	return path[0] == '[' ? path : NULL;
}

/* What the kernel calls a mapping -> what we call it.  True: a file. */
static bool plain_path(const char *path, char *out, size_t size)
{
	size_t len = strlen(path), tail = strlen(DELETED);
	const char *memory = memory_name(path);

	if (memory) {
		snprintf(out, size, "%s", memory);
		return false;
	}
	if (len > tail && strcmp(path + len - tail, DELETED) == 0)
		len -= tail;
	snprintf(out, size, "%.*s", (int)len, path);
	return true;
}

static size_t size_of(const struct module *module)
{
	return sizeof(*module) + strlen(module->path) + 1;
}

static void list_unused(struct modules *set, struct module *module)
{
	if (module->is_listed)
		return;
	module->is_listed = true;
	module->next = set->unused;
	set->unused = module;
}

static struct module *new_module(struct modules *set, const struct module *key)
{
	struct module *made = budget_alloc(set->budget, size_of(key));
	char *path;

	if (!made)
		return NULL;
	*made = *key;
	path = (char *)(made + 1);
	memcpy(path, key->path, strlen(key->path) + 1);
	made->path = path;
	if (!tsearch(made, &set->tree, compare_modules)) {
		budget_free(set->budget, made, size_of(made));
		return NULL;
	}
	made->serial = ++set->serial;
	set->n++;
	list_unused(set, made);
	return made;
}

struct module *modules_find(struct modules *set, const char *path, const struct build_id *id,
			    uint32_t dev, uint64_t inode)
{
	struct module key = { 0 };
	char plain[PATH_MAX];
	void *found;

	key.is_file = plain_path(path, plain, sizeof(plain));
	key.path = plain;
	if (key.is_file) {
		key.dev = dev;
		key.inode = inode;
		if (id && id->size) {
			key.id.size = id->size;
			memcpy(key.id.bytes, id->bytes, id->size);
		}
	}
	found = tfind(&key, &set->tree, compare_modules);
	if (!found)
		return new_module(set, &key);
	return *(struct module **)found;
}

void module_get(struct module *module)
{
	module->refs++;
}

void modules_put(struct modules *set, struct module *module)
{
	if (!--module->refs)
		list_unused(set, module);
}

void modules_sweep(struct modules *set)
{
	while (set->unused) {
		struct module *module = set->unused;

		set->unused = module->next;
		module->is_listed = false;
		if (module->refs)
			continue;
		tdelete(module, &set->tree, compare_modules);
		set->n--;
		budget_free(set->budget, module, size_of(module));
	}
}
