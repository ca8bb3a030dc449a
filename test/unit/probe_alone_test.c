/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Adding to the counters of one CPU, interrupted where the compiler may move nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What probes/alone.bpf.h takes from programs. */
#define IOTRACE_PROBES_SPARE_BPF_H
#define barrier() interrupt()
typedef uint64_t u64;
typedef uint32_t u32;

static bool has_spares;
static void interrupt(void);

#include "probes/alone.bpf.h"

static struct {
	u64 busy, own, elsewhere;
	unsigned int depth, interrupts;
} cpu;

static void count(void)
{
	if (begin_alone(&cpu.busy)) {
		add64(&cpu.own, 1, true);
		end_alone(&cpu.busy);
	} else {
		add64(&cpu.elsewhere, 1, false);
	}
}

static void interrupt(void)
{
	if (cpu.depth++ == 0) {
		cpu.interrupts++;
		count();
	}
	cpu.depth--;
}

static int reset(void **state)
{
	(void)state;
	has_spares = false;
	cpu.busy = cpu.own = cpu.elsewhere = 0;
	cpu.interrupts = 0;
	return 0;
}

static void test_interrupted(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 3; i++)
		count();
	assert_int_equal(cpu.interrupts, 6); /* before the first addition and behind the last */
	assert_int_equal(cpu.own, 3);
	assert_int_equal(cpu.elsewhere, 6);
	assert_int_equal(cpu.busy, 0);
}

static void test_preempted(void **state)
{
	(void)state;
	has_spares = true;
	count();
	assert_int_equal(cpu.interrupts, 0);
	assert_int_equal(cpu.own, 0);
	assert_int_equal(cpu.elsewhere, 1);
	assert_int_equal(cpu.busy, 0);
}

static void test_additions(void **state)
{
	u64 wide = 1;
	u32 narrow = UINT32_MAX;

	(void)state;
	add64(&wide, 1ull << 40, true);
	add64(&wide, 1ull << 40, false);
	assert_int_equal(wide, (1ull << 41) + 1);
	add32(&narrow, 3, true);
	add32(&narrow, 4, false);
	assert_int_equal(narrow, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_interrupted, reset),
		cmocka_unit_test_setup(test_preempted, reset),
		cmocka_unit_test(test_additions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
