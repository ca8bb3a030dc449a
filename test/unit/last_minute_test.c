// SPDX-License-Identifier: GPL-2.0-or-later
/* The graphs of the last minute: which rate each bar stands for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/engine/last_minute.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "output/columns.h"

struct row {
	const char *name;
	uint64_t io, bytes;
};

#define ROW struct row
static const struct column columns[] = {
	LABEL(name, "NAME", 8, ""),
	COUNTER(io, "I/O", 5, "requests", "", .rate = "IOPS"),
	COUNTER(bytes, "Kbytes", 7, "bytes", "", .rate = "KiB/s"),
};
#undef ROW
static const struct schema schema = SCHEMA(columns, struct row);
static const struct pivot_kind kind = { .all = &schema };
static const char *const keys[LAST_MINUTE_GRAPHS] = { "io", "bytes" };

#define BARS	 8
#define NARROW	 41 /* columns: the least, which leave room for BARS */
#define START_NS (1000 * NS_PER_SEC)
#define PART_NS	 (60 * NS_PER_SEC / BARS)

/* Two rows, which are added up. */
static void add(struct last_minute *m, uint64_t io, uint64_t bytes, uint64_t end_ns, uint64_t ns)
{
	const struct row rows[] = { { "a", io - io / 3, bytes / 2 },
				    { "b", io / 3, bytes - bytes / 2 } };
	struct pivot_rows made;

	assert_int_equal(pivot_copy(&made, &kind, rows, ARRAY_SIZE(rows)), 0);
	assert_int_equal(last_minute_add(m, &made, keys, end_ns, ns), 0);
	pivot_free(&made);
}

static const char *graph(const struct last_minute *m, size_t i, uint64_t end_ns, size_t room)
{
	static char text[512];

	last_minute_graph(m, i, end_ns, &columns[1 + i], room, text, sizeof(text));
	return text;
}

static void test_bars(void **state)
{
	struct last_minute m = { 0 };

	(void)state;
	/* 0, 15, 25, ... 75 per second, and as many KiB */
	for (uint64_t k = 0; k < BARS; k++) {
		uint64_t rate = k ? 5 + 10 * k : 0;

		add(&m, rate * 15 / 2, rate * 1024 * 15 / 2, START_NS + (k + 1) * PART_NS, PART_NS);
	}
	/* I/Os are whole: 15 * 7.5 is 112 */
	assert_string_equal(
	    graph(&m, 1, START_NS + BARS * PART_NS, NARROW),
	    "KiB/s        75.0   \u2582\u2583\u2584\u2585\u2586\u2587\u2588  max 75.0");
	/* one part earlier; nothing is known of the time before the first interval */
	assert_string_equal(graph(&m, 1, START_NS + 7 * PART_NS, NARROW),
			    "KiB/s        65.0    \u2582\u2583\u2584\u2585\u2586\u2588  max 65.0");
	assert_string_equal(graph(&m, 0, START_NS + 2 * PART_NS, NARROW),
			    "IOPS         14.9         \u2588  max 14.9");
	last_minute_free(&m);
}

/* A bar is the average of its part of the minute, however long the intervals are. */
static void test_average(void **state)
{
	struct last_minute m = { 0 };

	(void)state;
	add(&m, 6000, 0, START_NS + 60 * NS_PER_SEC, 60 * NS_PER_SEC);
	assert_string_equal(
	    graph(&m, 0, START_NS + 60 * NS_PER_SEC, NARROW),
	    "IOPS        100.0  \u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588  max 100.0");
	last_minute_free(&m);

	/* one second of 1,000 within a part of 7.5 s; the current rate is the maximum */
	add(&m, 0, 0, START_NS + 59 * NS_PER_SEC, 59 * NS_PER_SEC);
	add(&m, 1000, 0, START_NS + 60 * NS_PER_SEC, NS_PER_SEC);
	assert_string_equal(graph(&m, 0, START_NS + 60 * NS_PER_SEC, NARROW),
			    "IOPS       1000.0         \u2581  max 1000.0");
	last_minute_free(&m);
}

static void test_without_unicode(void **state)
{
	struct last_minute m = { 0 };

	(void)state;
	for (uint64_t k = 0; k < BARS; k++)
		add(&m, 0, (k ? 5 + 10 * k : 0) * 1024 * 15 / 2, START_NS + (k + 1) * PART_NS,
		    PART_NS);
	setenv("TERM", "linux", 1);
	assert_string_equal(graph(&m, 1, START_NS + BARS * PART_NS, NARROW),
			    "KiB/s        75.0   _.--==#  max 75.0");
	setenv("TERM", "xterm", 1);
	last_minute_free(&m);
}

static void test_nothing(void **state)
{
	struct last_minute m = { 0 };

	(void)state;
	assert_string_equal(graph(&m, 0, START_NS, NARROW), "IOPS          0.0            max 0.0");
	assert_string_equal(graph(&m, 0, 0, 0), "IOPS          0.0            max 0.0");
	add(&m, 5, 5, START_NS, 0); /* an interval of no length */
	add(&m, 5, 5, 1, 2);	    /* and one that began before time did */
	assert_string_equal(graph(&m, 0, START_NS, NARROW),
			    "IOPS      2.5e+09            max 2.5e+09");
	last_minute_free(&m);
	last_minute_free(&m);
}

/* In a column of seven characters. */
static void test_large(void **state)
{
	struct last_minute m = { 0 };
	char small[16];

	(void)state;
	add(&m, 99999, 0, START_NS, NS_PER_SEC);
	assert_memory_equal(graph(&m, 0, START_NS, NARROW), "IOPS      99999.0  ", 19);
	add(&m, 9999999, 0, START_NS + NS_PER_SEC, NS_PER_SEC);
	assert_memory_equal(graph(&m, 0, START_NS + NS_PER_SEC, NARROW), "IOPS      9999999  ", 19);
	add(&m, UINT64_MAX / 2, 0, START_NS + 2 * NS_PER_SEC, NS_PER_SEC);
	assert_memory_equal(graph(&m, 0, START_NS + 2 * NS_PER_SEC, NARROW), "IOPS      9.2e+18  ",
			    19);
	last_minute_graph(&m, 0, START_NS, &columns[1], 200, small, sizeof(small));
	assert_string_equal(small, "IOPS      99999");
	last_minute_free(&m);
}

/* The oldest are dropped. */
static void test_bounded(void **state)
{
	struct last_minute m = { 0 };
	const size_t most = 3600;

	(void)state;
	for (size_t i = 0; i < most + 2; i++)
		add(&m, i, 0, START_NS + i * NS_PER_SEC, NS_PER_SEC);
	assert_int_equal(m.n, most);
	assert_int_equal(m.intervals[0].sums[0], 2);
	assert_int_equal(m.intervals[most - 1].sums[0], most + 1);
	last_minute_free(&m);
	assert_int_equal(m.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bars),
		cmocka_unit_test(test_average),
		cmocka_unit_test(test_without_unicode),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_bounded),
	};

	setenv("TERM", "xterm", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
