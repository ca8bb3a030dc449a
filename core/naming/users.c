// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/naming/users.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_SIZE 33 /* as useradd(8) limits it */
#define LINE_SIZE     4096

struct user {
	uint32_t uid;
	char name[NAME_MAX_SIZE];
};

struct users {
	struct user **users; /* by uid */
	size_t n, room;
};

/* The place of @uid, or where it belongs. */
static size_t place_of(const struct users *u, uint32_t uid)
{
	size_t from = 0, to = u->n;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (u->users[middle]->uid < uid)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static bool has(const struct users *u, size_t place, uint32_t uid)
{
	return place < u->n && u->users[place]->uid == uid;
}

static int grow(struct users *u)
{
	size_t room = u->room ? u->room * 2 : 64;
	struct user **grown;

	if (u->n < u->room)
		return 0;
	grown = realloc(u->users, room * sizeof(struct user *));
	if (!grown)
		return -ENOMEM;
	u->users = grown;
	u->room = room;
	return 0;
}

/* The name's string, or NULL: no room. */
static const char *put(struct users *u, size_t place, uint32_t uid, const char *name)
{
	struct user *made;

	if (u->n >= USERS_MAX || grow(u))
		return NULL;
	made = malloc(sizeof(*made));
	if (!made)
		return NULL;
	made->uid = uid;
	snprintf(made->name, sizeof(made->name), "%s", name);
	memmove(&u->users[place + 1], &u->users[place], (u->n - place) * sizeof(struct user *));
	u->users[place] = made;
	u->n++;
	return made->name;
}

/* Of two names of one user the first counts, as for getpwuid(3). */
static void read_names(struct users *u, FILE *file)
{
	struct passwd entry, *found;
	char line[LINE_SIZE];

	while (!fgetpwent_r(file, &entry, line, sizeof(line), &found)) {
		size_t place = place_of(u, entry.pw_uid);

		if (!has(u, place, entry.pw_uid))
			put(u, place, entry.pw_uid, entry.pw_name);
	}
}

int users_open(const char *path, struct users **out)
{
	struct users *u = calloc(1, sizeof(*u));
	FILE *file;

	if (!u)
		return -ENOMEM;
	file = fopen(path ? path : "/etc/passwd", "re");
	if (file) {
		read_names(u, file);
		fclose(file);
	}
	*out = u;
	return 0;
}

void users_free(struct users *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < u->n; i++)
		free(u->users[i]);
	free(u->users);
	free(u);
}

const char *users_name(struct users *u, uint32_t uid)
{
	size_t place = place_of(u, uid);
	const char *name;
	char number[16];

	if (has(u, place, uid))
		return u->users[place]->name;
	snprintf(number, sizeof(number), "%u", uid);
	name = put(u, place, uid, number);
	return name ? name : "user:?";
}
