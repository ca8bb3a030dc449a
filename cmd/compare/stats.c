// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/compare/stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output/hist.h"

#define RESAMPLES    999
#define NORMAL_LIMIT 1.959964 /* of 95 % */

/* ---- random choices: splitmix64 (Steele, Lea, Flood 2014) ---- */

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* Below @n, which is far below 2^32: the bias is below 2^-32. */
static size_t random_below(uint64_t *state, size_t n)
{
	return (size_t)(((next_random(state) >> 32) * n) >> 32);
}

/* ---- distributions ---- */

/* The normal deviate with the probability of @t (Wallace 1959). */
static double normal_of_t(double t, double df)
{
	return (8 * df + 1) / (8 * df + 3) * sqrt(df * log1p(t * t / df));
}

double stats_t_p(double t, double df)
{
	return erfc(normal_of_t(t, df) / M_SQRT2);
}

double stats_t_limit(double df)
{
	const double z = NORMAL_LIMIT * (8 * df + 3) / (8 * df + 1);

	return sqrt(df * expm1(z * z / df));
}

double stats_kolmogorov_p(double d)
{
	double sum = 0;

	if (d < 0.2)
		return 1; /* to 12 digits */
	for (int k = 1; k <= 20; k++)
		sum += (k & 1 ? 2 : -2) * exp(-2.0 * k * k * d * d);
	return sum;
}

/* ---- the correlation of blocks ---- */

static double product(const double *values, size_t n, size_t lag)
{
	double sum = 0;

	for (size_t i = lag; i < n; i++)
		sum += values[i] * values[i - lag];
	return sum;
}

double stats_correlation(const double *values, size_t n_a, size_t n_b)
{
	const double all = product(values, n_a, 0) + product(values + n_a, n_b, 0);
	double r = product(values, n_a, 1) + product(values + n_a, n_b, 1);

	if (!(all > 0))
		return 0;
	r /= all;
	r += (1 + 3 * r) * 2 / (double)(n_a + n_b); /* the bias (Marriott, Pope 1954) */
	return r < 0 ? 0 : r < STATS_CORRELATION_MOST ? r : STATS_CORRELATION_MOST;
}

/* Each block counts once. */
static void weigh_once(const struct stats_sample *s, uint32_t *weights)
{
	const size_t n = s->n_a + s->n_b;

	for (size_t i = 0; i < n; i++) {
		weights[i] = i < s->n_a;
		weights[n + i] = i >= s->n_a;
	}
}

/* The influence of each block on the figures: the difference that leaving it out makes. */
static void set_influences(const struct stats_sample *s, uint32_t *weights,
			   double (*influences)[STATS_MEASURES])
{
	const size_t n = s->n_a + s->n_b;
	double all[2][STATS_MEASURES], without[2][STATS_MEASURES];

	weigh_once(s, weights);
	s->measure(s->ctx, weights, weights + n, all[0], all[1]);
	for (size_t i = 0; i < n; i++) {
		const size_t side = i >= s->n_a;

		weights[side * n + i] = 0;
		s->measure(s->ctx, weights, weights + n, without[0], without[1]);
		weights[side * n + i] = 1;
		for (size_t k = 0; k < s->n; k++)
			influences[i][k] = all[side][k] - without[side][k];
	}
}

static void centre(double *values, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	for (size_t i = 0; i < n; i++)
		values[i] -= sum / (double)n;
}

int stats_correlations(const struct stats_sample *s, double out[STATS_MEASURES])
{
	const size_t n = s->n_a + s->n_b;
	double(*influences)[STATS_MEASURES] = calloc(n, sizeof(*influences));
	double *values = calloc(n, sizeof(*values));
	uint32_t *weights = calloc(2 * n, sizeof(*weights));
	const bool room = influences && values && weights;

	if (room)
		set_influences(s, weights, influences);
	for (size_t k = 0; room && k < s->n; k++) {
		for (size_t i = 0; i < n; i++)
			values[i] = influences[i][k];
		centre(values, s->n_a);
		centre(values + s->n_a, s->n_b);
		out[k] = stats_correlation(values, s->n_a, s->n_b);
	}
	free(influences);
	free(values);
	free(weights);
	return room ? 0 : -ENOMEM;
}

