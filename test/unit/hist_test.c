/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "output/hist.h"
#include "output/render.h"
#include "core/base/array.h"
#include "test/unit/hist_add.h"

#define ROW_BAR	  "****************************************"
#define ROW_EMPTY "                                        "

static void fine_slots_of_known_values(void **state)
{
	(void)state;
	assert_int_equal(hist_fine_slot(0), 0);
	assert_int_equal(hist_fine_slot(1), 1);
	assert_int_equal(hist_fine_slot(7), 7);
	assert_int_equal(hist_fine_slot(8), 8);
	assert_int_equal(hist_fine_slot(9), 9);
	assert_int_equal(hist_fine_slot(15), 15);
	assert_int_equal(hist_fine_slot(16), 16);
	assert_int_equal(hist_fine_slot(17), 16);
	assert_int_equal(hist_fine_slot(18), 17);
	assert_int_equal(hist_fine_slot(31), 23);
	assert_int_equal(hist_fine_slot(32), 24);
	assert_int_equal(hist_fine_slot(1000), 8 * 7 + 7); /* 960..1023 */
	assert_int_equal(hist_fine_slot((1ull << 44) - 1), HIST_FINE_SLOTS - 1);
	assert_int_equal(hist_fine_slot(1ull << 44), HIST_FINE_SLOTS - 1);
	assert_int_equal(hist_fine_slot(UINT64_MAX), HIST_FINE_SLOTS - 1);
}

static void log2_slots_of_known_values(void **state)
{
	unsigned int k;

	(void)state;
	assert_int_equal(hist_log2_slot(0), 0);
	assert_int_equal(hist_log2_slot(1), 0);
	for (k = 1; k < 64; k++) {
		assert_int_equal(hist_log2_slot((1ull << k) - 1), k - 1);
		assert_int_equal(hist_log2_slot(1ull << k), k);
		assert_int_equal(hist_log2_slot((1ull << k) + 1), k);
	}
	assert_int_equal(hist_log2_slot(UINT64_MAX), 63);
}

/* Every slot's bounds are in it, and it begins where the one before ends. */
static void fine_bounds_cover_everything(void **state)
{
	uint64_t lo, hi, next = 0;
	unsigned int i;

	(void)state;
	for (i = 0; i < HIST_FINE_SLOTS; i++) {
		hist_fine_bounds(i, &lo, &hi);
		assert_int_equal(lo, next);
		assert_true(hi >= lo);
		assert_int_equal(hist_fine_slot(lo), i);
		assert_int_equal(hist_fine_slot(hi), i);
		/* an eighth of the value at most; the last one takes the rest */
		if (i < HIST_FINE_SLOTS - 1)
			assert_true(hi - lo <= lo / 8);
		next = hi + 1;
	}
	assert_int_equal(hi, UINT64_MAX);
}

static void log2_bounds_cover_everything(void **state)
{
	uint64_t lo, hi, next = 0;
	unsigned int i;

	(void)state;
	for (i = 0; i < HIST_LOG2_SLOTS; i++) {
		hist_log2_bounds(i, &lo, &hi);
		assert_int_equal(lo, next);
		assert_int_equal(hist_log2_slot(lo), i);
		assert_int_equal(hist_log2_slot(hi), i);
		next = hi + 1;
	}
	assert_int_equal(hi, UINT64_MAX);
	hist_log2_bounds(10, &lo, &hi);
	assert_int_equal(lo, 1024);
	assert_int_equal(hi, 2047);
}

static void values_near_powers_lie_within_their_bounds(void **state)
{
	uint64_t lo, hi, value;
	unsigned int k;
	int d;

	(void)state;
	for (k = 0; k < 64; k++) {
		for (d = -1; d <= 1; d++) {
			value = (1ull << k) + (uint64_t)d;
			hist_fine_bounds(hist_fine_slot(value), &lo, &hi);
			assert_in_range(value, lo, hi);
			hist_log2_bounds(hist_log2_slot(value), &lo, &hi);
			assert_in_range(value, lo, hi);
		}
	}
}

