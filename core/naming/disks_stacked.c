/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Devices stacked on disks, and file systems on several disks. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>

#include "core/base/cleanup.h"
#include "core/naming/disks_table.h"

/* The present device that sysfs calls @name. */
static const struct disk *by_sysfs_name(const struct disks *d, const char *name)
{
	char text[DISK_NAME_SIZE];

	if (snprintf(text, sizeof(text), "%s", name) >= (int)sizeof(text))
		return NULL;
	for (char *p = text; (p = strchr(p, '!')); p++)
		*p = '/'; /* like in diskstats */
	return disks_by_name(d, text);
}

/* Numbers without duplicates. */
struct dev_list {
	const struct disks *disks;
	uint32_t *devs;
	size_t n, room;
};

static void add_dev(void *ctx, uint32_t dev)
{
	struct dev_list *list = ctx;

	for (size_t i = 0; i < list->n; i++)
		if (list->devs[i] == dev)
			return;
	if (list->n < list->room)
		list->devs[list->n++] = dev;
}

static void add_with_parts(struct dev_list *list, const struct disk *disk)
{
	const struct disk_ref ref = { .dev = disk->dev };

	disks_each_part(list->disks, &ref, add_dev, list);
}

static void add_alone(struct dev_list *list, const struct disk *disk)
{
	add_dev(list, disk->dev);
}

/* Calls @add for each entry of the folder @path that has a device's name; returns how many. */
static size_t each_entry(struct dev_list *list, const char *path,
			 void (*add)(struct dev_list *list, const struct disk *disk))
{
	const struct disk *disk;
	struct dirent *entry;
	DIR *dir CLOSEDIR_AT_END = opendir(path);
	size_t n = 0;

	while (dir && (entry = readdir(dir))) {
		disk = by_sysfs_name(list->disks, entry->d_name);
		if (disk) {
			add(list, disk);
			n++;
		}
	}
	return n;
}

size_t disks_on(const struct disks *d, const struct disk_ref *disk, uint32_t *devs, size_t max,
		size_t *own)
{
	struct dev_list list = { .disks = d, .devs = devs, .room = max };
	char folder[PATH_MAX], path[PATH_MAX];
	const struct disk *known;

	disks_each_part(d, disk, add_dev, &list);
	*own = list.n;
	/* The list grows during the loop. */
	for (size_t i = 0; i < list.n; i++) {
		known = disks_by_dev(d, devs[i]);
		if (known && !disks_folder(d, known, folder) &&
		    snprintf(path, sizeof(path), "%s/holders", folder) < (int)sizeof(path))
			each_entry(&list, path, add_with_parts);
	}
	return list.n;
}

size_t disks_below(struct disks *d, uint32_t dev, uint32_t *devs, size_t max)
{
	uint32_t seen[DISKS_BELOW];
	struct dev_list list = { .disks = d, .devs = seen, .room = DISKS_BELOW },
			below = { .disks = d, .devs = devs, .room = max };
	char folder[PATH_MAX], path[PATH_MAX];

	add_dev(&list, dev);
	/* The list grows during the loop. */
	for (size_t i = 0; i < list.n; i++) {
		const struct disk *whole = disks_by_name(d, disks_whole_name(d, seen[i]));

		if (!whole)
			continue;
		if (disks_folder(d, whole, folder) ||
		    snprintf(path, sizeof(path), "%s/slaves", folder) >= (int)sizeof(path) ||
		    !each_entry(&list, path, add_alone))
			add_dev(&below, whole->dev);
	}
	return below.n;
}

/* ---- btrfs ---- */

static bool parse_uuid(const char *text, uint8_t uuid[DISKS_UUID_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	size_t n = 0;

	for (; *text; text++) {
		const char *digit = strchr(digits, *text);

		if (*text == '-')
			continue;
		if (!digit || n == 2 * DISKS_UUID_SIZE)
			return false;
		uuid[n / 2] = (uint8_t)(uuid[n / 2] << 4 | (digit - digits));
		n++;
	}
	return n == 2 * DISKS_UUID_SIZE;
}

void disks_each_btrfs(const struct disks *d, disks_btrfs *each, void *ctx)
{
	uint32_t devs[DISKS_BTRFS_DEVS];
	uint8_t uuid[DISKS_UUID_SIZE] = { 0 };
	struct dev_list list = { .disks = d, .devs = devs, .room = DISKS_BTRFS_DEVS };
	DIR *dir CLOSEDIR_AT_END = NULL;
	char path[PATH_MAX];
	struct dirent *entry;

	snprintf(path, sizeof(path), "%s/fs/btrfs", d->sys);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (!parse_uuid(entry->d_name, uuid) ||
		    snprintf(path, sizeof(path), "%s/fs/btrfs/%s/devices", d->sys, entry->d_name) >=
			(int)sizeof(path))
			continue;
		list.n = 0;
		each_entry(&list, path, add_alone);
		if (list.n)
			each(ctx, uuid, devs, list.n);
	}
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

uint32_t disks_together(struct disks *d, const uint32_t *devs, size_t n)
{
	const char *names[DISKS_BTRFS_DEVS] = { NULL };
	char text[DISK_NAME_SIZE];
	size_t used = 0, different = 0;

	n = n < DISKS_BTRFS_DEVS ? n : DISKS_BTRFS_DEVS;
	for (size_t i = 0; i < n; i++)
		names[i] = disks_whole_name(d, devs[i]);
	if (n)
		qsort(names, n, sizeof(names[0]), compare_names);
	for (size_t i = 0; i < n; i++) {
		if (i && strcmp(names[i], names[i - 1]) == 0)
			continue;
		different++;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? "+" : "",
					 names[i]);
		if (used >= sizeof(text)) {
			snprintf(text + sizeof(text) - sizeof("+..."), sizeof("+..."), "+...");
			break;
		}
	}
	if (different == 1) {
		const struct disk *whole = disks_by_name(d, names[0]);

		return whole ? whole->dev : 0;
	}
	return different ? disks_number_of_name(d, text) : 0;
}
