/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finding one by name or path. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/naming/disks_table.h"
#include "core/base/parse.h"

#define HINTED_DISKS   12
#define ATTRIBUTE_SIZE 256

__attribute__((format(printf, 2, 3))) static int read_attribute(char value[ATTRIBUTE_SIZE],
								const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list args;
	int fd CLOSE_AT_END = -1;
	ssize_t len;

	va_start(args, fmt);
	vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	len = read(fd, value, ATTRIBUTE_SIZE - 1);
	if (len < 0)
		return -errno;
	value[len] = '\0';
	value[strcspn(value, "\n")] = '\0';
	return 0;
}

static uint32_t kernel_dev(dev_t dev)
{
	return DISK_DEV(major(dev), minor(dev));
}

static const struct disk *present(const struct disk *disk)
{
	return disk && disk->present ? disk : NULL;
}

static void replace(char *text, char from, char to)
{
	for (; *text; text++) {
		if (*text == from)
			*text = to;
	}
}

int disks_folder(const struct disks *d, const struct disk *disk, char folder[PATH_MAX])
{
	char name[DISK_NAME_SIZE], path[PATH_MAX];

	snprintf(name, sizeof(name), "%s", disk->name);
	replace(name, '/', '!');
	snprintf(path, sizeof(path), "%s/class/block/%s", d->sys, name);
	if (realpath(path, folder))
		return 0;
	snprintf(path, sizeof(path), "%s/dev/block/%u:%u", d->sys, DISK_MAJOR(disk->dev),
		 DISK_MINOR(disk->dev));
	if (realpath(path, folder))
		return 0;
	snprintf(path, sizeof(path), "%s/block/%s", d->sys, name);
	return realpath(path, folder) ? 0 : -errno;
}

static bool has_file(const char *folder, const char *name)
{
	char path[PATH_MAX];
	int len = snprintf(path, sizeof(path), "%s/%s", folder, name);

	return len < (int)sizeof(path) && !access(path, F_OK);
}

/* Which disks to suggest first: real ones, then others (dm, md, loop), then disks of size 0. -1 for
 * partitions. */
static int rank(const struct disks *d, const struct disk *disk)
{
	char folder[PATH_MAX], size[ATTRIBUTE_SIZE];

	if (disks_folder(d, disk, folder))
		return 1;
	if (has_file(folder, "partition"))
		return -1;
	if (!read_attribute(size, "%s/size", folder) && !strcmp(size, "0"))
		return 2;
	return has_file(folder, "device") ? 0 : 1;
}

/* The present whole disks, best first; *more is how many more there are. */
static size_t best_disks(const struct disks *d, const struct disk *best[HINTED_DISKS], size_t *more)
{
	size_t count = 0, all = 0;
	signed char *ranks = calloc(d->count + 1, 1);

	for (size_t i = 0; ranks && i < d->count; i++) {
		ranks[i] = (signed char)(d->list[i].present ? rank(d, &d->list[i]) : -1);
		all += ranks[i] >= 0;
	}
	for (int r = 0; ranks && r <= 2; r++) {
		for (size_t i = 0; i < d->count && count < HINTED_DISKS; i++) {
			if (ranks[i] == r)
				best[count++] = &d->list[i];
		}
	}
	free(ranks);
	*more = all - count;
	return count;
}

static void hint_disks(const struct disks *d, struct error *err)
{
	const struct disk *best[HINTED_DISKS];
	char names[300] = "";
	size_t more, len = 0, count;

	if (!err)
		return;
	count = best_disks(d, best, &more);
	if (!count) {
		error_hint(err, "there are no disks in '%s/diskstats'", d->proc);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		size_t need = strlen(best[i]->name) + 1;

		if (len + need >= sizeof(names)) {
			more += count - i;
			break;
		}
		snprintf(names + len, sizeof(names) - len, " %s", best[i]->name);
		len += need;
	}
	if (more)
		error_hint(err, "disks here:%s and %zu more (see '%s/diskstats')", names, more,
			   d->proc);
	else
		error_hint(err, "disks here:%s", names);
}

static int no_such_disk(const struct disks *d, const char *arg, struct error *err)
{
	error_set(err, STATUS_USAGE, -ENODEV, "no such disk '%s'", text_shown(arg).text);
	hint_disks(d, err);
	return -ENODEV;
}

static int no_block_device(const struct disks *d, const char *arg, const struct stat *st,
			   struct error *err)
{
	const struct disk *below = present(disks_by_dev(d, kernel_dev(st->st_dev)));

