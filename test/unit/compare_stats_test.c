/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Against published tables, exact formulas and processes of known parameters. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/compare/stats.h"
#include "core/base/array.h"
#include "output/hist.h"

static void assert_near(double got, double want, double share)
{
	if (!(fabs(got - want) <= share * fabs(want)))
		fail_msg("%.9g is not %.9g", got, want);
}

/* Holm 1979; R's p.adjust() has the same values. */
static void holm(void **state)
{
	double p[] = { 0.01, 0.04, 0.03, 0.005 }, one[] = { 0.2 }, many[] = { 0.9, 0.8 };

	(void)state;
	assert_int_equal(stats_holm(p, 4), 0);
	assert_near(p[0], 0.03, 1e-12);
	assert_near(p[1], 0.06, 1e-12);
	assert_near(p[2], 0.06, 1e-12);
	assert_near(p[3], 0.02, 1e-12);
	assert_int_equal(stats_holm(one, 1), 0);
	assert_near(one[0], 0.2, 1e-12);
	assert_int_equal(stats_holm(many, 2), 0);
	assert_near(many[0], 1, 1e-12);
	assert_near(many[1], 1, 1e-12);
	assert_int_equal(stats_holm(NULL, 0), 0);
}

/* The limits of Smirnov's table (1948). */
static void kolmogorov(void **state)
{
	static const struct {
		double d, p;
	} table[] = { { 1.0727, 0.2 },	 { 1.2238, 0.1 },  { 1.3581, 0.05 },
		      { 1.4802, 0.025 }, { 1.6276, 0.01 }, { 1.9495, 0.001 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		assert_near(stats_kolmogorov_p(table[i].d), table[i].p, 1e-3);
	assert_near(stats_kolmogorov_p(0), 1, 1e-9);
	assert_near(stats_kolmogorov_p(0.5), 0.9639, 1e-4);
}

/* Student's t: the tables' two-sided limits. */
static void t_limits(void **state)
{
	static const struct {
		double df, five, one;
	} table[] = { { 3, 3.1824, 5.8409 },
		      { 5, 2.5706, 4.0321 },
		      { 10, 2.2281, 3.1693 },
		      { 30, 2.0423, 2.7500 },
		      { 100, 1.9840, 2.6259 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		assert_near(stats_t_limit(table[i].df), table[i].five, 1.5e-2);
		assert_near(stats_t_p(table[i].five, table[i].df), 0.05, 4e-2);
		assert_near(stats_t_p(table[i].one, table[i].df), 0.01, 0.1);
	}
	assert_true(stats_t_limit(1) > 12.7062); /* with so few the approximation is careful */
	assert_near(stats_t_limit(1e6), 1.95997, 1e-4);
}

static void distances(void **state)
{
	const double a[] = { 2, 2, 0, 0 }, b[] = { 0, 1, 1, 2 }, none[4] = { 0 };
	size_t at;

	(void)state;
	assert_near(stats_distance(a, b, 4, &at), 0.75, 1e-12); /* 1 and 1/4 */
	assert_int_equal(at, 1);
	assert_near(stats_distance(b, a, 4, &at), -0.75, 1e-12);
	assert_near(stats_share(a, 4, at), 1, 1e-12);
	assert_near(stats_share(b, 4, at), 0.25, 1e-12);
	assert_true(stats_distance(a, a, 4, &at) == 0);
	assert_true(stats_distance(a, none, 4, &at) == 0);
}

/* Times of 1000 to 1999 ns, each once: the percentiles are their definition. */
static void percentiles(void **state)
{
	double slots[HIST_FINE_SLOTS] = { 0 };
	uint64_t lo, hi;
	const unsigned int first = hist_fine_slot(1000);

	(void)state;
	for (uint64_t ns = 1000; ns < 2000; ns++)
		slots[hist_fine_slot(ns)]++;
	hist_fine_bounds(first, &lo, &hi);
	/* The first and the last slot have times of a part of them only. */
	for (unsigned int permille = 50; permille <= 900; permille += 10)
		assert_near(stats_percentile(slots, 0, HIST_FINE_SLOTS, permille), 1000 + permille,
			    2e-3);
	assert_near(stats_percentile(slots + first, first, HIST_FINE_SLOTS - first, 500), 1500,
		    2e-3);
	assert_true(isnan(stats_percentile(slots, 0, 10, 500)));
	assert_true(isnan(stats_percentile(slots, 0, 0, 500)));
}

static void block_lengths(void **state)
{
	(void)state;
	assert_int_equal(stats_block_length(8), 1);
	assert_int_equal(stats_block_length(15), 1);
	assert_int_equal(stats_block_length(16), 2);
	assert_int_equal(stats_block_length(64), 4);
	assert_int_equal(stats_block_length(1000), 10);
	assert_int_equal(stats_block_length(999), 9);
	for (size_t n = STATS_LEAST_BLOCKS; n < 1000; n++)
		assert_true(n / stats_block_length(n) >= STATS_LEAST_BLOCKS);
}

/* ---- processes of known parameters ---- */

#define MOST 20000

/* About normal, with the variance 1 (the sum of twelve uniform ones). */
static double noise(uint64_t *state)
{
	double sum = -6;

	for (int i = 0; i < 12; i++) {
		*state = *state * 6364136223846793005U + 1442695040888963407U;
		sum += (double)(*state >> 33) / (double)(1U << 31);
	}
	return sum;
}

/* An autoregressive process of the variance 1, with the sum 0. */
static void fill(double *values, size_t n, double correlation, uint64_t seed)
{
	double at = noise(&seed), sum = 0;

	for (size_t i = 0; i < n; i++) {
		at = correlation * at + sqrt(1 - correlation * correlation) * noise(&seed);
		values[i] = at;
		sum += at;
	}
	for (size_t i = 0; i < n; i++)
		values[i] -= sum / (double)n;
}

static void correlations(void **state)
{
	static double values[MOST];

	(void)state;
	for (int tenths = 1; tenths < 9; tenths++) {
		fill(values, MOST, tenths / 10.0, 1);
		if (fabs(stats_correlation(values, MOST / 2, MOST / 2) - tenths / 10.0) > 0.02)
			fail_msg("not %d tenths", tenths);
	}
	for (size_t i = 0; i < MOST; i++)
		values[i] = i & 1 ? 1 : -1;
	assert_true(stats_correlation(values, MOST / 2, MOST / 2) == 0);
	for (size_t i = 0; i < MOST; i++)
		values[i] = i < MOST / 4 || i >= MOST * 3 / 4 ? 1 : -1;
	assert_true(stats_correlation(values, MOST / 2, MOST / 2) == STATS_CORRELATION_MOST);
	memset(values, 0, sizeof(values));
	assert_true(stats_correlation(values, 10, 10) == 0);
}

/* Of short lists the estimate is right on average, where it is not cut off at 0. */
static void correlations_of_few(void **state)
{
	double values[40], sum = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		fill(values, 20, 0.6, seed);
		fill(values + 20, 20, 0.6, seed + 5000);
		sum += stats_correlation(values, 20, 20);
	}
	assert_near(sum / 2000, 0.6, 0.1);
}

/* The figure is the average of the blocks' values. */
static void measure_average(const void *ctx, const uint32_t *weights_a, const uint32_t *weights_b,
			    double a[STATS_MEASURES], double b[STATS_MEASURES])
{
	const double *values = ctx;
	double n_a = 0, n_b = 0;

	a[0] = b[0] = 0;
	for (size_t i = 0; i < 80; i++) {
		a[0] += weights_a[i] * values[i];
		b[0] += weights_b[i] * values[i];
		n_a += weights_a[i];
		n_b += weights_b[i];
	}
	a[0] /= n_a;
	b[0] /= n_b;
}

static void set_values(double values[80], double change, uint64_t seed)
{
	fill(values, 40, 0, seed);
	fill(values + 40, 40, 0, seed + 1);
	for (size_t i = 0; i < 80; i++)
		values[i] = (100 + values[i]) * (i < 40 ? 1 : 1 + change);
}

static double deviation(const double *values, size_t n)
{
	double sum = 0, squares = 0;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	for (size_t i = 0; i < n; i++)
		squares += pow(values[i] - sum / (double)n, 2);
	return sqrt(squares / (double)(n - 1));
}

/* The bootstrap finds the standard error of an average, which is known: s / sqrt(n). */
static void bootstrap(void **state)
{
	const double none[STATS_MEASURES] = { 0 }, half[STATS_MEASURES] = { 0.5 };
	double values[80];
	struct stats_sample sample = { .n_a = 40,
				       .n_b = 40,
				       .n = 1,
				       .distance = 1,
				       .measure = measure_average,
				       .ctx = values };
	struct stats_result result[STATS_MEASURES], again[STATS_MEASURES], wider[STATS_MEASURES];
	double error;

	(void)state;
	set_values(values, 0.005, 3);
	sample.seed = 7;
	assert_int_equal(stats_compare(&sample, none, result), 0);
	error = sqrt(pow(deviation(values, 40), 2) + pow(deviation(values + 40, 40), 2)) /
		sqrt(40) / 100;
	assert_near(log(result->high / result->low) / 2, stats_t_limit(78) * error, 0.06);
	assert_near(sqrt(result->high * result->low), 1.005, 1e-3);
	assert_near(result->p, stats_t_p(log(1.005) / error, 78), 0.25);
	/* The same again-> */
	assert_int_equal(stats_compare(&sample, none, again), 0);
	assert_memory_equal(result, again, sizeof(*result));
	/* Blocks of the correlation 1/2 are worth a third of them. */
	assert_int_equal(stats_compare(&sample, half, wider), 0);
	assert_near(log(wider->high / wider->low) / log(result->high / result->low), sqrt(3), 0.06);
	assert_true(wider->p > result->p);
	/* No change at all; nothing in A. */
	for (size_t i = 0; i < 40; i++)
		values[40 + i] = values[i];
	assert_int_equal(stats_compare(&sample, none, result), 0);
	assert_true(result->p == 1);
	memset(values, 0, sizeof(values) / 2);
	assert_int_equal(stats_compare(&sample, none, result), 0);
	assert_true(result->p < 1e-6 && isnan(result->low) && isnan(result->high));
}

/* Of 2,000 pairs without a change 5 % have p <= 0.05, and as many an interval without 1. */
static void level(void **state)
{
	const double none[STATS_MEASURES] = { 0 };
	double values[80];
	struct stats_sample sample = { .n_a = 40,
				       .n_b = 40,
				       .n = 1,
				       .distance = 1,
				       .measure = measure_average,
				       .ctx = values };
	int alarms = 0, outside = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		struct stats_result result[STATS_MEASURES];
		uint64_t shifts = seed * 77;

		set_values(values, 0, seed * 3);
		/* fill() has the sum 0: the averages differ by chance here. */
		for (size_t i = 0; i < 80; i += 40) {
			const double by = noise(&shifts) / sqrt(40);

			for (size_t k = i; k < i + 40; k++)
				values[k] += by;
		}
		sample.seed = seed;
		assert_int_equal(stats_compare(&sample, none, result), 0);
		alarms += result->p <= 0.05;
		outside += result->low > 1 || result->high < 1;
	}
	assert_in_range(alarms, 70, 135); /* 100, give or take three standard deviations */
	assert_in_range(outside, 70, 135);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holm),		cmocka_unit_test(kolmogorov),
		cmocka_unit_test(t_limits),	cmocka_unit_test(distances),
		cmocka_unit_test(percentiles),	cmocka_unit_test(block_lengths),
		cmocka_unit_test(correlations), cmocka_unit_test(correlations_of_few),
		cmocka_unit_test(bootstrap),	cmocka_unit_test(level),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
