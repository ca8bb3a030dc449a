// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/compare/changes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/compare/stats.h"
#include "core/base/array.h"

#define LEVEL 0.05 /* of false alarms, over all comparisons */

_Static_assert(COMPARE_WHATS <= STATS_MEASURES, "figures of a row");

/* ---- a row's blocks, A's first, and its figures ---- */

struct blocks {
	size_t n_a, n;
	double secs[2 * COMPARE_BLOCKS];
	struct compare_counts counts[2 * COMPARE_BLOCKS];
	/* The slots in use: the same of every block. */
	unsigned int first;
	size_t width;	 /* 0: no slots */
	float *slots;	 /* [n][width] */
	size_t farthest; /* where the distributions of A and B differ most */
};

struct sums {
	double secs;
	struct compare_counts counts;
	double slots[HIST_FINE_SLOTS];
};

static void add_block(struct sums *to, const struct blocks *blocks, size_t i, uint32_t weight)
{
	const struct compare_counts *from = &blocks->counts[i];
	const float *slots = blocks->slots + i * blocks->width;
	const double times = weight;

	if (!weight)
		return;
	to->secs += times * blocks->secs[i];
	to->counts.requests += times * from->requests;
	to->counts.time_ns += times * from->time_ns;
	to->counts.bytes += times * from->bytes;
	to->counts.errors += times * from->errors;
	to->counts.waits_ns += times * from->waits_ns;
	for (size_t k = 0; k < blocks->width; k++)
		to->slots[k] += times * (double)slots[k];
}

static void set_figures(const struct sums *sums, const struct blocks *blocks,
			double to[STATS_MEASURES])
{
	const struct compare_counts *counts = &sums->counts;

	to[COMPARE_AVERAGE] = counts->time_ns / counts->requests;
	to[COMPARE_P99] = stats_percentile(sums->slots, blocks->first, blocks->width, 990);
	to[COMPARE_ERRORS] = counts->errors / sums->secs;
	to[COMPARE_REQUESTS] = counts->requests / sums->secs;
	to[COMPARE_BYTES] = counts->bytes / sums->secs;
	to[COMPARE_WAITS] = counts->waits_ns / sums->secs;
}

/* stats_measure. */
static void measure(const void *ctx, const uint32_t *weights_a, const uint32_t *weights_b,
		    double a[STATS_MEASURES], double b[STATS_MEASURES])
{
	const struct blocks *blocks = ctx;
	struct sums sums_a, sums_b;

	memset(&sums_a, 0, offsetof(struct sums, slots) + blocks->width * sizeof(double));
	memset(&sums_b, 0, offsetof(struct sums, slots) + blocks->width * sizeof(double));
	for (size_t i = 0; i < blocks->n; i++) {
		add_block(&sums_a, blocks, i, weights_a[i]);
		add_block(&sums_b, blocks, i, weights_b[i]);
	}
	set_figures(&sums_a, blocks, a);
	set_figures(&sums_b, blocks, b);
	a[COMPARE_SHAPE] = stats_share(sums_a.slots, blocks->width, blocks->farthest);
	b[COMPARE_SHAPE] = stats_share(sums_b.slots, blocks->width, blocks->farthest);
}

static size_t block_of(const struct blocks *blocks, size_t i, int *side)
{
	*side = i >= blocks->n_a;
	return *side ? i - blocks->n_a : i;
}

static bool slot_used(const struct blocks *blocks, const struct compare_row *row, size_t slot)
{
	for (size_t i = 0; i < blocks->n; i++) {
		int side;
		const size_t block = block_of(blocks, i, &side);

		if (row->slots[side] && row->slots[side][block][slot])
			return true;
	}
	return false;
}

static int set_slots(struct blocks *blocks, const struct compare_row *row)
{
	size_t first = 0, end = HIST_FINE_SLOTS;

	while (first < end && !slot_used(blocks, row, first))
		first++;
	while (end > first && !slot_used(blocks, row, end - 1))
		end--;
	blocks->first = (unsigned int)first;
	blocks->width = row->slots[0] && row->slots[1] ? end - first : 0;
	blocks->slots = calloc(blocks->n * blocks->width ?: 1, sizeof(*blocks->slots));
	if (!blocks->slots)
		return -ENOMEM;
	for (size_t i = 0; blocks->width && i < blocks->n; i++) {
		int side;
		const size_t block = block_of(blocks, i, &side);

		for (size_t k = 0; k < blocks->width; k++)
			blocks->slots[i * blocks->width + k] =
			    (float)row->slots[side][block][first + k];
	}
	return 0;
}

