// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/block/volumes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/isolation/bounded.h"
#include "core/isolation/privileges.h"
#include "core/naming/disks.h"
#include "core/system/ebs.h"
#include "output/columns.h"

#define VOLUMES	 128 /* that an instance can have */
#define RETRY_NS (60 * NS_PER_SEC)

static const struct {
	const char *key, *words;
} limits[EBS_LIMITS] = {
	[EBS_VOLUME_IOPS] = { "volume_iops", "the volume's IOPS limit" },
	[EBS_VOLUME_THROUGHPUT] = { "volume_throughput", "the volume's throughput limit" },
	[EBS_INSTANCE_IOPS] = { "instance_iops", "the instance's EBS IOPS limit" },
	[EBS_INSTANCE_THROUGHPUT] = { "instance_throughput",
				      "the instance's EBS throughput limit" },
};

#define ROW struct volume_row
static const struct column columns[] = {
	LABEL(disk, NULL, 0, "EBS volume, by the name of its disk"),
	LABEL(limit, NULL, 0,
	      "volume_iops, volume_throughput, or for all volumes of the instance instance_iops, "
	      "instance_throughput"),
	COUNTER(over_ns, NULL, 0, "ns", "time over this limit, by the volume's own account",
		.metric = "limit_exceeded"),
};

const struct schema volumes_schema = SCHEMA(columns, struct volume_row);

struct volume {
	struct ebs_volume id;
	bool exists, answered;
	struct ebs_counters counters; /* if it has answered */
	uint64_t at_ns;
	uint64_t not_before_ns; /* after a failure */
};

struct volumes {
	struct disks *names;
	const struct blk_filters *filters;
	struct volume list[VOLUMES];
	struct volume_row rows[VOLUMES * EBS_LIMITS];
	size_t n, n_rows;
};

static void note_one(void *exists, const struct ebs_volume *volume)
{
	(void)volume;
	*(bool *)exists = true;
}

bool volumes_exist(void)
{
	bool exists = false;

	ebs_each("/sys", note_one, &exists);
	return exists;
}

bool volumes_allowed(void)
{
	return privileges_kept(PRIVILEGE(CAP_SYS_ADMIN));
}

static bool is_chosen(const struct volumes *v, const char *disk)
{
	const struct blk_filters *f = v->filters;

	for (uint32_t i = 0; i < f->n_disks; i++)
		if (strcmp(disks_name(v->names, f->disks[i].whole), disk) == 0)
			return true;
	return !f->n_disks;
}

static void add_volume(void *ctx, const struct ebs_volume *id)
{
	struct volumes *v = ctx;
	size_t i = 0;

	if (!is_chosen(v, id->disk))
		return;
	while (i < v->n &&
	       (strcmp(v->list[i].id.disk, id->disk) != 0 || v->list[i].id.dev != id->dev))
		i++;
	if (i == VOLUMES)
		return;
	if (i == v->n)
		v->list[v->n++] = (struct volume){ .id = *id };
	v->list[i].exists = true;
}

/* Forgets volumes that do not exist any more, and adds new ones. */
static void find_volumes(struct volumes *v)
{
	size_t n = 0;

	for (size_t i = 0; i < v->n; i++)
		v->list[i].exists = false;
	ebs_each("/sys", add_volume, v);
	for (size_t i = 0; i < v->n; i++)
		if (v->list[i].exists)
			v->list[n++] = v->list[i];
	v->n = n;
}

/* One that has failed is left alone for a while: its controller may hang. */
static bool ask(struct volume *volume, struct ebs_counters *counters)
{
	uint64_t page[EBS_PAGE_SIZE / sizeof(uint64_t)];
	int fd;

	if (clock_mono_ns() < volume->not_before_ns)
		return false;
	fd = bounded_open(ebs_ask, &volume->id, -1, page, sizeof(page));
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && ebs_parse(page, sizeof(page), counters))
		return true;
	volume->not_before_ns = clock_mono_ns() + RETRY_NS;
	return false;
}

static void add_rows(struct volumes *v, struct volume *volume)
{
	const struct volume before = *volume;
	uint64_t over_ns[EBS_LIMITS];

	volume->answered = ask(volume, &volume->counters);
	volume->at_ns = clock_mono_ns();
	if (!volume->answered || !before.answered ||
	    !ebs_over(&before.counters, &volume->counters, volume->at_ns - before.at_ns, over_ns))
		return;
	for (size_t i = 0; i < EBS_LIMITS; i++)
		v->rows[v->n_rows++] =
		    (struct volume_row){ volume->id.disk, limits[i].key, over_ns[i] };
}

struct recording_rows volumes_rows(struct volumes *v)
{
	if (!v)
		return (struct recording_rows){ NULL, 0 };
	find_volumes(v);
	v->n_rows = 0;
	for (size_t i = 0; i < v->n; i++)
		add_rows(v, &v->list[i]);
	return (struct recording_rows){ v->rows, v->n_rows };
}

int volumes_open(struct disks *names, const struct blk_filters *filters, struct volumes **out)
{
	struct volumes *v = *out = calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v->names = names;
	v->filters = filters;
	volumes_rows(v);
	return 0;
}

void volumes_free(struct volumes *v)
{
	free(v);
}

/* The volume's clock is not this machine's: no share is above 100 %. */
static void put_share(double share, char *to, size_t size)
{
	if (share < 0.001)
		snprintf(to, size, "less than 0.1%%");
	else
		snprintf(to, size, "%.1f%%", 100 * (share < 1 ? share : 1));
}

bool volumes_say(const struct recording_interval *in, size_t *i, char words[VOLUMES_WORDS_SIZE])
{
	const struct recording_rows *table = &in->tables[VOLUMES_TABLE];
	const double length = (double)(in->interval.end_ns - in->interval.start_ns);
	const struct volume_row *rows = table->rows;
	const char *limit;
	char share[32];

	while (*i < table->n && !rows[*i].over_ns)
		++*i;
	if (*i >= table->n)
		return false;
	limit = rows[*i].limit;
	for (size_t k = 0; k < ARRAY_SIZE(limits); k++)
		if (strcmp(limits[k].key, limit) == 0)
			limit = limits[k].words;
	put_share(length > 0 ? (double)rows[*i].over_ns / length : 1, share, sizeof(share));
	snprintf(words, VOLUMES_WORDS_SIZE, "%.32s: over %.64s %s of the time", rows[*i].disk,
		 limit, share);
	++*i;
	return true;
}
