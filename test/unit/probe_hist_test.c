/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The probes and output/ agree about the limits of the histograms' slots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "output/hist.h"
#include "probes/breakdown_blk.h"

static void same(uint64_t value)
{
	uint32_t fine = probe_fine_slot(value), log2 = probe_log2(value);

	if (fine != hist_fine_slot(value))
		fail_msg("fine slot of %llu: %u in the probes, %u in output/",
			 (unsigned long long)value, fine, hist_fine_slot(value));
	if (log2 != hist_log2_slot(value))
		fail_msg("log2 slot of %llu: %u in the probes, %u in output/",
			 (unsigned long long)value, log2, hist_log2_slot(value));
	assert_true(fine < PROBE_FINE_SLOTS);
	assert_true(log2 < PROBE_LOG2_SLOTS);
}

static void test_sizes(void **state)
{
	(void)state;
	assert_int_equal(PROBE_FINE_BITS, HIST_FINE_BITS);
	assert_int_equal(PROBE_FINE_SLOTS, HIST_FINE_SLOTS);
	assert_int_equal(PROBE_LOG2_SLOTS, HIST_LOG2_SLOTS);
}

static void test_known(void **state)
{
	(void)state;
	assert_int_equal(probe_log2(0), 0);
	assert_int_equal(probe_log2(1), 0);
	assert_int_equal(probe_log2(2), 1);
	assert_int_equal(probe_log2(1023), 9);
	assert_int_equal(probe_log2(1024), 10);
	assert_int_equal(probe_log2(UINT64_MAX), 63);
	assert_int_equal(probe_fine_slot(7), 7);
	assert_int_equal(probe_fine_slot(17), 16);
	assert_int_equal(probe_fine_slot(1000), 63);
	assert_int_equal(probe_fine_slot(1ull << 44), 335);
	assert_int_equal(probe_fine_slot(UINT64_MAX), 335);
}

static void test_small(void **state)
{
	(void)state;
	for (uint64_t value = 0; value <= 10000; value++)
		same(value);
}

static void test_powers(void **state)
{
	(void)state;
	for (unsigned int bit = 0; bit < 64; bit++) {
		same((1ull << bit) - 1);
		same(1ull << bit);
		same((1ull << bit) + 1);
	}
	same(UINT64_MAX);
}

/* Both ends of every slot, and what lies just outside. */
static void test_bounds(void **state)
{
	uint64_t lo, hi;

	(void)state;
	for (unsigned int slot = 0; slot < HIST_FINE_SLOTS; slot++) {
		hist_fine_bounds(slot, &lo, &hi);
		assert_int_equal(probe_fine_slot(lo), slot);
		assert_int_equal(probe_fine_slot(hi), slot);
		same(lo - 1); /* of 0: the largest there is */
		same(hi + 1);
	}
	for (unsigned int slot = 0; slot < HIST_LOG2_SLOTS; slot++) {
		hist_log2_bounds(slot, &lo, &hi);
		assert_int_equal(probe_log2(lo), slot);
		assert_int_equal(probe_log2(hi), slot);
	}
}

/* xorshift64: the same numbers each time; cut to every length. */
static void test_random(void **state)
{
	uint64_t value = 88172645463325252ull;

	(void)state;
	for (unsigned int i = 0; i < 1000000; i++) {
		value ^= value << 13;
		value ^= value >> 7;
		value ^= value << 17;
		same(value >> (i % 64));
	}
}

/* Every CPU, buffer and operation has a histogram of its own, without gaps. */
static void test_index(void **state)
{
	unsigned char used[8 * 2 * BLK_OPS] = { 0 };

	(void)state;
	for (unsigned int cpu = 0; cpu < 8; cpu++)
		for (unsigned int epoch = 6; epoch < 8; epoch++)
			for (unsigned int op = 0; op < BLK_OPS; op++) {
				unsigned int i = HIST_INDEX(BLK_OPS, cpu, epoch, op);

				assert_true(i < sizeof(used));
				assert_int_equal(used[i]++, 0);
				assert_int_equal(HIST_INDEX(BLK_OPS, cpu, epoch + 2, op), i);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),  cmocka_unit_test(test_known),
		cmocka_unit_test(test_small),  cmocka_unit_test(test_powers),
		cmocka_unit_test(test_bounds), cmocka_unit_test(test_random),
		cmocka_unit_test(test_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