static void add_counts_in_both_resolutions(void **state)
{
	struct hist h = { 0 };

	(void)state;
	hist_add(&h, 1500, 1000);
	hist_add(&h, 999, 1000);
	hist_add(&h, 5000000, 1000);
	assert_int_equal(h.count, 3);
	assert_int_equal(h.total, 5002499);
	assert_int_equal(h.max, 5000000);
	assert_int_equal(h.log2[0], 2);	 /* 1 and 0 usecs */
	assert_int_equal(h.log2[12], 1); /* 5000 usecs */
	assert_int_equal(h.fine[hist_fine_slot(1500)], 1);
	assert_int_equal(h.fine[hist_fine_slot(999)], 1);
	assert_int_equal(h.fine[hist_fine_slot(5000000)], 1);
	assert_int_equal(hist_slots_total(&h), 3);
}

static void log2_from_fine_is_what_adding_gives(void **state)
{
	struct hist h = { 0 }, want;
	unsigned int k;
	int d;

	(void)state;
	for (k = 0; k < 44; k++) {
		for (d = -1; d <= 1; d++)
			hist_add(&h, (1ull << k) + (uint64_t)d, 1);
	}
	want = h;
	memset(h.log2, 0xff, sizeof(h.log2)); /* what was there does not stay */
	hist_log2_from_fine(&h);
	assert_memory_equal(h.log2, want.log2, sizeof(h.log2));
	assert_int_equal(hist_slots_total(&h), 44 * 3);
}

static void percentile_of_nothing_is_zero(void **state)
{
	struct hist h = { 0 };

	(void)state;
	assert_int_equal(hist_percentile(&h, 0), 0);
	assert_int_equal(hist_percentile(&h, 500), 0);
	assert_int_equal(hist_percentile(&h, 1000), 0);
}

static void percentile_of_one_value_is_that_value(void **state)
{
	static const uint64_t values[] = { 0, 1, 7, 8, 9, 1000, 123456789, 1ull << 44, UINT64_MAX };
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(values); i++) {
		struct hist h = { 0 };

		hist_add(&h, values[i], 1);
		assert_int_equal(hist_percentile(&h, 0), values[i]);
		assert_int_equal(hist_percentile(&h, 1), values[i]);
		assert_int_equal(hist_percentile(&h, 999), values[i]);
		assert_int_equal(hist_percentile(&h, 1000), values[i]);
	}
}

static void small_values_are_exact(void **state)
{
	struct hist h = { 0 };
	uint64_t i;

	(void)state;
	for (i = 0; i < 1000; i++)
		hist_add(&h, i % 8, 1);
	assert_int_equal(hist_percentile(&h, 0), 0);
	assert_int_equal(hist_percentile(&h, 125), 0);
	assert_int_equal(hist_percentile(&h, 126), 1);
	assert_int_equal(hist_percentile(&h, 500), 3);
	assert_int_equal(hist_percentile(&h, 501), 4);
	assert_int_equal(hist_percentile(&h, 875), 6);
	assert_int_equal(hist_percentile(&h, 876), 7);
}

/* "At or below which": a part of a value counts as a whole one. */
static void ranks_are_rounded_up(void **state)
{
	struct hist h = { 0 };

	(void)state;
	hist_add(&h, 1, 1);
	hist_add(&h, 3, 1);
	hist_add(&h, 5, 1);
	assert_int_equal(hist_percentile(&h, 333), 1);
	assert_int_equal(hist_percentile(&h, 334), 3);
	assert_int_equal(hist_percentile(&h, 500), 3);
	assert_int_equal(hist_percentile(&h, 667), 5);
}

static void assert_right_to_a_16th(uint64_t got, uint64_t want)
{
	uint64_t off = got > want ? got - want : want - got;

	if (off > want / 16)
		fail_msg("%llu is not within 1/16 of %llu", (unsigned long long)got,
			 (unsigned long long)want);
}

