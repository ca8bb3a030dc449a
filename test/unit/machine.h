/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_UNIT_MACHINE_H
#define IOTRACE_TEST_UNIT_MACHINE_H

/* What this machine has, as procfs and sysfs tell it.  After cmocka.h. */

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/naming/disks.h"

/* Are processes known by the numbers that the kernel itself has for them? */
static inline bool in_first_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) || st.st_ino == 0xEFFFFFFC;
}

struct machine_disk {
	char name[64];
	uint32_t dev;
	bool has_requests;
	uint64_t tags;
};

static inline uint64_t number_in(const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned long long n = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%llu", &n) != 1)
		n = 0;
	fclose(file);
	return n;
}

/* Without glob(): another way to the same. */
static inline uint64_t tags_below(const char *mq)
{
	struct dirent *entry;
	DIR *dir = opendir(mq);
	char path[PATH_MAX];
	uint64_t sum = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		assert_true(snprintf(path, sizeof(path), "%s/%s/nr_tags", mq, entry->d_name) <
			    (int)sizeof(path));
		sum += number_in(path);
	}
	closedir(dir);
	return sum;
}

/* At most @max of them; how many. */
static inline size_t machine_disks(struct machine_disk *disks, size_t max)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *entry;
	char path[PATH_MAX];
	size_t n = 0;

	if (!dir)
		return 0;
	while ((entry = readdir(dir)) && n < max) {
		unsigned int major, minor;
		FILE *file;

		snprintf(path, sizeof(path), "/sys/block/%s/dev", entry->d_name);
		file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (!file)
			continue;
		memset(&disks[n], 0, sizeof(disks[n]));
		if (fscanf(file, "%u:%u", &major, &minor) == 2) {
			snprintf(disks[n].name, sizeof(disks[n].name), "%.63s", entry->d_name);
			disks[n].dev = DISK_DEV(major, minor);
			snprintf(path, sizeof(path), "/sys/block/%s/mq", entry->d_name);
			disks[n].has_requests = access(path, F_OK) == 0;
			disks[n].tags = disks[n].has_requests ? tags_below(path) : 0;
			n++;
		}
		fclose(file);
	}
	closedir(dir);
	return n;
}

#endif
