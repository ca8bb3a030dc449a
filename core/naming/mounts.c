// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/naming/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/array.h"
#include "core/naming/disks.h"

/* A container's runtime may mount thousands; the rest is ignored. */
#define MOUNTS_MAX 32768

struct mount {
	uint32_t dev;
	char *root, *at, *type; /* at: mount point; root: mounted directory */
	char *line;		/* what they are parts of */
};

struct mounts {
	const char *path;
	struct mount *mounts;
	size_t n;
	int fd; /* reports changes; -1: none */
};

static void clear(struct mounts *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->mounts[i].line);
	free(m->mounts);
	m->mounts = NULL;
	m->n = 0;
}

/* "\040" is the kernel's spelling of a blank. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++, to++) {
		unsigned int code;

		if (*text == '\\' && sscanf(text, "\\%3o", &code) == 1 && strlen(text) > 3) {
			*to = (char)code;
			text += 3;
		} else {
			*to = *text;
		}
	}
	*to = 0;
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue" */
static int add_line(struct mounts *m, const char *line)
{
	unsigned int major, minor;
	int root, root_end, at, at_end;
	const char *type = strstr(line, " - ");
	struct mount *mount;

	if (!type || sscanf(line, "%*u %*u %u:%u %n%*s%n %n%*s%n", &major, &minor, &root, &root_end,
			    &at, &at_end) != 2)
		return 0;
	mount = ARRAY_ADD(m->mounts, m->n);
	if (!mount)
		return -ENOMEM;
	mount->line = strdup(line);
	if (!mount->line) {
		m->n--;
		return -ENOMEM;
	}
	mount->dev = DISK_DEV(major, minor);
	mount->root = mount->line + root;
	mount->at = mount->line + at;
	mount->type = mount->line + (type - line) + strlen(" - ");
	mount->line[root_end] = 0;
	mount->line[at_end] = 0;
	mount->type[strcspn(mount->type, " \n")] = 0;
	unescape(mount->root);
	unescape(mount->at);
	return 0;
}

static int read_mounts(struct mounts *m)
{
	FILE *file FCLOSE_AT_END = fopen(m->path, "re");
	char *line = NULL;
	size_t size = 0;
	int r = 0;

	clear(m);
	if (!file)
		return 0;
	while (!r && m->n < MOUNTS_MAX && getline(&line, &size, file) > 0)
		r = add_line(m, line);
	free(line);
	return r;
}

int mounts_open(const char *path, struct mounts **out)
{
	struct mounts *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	m->path = path ? path : "/proc/self/mountinfo";
	m->fd = open(m->path, O_RDONLY | O_CLOEXEC);
	r = read_mounts(m);
	if (r) {
		mounts_free(m);
		return r;
	}
	*out = m;
	return 0;
}

void mounts_free(struct mounts *m)
{
	if (!m)
		return;
	clear(m);
	if (m->fd >= 0)
		close(m->fd);
	free(m);
}

void mounts_refresh(struct mounts *m)
{
	struct pollfd changed = { .fd = m->fd, .events = POLLPRI };

	if (poll(&changed, 1, 0) > 0 && changed.revents & (POLLPRI | POLLERR))
		read_mounts(m);
}

/* The part of the path @in after the directory @root; NULL: it is not below it. */
static const char *below(const char *root, const char *in)
{
	size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);

	if (strncmp(root, in, n) != 0 || (in[n] && in[n] != '/'))
		return NULL;
	return in + n;
}

int mounts_path(const struct mounts *m, uint32_t dev, const char *in, char *out, size_t size)
{
	const struct mount *best = NULL;
	const char *rest;
	int n;

	for (size_t i = 0; i < m->n; i++) {
		const struct mount *mount = &m->mounts[i];

		if (mount->dev == dev && below(mount->root, in) &&
		    (!best || strlen(mount->root) < strlen(best->root)))
			best = mount;
	}
	if (!best)
		return -ENOENT;
	rest = below(best->root, in);
	n = snprintf(out, size, "%s%s", strcmp(best->at, "/") == 0 ? "" : best->at, rest);
	if (!n)
		n = snprintf(out, size, "/");
	return n < 0 || (size_t)n >= size ? -ENOENT : 0;
}

const char *mounts_type(const struct mounts *m, uint32_t dev)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->mounts[i].dev == dev)
			return m->mounts[i].type;
	return NULL;
}
