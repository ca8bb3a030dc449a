/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Needs bpf(2) and addresses that are not hidden; without them it is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/bpf/find_symbols.h"
#include "core/system/kallsyms.h"

#define NAMES 4

/* The witness: /proc/kallsyms. */
static void test_same_as_file(void **state)
{
	static const char *const names[NAMES] = { "schedule", "no_such_function", "submit_bio",
						  "ksys_read" };
	uint64_t found[NAMES] = { 0 }, read[NAMES] = { 0 };
	int n = find_symbols(names, found, NAMES);

	(void)state;
	if (n < 0 || kallsyms_find(NULL, names, read, NAMES) <= 0)
		skip();
	assert_int_equal(n, 3);
	for (int i = 0; i < NAMES; i++)
		assert_int_equal(found[i], read[i]);
	assert_int_equal(found[1], 0);
	assert_int_not_equal(found[0], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_same_as_file) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
