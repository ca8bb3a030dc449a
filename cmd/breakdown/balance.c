// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/balance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"

/* Readings in which nothing completed, and how long to try for them. */
#define STILL_READINGS 3
#define READING_NS     5000000

#define UNKNOWN UINT64_MAX

/* One reading of the statistics of all disks, between two of what the programs have seen. */
struct reading {
	uint64_t before, after;
	uint64_t *completed; /* by disk, or UNKNOWN */
};

struct reader {
	const struct intern *disks;
	balance_seen *seen;
	void *ctx;
	uint64_t begin_ns;
	unsigned int n_still;
};

static struct reader reader_of(const struct intern *disks, balance_seen *seen, void *ctx)
{
	return (struct reader){ disks, seen, ctx, clock_mono_ns(), 0 };
}

static void read_all(struct reader *reader, struct reading *to)
{
	to->before = reader->seen(reader->ctx);
	for (uint32_t i = 0; i < reader->disks->n; i++)
		if (!blk_completed(intern_key(reader->disks, i), &to->completed[i]))
			to->completed[i] = UNKNOWN;
	to->after = reader->seen(reader->ctx);
	reader->n_still += to->after == to->before;
}

static bool goes_on(const struct reader *reader)
{
	return reader->n_still < STILL_READINGS && clock_mono_ns() - reader->begin_ns < READING_NS;
}

static uint64_t sum_of(const struct reader *reader, const struct reading *reading)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < reader->disks->n; i++)
		sum += reading->completed[i] == UNKNOWN ? 0 : reading->completed[i];
	return sum;
}

/* The kernel counts a completion after it has called the programs: one that is between the two
 * would be a loss later on.  So of readings that are equally still the latest has it right. */
static bool is_better(const struct reader *reader, const struct reading *a, const struct reading *b)
{
	uint64_t moved_a = a->after - a->before, moved_b = b->after - b->before;

	if (moved_a != moved_b)
		return moved_a < moved_b;
	return (int64_t)(sum_of(reader, a) - a->before) > (int64_t)(sum_of(reader, b) - b->before);
}

int balance_begin(struct balance *b, const struct blk_filters *f, balance_seen *seen, void *ctx)
{
	struct reading best = { 0 }, now = { 0 }, swapped;
	struct reader reader;

	if (blk_stat_files(f, &b->disks))
		return -ENOMEM;
	reader = reader_of(&b->disks, seen, ctx);
	best.completed = calloc(b->disks.n + 1, sizeof(*best.completed));
	now.completed = calloc(b->disks.n + 1, sizeof(*now.completed));
	if (!best.completed || !now.completed) {
		free(best.completed);
		free(now.completed);
		return -ENOMEM;
	}
	for (read_all(&reader, &best); goes_on(&reader);) {
		read_all(&reader, &now);
		if (!is_better(&reader, &now, &best))
			continue;
		swapped = best;
		best = now;
		now = swapped;
	}
	free(now.completed);
	b->completed = best.completed;
	b->seen = best.before;
	return 0;
}

/* What @disk has completed since @b began. */
static uint64_t growth(const struct balance *b, const char *disk, uint64_t completed)
{
	uint32_t i = intern_find(&b->disks, disk, strlen(disk) + 1);
	uint64_t begin = i == INTERN_NONE ? 0 : b->completed[i];

	if (completed == UNKNOWN || begin == UNKNOWN)
		return 0;
	/* Fewer than at the beginning: it is another disk of that name. */
	return completed < begin ? completed : completed - begin;
}

/* No reading has too many: what has completed after a disk was read is only in what was seen. */
static int64_t missed_by(const struct reader *reader, const struct balance *b,
			 const struct reading *reading)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < reader->disks->n; i++)
		sum += growth(b, intern_key(reader->disks, i), reading->completed[i]);
	return (int64_t)(sum - (reading->after - b->seen));
}

uint64_t balance_missed(struct balance *b, const struct blk_filters *f, balance_seen *seen,
			void *ctx, bool last)
{
	struct reader reader;
	struct intern disks = { 0 };
	struct reading now = { 0 };
	uint64_t before = b->missed;

	if (b->completed && !blk_stat_files(f, &disks))
		now.completed = calloc(disks.n + 1, sizeof(*now.completed));
	reader = reader_of(&disks, seen, ctx);
	while (now.completed) {
		int64_t missed;

		read_all(&reader, &now);
		missed = missed_by(&reader, b, &now);
		if (missed > (int64_t)b->missed)
			b->missed = (uint64_t)missed;
		if (!last || !goes_on(&reader))
			break;
	}
	free(now.completed);
	intern_free(&disks);
	return b->missed - before;
}

void balance_free(struct balance *b)
{
	intern_free(&b->disks);
	free(b->completed);
	*b = (struct balance){ 0 };
}
