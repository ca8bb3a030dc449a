/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tells a change from chance: block bootstrap, distance of histograms, correction for many tests.
 */
#ifndef IOTRACE_CMD_COMPARE_STATS_H
#define IOTRACE_CMD_COMPARE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * docs/COUNTING.md has the methods, and their sources.  What is compared are two lists of blocks, A
 * and B; a block is some consecutive intervals, and its counts.  Nothing here knows what is
 * counted: a figure is computed by a function from a weight for each block, how often it counts in
 * A and in B.  Every function gives the same result for the same input.
 */

#define STATS_MEASURES 8 /* at most */

/* Computes figures for A and B: @a and @b.  @weights_a and @weights_b have a weight for each of
 * the blocks of A and B, A's first. */
typedef void stats_measure(const void *ctx, const uint32_t *weights_a, const uint32_t *weights_b,
			   double a[STATS_MEASURES], double b[STATS_MEASURES]);

struct stats_sample {
	size_t n_a, n_b; /* blocks; at least STATS_LEAST_BLOCKS each */
	size_t n;	 /* figures */
	size_t distance; /* the figure that is the share at stats_distance(): a and b from 0 to 1 */
	stats_measure *measure;
	const void *ctx;
	uint64_t seed; /* of the random choices */
};
#define STATS_LEAST_BLOCKS 8

struct stats_result {
	double p;	  /* of a difference as large as this one, by chance alone */
	double low, high; /* confidence interval of b/a, at the level 95 %; NAN: unknown */
};

/* How much neighbouring blocks are correlated, for each figure: 0 to STATS_CORRELATION_MOST.  0 or
 * -ENOMEM. */
int stats_correlations(const struct stats_sample *s, double out[STATS_MEASURES]);
#define STATS_CORRELATION_MOST 0.95

/* The results of all figures, if their blocks have these correlations; p is 1 if a figure is not
 * finite.  0 or -ENOMEM. */
int stats_compare(const struct stats_sample *s, const double correlations[STATS_MEASURES],
		  struct stats_result out[STATS_MEASURES]);

/* The probability of a |t| as large as @t, with @df degrees of freedom; the t whose probability is
 * 5 %. */
double stats_t_p(double t, double df);
double stats_t_limit(double df);

/* The probability of a distance of two samples as large as @d, times the root of their effective
 * size. */
double stats_kolmogorov_p(double d);

/* The same of two lists of @n_a and @n_b values, whose sums are 0. */
double stats_correlation(const double *values, size_t n_a, size_t n_b);

/* Adjusts @p, the results of @n tests, for their number: those up to the level are significant.  0
 * or -ENOMEM. */
int stats_holm(double *p, size_t n);

/* The largest difference between the distributions of two histograms of @n slots, 0 to 1; negative
 * if the values of @b are smaller there.  *at: the slot.  0 if one is empty. */
double stats_distance(const double *a, const double *b, size_t n, size_t *at);

/* The share of a histogram in the slots up to @at. */
double stats_share(const double *slots, size_t n, size_t at);

/* The value at or below which @permille of 1000 lie in a histogram of @n fine slots (output/hist.h)
 * from slot @first on; within a slot values are taken to be spread evenly.  NAN if it is empty. */
double stats_percentile(const double *slots, unsigned int first, size_t n, unsigned int permille);

/* The length of blocks, in intervals, for @n intervals. */
size_t stats_block_length(size_t n);

#endif
