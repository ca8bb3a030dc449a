// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/blame/held_limits.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/naming/disks.h"
#include "probes/blame_held.h"

#define LINE 256

static const char none[] = "-";

/* Adds "NAME=VALUE" to @out, which has @size bytes. */
static void add(char *out, size_t size, const char *name, const char *value)
{
	const size_t used = strlen(out);

	if (used < size)
		snprintf(out + used, size - used, "%s%s=%s", used ? " " : "", name, value);
}

/* "1048576" as "1M"; only where the name ends in "bps". */
static void add_rate(char *out, size_t size, const char *name, const char *value)
{
	static const char units[] = "KMGT";
	const size_t len = strlen(name);
	char text[32], *end;
	uint64_t n = strtoull(value, &end, 10);
	size_t unit = 0;

	if (len < 3 || strcmp(name + len - 3, "bps") != 0 || *end || !n || n % 1024) {
		add(out, size, name, value);
		return;
	}
	while (n % 1024 == 0 && unit < strlen(units)) {
		n /= 1024;
		unit++;
	}
	snprintf(text, sizeof(text), "%" PRIu64 "%c", n, units[unit - 1]);
	add(out, size, name, text);
}

void held_limit_line(const char *line, char *out, size_t size)
{
	char copy[LINE], *at = copy, *word;

	out[0] = 0;
	snprintf(copy, sizeof(copy), "%s", line);
	strsep(&at, " \n"); /* the disk */
	while ((word = strsep(&at, " \n"))) {
		char *value = strchr(word, '=');

		if (!value)
			continue;
		*value++ = 0;
		if (strcmp(value, "max") != 0)
			add_rate(out, size, word, value);
	}
}

/* The first line of @path; false: it has none. */
static bool read_line(const char *path, char line[LINE])
{
	FILE *file FCLOSE_AT_END = fopen(path, "re");

	if (!file || !fgets(line, LINE, file))
		return false;
	line[strcspn(line, "\n")] = 0;
	return true;
}

/* ---- of a queue, of the machine ---- */

static void of_queue(uint32_t dev, const char *name, char *out)
{
	char path[128], line[LINE];

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/%s", DISK_MAJOR(dev),
		 DISK_MINOR(dev), name);
	if (read_line(path, line))
		snprintf(out, HELD_LIMIT_SIZE, "%s=%s", name, line);
}

/* The kernel uses the one that is not 0. */
static void of_dirty_pages(char *out)
{
	static const char *const names[] = { "dirty_bytes", "dirty_ratio" };
	char path[64], line[LINE];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "/proc/sys/vm/%s", names[i]);
		if (!read_line(path, line) || strcmp(line, "0") == 0)
			continue;
		snprintf(out, HELD_LIMIT_SIZE, "vm.%s=%s", names[i], line);
		return;
	}
}

/* ---- of a cgroup ---- */

/* The line of @dev in file @name of the cgroup at @path. */
static bool find_line(const struct cgroups *cgroups, const char *path, const char *name,
		      uint32_t dev, char line[LINE])
{
	FILE *file FCLOSE_AT_END = cgroups_file(cgroups, path, name);
	char disk[32];
	size_t len;

	snprintf(disk, sizeof(disk), "%u:%u ", DISK_MAJOR(dev), DISK_MINOR(dev));
	len = strlen(disk);
	while (file && fgets(line, LINE, file))
		if (strncmp(line, disk, len) == 0)
			return true;
	return false;
}

/* The limits in file @name of cgroup2, of the cgroup or the nearest above that has some. */
static void of_cgroup2(struct cgroups *cgroups, uint64_t id, const char *name, uint32_t dev,
		       char *out)
{
	char path[4096], line[LINE], *slash;

	snprintf(path, sizeof(path), "%s", cgroups_path(cgroups, id));
	for (bool own = true; (slash = strrchr(path, '/')) && path[1]; own = false) {
		if (find_line(cgroups, path, name, dev, line)) {
			size_t used;

			held_limit_line(line, out, HELD_LIMIT_SIZE);
			used = strlen(out);
			if (used && !own)
				snprintf(out + used, HELD_LIMIT_SIZE - used, " of %s", path);
			if (used)
				return;
		}
		*slash = 0;
	}
}

/* v1's limits are in a file each, and only of the cgroup itself. */
static void of_cgroup1(struct cgroups *cgroups, uint64_t id, uint32_t dev, char *out)
{
	static const char *const files[][2] = {
		{ "rbps", "blkio.throttle.read_bps_device" },
		{ "wbps", "blkio.throttle.write_bps_device" },
		{ "riops", "blkio.throttle.read_iops_device" },
		{ "wiops", "blkio.throttle.write_iops_device" },
	};
	const char *path = cgroups_path(cgroups, id);
	char line[LINE];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (!find_line(cgroups, path, files[i][1], dev, line))
			continue;
		line[strcspn(line, "\n")] = 0;
		add_rate(out, HELD_LIMIT_SIZE, files[i][0], strchr(line, ' ') + 1);
	}
}

/* "default 100", and lines of disks. */
static void of_weight(struct cgroups *cgroups, uint64_t id, uint32_t dev, char *out)
{
	const char *path = cgroups_path(cgroups, id);
	FILE *file FCLOSE_AT_END = NULL;
	char line[LINE], *value;

	if (!find_line(cgroups, path, "io.weight", dev, line)) {
		file = cgroups_file(cgroups, path, "io.weight");
		if (!file || !fgets(line, sizeof(line), file))
			return;
	}
	line[strcspn(line, "\n")] = 0;
	value = strchr(line, ' ');
	if (value)
		snprintf(out, HELD_LIMIT_SIZE, "io.weight=%s", value + 1);
}

void held_limit(struct cgroups *cgroups, const struct hist_key *key, char out[HELD_LIMIT_SIZE])
{
	out[0] = 0;
	switch (key->row) {
	case HELD_TAG:
	case HELD_NR_REQUESTS:
		of_queue(key->dev, "nr_requests", out);
		break;
	case HELD_WBT:
		of_queue(key->dev, "wbt_lat_usec", out);
		break;
	case HELD_IO_LATENCY:
		of_cgroup2(cgroups, key->cgroup, "io.latency", key->dev, out);
		break;
	case HELD_IO_COST:
		of_weight(cgroups, key->cgroup, key->dev, out);
		break;
	case HELD_IO_MAX:
	case HELD_IO_MAX_UNTIMED:
		of_cgroup2(cgroups, key->cgroup, "io.max", key->dev, out);
		if (!out[0])
			of_cgroup1(cgroups, key->cgroup, key->dev, out);
		break;
	case HELD_DIRTY:
		of_dirty_pages(out);
		break;
	default:
		break;
	}
	if (!out[0])
		snprintf(out, HELD_LIMIT_SIZE, "%s", none);
}
