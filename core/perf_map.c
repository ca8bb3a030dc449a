// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/perf_map.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/search.h"

static void take_line(char *line, struct perf_map_place *places, size_t n)
{
	char *rest;
	uint64_t start = strtoull(line, &rest, 16), length = strtoull(rest, &rest, 16);

	if (*rest != ' ')
		return;
	rest++;
	rest[strcspn(rest, "\n")] = 0;
	for (size_t i = search_first_at(places, n, sizeof(*places), start);
	     i < n && places[i].address - start < length; i++) {
		char *name = strdup(rest);

		if (!name)
			return;
		free(places[i].name);
		places[i].name = name;
	}
}

void perf_map_read(FILE *file, struct perf_map_place *places, size_t n)
{
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, file) > 0)
		take_line(line, places, n);
	free(line);
}

/* The number of process @pid in its own pid namespace. */
static uint32_t own_number(uint32_t pid)
{
	char path[64], line[256];
	unsigned int number = pid;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	file = fopen(path, "re");
	if (!file)
		return pid;
	while (fgets(line, sizeof(line), file)) {
		char *last = strrchr(line, '\t');

		if (strncmp(line, "NSpid:", 6) == 0 && last) {
			number = (unsigned int)strtoul(last, NULL, 10);
			break;
		}
	}
	fclose(file);
	return number ? number : pid;
}

/* Anybody can put a file there: no links, no pipes. */
static FILE *open_plain(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	FILE *file;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		file = fdopen(fd, "re");
		if (file)
			return file;
	}
	close(fd);
	return NULL;
}

void perf_map_names(uint32_t pid, struct perf_map_place *places, size_t n)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/root/tmp/perf-%u.map", pid, own_number(pid));
	file = open_plain(path);
	if (!file) {
		snprintf(path, sizeof(path), "/tmp/perf-%u.map", pid);
		file = open_plain(path);
	}
	if (!file)
		return;
	perf_map_read(file, places, n);
	fclose(file);
}
