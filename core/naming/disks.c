/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/naming/disks.h"

#include <errno.h>
#include <limits.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/naming/disks_table.h"
#include "core/base/parse.h"

#define MAX_MAJOR 0xfffu
#define MAX_MINOR 0xfffffu

/* A growing list. */
struct disk_list {
	struct disk *list;
	size_t count;
};

static int compare_devs(const void *a, const void *b)
{
	uint32_t x = ((const struct disk *)a)->dev, y = ((const struct disk *)b)->dev;

	return (x > y) - (x < y);
}

struct disk *disks_by_dev(const struct disks *d, uint32_t dev)
{
	struct disk key = { .dev = dev };

	if (!d->count)
		return NULL;
	return bsearch(&key, d->list, d->count, sizeof(key), compare_devs);
}

const struct disk *disks_by_name(const struct disks *d, const char *name)
{
	for (size_t i = 0; i < d->count; i++) {
		if (d->list[i].present && !strcmp(d->list[i].name, name))
			return &d->list[i];
	}
	return NULL;
}

static int append(struct disk_list *l, const struct disk *disk)
{
	struct disk *added = ARRAY_ADD(l->list, l->count);

	if (!added)
		return -ENOMEM;
	*added = *disk;
	return 0;
}

int disks_parse_dev(const char *major, const char *minor, uint32_t *dev)
{
	uint64_t maj, min;

	if (parse_u64("major", major, 1, MAX_MAJOR, &maj, NULL) ||
	    parse_u64("minor", minor, 0, MAX_MINOR, &min, NULL))
		return -EINVAL;
	*dev = DISK_DEV(maj, min);
	return 0;
}

/* Parses one line of diskstats; false if it is invalid. */
static bool parse_line(char *line, uint32_t *dev, const char **name)
{
	const char *blanks = " \t\n", *major, *minor, *word;
	char *rest;

	major = strtok_r(line, blanks, &rest);
	minor = major ? strtok_r(NULL, blanks, &rest) : NULL;
	word = minor ? strtok_r(NULL, blanks, &rest) : NULL;
	if (!word || strlen(word) >= DISK_NAME_SIZE || disks_parse_dev(major, minor, dev))
		return false;
	*name = word;
	return true;
}

static int read_lines(struct disks *d, FILE *file, struct disk_list *l)
{
	struct disk disk = { .known = true, .present = true };
	const char *name;
	char *line = NULL;
	size_t size = 0;
	int rc = 0;

	while (errno = 0, getline(&line, &size, file) >= 0) {
		if (!parse_line(line, &disk.dev, &name))
			continue;
		disk.name = text_keep(&d->names, name);
		rc = disk.name ? append(l, &disk) : -ENOMEM;
		if (rc)
			goto out;
	}
	if (!feof(file))
		rc = errno ? -errno : -EIO;
out:
	free(line);
	return rc;
}

/* Merges the present devices (@fresh, sorted) with the earlier ones. */
static int merge(struct disks *d, const struct disk_list *fresh)
{
	struct disk_list all = { 0 };
	size_t i = 0, j = 0;

	while (i < d->count || j < fresh->count) {
		bool old =
		    j == fresh->count || (i < d->count && d->list[i].dev < fresh->list[j].dev);
		struct disk disk = old ? d->list[i++] : fresh->list[j++];

		if (old)
			disk.present = false;
		else if (i < d->count && d->list[i].dev == disk.dev)
			disk.before = d->list[i++].before;
		/* the same number twice, read while disks came and went */
		if (all.count && all.list[all.count - 1].dev == disk.dev)
			continue;
		if (append(&all, &disk)) {
			free(all.list);
			return -ENOMEM;
		}
	}
	free(d->list);
	d->list = all.list;
	d->count = all.count;
	return 0;
}

static int cannot_read(const char *path, int rc, struct error *err)
{
	bool denied = rc == -ENOENT || rc == -EACCES || rc == -EPERM;

	error_set(err, denied ? STATUS_UNSUPPORTED : STATUS_FAILED, rc, "cannot read '%s': %s",
		  path, strerror(-rc));
	if (rc == -ENOENT)
		error_hint(err, "is procfs mounted, and does this kernel support block devices?");
	return rc;
}

int disks_read(struct disks *d, struct error *err)
{
	struct disk_list fresh = { 0 };
	FILE *file FCLOSE_AT_END = NULL;
	char path[PATH_MAX];
	int rc;

	snprintf(path, sizeof(path), "%s/diskstats", d->proc);
	file = fopen(path, "re");
	rc = file ? read_lines(d, file, &fresh) : -errno;
	if (!rc && fresh.count)
		qsort(fresh.list, fresh.count, sizeof(*fresh.list), compare_devs);
	if (!rc)
		rc = merge(d, &fresh);
	free(fresh.list);
	return rc ? cannot_read(path, rc, err) : 0;
}