static void percentiles_of_uniform_values(void **state)
{
	struct hist h = { 0 };
	uint64_t i, before = 0, got;
	unsigned int p;

	(void)state;
	for (i = 1; i <= 100000; i++)
		hist_add(&h, i * 37, 1);
	for (p = 1; p <= 1000; p++) {
		got = hist_percentile(&h, p);
		assert_right_to_a_16th(got, 100ull * p * 37);
		assert_true(got >= before);
		before = got;
	}
	assert_int_equal(hist_percentile(&h, 1000), 3700000);
}

/* All values at one end of a slot is the worst case of every estimate. */
static void percentiles_of_values_at_the_ends_of_slots(void **state)
{
	uint64_t bounds[2];
	unsigned int i, end;

	(void)state;
	for (i = 0; i < HIST_FINE_SLOTS - 1; i++) {
		hist_fine_bounds(i, &bounds[0], &bounds[1]);
		for (end = 0; end < 2; end++) {
			struct hist h = { .count = 1000, .max = 1ull << 50 };

			h.fine[i] = 999;
			h.fine[HIST_FINE_SLOTS - 1] = 1;
			assert_right_to_a_16th(hist_percentile(&h, 1), bounds[end]);
			assert_right_to_a_16th(hist_percentile(&h, 500), bounds[end]);
			assert_right_to_a_16th(hist_percentile(&h, 999), bounds[end]);
			assert_int_equal(hist_percentile(&h, 1000), 1ull << 50);
		}
	}
}

static void percentiles_of_two_kinds(void **state)
{
	struct hist h = { 0 };
	unsigned int i;

	(void)state;
	for (i = 0; i < 990; i++)
		hist_add(&h, 100000, 1);
	for (i = 0; i < 10; i++)
		hist_add(&h, 50000000, 1);
	assert_right_to_a_16th(hist_percentile(&h, 500), 100000);
	assert_right_to_a_16th(hist_percentile(&h, 990), 100000);
	assert_right_to_a_16th(hist_percentile(&h, 991), 50000000);
	assert_int_equal(hist_percentile(&h, 1000), 50000000);
}

static void percentile_is_never_above_max(void **state)
{
	/* 960..1023, and a maximum low in it; then one that belongs to another slot */
	struct hist h = { .count = 100, .max = 962 };

	(void)state;
	h.fine[hist_fine_slot(1000)] = 100;
	assert_int_equal(hist_percentile(&h, 500), 961);
	assert_int_equal(hist_percentile(&h, 1000), 962);
	h.max = 12;
	assert_int_equal(hist_percentile(&h, 500), 12);
}

static void percentile_takes_huge_counts(void **state)
{
	struct hist h = { .max = 7 };

	(void)state;
	h.fine[1] = UINT64_MAX / 2;
	h.fine[7] = UINT64_MAX / 2;
	assert_int_equal(hist_percentile(&h, 499), 1);
	assert_int_equal(hist_percentile(&h, 500), 1);
	assert_int_equal(hist_percentile(&h, 501), 7);
	assert_int_equal(hist_percentile(&h, 1000), 7);
	assert_int_equal(hist_percentile(&h, 5000), 7);
}

static void assert_prints(const struct hist *h, const char *unit, const char *want)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	assert_int_equal(hist_print(h, unit, f), 0);
	fclose(f);
	assert_string_equal(text, want);
	free(text);
}

static void print_nothing_of_an_empty_one(void **state)
{
	struct hist h = { 0 };

	(void)state;
	assert_prints(&h, "nsecs", "");
}

static void print_one_slot(void **state)
{
	struct hist h = { 0 };

	(void)state;
	h.log2[0] = 1;
	assert_prints(&h, "msecs",
		      "     msecs               : count     distribution\n"
		      "         0 -> 1          : 1        |" ROW_BAR "|\n");
}