/* ---- block bootstrap (Efron 1979, Carlstein 1986) ---- */

/* A figure in the resamples that have it: of A, of B, and the ratio. */
struct resamples {
	double a[RESAMPLES], b[RESAMPLES], ratios[RESAMPLES];
	size_t n;
	bool logs; /* a and b are logarithms */
};

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void resample(uint64_t *random, uint32_t *weights, size_t n)
{
	memset(weights, 0, n * sizeof(*weights));
	for (size_t i = 0; i < n; i++)
		weights[random_below(random, n)]++;
}

static void resample_all(const struct stats_sample *s, uint32_t *weights, struct resamples *to)
{
	const size_t n = s->n_a + s->n_b;
	double a[STATS_MEASURES], b[STATS_MEASURES];
	uint64_t random = s->seed;

	memset(weights, 0, 2 * n * sizeof(*weights));
	for (size_t done = 0; done < RESAMPLES; done++) {
		resample(&random, weights, s->n_a);
		resample(&random, weights + n + s->n_a, s->n_b);
		s->measure(s->ctx, weights, weights + n, a, b);
		for (size_t i = 0; i < s->n; i++) {
			struct resamples *r = &to[i];

			if (!isfinite(a[i]) || !isfinite(b[i]) ||
			    (r->logs && (a[i] <= 0 || b[i] <= 0)))
				continue;
			r->a[r->n] = r->logs ? log(a[i]) : a[i];
			r->b[r->n] = r->logs ? log(b[i]) : b[i];
			r->ratios[r->n] = r->b[r->n] - r->a[r->n];
			r->n++;
		}
	}
}

/* The variance of a figure of @blocks blocks of the correlation @r. */
static double variance(const double *values, size_t n, size_t blocks, double r)
{
	double sum = 0, squares = 0;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	for (size_t i = 0; i < n; i++)
		squares += (values[i] - sum / (double)n) * (values[i] - sum / (double)n);
	return squares / (double)(n - 1) * (double)blocks / (double)(blocks - 1) * (1 + r) /
	       (1 - r);
}

/* Independent blocks in @n of the correlation @r (Bayley, Hammersley 1946), less one. */
static double freedom(size_t n, double r)
{
	const double free = (double)n * (1 - r) / (1 + r) - 1;

	return free > 1 ? free : 1;
}

/* @a, @b: the figure itself. */
static void set_result(const struct stats_sample *s, size_t figure, struct resamples *r,
		       double correlation, double a, double b, struct stats_result *out)
{
	const size_t tail = (r->n + 1) / 40; /* 2.5 % */
	const double var_a = variance(r->a, r->n, s->n_a, correlation);
	const double var_b = variance(r->b, r->n, s->n_b, correlation);
	const double free_a = freedom(s->n_a, correlation), free_b = freedom(s->n_b, correlation);
	/* Welch 1947 */
	const double df =
	    (var_a + var_b) * (var_a + var_b) / (var_a * var_a / free_a + var_b * var_b / free_b);
	const double by = r->logs ? log(b) - log(a) : b - a;
	const double t = fabs(by) / sqrt(var_a + var_b);
	/* As much wider as the blocks are correlated, and few. */
	const double wider =
	    sqrt((1 + correlation) / (1 - correlation)) * stats_t_limit(df) / NORMAL_LIMIT;
	const double share = (a * (double)s->n_a + b * (double)s->n_b) / (double)(s->n_a + s->n_b);

	if (by == 0 || var_a + var_b == 0) {
		out->p = by == 0;
	} else if (figure == s->distance) {
		out->p = stats_kolmogorov_p(normal_of_t(t, df) * sqrt(share * (1 - share)));
	} else {
		out->p = stats_t_p(t, df);
	}
	if (!r->logs || var_a + var_b == 0)
		return;
	qsort(r->ratios, r->n, sizeof(double), by_size);
	out->low = exp(by + (r->ratios[tail - 1] - by) * wider);
	out->high = exp(by + (r->ratios[r->n - tail] - by) * wider);
}