/*
 * The kernel counts its messages about devices.  A removed device has its message before its number
 * can be reused; a new device may be used shortly before its own.
 */
static uint64_t uevents_sent(const struct disks *d)
{
	char folder[PATH_MAX];

	snprintf(folder, sizeof(folder), "%s/kernel", d->sys);
	return disks_number_in(folder, "uevent_seqnum");
}

bool disks_refresh(struct disks *d)
{
	uint64_t sent;

	if (d->held)
		return false;
	sent = uevents_sent(d);
	for (size_t i = 0; i < d->count; i++)
		d->list[i].before = d->list[i].present ? d->list[i].name : NULL;
	if ((sent && sent == d->uevents) || disks_read(d, NULL))
		return false;
	d->uevents = sent;
	return true;
}

int disks_open(const struct disk_roots *roots, struct disks **out, struct error *err)
{
	static const struct disk_roots real = { NULL, NULL, NULL };
	struct disks *d = calloc(1, sizeof(*d));
	int rc = -ENOMEM;

	if (!roots)
		roots = &real;
	if (!d)
		goto no_memory;
	d->proc = strdup(roots->proc ? roots->proc : "/proc");
	d->sys = strdup(roots->sys ? roots->sys : "/sys");
	d->dev = strdup(roots->dev ? roots->dev : "/dev");
	if (!d->proc || !d->sys || !d->dev)
		goto no_memory;
	d->uevents = uevents_sent(d);
	rc = disks_read(d, err);
	if (rc)
		goto fail;
	*out = d;
	return 0;
no_memory:
	error_set(err, STATUS_FAILED, rc, "no memory for the table of disks");
fail:
	disks_free(d);
	return rc;
}

void disks_hold(struct disks *d, bool held)
{
	d->held = held;
}

void disks_free(struct disks *d)
{
	if (!d)
		return;
	text_set_free(&d->names);
	free(d->list);
	free(d->proc);
	free(d->sys);
	free(d->dev);
	free(d);
}

static const char *number_text(struct disks *d, uint32_t dev)
{
	char text[sizeof("4095:1048575")];

	snprintf(text, sizeof(text), "%u:%u", DISK_MAJOR(dev), DISK_MINOR(dev));
	return text_keep(&d->names, text);
}

static struct disk *insert(struct disks *d, const struct disk *disk)
{
	size_t at = d->count;
	struct disk *list = NULL;

	if (disk->name)
		list = ARRAY_ADD(d->list, d->count);
	if (!list)
		return NULL;
	list = d->list;
	for (; at > 0 && list[at - 1].dev > disk->dev; at--)
		list[at] = list[at - 1];
	list[at] = *disk;
	return &list[at];
}

/* Remembers that @dev is unknown, so that it is not looked up each time. */
static struct disk *add_unknown(struct disks *d, uint32_t dev, uint64_t now)
{
	return insert(d, &(struct disk){ .dev = dev, .looked = now, .name = number_text(d, dev) });
}

/* Major 0 belongs to file systems; they get the lower minors. */
#define FIRST_NAMED DISK_DEV(0, 0x80000)

uint32_t disks_number_of_name(struct disks *d, const char *name)
{
	struct disk disk = { .dev = FIRST_NAMED, .known = true };

	for (size_t i = 0; i < d->count && !DISK_MAJOR(d->list[i].dev); i++) {
		if (d->list[i].dev < FIRST_NAMED)
			continue;
		if (strcmp(d->list[i].name, name) == 0)
			return d->list[i].dev;
		disk.dev = d->list[i].dev + 1;
	}
	disk.name = DISK_MAJOR(disk.dev) ? NULL : text_keep(&d->names, name);
	return insert(d, &disk) ? disk.dev : 0;
}

const char *disks_name(struct disks *d, uint32_t dev)
{
	struct disk *disk = disks_by_dev(d, dev);
	uint64_t now = clock_mono_ns();
	const char *name;

	if (!d->held && DISK_MAJOR(dev) &&
	    (!disk || (!disk->present && now - disk->looked >= NS_PER_SEC))) {
		disks_read(d, NULL); /* if it cannot be read, it stays unknown */
		disk = disks_by_dev(d, dev);
		if (disk)
			disk->looked = now;
	}
	if (!disk)
		disk = add_unknown(d, dev, now);
	if (!disk)
		return "?:?";
	if (!disk->before || disk->before == disk->name)
		return disk->name;
	name = number_text(d, dev);
	return name ? name : "?:?";
}
