// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stuck/names.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/thread.h"

/* A device of device mapper. */
struct mapped {
	uint32_t dev, suspended;
	char disk[STUCK_NAME], name[STUCK_MAPPED];
};

/* What is looked up, and the tables that have it afterwards. */
struct look {
	struct stuck_tables tables;
	bool owns_disks;
	uint64_t *cgroups;
	uint32_t *devs;
	struct mapped *mapped;
	size_t n_cgroups, n_devs, n_mapped;
};

/*
 * There are two: while the thread has one, the other has what was known before.  Without a thread
 * the first is enough.
 */
struct stuck_names {
	struct look looks[2];
	size_t shown;  /* of the two */
	bool is_apart; /* the thread is there, or is to be made */
	bool has_thread;
	bool is_busy;  /* it has the one that is not shown */
	int ask, done; /* eventfd */
	void *stack;
};

/* ---- looking up ---- */

/* The first line of a file of /sys/block; "": it cannot be read. */
static void read_line(const char *disk, const char *file, char *to, size_t size)
{
	char path[STUCK_NAME + 32];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/sys/block/%.31s/%s", disk, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, to, size - 1);
		close(fd);
	}
	to[n < 0 ? 0 : n] = 0;
	to[strcspn(to, "\n")] = 0;
}

/* @held: from now on the tables open nothing. */
static void hold(const struct look *look, bool held)
{
	disks_hold(look->tables.disks, held);
	cgroups_hold(look->tables.cgroups, held);
}

static void look_up(struct look *look)
{
	const struct stuck_tables *t = &look->tables;
	char suspended[8] = "";

	hold(look, false);
	disks_refresh(t->disks);
	mounts_refresh(t->mounts);
	for (size_t i = 0; i < look->n_devs; i++)
		disks_whole_name(t->disks, look->devs[i]);
	for (size_t i = 0; i < look->n_mapped; i++) {
		struct mapped *mapped = &look->mapped[i];

		read_line(mapped->disk, "dm/name", mapped->name, sizeof(mapped->name));
		read_line(mapped->disk, "dm/suspended", suspended, sizeof(suspended));
		mapped->suspended = *suspended == '1';
	}
	for (size_t i = 0; i < look->n_cgroups; i++)
		for (int what = 0; what < CGROUP_POD; what++)
			cgroups_name(t->cgroups, look->cgroups[i], (enum cgroup_name)what);
	hold(look, look->owns_disks);
}

static void add_cgroup(struct look *look, uint64_t id)
{
	uint64_t *added;

	if (look->n_cgroups && look->cgroups[look->n_cgroups - 1] == id)
		return;
	added = ARRAY_ADD(look->cgroups, look->n_cgroups);
	if (added)
		*added = id;
}

static void add_dev(struct look *look, uint32_t dev)
{
	uint32_t *added;

	if (!dev || (look->n_devs && look->devs[look->n_devs - 1] == dev))
		return;
	added = ARRAY_ADD(look->devs, look->n_devs);
	if (added)
		*added = dev;
}

static void add_mapped(struct look *look, const struct stuck_disk *disk)
{
	struct mapped *added;

	if (strncmp(disk->name, "dm-", 3) != 0)
		return;
	added = ARRAY_ADD(look->mapped, look->n_mapped);
	if (!added)
		return;
	added->dev = disk->dev;
	memcpy(added->disk, disk->name, sizeof(added->disk));
}

/* Without memory some stay without a name. */
static void prepare(struct look *look, const struct stuck_walk *w)
{
	look->n_cgroups = look->n_devs = look->n_mapped = 0;
	for (size_t i = 0; i < w->n_disks; i++)
		add_mapped(look, &w->disks[i]);
	for (size_t i = 0; i < w->n_requests; i++) {
		add_cgroup(look, w->requests[i].r.cgroup);
		add_dev(look, w->requests[i].r.file.dev);
	}
	for (size_t i = 0; i < w->n_tasks; i++) {
		add_cgroup(look, w->tasks[i].cgroup);
		add_dev(look, w->tasks[i].call_dev);
		add_dev(look, w->tasks[i].call_file.dev);
		add_dev(look, w->tasks[i].awaited.dev);
	}
}