int stats_compare(const struct stats_sample *s, const double correlations[STATS_MEASURES],
		  struct stats_result out[STATS_MEASURES])
{
	const size_t n = s->n_a + s->n_b;
	uint32_t *weights = calloc(2 * n, sizeof(*weights));
	struct resamples *resamples = calloc(s->n, sizeof(*resamples));
	double a[STATS_MEASURES], b[STATS_MEASURES];
	int r = weights && resamples ? 0 : -ENOMEM;

	if (!r) {
		weigh_once(s, weights);
		s->measure(s->ctx, weights, weights + n, a, b);
	}
	for (size_t i = 0; !r && i < s->n; i++) {
		resamples[i].logs = a[i] > 0 && b[i] > 0 && i != s->distance;
		out[i] = (struct stats_result){ 1, NAN, NAN };
	}
	if (!r)
		resample_all(s, weights, resamples);
	for (size_t i = 0; !r && i < s->n; i++)
		if (resamples[i].n >= RESAMPLES * 9 / 10 && isfinite(a[i]) && isfinite(b[i]))
			set_result(s, i, &resamples[i], correlations[i], a[i], b[i], &out[i]);
	free(weights);
	free(resamples);
	return r;
}

/* ---- many tests ---- */

static int by_p(const void *a, const void *b)
{
	return by_size(*(double *const *)a, *(double *const *)b);
}

int stats_holm(double *p, size_t n)
{
	double **order = calloc(n ?: 1, sizeof(*order)), most = 0;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = &p[i];
	qsort(order, n, sizeof(*order), by_p);
	for (size_t i = 0; i < n; i++) {
		const double by = *order[i] * (double)(n - i);

		if (by > most)
			most = by < 1 ? by : 1;
		*order[i] = most;
	}
	free(order);
	return 0;
}

/* ---- histograms ---- */

static double sum_of(const double *slots, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += slots[i];
	return sum;
}

double stats_distance(const double *a, const double *b, size_t n, size_t *at)
{
	const double sum_a = sum_of(a, n), sum_b = sum_of(b, n);
	double at_a = 0, at_b = 0, most = 0;

	*at = 0;
	if (sum_a == 0 || sum_b == 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		double distance;

		at_a += a[i] / sum_a;
		at_b += b[i] / sum_b;
		distance = at_a - at_b;
		if (fabs(distance) > fabs(most)) {
			most = distance;
			*at = i;
		}
	}
	return most;
}

double stats_share(const double *slots, size_t n, size_t at)
{
	return n ? sum_of(slots, at + 1) / sum_of(slots, n) : NAN;
}

double stats_percentile(const double *slots, unsigned int first, size_t n, unsigned int permille)
{
	const double wanted = sum_of(slots, n) * permille / 1000;
	double below = 0;
	uint64_t lo, hi;

	for (size_t i = 0; i < n; i++) {
		if (slots[i] == 0 || below + slots[i] < wanted) {
			below += slots[i];
			continue;
		}
		hist_fine_bounds(first + (unsigned int)i, &lo, &hi);
		return (double)lo + (double)(hi + 1 - lo) * (wanted - below) / slots[i];
	}
	return NAN;
}

size_t stats_block_length(size_t n)
{
	size_t length = 1;

	while ((length + 1) * (length + 1) * (length + 1) <= n)
		length++;
	while (length > 1 && n / length < STATS_LEAST_BLOCKS)
		length--;
	return length;
}
