/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/system/cpus.h"

static const struct {
	const char *text;
	uint32_t n;
} lists[] = {
	{ "0", 1 },
	{ "0\n", 1 },
	{ "0-1", 2 },
	{ "0-1\n", 2 },
	{ "0-3,8-11", 12 },
	{ "0-3,8-11\n", 12 },
	{ "0-3,8", 9 },
	{ "0,2,4", 5 },
	{ "1", 2 }, /* CPU 0 is not there, its place in the array is */
	{ "0-255", 256 },
	{ "0-1023,2048-4095", 4096 },
	{ "0-65535", 65536 },
	{ "8-11,0-3", 12 }, /* in whatever order */
	/* none */
	{ "", 0 },
	{ "\n", 0 },
	{ " 0-3", 0 },
	{ "-3", 0 },
	{ ",3", 0 },
	{ "+1", 0 },
	{ "x", 0 },
	{ "0x3", 0 },
	{ "0-x", 0 },
	{ "0-", 0 },
	{ "0,", 0 },
	{ "0-3,\n", 0 },
	{ "0-3x", 0 },
	{ "0-3 ", 0 },
	{ "0 - 3", 0 },
	{ "0--3", 0 },
	{ "0,,3", 0 },
	{ "0-3;8", 0 },
	{ "(null)", 0 },
	/* beyond any machine: an array of that size is not made */
	{ "0-65536", 0 },
	{ "65536,0-1", 0 },
	{ "0-4294967295", 0 },
	{ "0-4294967296", 0 },
	{ "0-18446744073709551615", 0 },
	{ "0-18446744073709551616", 0 },
	{ "99999999999999999999999999999999999999", 0 },
};

static void test_lists(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		uint32_t n = cpus_parse_list(lists[i].text);

		if (n != lists[i].n)
			fail_msg("'%s' is %u, not %u", lists[i].text, n, lists[i].n);
	}
}

/* A machine with every second CPU of many. */
static void test_long_list(void **state)
{
	char text[4096];
	size_t len = 0;

	(void)state;
	for (unsigned int cpu = 0; cpu < 1000; cpu += 2)
		len +=
		    (size_t)snprintf(text + len, sizeof(text) - len, "%s%u", cpu ? "," : "", cpu);
	assert_int_equal(cpus_parse_list(text), 999);
}

static void test_this_machine(void **state)
{
	uint32_t n = cpus_possible();

	(void)state;
	assert_true(n >= 1);
	assert_true(n >= (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
	assert_int_equal(cpus_possible(), n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_long_list),
		cmocka_unit_test(test_this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
