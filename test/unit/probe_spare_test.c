/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One of an event's programs does the work, whichever others the kernel skips. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/bpf.h>

/* What probes/spare.bpf.h takes from probes/kernel.h. */
#define IOTRACE_PROBES_KERNEL_H
#define SEC(name)
/* NOLINTBEGIN(bugprone-macro-parentheses): they declare a name */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
/* NOLINTEND(bugprone-macro-parentheses) */
#define barrier_var(var)		((void)(var))
#define bpf_map_lookup_elem(map, index) ((void)(map), &slots[*(index)])
typedef uint64_t u64;
typedef uint32_t u32;

static u64 slots[3 << 15];

#include "probes/spare.bpf.h"

static uint64_t context, object;

/* An event at which the programs of the bits @run are not skipped.  Returns which did the work. */
static unsigned int event(unsigned int run, const void *of)
{
	unsigned int worked = 0;
	u64 hits = spare_hits;

	for (u32 i = 0; i < SPARE_PROGS; i++) {
		if (!(run & 1U << i) || !program_runs(&context, SEEN_ISSUE, (u64)of, i))
			continue;
		assert_int_equal(program_before(&context, SEEN_ISSUE, (u64)of), i);
		worked |= 1U << i;
	}
	assert_int_equal(spare_hits - hits, (worked & ~1U) != 0);
	return worked;
}

static unsigned int first_of(unsigned int run)
{
	return run & -run;
}

/* The first one that runs does; at the next event of the same object those behind the last mark
 * take it for a mark of theirs. */
static void test_all_subsets(void **state)
{
	const unsigned int n = 1U << SPARE_PROGS;

	(void)state;
	for (unsigned int a = 0; a < n; a++) {
		for (unsigned int b = 0; b < n; b++) {
			for (u32 i = 0; i < SEEN_SLOTS; i++)
				*seen_slot(seen_hash(&context), i) = 0;
			assert_int_equal(event(a, &object), first_of(a));
			assert_int_equal(event(b, &object), a && first_of(b) > a ? 0 : first_of(b));
			assert_int_equal(event(b, &context), first_of(b));
		}
	}
}

/* One of the three slots is enough. */
static void test_lost_slot(void **state)
{
	(void)state;
	for (u32 lost = 0; lost < SEEN_SLOTS; lost++) {
		assert_true(program_runs(&context, SEEN_ADD, 1 << 3, 0));
		*seen_slot(seen_hash(&context), lost) = 0;
		*seen_slot(seen_hash(&context), (lost + 1) % SEEN_SLOTS) = ~0ull;
		assert_false(program_runs(&context, SEEN_ADD, 1 << 3, 1));
		assert_int_equal(program_before(&context, SEEN_ADD, 1 << 3), 1);
	}
}

static void test_stopped(void **state)
{
	(void)state;
	stopped = 1;
	assert_int_equal(event((1U << SPARE_PROGS) - 1, &object), 0);
	assert_true(program_runs(&context, SEEN_TASK, 0, 0));
	stopped = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_subsets),
		cmocka_unit_test(test_lost_slot),
		cmocka_unit_test(test_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