	error_set(err, STATUS_USAGE, -ENOTBLK, "'%s' is not a block device", text_shown(arg).text);
	if (below && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)))
		error_hint(err, "it is on the disk '%s'", below->name);
	else
		hint_disks(d, err);
	return -ENOTBLK;
}

static const struct disk *by_mapper_name(const struct disks *d, const char *name)
{
	char value[ATTRIBUTE_SIZE];

	for (size_t i = 0; i < d->count; i++) {
		const struct disk *disk = &d->list[i];

		if (disk->present && !strncmp(disk->name, "dm-", 3) &&
		    !read_attribute(value, "%s/class/block/%s/dm/name", d->sys, disk->name) &&
		    !strcmp(value, name))
			return disk;
	}
	return NULL;
}

/* A device without a node (hidden NVMe paths, containers) by the path it would have; @rest is the
 * part after "/dev/". */
static const struct disk *by_node_name(const struct disks *d, const char *rest)
{
	const char mapper[] = "mapper/";

	if (!strncmp(rest, mapper, strlen(mapper)))
		return by_mapper_name(d, rest + strlen(mapper));
	return disks_by_name(d, rest);
}

static int by_path(const struct disks *d, const char *arg, const struct disk **out,
		   struct error *err)
{
	const char dev[] = "/dev/";
	const char *rest = strncmp(arg, dev, strlen(dev)) ? NULL : arg + strlen(dev);
	const struct disk *disk = NULL;
	char path[PATH_MAX];
	struct stat st;
	int rc;

	if (snprintf(path, sizeof(path), "%s%s%s", rest ? d->dev : "", rest ? "/" : "",
		     rest ? rest : arg) >= (int)sizeof(path))
		return no_such_disk(d, arg, err);
	rc = stat(path, &st) ? -errno : 0;
	if (!rc && S_ISBLK(st.st_mode))
		disk = present(disks_by_dev(d, kernel_dev(st.st_rdev)));
	else if (rc && rest)
		disk = by_node_name(d, rest);
	if (disk) {
		*out = disk;
		return 0;
	}
	if (!rc && !S_ISBLK(st.st_mode))
		return no_block_device(d, arg, &st, err);
	if (rc && rc != -ENOENT) {
		error_set(err, STATUS_USAGE, -ENODEV, "no such disk '%s': %s", text_shown(arg).text,
			  strerror(-rc));
		return -ENODEV;
	}
	return no_such_disk(d, arg, err);
}

/* mapper/vg-lv, disk/by-id/...: relative to /dev. */
static bool below_dev(const struct disks *d, const char *arg, const struct disk **out)
{
	char path[PATH_MAX];

	return arg[0] != '/' && snprintf(path, sizeof(path), "/dev/%s", arg) < (int)sizeof(path) &&
	       by_path(d, path, out, NULL) == 0;
}

/* @arg has a colon and is not a name: MAJ:MIN, or invalid. */
static int by_number(const struct disks *d, const char *arg, const struct disk **out,
		     struct error *err)
{
	const char *colon = strchr(arg, ':'), digits[] = "0123456789";
	size_t before = strspn(arg, digits), after = strspn(colon + 1, digits);
	const struct disk *disk = NULL;
	char major[16];
	uint32_t dev;

	if (!before || arg + before != colon || !after || colon[1 + after]) {
		error_set(err, STATUS_USAGE, -EINVAL,
			  "invalid disk '%s': neither a name nor MAJ:MIN", text_shown(arg).text);
		hint_disks(d, err);
		return -EINVAL;
	}
	snprintf(major, sizeof(major), "%.*s", (int)before, arg);
	if (before < sizeof(major) && !disks_parse_dev(major, colon + 1, &dev))
		disk = present(disks_by_dev(d, dev));
	if (!disk)
		return no_such_disk(d, arg, err);
	*out = disk;
	return 0;
}

static int resolve(const struct disks *d, const char *arg, const struct disk **out,
		   struct error *err)
{
	const struct disk *disk;

	if (!*arg) {
		error_set(err, STATUS_USAGE, -EINVAL, "invalid disk '': the name is empty");
		hint_disks(d, err);
		return -EINVAL;
	}
	disk = disks_by_name(d, arg);
	if (!disk && !strchr(arg, '/'))
		disk = by_mapper_name(d, arg);
	if (!disk && below_dev(d, arg, out))
		return 0;
	if (!disk && strchr(arg, '/'))
		return by_path(d, arg, out, err);
	if (!disk && strchr(arg, ':'))
		return by_number(d, arg, out, err);
	if (!disk)
		return no_such_disk(d, arg, err);
	*out = disk;
	return 0;
}

