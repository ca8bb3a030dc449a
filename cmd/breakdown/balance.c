// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/balance.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"

/* At the beginning and the end: number of readings without completions, and how long to try for
 * them. */
#define STILL_READINGS 3
#define READING_NS     5000000
/* Reading the statistics of a thousand disks takes some 20 ms. */
#define LOOK_NS 500000000

#define UNKNOWN UINT64_MAX

/* The present disks; new ones have completed @first so far. 0 or -ENOMEM: unchanged. */
static int list_disks(struct balance *b, const struct blk_filters *f, uint64_t first)
{
	struct intern disks = { 0 };
	uint64_t *last = NULL;

	if (blk_stat_files(f, &disks) || !(last = calloc(disks.n + 1, sizeof(*last)))) {
		intern_free(&disks);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < disks.n; i++) {
		const char *path = intern_key(&disks, i);
		uint32_t known = intern_find(&b->disks, path, strlen(path) + 1);

		last[i] = known == INTERN_NONE ? first : b->last[known];
	}
	intern_free(&b->disks);
	free(b->last);
	b->disks = disks;
	b->last = last;
	return 0;
}

static void read_disks(struct balance *b)
{
	for (uint32_t i = 0; i < b->disks.n; i++) {
		uint64_t now, last = b->last[i];

		if (!blk_completed(intern_key(&b->disks, i), &now))
			continue;
		/* Fewer than before: it is another disk with that name. */
		if (last != UNKNOWN)
			b->completed += now < last ? now : now - last;
		b->last[i] = now;
	}
}

/* A reading of all disks, and the programs' counts before and after it. */
struct reading {
	uint64_t before, after;
	int64_t ahead; /* how much more the disks had completed than was seen before */
};

static struct reading take_reading(struct balance *b, balance_seen *seen, void *ctx)
{
	struct reading reading = { .before = seen(ctx) };

	read_disks(b);
	reading.after = seen(ctx);
	reading.ahead = (int64_t)(b->completed - reading.before);
	return reading;
}

/* Is one more reading needed, after @n_still without completions? */
static bool goes_on(unsigned int n_still, uint64_t begin_ns)
{
	return n_still < STILL_READINGS && clock_mono_ns() - begin_ns < READING_NS;
}

/* The kernel counts a completion after it has called the programs: a completion between the two
 * would be a loss later on.  So among readings that are equally still the one that is furthest
 * ahead is correct. */
static bool is_better(const struct reading *a, const struct reading *b)
{
	uint64_t moved_a = a->after - a->before, moved_b = b->after - b->before;

	return moved_a < moved_b || (moved_a == moved_b && a->ahead > b->ahead);
}

int balance_begin(struct balance *b, const struct blk_filters *f, balance_seen *seen, void *ctx)
{
	struct reading best = { .after = UINT64_MAX };
	uint64_t begin_ns = clock_mono_ns();
	unsigned int n_still = 0;

	if (list_disks(b, f, UNKNOWN))
		return -ENOMEM;
	do {
		struct reading now = take_reading(b, seen, ctx);

		n_still += now.after == now.before;
		if (is_better(&now, &best))
			best = now;
		/* So that a task preempted by this one can count its completion. */
		nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
	} while (goes_on(n_still, begin_ns));
	b->ahead = best.ahead;
	return 0;
}

void balance_disks(struct balance *b, const struct blk_filters *f)
{
	if (b->last)
		(void)list_disks(b, f, 0);
}

/* One reading, which never finds too many: I/O that completes after a disk was read is only in the
 * programs' count.  Did nothing complete during it? */
static bool look(struct balance *b, balance_seen *seen, void *ctx)
{
	struct reading now = take_reading(b, seen, ctx);
	int64_t missed = (int64_t)(b->completed - now.after) - b->ahead;

	if (missed > (int64_t)b->missed)
		b->missed = (uint64_t)missed;
	b->look_ns = clock_mono_ns();
	return now.after == now.before;
}

uint64_t balance_missed(struct balance *b, balance_seen *seen, void *ctx)
{
	uint64_t before = b->missed;

	if (b->last && clock_mono_ns() - b->look_ns >= LOOK_NS)
		look(b, seen, ctx);
	return b->missed - before;
}

uint64_t balance_end(struct balance *b, balance_seen *seen, void *ctx)
{
	uint64_t before = b->missed, missed, begin_ns = clock_mono_ns();
	unsigned int n_still = 0;

	if (!b->last)
		return 0;
	do
		n_still += look(b, seen, ctx);
	while (goes_on(n_still, begin_ns));
	missed = b->missed - before;
	balance_free(b);
	return missed;
}

void balance_free(struct balance *b)
{
	intern_free(&b->disks);
	free(b->last);
	*b = (struct balance){ 0 };
}
