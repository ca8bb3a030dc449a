// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/naming/process_names.h"

#include <errno.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/system/process.h"

#define MANY_NAMES 65536

struct name {
	uint64_t start_ns;
	uint32_t pid;
	uint32_t missed; /* the last round in which it was requested and unknown */
	bool known;
	char comm[PROCESS_NAME_SIZE];
};

/*
 * Two generations: a name that is stored or requested moves to the first.  When that is full it
 * replaces the second, whose names were not requested since.
 */
struct process_names {
	void *tree, *old; /* of struct name */
	size_t count;	  /* in tree */
	uint32_t round;
	uint64_t lost;
};

int process_names_open(struct process_names **out)
{
	struct process_names *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	n->round = 1;
	*out = n;
	return 0;
}

void process_names_free(struct process_names *n)
{
	if (!n)
		return;
	tdestroy(n->tree, free);
	tdestroy(n->old, free);
	free(n);
}

static int compare(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Removes the name from the older generation, or makes a new one. */
static struct name *revive(struct process_names *n, const struct name *key)
{
	struct name **found = tfind(key, &n->old, compare), *name;

	if (found) {
		name = *found;
		tdelete(key, &n->old, compare);
		return name;
	}
	name = malloc(sizeof(*name));
	if (name)
		*name = *key;
	return name;
}

static struct name *entry_of(struct process_names *n, uint32_t pid, uint64_t start_ns)
{
	struct name key = { .pid = pid, .start_ns = start_ns }, *name, **found;

	found = tfind(&key, &n->tree, compare);
	if (found)
		return *found;
	name = revive(n, &key);
	if (!name)
		return NULL;
	if (!tsearch(name, &n->tree, compare)) {
		free(name);
		return NULL;
	}
	n->count++;
	return name;
}

#define UNKNOWN "?"

/* The labels of rows of no process, or of many, and blame's.  "[other processes]" is longer than
 * any name. */
static const char *const own_names[] = { "(other)", "[unknown]", "[lost stack]", UNKNOWN,
					 "(all)",   "(itself)",	 "(alone)",	 "(idle)" };

/* A process can choose any name. */
void process_names_escape(const char *comm, char to[PROCESS_NAME_SIZE])
{
	memcpy(to, comm, strnlen(comm, PROCESS_NAME_SIZE - 1) + 1);
	to[PROCESS_NAME_SIZE - 1] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(own_names); i++)
		if (strcmp(to, own_names[i]) == 0)
			snprintf(to, PROCESS_NAME_SIZE, "\\x%02x%s", (unsigned char)own_names[i][0],
				 own_names[i] + 1);
}

static void set_comm(struct name *name, const char *comm)
{
	process_names_escape(comm, name->comm);
	name->known = true;
}

int process_names_put(struct process_names *n, uint32_t pid, uint64_t start_ns, const char *comm)
{
	struct name *name = entry_of(n, pid, start_ns);

	if (!name)
		return -ENOMEM;
	set_comm(name, comm);
	return 0;
}

/* For a process that the probes had no room for, and that still runs. */
static void name_from_proc(struct name *name)
{
	struct process process;

	if (!process_read(name->pid, &process) &&
	    name->start_ns - process.start_ns < process_tick_ns())
		set_comm(name, process.comm);
}

const char *process_names_get(struct process_names *n, uint32_t pid, uint64_t start_ns)
{
	struct name *name = entry_of(n, pid, start_ns);

	if (name && !name->known)
		name_from_proc(name);
	if (name && name->known)
		return name->comm;
	if (!name || name->missed != n->round)
		n->lost++;
	if (name)
		name->missed = n->round;
	return UNKNOWN;
}

uint64_t process_names_lost(struct process_names *n)
{
	uint64_t lost = n->lost;

	n->lost = 0;
	n->round++;
	return lost;
}

bool process_names_forget(struct process_names *n)
{
	if (n->count < MANY_NAMES)
		return false;
	tdestroy(n->old, free);
	n->old = n->tree;
	n->tree = NULL;
	n->count = 0;
	return true;
}

void process_names_keep(struct process_names *n, uint32_t pid, uint64_t start_ns)
{
	const struct name key = { .pid = pid, .start_ns = start_ns };

	if (tfind(&key, &n->old, compare))
		entry_of(n, pid, start_ns);
}
