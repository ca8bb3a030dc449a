// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "core/naming/users.h"

static struct users *users_of(const char *text)
{
	char path[] = "/tmp/iotrace-users-XXXXXX";
	int fd = mkstemp(path);
	struct users *u;

	assert_true(fd >= 0);
	assert_true(dprintf(fd, "%s", text) >= 0);
	close(fd);
	assert_int_equal(users_open(path, &u), 0);
	unlink(path);
	return u;
}

static void test_names(void **state)
{
	struct users *u = users_of("root:x:0:0::/root:/bin/sh\n"
				   "first:x:7:7::/:\nsecond:x:7:7::/:\n"
				   "max:x:4294967294:1::/:\n");

	(void)state;
	assert_string_equal(users_name(u, 0), "root");
	assert_string_equal(users_name(u, 7), "first");
	assert_string_equal(users_name(u, 4294967294U), "max");
	assert_string_equal(users_name(u, 8), "8");
	assert_ptr_equal(users_name(u, 8), users_name(u, 8));
	users_free(u);
}

static void test_no_file(void **state)
{
	struct users *u;

	(void)state;
	assert_int_equal(users_open("/dev/null/none", &u), 0);
	assert_string_equal(users_name(u, 0), "0");
	users_free(u);
}

static void test_room(void **state)
{
	struct users *u = users_of("");

	(void)state;
	for (uint32_t uid = 0; uid < USERS_MAX; uid++)
		users_name(u, uid);
	assert_string_equal(users_name(u, USERS_MAX), "user:?");
	assert_string_equal(users_name(u, 5), "5");
	users_free(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