/* The sample of the manual: twelve reads of 512..1023 ns. */
static void print_shows_leading_empty_slots(void **state)
{
	struct hist h = { 0 };

	(void)state;
	h.log2[9] = 12;
	assert_prints(&h, "nsecs",
		      "     nsecs               : count     distribution\n"
		      "         0 -> 1          : 0        |" ROW_EMPTY "|\n"
		      "         2 -> 3          : 0        |" ROW_EMPTY "|\n"
		      "         4 -> 7          : 0        |" ROW_EMPTY "|\n"
		      "         8 -> 15         : 0        |" ROW_EMPTY "|\n"
		      "        16 -> 31         : 0        |" ROW_EMPTY "|\n"
		      "        32 -> 63         : 0        |" ROW_EMPTY "|\n"
		      "        64 -> 127        : 0        |" ROW_EMPTY "|\n"
		      "       128 -> 255        : 0        |" ROW_EMPTY "|\n"
		      "       256 -> 511        : 0        |" ROW_EMPTY "|\n"
		      "       512 -> 1023       : 12       |" ROW_BAR "|\n");
}

static void print_bars_round_down(void **state)
{
	struct hist h = { 0 };

	(void)state;
	h.log2[0] = 1000000000;
	h.log2[1] = 999999999;
	h.log2[2] = 500000000;
	h.log2[3] = 25000000;
	h.log2[4] = 24999999;
	assert_prints(
	    &h, "usecs",
	    "     usecs               : count     distribution\n"
	    "         0 -> 1          : 1000000000 |****************************************|\n"
	    "         2 -> 3          : 999999999 |*************************************** |\n"
	    "         4 -> 7          : 500000000 |********************                    |\n"
	    "         8 -> 15         : 25000000 |*                                       |\n"
	    "        16 -> 31         : 24999999 |                                        |\n");
}

static void print_takes_huge_counts(void **state)
{
	struct hist h = { 0 };

	(void)state;
	h.log2[0] = UINT64_MAX;
	h.log2[1] = UINT64_MAX / 2 + 40;
	assert_prints(
	    &h, "usecs",
	    "     usecs               : count     distribution\n"
	    "         0 -> 1          : 18446744073709551615 |****************************************|\n"
	    "         2 -> 3          : 9223372036854775847 |********************                    |\n");
}

/* Slot @i of the long picture begins with this. */
static char *lines_of(const struct hist *h, unsigned int from)
{
	char *text = NULL, *line;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	assert_int_equal(hist_print(h, "nsecs", f), 0);
	fclose(f);
	for (line = text; from; from--)
		line = strchr(line, '\n') + 1;
	line = strdup(line);
	assert_non_null(line);
	free(text);
	return line;
}

static void print_is_short_up_to_32_bits(void **state)
{
	struct hist h = { 0 };
	char *text;

	(void)state;
	h.log2[31] = 2;
	text = lines_of(&h, 31);
	assert_string_equal(text, "1073741824 -> 2147483647 : 0        |" ROW_EMPTY "|\n"
				  "2147483648 -> 4294967295 : 2        |" ROW_BAR "|\n");
	free(text);
}

static void print_is_long_above_32_bits(void **state)
{
	struct hist h = { 0 };
	char *text;

	(void)state;
	h.log2[0] = 4;
	h.log2[32] = 2;
	text = lines_of(&h, 31);
	assert_string_equal(
	    text,
	    "          1073741824 -> 2147483647           : 0        |                    |\n"
	    "          2147483648 -> 4294967295           : 0        |                    |\n"
	    "          4294967296 -> 8589934591           : 2        |**********          |\n");
	free(text);

	text = lines_of(&h, 0);
	*strchr(strchr(text, '\n') + 1, '\n') = '\0';
	assert_string_equal(
	    text, "               nsecs                         : count     distribution\n"
		  "                   0 -> 1                    : 4        |********************|");
	free(text);

	h.log2[63] = 1;
	text = lines_of(&h, 64);
	assert_string_equal(
	    text,
	    " 9223372036854775808 -> 18446744073709551615 : 1        |*****               |\n");
	free(text);
}

static void print_to_a_full_disk_fails(void **state)
{
	struct hist h = { 0 };
	FILE *f = fopen("/dev/full", "w");

	(void)state;
	assert_non_null(f);
	setvbuf(f, NULL, _IONBF, 0);
	h.log2[3] = 1;
	assert_int_equal(hist_print(&h, "nsecs", f), -ENOSPC);
	fclose(f);
}

