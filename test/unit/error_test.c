/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/error.h"

static void test_fills_and_returns(void **state)
{
	struct error err;

	(void)state;
	memset(&err, 'x', sizeof(err));
	assert_int_equal(error_set(&err, STATUS_USAGE, -EINVAL, "bad %s %d", "thing", 7), -EINVAL);
	assert_int_equal(err.status, STATUS_USAGE);
	assert_string_equal(err.what, "bad thing 7");
	assert_string_equal(err.hint, "");
	error_hint(&err, "give %d", 8);
	assert_string_equal(err.hint, "give 8");
	assert_string_equal(err.what, "bad thing 7");
	error_set(&err, STATUS_FAILED, -EIO, "next");
	assert_string_equal(err.hint, "");
}

static void test_null(void **state)
{
	(void)state;
	assert_int_equal(error_set(NULL, STATUS_FAILED, -EIO, "not stored: %s", "this"), -EIO);
	error_hint(NULL, "nor %s", "this");
}

static void test_long_text_is_cut(void **state)
{
	struct error err;
	char text[1000];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	error_set(&err, STATUS_FAILED, -EIO, "%s", text);
	error_hint(&err, "%s", text);
	assert_int_equal(strlen(err.what), sizeof(err.what) - 1);
	assert_int_equal(strlen(err.hint), sizeof(err.hint) - 1);
}

static void test_drives_no_terminal(void **state)
{
	struct error err;

	(void)state;
	error_set(&err, STATUS_FAILED, -EIO, "%s",
		  "a\nb\x1b[2J \xc3\xb6 \xe2\x80\xae U+202E \xc2\x9b U+009B \xff\xe2\x82");
	assert_string_equal(err.what, "a?b?[2J \xc3\xb6 ? U+202E ? U+009B ???");
}

/* For each length of character and each place of the cut within it. */
static void test_cut_at_character(void **state)
{
	static const char *const characters[] = { "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x90\xa7" };
	struct error err;
	char text[1000];

	(void)state;
	for (size_t c = 0; c < 3; c++) {
		size_t size = strlen(characters[c]);

		for (size_t shift = 0; shift < size; shift++) {
			size_t len = shift, room = sizeof(err.what) - 1;

			memset(text, 'a', shift);
			for (; len + size < sizeof(text); len += size)
				memcpy(text + len, characters[c], size);
			text[len] = '\0';
			error_set(&err, STATUS_FAILED, -EIO, "%s", text);
			assert_int_equal(strlen(err.what), room - (room - shift) % size);
			assert_memory_equal(err.what, text, strlen(err.what));
		}
	}
}

static void test_short_text_is_whole(void **state)
{
	struct error err;

	(void)state;
	error_set(&err, STATUS_FAILED, -EIO, "B\xc3\xbcro \xe2\x82\xac");
	assert_string_equal(err.what, "B\xc3\xbcro \xe2\x82\xac");
	error_set(&err, STATUS_FAILED, -EIO, "%s", "");
	assert_string_equal(err.what, "");
}

static void test_one_line(void **state)
{
	struct error err;

	(void)state;
	error_set(&err, STATUS_FAILED, -EIO, "a\nb\033[2J\x7f");
	error_hint(&err, "c\r\td");
	assert_string_equal(err.what, "a?b?[2J?");
	assert_string_equal(err.hint, "c??d");
}

static void test_own_text_as_argument(void **state)
{
	struct error err;

	(void)state;
	error_set(&err, STATUS_FAILED, -EIO, "cause");
	error_set(&err, STATUS_UNSUPPORTED, -EPERM, "cannot attach: %s", err.what);
	assert_string_equal(err.what, "cannot attach: cause");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fills_and_returns),
		cmocka_unit_test(test_null),
		cmocka_unit_test(test_drives_no_terminal),
		cmocka_unit_test(test_long_text_is_cut),
		cmocka_unit_test(test_cut_at_character),
		cmocka_unit_test(test_short_text_is_whole),
		cmocka_unit_test(test_one_line),
		cmocka_unit_test(test_own_text_as_argument),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
