/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/parse.h"

#define UNTOUCHED 0x5a5a5a5a5a5a5a5aull

static const char *const no_numbers[] = {
	"",
	"5x",
	"-1",
	"+1",
	" 1",
	"1 ",
	"0x10",
	"1e3",
	"1,5",
	"x",
	"1\n",
	"1.2.3",
	"-",
	"--1",
	"\t1",
	"inf",
	"nan",
	"\xd9\xa1",
	"99999999999999999999999x",
};

static void test_u64_good(void **state)
{
	static const struct {
		const char *text;
		uint64_t min, max, value;
	} good[] = {
		{ "0", 0, 10, 0 },
		{ "1", 1, 1, 1 },
		{ "007", 0, 10, 7 },
		{ "4095", 0, 4095, 4095 },
		{ "18446744073709551615", 0, UINT64_MAX, UINT64_MAX },
		{ "00000000000000000000000000000000000000042", 0, UINT64_MAX, 42 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		uint64_t value = UNTOUCHED;

		assert_int_equal(
		    parse_u64("COUNT", good[i].text, good[i].min, good[i].max, &value, NULL), 0);
		assert_true(value == good[i].value);
	}
}

static void refused_u64(const char *text, uint64_t min, uint64_t max, int rc)
{
	struct error err = { 0 };
	uint64_t value = UNTOUCHED;

	assert_int_equal(parse_u64("COUNT", text, min, max, &value, &err), rc);
	assert_true(value == UNTOUCHED);
	assert_int_equal(err.status, STATUS_USAGE);
	assert_non_null(strstr(err.what, "invalid COUNT '"));
	assert_true(err.hint[0]);
	assert_int_equal(parse_u64("COUNT", text, min, max, &value, NULL), rc);
	assert_true(value == UNTOUCHED);
}

static void test_u64_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(no_numbers) / sizeof(*no_numbers); i++)
		refused_u64(no_numbers[i], 0, UINT64_MAX, -EINVAL);
	refused_u64("1.5", 0, UINT64_MAX, -EINVAL);
	refused_u64(".", 0, UINT64_MAX, -EINVAL);
	refused_u64("0", 1, 10, -ERANGE);
	refused_u64("11", 1, 10, -ERANGE);
	refused_u64("18446744073709551616", 0, UINT64_MAX, -ERANGE);
	refused_u64("18446744073709551617", 0, 10, -ERANGE);
	refused_u64("99999999999999999999999999999999", 0, UINT64_MAX, -ERANGE);
}

static void test_u64_messages(void **state)
{
	struct error err;
	uint64_t value;

	(void)state;
	parse_u64("COUNT", "5x", 1, UINT64_MAX, &value, &err);
	assert_string_equal(err.what, "invalid COUNT '5x': not a whole number");
	assert_string_equal(err.hint, "give a whole number, 1 or more");
	parse_u64("ROWS", "0", 1, 500, &value, &err);
	assert_string_equal(err.what, "invalid ROWS '0': less than 1");
	assert_string_equal(err.hint, "give a whole number from 1 to 500");
	parse_u64("ROWS", "501", 1, 500, &value, &err);
	assert_string_equal(err.what, "invalid ROWS '501': more than 500");
}

static void test_seconds_good(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{ "1", 1000000000ull },
		{ "0.25", 250000000ull },
		{ ".5", 500000000ull },
		{ "01.50", 1500000000ull },
		{ "0.000000001", 1 },
		{ "3.000000000", 3000000000ull },
		{ "86400", 86400000000000ull },
		{ "123456789.987654321", 123456789987654321ull },
		{ "315360000", 315360000000000000ull },
		{ "315360000.000000000", 315360000000000000ull },
		{ "5s", 5000000000ull },
		{ "10ms", 10000000ull },
		{ "0.5us", 500 },
		{ "7ns", 7 },
		{ "1.5m", 90000000000ull },
		{ "1h", 3600000000000ull },
		{ "3650d", 315360000000000000ull },
		{ ".25d", 21600000000000ull },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		uint64_t ns = UNTOUCHED;

		assert_int_equal(parse_seconds("INTERVAL", good[i].text, &ns, NULL), 0);
		assert_true(ns == good[i].ns);
	}
}

static void refused_seconds(const char *text, int rc)
{
	struct error err = { 0 };
	uint64_t ns = UNTOUCHED;

	assert_int_equal(parse_seconds("INTERVAL", text, &ns, &err), rc);
	assert_true(ns == UNTOUCHED);
	assert_int_equal(err.status, STATUS_USAGE);
	assert_string_equal(err.hint, "give a time such as 1, 0.5, 10ms or 1h");
	assert_int_equal(parse_seconds("INTERVAL", text, &ns, NULL), rc);
	assert_true(ns == UNTOUCHED);
}

static void test_seconds_bad(void **state)
{
	static const char *const bad[] = { ".",	   "1.",   "..",   "1..2",	   ".x",
					   "1.x",  "1.5x", "-.5",  "1 s",	   "5S",
					   "5sec", "s",	   "ms",   "1h30",	   "1hm",
					   "5.s",  "1. 5", "1.-5", "0.0000000001", "1.0000000000" };
	static const char *const out_of_range[] = {
		"0",
		"0.0",
		".0",
		"0.000000000",
		"000",
		"315360001",
		"315360000.000000001",
		"3650.000001d",
		"0.4ns",
		"87601h",
		"340282366920938463463374607431768211457d",
		"18446744074",
		"18446744073709551616",
		"18446744073709551617.5",
		"99999999999999999999999999999999999999999",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(no_numbers) / sizeof(*no_numbers); i++)
		refused_seconds(no_numbers[i], -EINVAL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		refused_seconds(bad[i], -EINVAL);
	for (size_t i = 0; i < sizeof(out_of_range) / sizeof(*out_of_range); i++)
		refused_seconds(out_of_range[i], -ERANGE);
}

static void test_seconds_messages(void **state)
{
	static const struct {
		const char *text, *what;
	} cases[] = {
		{ "5x", "invalid INTERVAL '5x': not a time" },
		{ "", "invalid INTERVAL '': not a time" },
		{ "0", "invalid INTERVAL '0': must be more than 0" },
		{ "1.0123456789", "invalid INTERVAL '1.0123456789': more than 9 decimals" },
		{ "999999999", "invalid INTERVAL '999999999': more than 10 years" },
	};
	struct error err;
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		parse_seconds("INTERVAL", cases[i].text, &ns, &err);
		assert_string_equal(err.what, cases[i].what);
	}
}

