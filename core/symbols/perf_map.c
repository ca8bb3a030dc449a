// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/perf_map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/symbols/elf_symbols.h"
#include "core/system/process.h"
#include "core/base/search.h"

/* ---- reading ---- */

static void take_line(char *line, struct perf_map_place *places, size_t n)
{
	char *rest;
	uint64_t start = strtoull(line, &rest, 16), length = strtoull(rest, &rest, 16);

	if (*rest != ' ')
		return;
	rest++;
	for (size_t i = search_first_at(places, n, sizeof(*places), start);
	     i < n && places[i].address - start < length; i++) {
		char *name = strndup(rest, MAX_SYMBOL);

		if (!name)
			return;
		free(places[i].name);
		places[i].name = name;
	}
}

struct lines {
	char bytes[MAX_PERF_MAP_LINE]; /* bytes read and not parsed, and room for a 0 */
	size_t size;
	bool skip; /* the following bytes are the rest of a line that is too long */
};

static void take_lines(struct lines *lines, struct perf_map_place *places, size_t n)
{
	char *line = lines->bytes, *end = line + lines->size, *newline;

	while ((newline = memchr(line, '\n', (size_t)(end - line)))) {
		*newline = 0;
		if (!lines->skip)
			take_line(line, places, n);
		lines->skip = false;
		line = newline + 1;
	}
	lines->size = (size_t)(end - line);
	memmove(lines->bytes, line, lines->size);
}

void perf_map_read(int fd, struct perf_map_place *places, size_t n, enum unread *unread)
{
	static struct lines lines;
	const size_t room = sizeof(lines.bytes) - 1;
	size_t total = 0;
	ssize_t got;

	lines.size = 0;
	lines.skip = lseek(fd, 0, SEEK_CUR) > 0;
	while (total < MAX_PERF_MAP &&
	       (got = read(fd, lines.bytes + lines.size, room - lines.size)) > 0) {
		total += (size_t)got;
		lines.size += (size_t)got;
		take_lines(&lines, places, n);
		if (lines.size == room) {
			lines.size = 0;
			lines.skip = true;
			unread_because(unread, UNREAD_LINE);
		}
	}
	if (total >= MAX_PERF_MAP)
		unread_because(unread, UNREAD_MAP);
	lines.bytes[lines.size] = 0;
	if (lines.size && !lines.skip)
		take_line(lines.bytes, places, n);
}

/* ---- opening ---- */

struct owner {
	uint32_t number; /* in its own pid namespace */
	uid_t uid;	 /* of its accesses to files */
};

/* -errno: it has ended, or /proc has no answer. */
static int read_status(uint32_t pid, struct owner *out)
{
	char path[64], line[256];
	FILE *file FCLOSE_AT_END = NULL;
	unsigned int uid;
	int r = -ESRCH;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		const char *last = strrchr(line, '\t');

		if (sscanf(line, "Uid: %*u %*u %*u %u", &uid) == 1) {
			out->uid = uid;
			r = 0;
		} else if (strncmp(line, "NSpid:", 6) == 0 && last) {
			out->number = (uint32_t)strtoul(last, NULL, 10);
		}
	}
	return r;
}

/* The PID may have been reused: the start time is compared last. */
static int owner_of(uint32_t pid, uint64_t start_ns, struct owner *out)
{
	struct process process;
	int r = read_status(pid, out);

	if (!r)
		r = process_read(pid, &process);
	if (!r && start_ns - process.start_ns >= process_tick_ns())
		r = -ESRCH;
	return r;
}

int perf_map_owner(uint32_t pid, uint64_t start_ns, uid_t *uid)
{
	struct owner owner = { .number = pid };
	int r = owner_of(pid, start_ns, &owner);

	if (!r)
		*uid = owner.uid;
	return r;
}

static bool is_own_root(int root)
{
	int own CLOSE_AT_END = open_root("/");
	struct root_id id, own_id;

	return own >= 0 && !open_root_id(root, &id) && !open_root_id(own, &own_id) &&
	       open_root_is_same(&id, &own_id);
}

static int open_owned(const char *root_path, uint32_t number, uid_t uid, struct opened_file *out)
{
	int root CLOSE_AT_END = open_root(root_path), r;
	char path[64];

	if (root < 0)
		return root;
	snprintf(path, sizeof(path), "/tmp/perf-%u.map", number);
	r = open_regular(root, path, OPEN_NOFOLLOW, out);
	if (!r)
		out->is_foreign |= !is_own_root(root);
	if (r || out->st.st_uid == uid || !out->st.st_uid)
		return r;
	opened_file_close(out);
	return -EACCES;
}

int perf_map_open(uint32_t pid, uint64_t start_ns, uid_t uid, struct opened_file *out)
{
	struct owner owner = { .number = pid };
	char root[64];

	if (owner_of(pid, start_ns, &owner))
		return open_owned("/", pid, uid, out);
	snprintf(root, sizeof(root), "/proc/%u/root", pid);
	if (!open_owned(root, owner.number, owner.uid, out))
		return 0;
	return open_owned("/", pid, owner.uid, out);
}