/* Cuts @folder, a partition's, down to the name of the disk that contains it. */
static const struct disk *parent(const struct disks *d, char *folder)
{
	char *slash = strrchr(folder, '/');

	if (!slash)
		return NULL;
	*slash = '\0';
	slash = strrchr(folder, '/');
	if (!slash)
		return NULL;
	replace(slash + 1, '!', '/');
	return disks_by_name(d, slash + 1);
}

uint64_t disks_number_in(const char *folder, const char *name)
{
	char text[ATTRIBUTE_SIZE];
	uint64_t n = 0;

	if (read_attribute(text, "%s/%s", folder, name) ||
	    parse_u64(name, text, 0, UINT64_MAX, &n, NULL))
		return 0;
	return n;
}

static int describe(const struct disks *d, const struct disk *disk, struct disk_ref *ref,
		    struct error *err)
{
	const struct disk *whole = disk;
	char folder[PATH_MAX];
	int rc = disks_folder(d, disk, folder);
	bool partition = !rc && has_file(folder, "partition");
	uint64_t start = partition ? disks_number_in(folder, "start") : 0;
	uint64_t sectors = partition ? disks_number_in(folder, "size") : 0;

	if (partition)
		whole = parent(d, folder);
	if (rc || !whole) {
		error_set(err, STATUS_UNSUPPORTED, -ENODEV,
			  "cannot tell which disk '%s' lies on: %s", disk->name,
			  rc ? strerror(-rc) : "its parent in sysfs is not in diskstats");
		error_hint(err, "is sysfs mounted on '%s'?", d->sys);
		return -ENODEV;
	}
	ref->dev = disk->dev;
	ref->whole = whole->dev;
	ref->partition = partition;
	ref->start = start;
	ref->sectors = sectors;
	snprintf(ref->name, sizeof(ref->name), "%s", disk->name);
	return 0;
}

const char *disks_whole_name(struct disks *d, uint32_t dev)
{
	const char *name = disks_name(d, dev);
	struct disk *disk = disks_by_dev(d, dev);
	struct disk_ref ref;

	if (!disk || !disk->present)
		return name;
	if (!disk->whole && !d->held && !describe(d, disk, &ref, NULL))
		disk->whole = ref.whole;
	return disk->whole ? disks_name(d, disk->whole) : name;
}

int disks_find(struct disks *d, const char *arg, struct disk_ref *out, struct error *err)
{
	const struct disk *disk;
	int rc;

	/* A number may have passed to another disk since the last call. */
	rc = disks_read(d, err);
	if (!rc)
		rc = resolve(d, arg, &disk, err);
	if (!rc)
		rc = describe(d, disk, out, err);
	return rc;
}

bool disks_find_again(const struct disks *d, struct disk_ref *ref)
{
	const struct disk *disk = disks_by_name(d, ref->name);
	struct disk_ref now;

	if (!disk || describe(d, disk, &now, NULL) || now.partition != ref->partition ||
	    now.start != ref->start || now.sectors != ref->sectors)
		return false;
	*ref = now;
	return true;
}

/* For a child of a disk's folder in sysfs, if it is a partition: other children have a device
 * number too, such as the character device of an NVMe controller ("device"). */
static bool read_part(const char *folder, const char *child, uint32_t *dev)
{
	char number[ATTRIBUTE_SIZE], *colon;

	if (read_attribute(number, "%s/%s/partition", folder, child) ||
	    read_attribute(number, "%s/%s/dev", folder, child))
		return false;
	colon = strchr(number, ':');
	if (!colon)
		return false;
	*colon = '\0';
	return !disks_parse_dev(number, colon + 1, dev);
}

void disks_each(const struct disks *d, void (*each)(void *ctx, uint32_t dev), void *ctx)
{
	for (size_t i = 0; i < d->count; i++)
		if (d->list[i].present)
			each(ctx, d->list[i].dev);
}

void disks_each_part(const struct disks *d, const struct disk_ref *disk,
		     void (*each)(void *ctx, uint32_t dev), void *ctx)
{
	const struct disk *known = disks_by_dev(d, disk->dev);
	DIR *dir CLOSEDIR_AT_END = NULL;
	char folder[PATH_MAX];
	struct dirent *entry;
	uint32_t dev;

	each(ctx, disk->dev);
	if (disk->partition || !known || disks_folder(d, known, folder))
		return;
	dir = opendir(folder);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && read_part(folder, entry->d_name, &dev))
			each(ctx, dev);
}
