// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/balance.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

/* The kernel counts a completion just after it has called the programs, unless an interrupt or
 * another task comes between: of some readings that one is taken which tells the least. */
#define READINGS 5

struct balance_disk {
	char name[64]; /* the rest is 0 */
	uint64_t completed;
};

struct reading {
	struct balance *to;
	bool no_memory;
};

static struct balance_disk disk_of(const char *name, uint64_t completed)
{
	struct balance_disk disk = { .completed = completed };

	snprintf(disk.name, sizeof(disk.name), "%s", name);
	return disk;
}

static void note(void *ctx, const char *name, uint64_t completed)
{
	struct balance_disk disk = disk_of(name, completed);
	struct reading *reading = ctx;

	reading->to->completed += completed;
	if (intern_keyed(&reading->to->disks, &disk, sizeof(disk), sizeof(disk.name)) ==
	    INTERN_NONE)
		reading->no_memory = true;
}

int balance_begin(struct balance *b, const struct blk_filters *f, balance_seen *seen, void *ctx)
{
	for (int i = 0; i < READINGS; i++) {
		struct balance now = { .seen = seen(ctx) };
		struct reading reading = { &now, false };

		blk_each_completed(f, note, &reading);
		if (!reading.no_memory &&
		    (i == 0 || now.completed - b->completed > now.seen - b->seen)) {
			balance_free(b);
			*b = now;
		} else {
			balance_free(&now);
		}
		if (reading.no_memory)
			return -ENOMEM;
	}
	return 0;
}

struct growth {
	const struct balance *since;
	uint64_t completed;
};

static void grow(void *ctx, const char *name, uint64_t completed)
{
	struct balance_disk disk = disk_of(name, 0);
	struct growth *growth = ctx;
	const struct balance_disk *begin;
	uint32_t number = intern_find(&growth->since->disks, disk.name, sizeof(disk.name));

	begin = number == INTERN_NONE ? &disk : intern_key(&growth->since->disks, number);
	/* Fewer than at the beginning: it is another disk of that name. */
	growth->completed +=
	    completed < begin->completed ? completed : completed - begin->completed;
}

uint64_t balance_missed(const struct balance *b, const struct blk_filters *f, balance_seen *seen,
			void *ctx)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < READINGS; i++) {
		struct growth growth = { b, 0 };
		int64_t missed;

		blk_each_completed(f, grow, &growth);
		missed = (int64_t)(growth.completed - (seen(ctx) - b->seen));
		if (missed < least)
			least = missed;
	}
	return least > 0 ? (uint64_t)least : 0;
}

void balance_free(struct balance *b)
{
	intern_free(&b->disks);
	*b = (struct balance){ 0 };
}
