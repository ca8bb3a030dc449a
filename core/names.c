// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/names.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY_NAMES 65536

struct name {
	uint32_t pid;
	char comm[NAME_SIZE];
};

struct names {
	int (*lookup)(void *ctx, uint32_t pid, char comm[NAME_SIZE]);
	void *ctx;
	void *tree; /* of struct name */
	size_t count;
};

int names_open(int (*lookup)(void *ctx, uint32_t pid, char comm[NAME_SIZE]), void *ctx,
	       struct names **out)
{
	struct names *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	n->lookup = lookup;
	n->ctx = ctx;
	*out = n;
	return 0;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	tdestroy(n->tree, free);
	free(n);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = ((const struct name *)a)->pid, y = ((const struct name *)b)->pid;

	return x < y ? -1 : x > y;
}

/* Of a process that the probes do not know (any more) but that is there. */
static int name_from_proc(uint32_t pid, char comm[NAME_SIZE])
{
	char path[64];
	size_t len;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	file = fopen(path, "re");
	if (!file)
		return -ENOENT;
	len = fread(comm, 1, NAME_SIZE - 1, file);
	fclose(file);
	if (len && comm[len - 1] == '\n')
		len--;
	comm[len] = 0;
	return 0;
}

static struct name *entry_of(struct names *n, uint32_t pid)
{
	struct name key = { .pid = pid }, *made, **found;

	found = tfind(&key, &n->tree, compare);
	if (found)
		return *found;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NULL;
	made->pid = pid;
	if (!tsearch(made, &n->tree, compare)) {
		free(made);
		return NULL;
	}
	n->count++;
	return made;
}

const char *names_of(struct names *n, uint32_t pid)
{
	struct name *name = entry_of(n, pid);
	char comm[NAME_SIZE];

	if (!name)
		return "?";
	/* Asked again each time: a process may change its name. */
	if (n->lookup(n->ctx, pid, comm) == 0 || (!name->comm[0] && name_from_proc(pid, comm) == 0))
		memcpy(name->comm, comm, NAME_SIZE);
	return name->comm[0] ? name->comm : "?";
}

void names_forget(struct names *n)
{
	if (n->count < MANY_NAMES)
		return;
	tdestroy(n->tree, free);
	n->tree = NULL;
	n->count = 0;
}
