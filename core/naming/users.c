// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/naming/users.h"

#include <errno.h>
#include <pwd.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"

#define NAME_MAX_SIZE 33 /* the limit of useradd(8) */
#define LINE_SIZE     4096

struct user {
	uint32_t uid;
	char name[NAME_MAX_SIZE];
};

struct users {
	void *root; /* of struct user, by uid */
	size_t n;
};

static int compare(const void *a, const void *b)
{
	uint32_t x = ((const struct user *)a)->uid, y = ((const struct user *)b)->uid;

	return (x > y) - (x < y);
}

/* The name of @uid: the present one, otherwise @name from now on.  NULL: no room. */
static const char *find_or_add(struct users *u, uint32_t uid, const char *name)
{
	const struct user key = { .uid = uid };
	struct user **found = tfind(&key, &u->root, compare), *made;

	if (found)
		return (*found)->name;
	made = u->n < USERS_MAX ? malloc(sizeof(*made)) : NULL;
	if (!made)
		return NULL;
	made->uid = uid;
	snprintf(made->name, sizeof(made->name), "%s", name);
	if (!tsearch(made, &u->root, compare)) {
		free(made);
		return NULL;
	}
	u->n++;
	return made->name;
}

int users_open(const char *path, struct users **out)
{
	struct users *u = calloc(1, sizeof(*u));
	FILE *file FCLOSE_AT_END = NULL;
	struct passwd entry, *found;
	char line[LINE_SIZE];

	if (!u)
		return -ENOMEM;
	file = fopen(path ? path : "/etc/passwd", "re");
	/* If one user has two names the first counts, like for getpwuid(3). */
	while (file && !fgetpwent_r(file, &entry, line, sizeof(line), &found))
		find_or_add(u, entry.pw_uid, entry.pw_name);
	*out = u;
	return 0;
}

void users_free(struct users *u)
{
	if (!u)
		return;
	tdestroy(u->root, free);
	free(u);
}

const char *users_name(struct users *u, uint32_t uid)
{
	const char *name;
	char number[16];

	snprintf(number, sizeof(number), "%u", uid);
	name = find_or_add(u, uid, number);
	return name ? name : "user:?";
}