static void test_ms(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{ "0", 0 },	      { "10", 10000000 }, { "0.5", 500000 },
		{ "1s", 1000000000 }, { "20us", 20000 },
	};
	struct error err;
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(parse_ms("-m", good[i].text, &ns, NULL), 0);
		assert_true(ns == good[i].ns);
	}
	assert_int_equal(parse_ms("-m", "5x", &ns, &err), -EINVAL);
	assert_string_equal(err.what, "invalid -m '5x': not a time");
	assert_string_equal(err.hint,
			    "give milliseconds such as 10 or 0.5, a time such as 1s, or 0 for all");
}

static void test_moments(void **state)
{
	static const uint64_t s = 1000000000,
			      date = 1795824000ull * 1000000000; /* 2026-11-28, UTC */
	const struct {
		const char *text;
		struct moment moment;
	} good[] = {
		{ "03:12", { MOMENT_CLOCK, 11520 * s } },
		{ "3:12:30", { MOMENT_CLOCK, 11550 * s } },
		{ "00:00", { MOMENT_CLOCK, 0 } },
		{ "23:59:59", { MOMENT_CLOCK, 86399 * s } },
		{ "2026-11-28", { MOMENT_DATE, date } },
		{ "2026-11-28 03:12", { MOMENT_DATE, date + 11520 * s } },
		{ "2026-11-28T03:12:30", { MOMENT_DATE, date + 11550 * s } },
		{ "2026-11-28 03:12Z", { MOMENT_UTC, date + 11520 * s } },
		{ "2026-11-28T03:12:30Z", { MOMENT_UTC, date + 11550 * s } },
		{ "2028-02-29 00:00:01", { MOMENT_DATE, 1835395201 * s } },
		{ "-90m", { MOMENT_BEFORE_END, 5400 * s } },
		{ "-0.5", { MOMENT_BEFORE_END, s / 2 } },
	};
	static const char *const bad[] = {
		"",
		"x",
		"24:00",
		"03:60",
		"03:12:60",
		"03:12:61",
		"03:12 ",
		"03:12Z",
		"2026-11-28Z",
		"2026-11-28 Z",
		"2026-11-28 03:12:300Z",
		"2026-11-28 03:12ZZ",
		"3",
		"-",
		"--1",
		"-x",
		"2026-11-31",
		"2026-02-29",
		"2026-13-01",
		"26-11-28",
		"1969-12-31",
		"2026-11-28 03:12x",
		"2026-11-28,03:12",
		"2026-11-28 24:00",
		"2026-11-28 ",
		"-0",
		"2026-11",
		"20261128",
		"+90m",
		"now",
	};
	struct moment moment = { MOMENT_NONE, UNTOUCHED };
	struct error err;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(parse_moment("--begin", good[i].text, &moment, NULL), 0);
		assert_int_equal(moment.kind, good[i].moment.kind);
		assert_true(moment.ns == good[i].moment.ns);
	}
	moment.ns = UNTOUCHED;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(parse_moment("--begin", bad[i], &moment, &err), -EINVAL);
		assert_int_equal(err.status, STATUS_USAGE);
		assert_non_null(strstr(err.hint, "2026-11-28 03:12"));
		assert_true(moment.ns == UNTOUCHED);
	}
}

/* Errors quote arguments without control characters, and shortened. */
static void test_text_is_shown_safely(void **state)
{
	char text[500], what[200];
	struct error err;
	uint64_t ns;

	(void)state;
	parse_seconds("INTERVAL", "5\n\033[2J\x7f", &ns, &err);
	assert_string_equal(err.what, "invalid INTERVAL '5??[2J?': not a time");
	parse_seconds("INTERVAL", "B\xc3\xbcro\xe2\x82\xac", &ns, &err);
	assert_string_equal(err.what, "invalid INTERVAL 'B?ro?': not a time");

	memset(text, 'a', sizeof(text) - 1);
	text[64] = '\0';
	parse_seconds("INTERVAL", text, &ns, &err);
	snprintf(what, sizeof(what), "invalid INTERVAL '%.64s': not a time", text);
	assert_string_equal(err.what, what);
	text[64] = 'a';
	text[sizeof(text) - 1] = '\0';
	parse_seconds("INTERVAL", text, &ns, &err);
	snprintf(what, sizeof(what), "invalid INTERVAL '%.61s...': not a time", text);
	assert_string_equal(err.what, what);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_u64_good),
		cmocka_unit_test(test_u64_bad),
		cmocka_unit_test(test_u64_messages),
		cmocka_unit_test(test_seconds_good),
		cmocka_unit_test(test_seconds_bad),
		cmocka_unit_test(test_seconds_messages),
		cmocka_unit_test(test_ms),
		cmocka_unit_test(test_moments),
		cmocka_unit_test(test_text_is_shown_safely),
	};

	setlocale(LC_ALL, ""); /* a locale with a decimal comma must change nothing */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