static void complete(struct stuck_walk *w, const struct look *look)
{
	for (size_t i = 0; i < w->n_disks; i++)
		for (size_t k = 0; k < look->n_mapped; k++) {
			const struct mapped *mapped = &look->mapped[k];

			if (mapped->dev != w->disks[i].dev)
				continue;
			memcpy(w->disks[i].mapped, mapped->name, sizeof(mapped->name));
			w->disks[i].suspended = mapped->suspended;
		}
}

/* ---- the thread ---- */

static void *run(void *ctx)
{
	struct stuck_names *n = ctx;
	uint64_t value;

	while (read(n->ask, &value, sizeof(value)) == sizeof(value)) {
		look_up(&n->looks[!n->shown]);
		value = 1;
		(void)!write(n->done, &value, sizeof(value));
	}
	return NULL;
}

#define STACK_SIZE ((size_t)512 << 10)
#define PAGE_MOST  ((size_t)64 << 10)

static int start(struct stuck_names *n)
{
	pthread_t thread;

	n->ask = eventfd(0, EFD_CLOEXEC);
	n->done = eventfd(0, EFD_CLOEXEC);
	/* Of the heap, which has memory by now: locked memory has a limit. */
	n->stack = aligned_alloc(PAGE_MOST, STACK_SIZE);
	if (n->ask < 0 || n->done < 0 || !n->stack)
		return -errno;
	return thread_start(&thread, n->stack, STACK_SIZE, run, n);
}

/* Has the thread ended its look within @ms? */
static void await(struct stuck_names *n, int ms)
{
	struct pollfd fd = { n->done, POLLIN, 0 };
	uint64_t value;

	if (poll(&fd, 1, ms) <= 0 || read(n->done, &value, sizeof(value)) != sizeof(value))
		return;
	n->is_busy = false;
	n->shown = !n->shown;
}

static void look_apart(struct stuck_names *n, const struct stuck_walk *w)
{
	uint64_t value = 1;

	if (n->is_busy)
		await(n, 0);
	if (n->is_busy)
		return;
	prepare(&n->looks[!n->shown], w);
	n->is_busy = write(n->ask, &value, sizeof(value)) == sizeof(value);
	if (n->is_busy)
		await(n, STUCK_NAMES_MS);
}

/* ---- for others ---- */

struct stuck_tables stuck_names_look(struct stuck_names *n, struct stuck_walk *w)
{
	if (n->is_apart && !n->has_thread) {
		n->has_thread = !start(n);
		n->is_apart = n->has_thread;
	}
	if (n->is_apart) {
		look_apart(n, w);
	} else {
		prepare(&n->looks[n->shown], w);
		look_up(&n->looks[n->shown]);
	}
	complete(w, &n->looks[n->shown]);
	return n->looks[n->shown].tables;
}

static int open_look(struct look *look, struct disks *disks)
{
	struct error err;
	int r = 0;

	look->tables.disks = disks;
	look->owns_disks = !disks;
	if (!disks)
		r = disks_open(NULL, &look->tables.disks, &err);
	if (!r)
		r = cgroups_open(NULL, NULL, &look->tables.cgroups);
	if (!r)
		r = mounts_open(NULL, &look->tables.mounts);
	if (!r)
		hold(look, look->owns_disks);
	return r;
}

/* Apart, the caller's @disks are of no use: it looks at them itself. */
int stuck_names_open(struct disks *disks, bool apart, struct stuck_names **out)
{
	struct stuck_names *n = calloc(1, sizeof(*n));
	int r;

	*out = n;
	if (!n)
		return -ENOMEM;
	n->is_apart = apart;
	r = open_look(&n->looks[0], apart ? NULL : disks);
	if (!r && apart)
		r = open_look(&n->looks[1], NULL);
	if (!r && apart)
		disks_hold(disks, true);
	return r;
}

void stuck_names_free(struct stuck_names *n)
{
	if (!n || n->has_thread)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(n->looks); i++) {
		struct look *look = &n->looks[i];

		if (look->owns_disks)
			disks_free(look->tables.disks);
		cgroups_free(look->tables.cgroups);
		mounts_free(look->tables.mounts);
		free(look->cgroups);
		free(look->devs);
		free(look->mapped);
	}
	free(n->stack);
	free(n);
}
