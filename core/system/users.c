// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/users.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/text.h"

struct user {
	uint32_t uid;
	const char *name;
};

struct users {
	struct user *list; /* as in the file: the first one of a number is meant */
	size_t n, room;
	struct text_set names;
};

static int add(struct users *u, uint32_t uid, const char *name)
{
	const char *kept = text_keep(&u->names, name);

	if (!kept)
		return -ENOMEM;
	if (u->n == u->room) {
		size_t room = u->room ? u->room * 2 : 64;
		struct user *grown = realloc(u->list, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		u->list = grown;
		u->room = room;
	}
	u->list[u->n++] = (struct user){ uid, kept };
	return 0;
}

static int read_file(struct users *u, FILE *file)
{
	struct passwd entry, *found;
	char line[4096];
	int r = 0;

	while (!r && !fgetpwent_r(file, &entry, line, sizeof(line), &found))
		r = add(u, entry.pw_uid, entry.pw_name);
	return r;
}

int users_open(const char *path, struct users **out)
{
	struct users *u = calloc(1, sizeof(*u));
	FILE *file;
	int r = 0;

	if (!u)
		return -ENOMEM;
	file = fopen(path ? path : "/etc/passwd", "re");
	if (file) {
		r = read_file(u, file);
		fclose(file);
	}
	if (r)
		users_free(u);
	else
		*out = u;
	return r;
}

void users_free(struct users *u)
{
	if (!u)
		return;
	text_set_free(&u->names);
	free(u->list);
	free(u);
}

const char *users_name(struct users *u, uint32_t uid)
{
	const char *name;
	char number[16];

	for (size_t i = 0; i < u->n; i++)
		if (u->list[i].uid == uid)
			return u->list[i].name;
	snprintf(number, sizeof(number), "%u", uid);
	name = text_keep(&u->names, number);
	return name ? name : "?";
}
