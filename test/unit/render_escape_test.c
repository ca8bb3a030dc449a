/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "output/render.h"

static void assert_escapes(const char *text, const char *want)
{
	char buf[256];

	assert_ptr_equal(render_escape(text, buf, sizeof(buf)), buf);
	assert_string_equal(buf, want);
}

static void every_single_byte(void **state)
{
	char text[2] = "", want[8];
	int c;

	(void)state;
	assert_escapes("", "");
	for (c = 1; c < 256; c++) {
		text[0] = (char)c;
		if (c == '\\')
			snprintf(want, sizeof(want), "\\\\");
		else if (c >= 0x20 && c <= 0x7e)
			snprintf(want, sizeof(want), "%c", c);
		else
			snprintf(want, sizeof(want), "\\x%02x", c);
		assert_escapes(text, want);
	}
}

static void valid_utf8_stays(void **state)
{
	(void)state;
	assert_escapes("K\xc3\xb6ln", "K\xc3\xb6ln");
	assert_escapes("\xc2\xa0", "\xc2\xa0");			/* U+00A0 */
	assert_escapes("\xdf\xbf", "\xdf\xbf");			/* U+07FF */
	assert_escapes("\xe0\xa0\x80", "\xe0\xa0\x80");		/* U+0800 */
	assert_escapes("\xed\x9f\xbf", "\xed\x9f\xbf");		/* U+D7FF */
	assert_escapes("\xee\x80\x80", "\xee\x80\x80");		/* U+E000 */
	assert_escapes("\xf0\x90\x80\x80", "\xf0\x90\x80\x80"); /* U+10000 */
	assert_escapes("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"); /* U+10FFFF */
}

static void malformed_utf8_is_escaped(void **state)
{
	(void)state;
	assert_escapes("\xc0\x80", "\\xc0\\x80");		    /* overlong NUL */
	assert_escapes("\xc1\xbf", "\\xc1\\xbf");		    /* overlong */
	assert_escapes("\xe0\x9f\xbf", "\\xe0\\x9f\\xbf");	    /* overlong */
	assert_escapes("\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf"); /* overlong */
	assert_escapes("\xed\xa0\x80", "\\xed\\xa0\\x80");	    /* surrogate */
	assert_escapes("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* above U+10FFFF */
	assert_escapes("\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80");
	assert_escapes("\x80", "\\x80");
	assert_escapes("\xbf"
		       "a",
		       "\\xbfa");
	assert_escapes("\xc3", "\\xc3"); /* cut by the end, as a comm of 15 bytes may be */
	assert_escapes("\xe2\x82", "\\xe2\\x82");
	assert_escapes("\xf0\x9f\x98", "\\xf0\\x9f\\x98");
	assert_escapes("\xe2\x82z", "\\xe2\\x82z");
	assert_escapes("\xe2\xc3\xb6", "\\xe2\xc3\xb6"); /* goes on with what follows */
}

/* A terminal may take U+009B for the start of a control sequence. */
static void utf8_controls_are_escaped(void **state)
{
	(void)state;
	assert_escapes("\xc2\x80", "\\xc2\\x80");
	assert_escapes("\xc2\x9b"
		       "31m",
		       "\\xc2\\x9b31m");
	assert_escapes("\xc2\x9f", "\\xc2\\x9f");
	assert_escapes("\033[31m", "\\x1b[31m");
}

/* Format characters and line separators: the first and the last of each range, and the characters
 * before and after it. */
static void format_characters_are_escaped(void **state)
{
	(void)state;
	assert_escapes("a\xe2\x80\xaegnp.exe", "a\\xe2\\x80\\xaegnp.exe"); /* U+202E */
	assert_escapes("\xc2\xad", "\\xc2\\xad");			   /* U+00AD */
	assert_escapes("\xd8\x9c", "\\xd8\\x9c");			   /* U+061C */
	assert_escapes("\xe2\x80\x8a", "\xe2\x80\x8a");			   /* U+200A */
	assert_escapes("\xe2\x80\x8b", "\\xe2\\x80\\x8b");		   /* U+200B */
	assert_escapes("\xe2\x80\x8f", "\\xe2\\x80\\x8f");		   /* U+200F */
	assert_escapes("\xe2\x80\x90", "\xe2\x80\x90");			   /* U+2010 */
	assert_escapes("\xe2\x80\xa7", "\xe2\x80\xa7");			   /* U+2027 */
	assert_escapes("\xe2\x80\xa8", "\\xe2\\x80\\xa8");		   /* U+2028 */
	assert_escapes("\xe2\x80\xaf", "\xe2\x80\xaf");			   /* U+202F */
	assert_escapes("\xe2\x81\x9f", "\xe2\x81\x9f");			   /* U+205F */
	assert_escapes("\xe2\x81\xa0", "\\xe2\\x81\\xa0");		   /* U+2060 */
	assert_escapes("\xe2\x81\xaf", "\\xe2\\x81\\xaf");		   /* U+206F */
	assert_escapes("\xe2\x81\xb0", "\xe2\x81\xb0");			   /* U+2070 */
	assert_escapes("\xef\xbb\xbf", "\\xef\\xbb\\xbf");		   /* U+FEFF */
	assert_escapes("\xf3\xa0\x80\x81", "\\xf3\\xa0\\x80\\x81");	   /* U+E0001 */
	assert_escapes("\xf3\xa0\x81\xbf", "\\xf3\\xa0\\x81\\xbf");	   /* U+E007F */
	assert_escapes("\xf3\xa0\x82\x80", "\xf3\xa0\x82\x80");		   /* U+E0080 */
}

static void escapes_are_unambiguous(void **state)
{
	(void)state;
	assert_escapes("\\x0a", "\\\\x0a");
	assert_escapes("\n", "\\x0a");
	assert_escapes("\"a,b\"", "\"a,b\"");
}

/* For every size the longest whole part that fits, and not a byte behind it. */
static void cut_between_characters(void **state)
{
	static const char text[] = "a\n\xc3\xb6\\z";
	static const char want[] = "a\\x0a\xc3\xb6\\\\z";
	static const size_t ends[] = { 0, 1, 1, 1, 1, 5, 5, 7, 7, 9, 10 };
	char buf[32];
	size_t size, i;

	(void)state;
	for (size = 1; size <= sizeof(want); size++) {
		memset(buf, '#', sizeof(buf));
		render_escape(text, buf, size);
		assert_int_equal(strlen(buf), ends[size - 1]);
		assert_memory_equal(buf, want, ends[size - 1]);
		for (i = size; i < sizeof(buf); i++)
			assert_int_equal(buf[i], '#');
	}
	buf[0] = '#';
	assert_ptr_equal(render_escape(text, buf, 0), buf);
	assert_int_equal(buf[0], '#');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_single_byte),
		cmocka_unit_test(valid_utf8_stays),
		cmocka_unit_test(malformed_utf8_is_escaped),
		cmocka_unit_test(utf8_controls_are_escaped),
		cmocka_unit_test(format_characters_are_escaped),
		cmocka_unit_test(escapes_are_unambiguous),
		cmocka_unit_test(cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
