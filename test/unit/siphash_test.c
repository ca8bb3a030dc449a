/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/siphash.h"

/* Of the authors' vectors: the key 00 01 ... 0f, the messages of 0, 8 and 15 bytes 00 01 ... */
static void test_vectors(void **state)
{
	const struct siphash_key key = { { 0x0706050403020100, 0x0f0e0d0c0b0a0908 } };
	const unsigned char bytes[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 };

	(void)state;
	assert_true(siphash(&key, bytes, 0) == 0x726fdb47dd0e0e31);
	assert_true(siphash(&key, bytes, 8) == 0x93f5f5799a932462);
	assert_true(siphash(&key, bytes, 15) == 0xa129ca6149be45e5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