static void find_farthest(struct blocks *blocks)
{
	struct sums a = { 0 }, b = { 0 };

	for (size_t i = 0; i < blocks->n; i++)
		add_block(i < blocks->n_a ? &a : &b, blocks, i, 1);
	stats_distance(a.slots, b.slots, blocks->width, &blocks->farthest);
}

static int set_blocks(struct blocks *blocks, const struct compare_table *table,
		      const size_t lengths[2], const struct compare_row *row)
{
	blocks->n_a = lengths[0];
	blocks->n = lengths[0] + lengths[1];
	for (size_t i = 0; i < blocks->n; i++) {
		int side;
		const size_t block = block_of(blocks, i, &side);

		blocks->secs[i] = table->times[side].secs[block];
		blocks->counts[i] = row->counts[side][block];
	}
	if (set_slots(blocks, row))
		return -ENOMEM;
	find_farthest(blocks);
	return 0;
}

/* ---- comparisons ---- */

static bool is_compared(double a, double b)
{
	if (!isfinite(a) || !isfinite(b))
		return false;
	return a > 0 || b > 0;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* How much longer I/O takes in a second, or the time of the I/O that is more or less. */
static double time_of(enum compare_what what, const double a[STATS_MEASURES],
		      const double b[STATS_MEASURES])
{
	const double average =
	    isfinite(b[COMPARE_AVERAGE]) ? b[COMPARE_AVERAGE] : a[COMPARE_AVERAGE];

	switch (what) {
	case COMPARE_AVERAGE:
		return fabs(b[what] - a[what]) * b[COMPARE_REQUESTS];
	case COMPARE_SHAPE:
		return fabs(b[COMPARE_AVERAGE] - a[COMPARE_AVERAGE]) * b[COMPARE_REQUESTS];
	case COMPARE_P99:
		return fabs(b[what] - a[what]) * b[COMPARE_REQUESTS] / 100;
	case COMPARE_ERRORS:
		return INFINITY;
	case COMPARE_REQUESTS:
		return fabs(b[what] - a[what]) * average;
	case COMPARE_WAITS:
		return fabs(b[what] - a[what]);
	case COMPARE_BYTES:
	case COMPARE_WHATS:
		break;
	}
	if (!isfinite(average))
		return 0; /* of stack, without times */
	return fabs(b[what] - a[what]) / larger(a[what], b[what]) *
	       larger(a[COMPARE_REQUESTS], b[COMPARE_REQUESTS]) * average;
}

static struct stats_sample sample_of(const struct blocks *blocks, uint64_t seed)
{
	return (struct stats_sample){ .n_a = blocks->n_a,
				      .n_b = blocks->n - blocks->n_a,
				      .n = COMPARE_WHATS,
				      .distance = COMPARE_SHAPE,
				      .measure = measure,
				      .ctx = blocks,
				      .seed = seed };
}

static int add_comparisons(struct compare_changes *out, const struct compare_table *table,
			   const struct compare_row *row, const struct blocks *blocks,
			   const double correlations[STATS_MEASURES])
{
	const struct stats_sample sample = sample_of(blocks, row->seed);
	uint32_t weights[4 * COMPARE_BLOCKS] = { 0 };
	double a[STATS_MEASURES], b[STATS_MEASURES];
	struct stats_result results[STATS_MEASURES];
	const bool few = compare_rows_few(table);
	int r = few ? 0 : stats_compare(&sample, correlations, results);

	for (size_t i = 0; i < blocks->n; i++)
		weights[i < blocks->n_a ? i : blocks->n + i] = 1;
	measure(blocks, weights, weights + blocks->n, a, b);
	for (enum compare_what what = 0; !r && what < COMPARE_WHATS; what++) {
		struct compare_change *change;

		if (!is_compared(a[what], b[what]) || (few && what < COMPARE_REQUESTS))
			continue;
		if (few)
			results[what] = (struct stats_result){ NAN, NAN, NAN };
		change = ARRAY_ADD(out->list, out->n);
		if (!change)
			return -ENOMEM;
		*change = (struct compare_change){ .row = row,
						   .subcommand = table->subcommand,
						   .what = what,
						   .a = a[what],
						   .b = b[what],
						   .low = results[what].low,
						   .high = results[what].high,
						   .p = results[what].p,
						   .time_ns = time_of(what, a, b) };
	}
	return r;
}

/* ---- verdicts ---- */

static enum compare_verdict verdict_of(const struct compare_change *change, double least)
{
	const bool shape = change->what == COMPARE_SHAPE;
	/* A smaller share of short times is worse. */
	const double by = shape ? change->a - change->b : (change->b - change->a) / change->a;

	if (change->adjusted > LEVEL || fabs(by) * 100 < least || by == 0)
		return COMPARE_SAME;
	if (change->what >= COMPARE_REQUESTS)
		return by > 0 ? COMPARE_MORE : COMPARE_LESS;
	return by > 0 ? COMPARE_WORSE : COMPARE_BETTER;
}

static int by_importance(const void *a, const void *b)
{
	const struct compare_change *x = a, *y = b;
	const int of_x = x->verdict == COMPARE_LESS ? COMPARE_MORE : (int)x->verdict;
	const int of_y = y->verdict == COMPARE_LESS ? COMPARE_MORE : (int)y->verdict;

	if (of_x != of_y)
		return of_x - of_y;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? 1 : -1;
	if (!x->time_ns && fabs(x->b - x->a) != fabs(y->b - y->a))
		return fabs(x->b - x->a) < fabs(y->b - y->a) ? 1 : -1;
	if (x->row->seed != y->row->seed)
		return x->row->seed < y->row->seed ? -1 : 1;
	return (int)x->what - (int)y->what;
}

static int judge(struct compare_changes *changes, uint64_t least)
{
	double *p = calloc(changes->n ?: 1, sizeof(*p));
	int r = p ? 0 : -ENOMEM;
	size_t n = 0;

	for (size_t i = 0; !r && i < changes->n; i++)
		if (!isnan(changes->list[i].p))
			p[n++] = changes->list[i].p;
	if (!r)
		r = stats_holm(p, n);
	n = 0;
	for (size_t i = 0; !r && i < changes->n; i++) {
		struct compare_change *change = &changes->list[i];

		change->adjusted = isnan(change->p) ? NAN : p[n++];
		change->verdict = verdict_of(change, (double)least);
		changes->verdicts[change->verdict]++;
	}
	free(p);
	if (!r && changes->n)
		qsort(changes->list, changes->n, sizeof(*changes->list), by_importance);
	return r;
}

/* ---- all of them ---- */

static int too_few(const struct compare_table *table, struct error *err)
{
	error_set(err, STATUS_USAGE, -ENODATA,
		  "too few intervals to tell a change from chance: of %s A has %zu, B has %zu",
		  table->subcommand, table->times[0].n, table->times[1].n);
	error_hint(err, "at least %d each: record for longer, or with a shorter INTERVAL",
		   STATS_LEAST_BLOCKS);
	return -ENODATA;
}

/* Of each row; of few blocks a correlation is not known well, so it is at least the average of all
 * rows. */
static int set_correlations(const struct compare_table *table, const size_t lengths[2],
			    double (*to)[STATS_MEASURES])
{
	double average[STATS_MEASURES] = { 0 };
	int r = 0;

	for (size_t i = 0; !r && i < table->n; i++) {
		struct stats_sample sample;
		struct blocks blocks;

		r = set_blocks(&blocks, table, lengths, table->rows[i]);
		sample = sample_of(&blocks, 0);
		if (!r)
			r = stats_correlations(&sample, to[i]);
		free(blocks.slots);
		for (size_t k = 0; !r && k < COMPARE_WHATS; k++)
			average[k] += to[i][k] / (double)table->n;
	}
	for (size_t i = 0; !r && i < table->n; i++)
		for (size_t k = 0; k < COMPARE_WHATS; k++)
			to[i][k] = larger(to[i][k], average[k]);
	return r;
}

static int compare_table(struct compare_table *table, struct compare_changes *out,
			 struct error *err)
{
	double correlations[COMPARE_ROWS][STATS_MEASURES];
	size_t lengths[2];
	int r = 0;

	for (int side = 0; side < 2; side++) {
		if (table->times[side].n < STATS_LEAST_BLOCKS && !compare_rows_few(table))
			return too_few(table, err);
		lengths[side] = compare_rows_join(table, side);
	}
	if (table->n && !compare_rows_few(table))
		r = set_correlations(table, lengths, correlations);
	for (size_t i = 0; !r && i < table->n; i++) {
		struct blocks blocks;

		r = set_blocks(&blocks, table, lengths, table->rows[i]);
		if (!r)
			r = add_comparisons(out, table, table->rows[i], &blocks, correlations[i]);
		free(blocks.slots);
	}
	return r ? error_no_memory(err) : 0;
}

int compare_changes_find(struct compare_table *tables, size_t n, uint64_t least,
			 struct compare_changes *out, struct error *err)
{
	int r = 0;

	*out = (struct compare_changes){ NULL };
	for (size_t i = 0; !r && i < n; i++)
		r = compare_table(&tables[i], out, err);
	if (r)
		return r;
	return judge(out, least) ? error_no_memory(err) : 0;
}