/* The reader goes away in the middle of a picture; a later flush still returns why. */
static void print_to_a_closed_pipe_fails(void **state)
{
	struct hist h = { 0 };
	int fds[2];
	FILE *f;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	f = fdopen(fds[1], "w");
	assert_non_null(f);
	setvbuf(f, NULL, _IOFBF, 256);
	h.log2[63] = 1;
	assert_int_equal(hist_print(&h, "nsecs", f), -EPIPE);
	errno = 0;
	assert_int_equal(hist_print(&h, "nsecs", f), -EPIPE);
	errno = 0;
	assert_int_equal(render_flush(f), -EPIPE);
	errno = ENOENT;
	assert_int_equal(render_flush(f), -EPIPE);
	fclose(f);
}

static void growth_is_what_came_in_between(void **state)
{
	struct hist before = { 0 }, now, grown = { 0 }, all = { 0 };
	uint64_t lo, hi;

	(void)state;
	hist_add(&before, 1000, 1);
	hist_add(&before, 900000, 1);
	now = before;
	hist_add(&now, 1000, 1);
	hist_add(&now, 5000, 1);
	hist_add_growth(&grown, &now, &before);
	assert_int_equal(grown.count, 2);
	assert_int_equal(grown.total, 6000);
	assert_int_equal(grown.fine[hist_fine_slot(1000)], 1);
	assert_int_equal(grown.log2[hist_log2_slot(5000)], 1);
	/* the longest was there before */
	hist_fine_bounds(hist_fine_slot(5000), &lo, &hi);
	assert_int_equal(grown.max, hi);
	hist_add_growth(&grown, &now, &now);
	assert_int_equal(grown.count, 2);
	hist_add_growth(&all, &now, NULL);
	assert_memory_equal(&all, &now, sizeof(now));
}

/* A maximum that another time has overwritten. */
static void test_raise_max(void **state)
{
	struct hist h = { 0 };

	(void)state;
	hist_raise_max(&h);
	assert_int_equal(h.max, 0);
	hist_add(&h, 1000, 1);
	hist_add(&h, 9000, 1);
	hist_raise_max(&h);
	assert_int_equal(h.max, 9000); /* it is known */
	h.max = 1000;
	hist_raise_max(&h);
	assert_int_equal(h.max, 8192); /* the slot of 8192 to 9215 */
	h.max = 9001;
	hist_raise_max(&h);
	assert_int_equal(h.max, 9001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_raise_max),
		cmocka_unit_test(fine_slots_of_known_values),
		cmocka_unit_test(log2_slots_of_known_values),
		cmocka_unit_test(fine_bounds_cover_everything),
		cmocka_unit_test(log2_bounds_cover_everything),
		cmocka_unit_test(values_near_powers_lie_within_their_bounds),
		cmocka_unit_test(add_counts_in_both_resolutions),
		cmocka_unit_test(log2_from_fine_is_what_adding_gives),
		cmocka_unit_test(percentile_of_nothing_is_zero),
		cmocka_unit_test(percentile_of_one_value_is_that_value),
		cmocka_unit_test(small_values_are_exact),
		cmocka_unit_test(ranks_are_rounded_up),
		cmocka_unit_test(percentiles_of_uniform_values),
		cmocka_unit_test(percentiles_of_values_at_the_ends_of_slots),
		cmocka_unit_test(percentiles_of_two_kinds),
		cmocka_unit_test(percentile_is_never_above_max),
		cmocka_unit_test(percentile_takes_huge_counts),
		cmocka_unit_test(print_nothing_of_an_empty_one),
		cmocka_unit_test(print_one_slot),
		cmocka_unit_test(print_shows_leading_empty_slots),
		cmocka_unit_test(print_bars_round_down),
		cmocka_unit_test(print_takes_huge_counts),
		cmocka_unit_test(print_is_short_up_to_32_bits),
		cmocka_unit_test(print_is_long_above_32_bits),
		cmocka_unit_test(print_to_a_full_disk_fails),
		cmocka_unit_test(print_to_a_closed_pipe_fails),
		cmocka_unit_test(growth_is_what_came_in_between),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
