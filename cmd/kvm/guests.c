// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/guests.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/isolation/bounded.h"
#include "core/base/parse.h"
#include "core/base/text.h"

/* ---- names ---- */

/* QEMU's option lists: parts between commas, two commas are one of the text.  Cuts the next part
 * off *@rest into @part. */
static void next_part(const char **rest, char *part, size_t size)
{
	const char *at = *rest;
	size_t len = 0;

	for (; *at; at++) {
		if (*at == ',' && at[1] != ',')
			break;
		if (*at == ',')
			at++;
		if (len + 1 < size)
			part[len++] = *at;
	}
	part[len] = 0;
	*rest = *at ? at + 1 : at;
}

/* The name in -name: a part without a key, or the part "guest=". */
static void name_of_option(const char *value, char name[GUEST_NAME_SIZE])
{
	char part[GUEST_NAME_SIZE + 8];

	while (*value) {
		next_part(&value, part, sizeof(part));
		if (strncmp(part, "guest=", 6) == 0)
			snprintf(name, GUEST_NAME_SIZE, "%.*s", GUEST_NAME_SIZE - 1, part + 6);
		else if (!strchr(part, '='))
			snprintf(name, GUEST_NAME_SIZE, "%.*s", GUEST_NAME_SIZE - 1, part);
	}
}

/* Of a command line, which a process can make as long as it likes. */
#define LOOKED_AT 65536

/* The value of -name in the words of @text, each of which ends with a NUL. */
static void find_name(const char *text, size_t len, char name[GUEST_NAME_SIZE])
{
	bool value = false;

	for (const char *word = text; word < text + len; word += strlen(word) + 1) {
		if (value) {
			name_of_option(word, name);
			return;
		}
		value = strcmp(word, "-name") == 0 || strcmp(word, "--name") == 0;
	}
}

char *guest_name(const char *root, uint32_t pid, char name[GUEST_NAME_SIZE])
{
	struct bounded_text line;
	char path[PATH_MAX];

	name[0] = 0;
	snprintf(path, sizeof(path), "%s/proc/%u/cmdline", root ? root : "", pid);
	if (bounded_read(path, LOOKED_AT, &line))
		return name;
	find_name(line.text, line.len, name);
	bounded_text_free(&line);
	return name;
}

/* ---- processes ---- */

/* A VMM opens its machine early; others may have a million. */
#define MAX_DESCRIPTORS 4096

/* Does @pid hold a descriptor of a machine? */
static bool holds_machine(const char *root, const char *pid)
{
	char path[PATH_MAX], target[64];
	struct dirent *entry;
	unsigned int seen = 0;
	bool found = false;
	ssize_t len;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/proc/%s/fd", root ? root : "", pid);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && seen++ < MAX_DESCRIPTORS && (entry = readdir(dir))) {
		len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		if (len < 0)
			continue;
		target[len] = 0;
		found = strcmp(target, "anon_inode:kvm-vm") == 0;
	}
	closedir(dir);
	return found;
}

static int add_guest(const char *root, uint32_t pid, struct guest **guests, size_t *n)
{
	struct guest *added = ARRAY_ADD(*guests, *n);

	if (!added)
		return -ENOMEM;
	added->pid = pid;
	guest_name(root, pid, added->name);
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct guest *left = a, *right = b;

	return left->pid < right->pid ? -1 : left->pid > right->pid;
}

int guests_list(const char *root, struct guest **guests, size_t *n)
{
	struct guest *found = NULL;
	struct dirent *entry;
	char path[PATH_MAX];
	size_t n_found = 0;
	uint64_t pid;
	DIR *dir;
	int r = 0;

	snprintf(path, sizeof(path), "%s/proc", root ? root : "");
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (!r && (entry = readdir(dir)))
		if (!parse_u64("pid", entry->d_name, 1, UINT32_MAX, &pid, NULL) &&
		    holds_machine(root, entry->d_name))
			r = add_guest(root, (uint32_t)pid, &found, &n_found);
	closedir(dir);
	if (r) {
		free(found);
		return r;
	}
	if (n_found)
		qsort(found, n_found, sizeof(*found), by_pid);
	*guests = found;
	*n = n_found;
	return 0;
}

#define HINTED_GUESTS 8

/* "guests here: web1 (PID 5), PID 7": those at @guests. */
static void hint_guests(const struct guest *guests, size_t n, struct error *err)
{
	char names[256] = "";
	size_t len = 0, i;

	for (i = 0; i < n && i < HINTED_GUESTS && len < sizeof(names); i++) {
		const char *name = guests[i].name;

		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s%sPID %u%s",
					i ? ", " : "", text_shown(name).text, *name ? " (" : "",
					guests[i].pid, *name ? ")" : "");
	}
	if (!n)
		error_hint(err, "no guest is running");
	else if (len >= sizeof(names) || i < n)
		error_hint(err, "guests here: %.*s, ...", (int)sizeof(names) - 8, names);
	else
		error_hint(err, "guests here: %s", names);
}

void guests_hint(struct error *err)
{
	struct guest *guests = NULL;
	size_t n = 0;

	if (guests_list(NULL, &guests, &n) == 0)
		hint_guests(guests, n, err);
	free(guests);
}

int guests_find(const char *root, const char *name, uint32_t *pid, struct error *err)
{
	const struct guest *found = NULL;
	struct guest *guests = NULL;
	size_t n = 0, matches = 0;
	int r = guests_list(root, &guests, &n);

	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot look for guests: %s", strerror(-r));
	for (size_t i = 0; i < n; i++) {
		if (strcmp(guests[i].name, name) != 0)
			continue;
		found = &guests[i];
		matches++;
	}
	if (matches == 1) {
		*pid = found->pid;
	} else if (matches) {
		r = error_set(err, STATUS_USAGE, -ESRCH, "%zu guests are named '%s'", matches,
			      text_shown(name).text);
		error_hint(err, "use -p PID");
	} else {
		r = error_set(err, STATUS_USAGE, -ESRCH, "no guest is named '%s'",
			      text_shown(name).text);
		hint_guests(guests, n, err);
	}
	free(guests);
	return r;
}
