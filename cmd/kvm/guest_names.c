// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/guest_names.h"

#include <errno.h>
#include <stdio.h>

#include "core/base/array.h"

/* Most have no name, and it may take time to find that out (core/isolation/bounded.h). */
#define MAX_ATTEMPTS 3

struct guest_named {
	uint32_t pid;
	unsigned int attempts, asked; /* how often it was asked for its name, and in what round */
	unsigned int added;	      /* the last round in which it was */
	char name[GUEST_NAME_SIZE];
};

static struct guest_named *find(const struct guest_names *names, uint32_t pid)
{
	for (size_t i = 0; i < names->n; i++)
		if (names->v[i].pid == pid)
			return &names->v[i];
	return NULL;
}

const char *guest_names_find(const struct guest_names *names, uint32_t pid)
{
	const struct guest_named *g = find(names, pid);

	return g ? g->name : "";
}

static void ask_name(struct guest_named *g, unsigned int round)
{
	if (g->attempts == MAX_ATTEMPTS || (g->attempts && g->asked == round))
		return;
	guest_name(NULL, g->pid, g->name);
	g->attempts++;
	g->asked = round;
}

int guest_names_add(struct guest_names *names, uint32_t pid, const char *name)
{
	struct guest_named *g = find(names, pid);

	if (!g) {
		g = ARRAY_ADD(names->v, names->n);
		if (!g)
			return -ENOMEM;
		g->pid = pid;
	}
	g->added = names->round;
	if (g->name[0])
		return 0;
	if (name)
		snprintf(g->name, sizeof(g->name), "%s", name);
	else
		ask_name(g, names->round);
	return 0;
}

void guest_names_next_round(struct guest_names *names, uint32_t pid)
{
	size_t n = 0;

	for (size_t i = 0; i < names->n; i++)
		if (names->round - names->v[i].added < GUEST_NAMES_ROUNDS || names->v[i].pid == pid)
			names->v[n++] = names->v[i];
	names->n = n;
	names->round++;
}

void guest_names_free(struct guest_names *names)
{
	free(names->v);
	*names = (struct guest_names){ 0 };
}
