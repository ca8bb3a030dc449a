/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/system/users.h"

static void test_names(void **state)
{
	static const char text[] =
	    "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
	    "toor:x:0:0::/root:/bin/sh\nno entry\nlast:x:7:7::/:";
	char path[] = "/tmp/users_test.XXXXXX";
	int fd = mkstemp(path);
	struct users *u;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	assert_int_equal(users_open(path, &u), 0);
	unlink(path);
	assert_string_equal(users_name(u, 0), "root");
	assert_string_equal(users_name(u, 65534), "nobody");
	assert_string_equal(users_name(u, 7), "last");
	assert_string_equal(users_name(u, 4294967294U), "4294967294");
	assert_ptr_equal(users_name(u, 12), users_name(u, 12));
	users_free(u);
}

static void test_no_file(void **state)
{
	struct users *u;

	(void)state;
	assert_int_equal(users_open("/nonexistent", &u), 0);
	assert_string_equal(users_name(u, 0), "0");
	users_free(u);
	users_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
