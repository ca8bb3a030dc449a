// SPDX-License-Identifier: GPL-2.0-or-later
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/slow/rows.h"
#include "cmd/slow/summary.h"
#include "pty.h"
#include "core/base/array.h"

/* ---- the summary ---- */

static void add(struct slow_summary *s, by_keys keys, const char *file, const char *comm,
		uint64_t ns)
{
	const struct slow_row row = { .pid = 7,
				      .comm = comm,
				      .file = file,
				      .disk = "sda",
				      .cgroup = "/",
				      .unit = "-",
				      .container = "-",
				      .user = "",
				      .total_ns = ns };

	assert_int_equal(slow_summary_add(s, keys, &row, 1), 0);
}

/* The caller frees it. */
static char *print(const struct slow_summary *s, by_keys keys)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	assert_int_equal(slow_summary_print(s, keys, stream), 0);
	assert_int_equal(fclose(stream), 0);
	return text;
}

static size_t times_in(const char *text, const char *part)
{
	size_t n = 0;

	while ((text = strstr(text, part))) {
		text += strlen(part);
		n++;
	}
	return n;
}

/* The largest come last, behind more names than there is room for. */
static void test_largest_of_many(void **state)
{
	struct slow_summary s = { 0 };
	const uint64_t small = 3 * SLOW_NAMES;
	uint64_t total = 0, shown = 0;
	char name[32], *text;

	(void)state;
	for (uint64_t i = 0; i < small; i++) {
		snprintf(name, sizeof(name), "/small/%" PRIu64, i);
		add(&s, 0, name, "dd", 1000);
		total += 1000;
	}
	for (int i = 1; i <= 5; i++) {
		snprintf(name, sizeof(name), "/large/%d", i);
		for (int j = 0; j < 10; j++) {
			add(&s, 0, name, "dd", (uint64_t)i * 1000000);
			total += (uint64_t)i * 1000000;
		}
	}
	text = print(&s, 0);
	for (int i = 1; i <= 5; i++) {
		char line[64];

		snprintf(line, sizeof(line), "%6.1f%%       10  /large/%d\n",
			 100 * i * 1e7 / (double)total, i);
		assert_non_null(strstr(text, line));
	}
	assert_int_equal(times_in(text, "/small/"), 0);
	/* Nothing is lost. */
	for (uint32_t i = 0; i < s.by[SLOW_BY_FILE].names.n; i++)
		shown += s.by[SLOW_BY_FILE].shares[i].ios;
	assert_int_equal(s.by[SLOW_BY_FILE].other.ios + shown, small + 50);
	assert_non_null(strstr(text, "  (other)\n"));
	assert_true(s.by[SLOW_BY_FILE].names.n <= SLOW_NAMES);
	free(text);
	slow_summary_free(&s);
}

static void test_each_table_once(void **state)
{
	static const struct {
		const char *keys, *title;
	} cases[] = { { "process", "  by process\n" },
		      { "disk", "  by disk\n" },
		      { "comm", "  by comm\n" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct slow_summary s = { 0 };
		by_keys keys;
		char *text;

		assert_int_equal(keys_parse(&keys, cases[i].keys, NULL), 0);
		add(&s, keys, "/a", "dd", 1000);
		text = print(&s, keys);
		assert_int_equal(times_in(text, cases[i].title), 1);
		free(text);
		slow_summary_free(&s);
	}
}

/* No line is wider than the terminal; of a path the end remains. */
static void test_fits_the_terminal(void **state)
{
	struct slow_summary s = { 0 };
	char path[201], *line, *next;
	static struct pty p;

	(void)state;
	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	snprintf(path + 190, 11, "/the/end__");
	add(&s, 0, path, "dd", 1000);
	pty_open(&p, 24, 80);
	assert_int_equal(slow_summary_print(&s, 0, p.out), 0);
	assert_int_equal(fflush(p.out), 0);
	pty_read(&p);
	assert_non_null(strstr(p.text, "a/the/end__\r\n"));
	for (line = p.text; (next = strstr(line, "\r\n")); line = next + 2)
		assert_true(next - line <= 80);
	pty_close(&p);
	slow_summary_free(&s);
}

/* ---- a line ---- */

static void text_of_bytes(uint64_t bytes, char buf[64])
{
	const struct schema *schema = &slow_schemas[0];

	for (size_t i = 0; i < schema->n; i++)
		if (strcmp(schema->columns[i].key, "bytes") == 0)
			schema->columns[i].text(bytes, buf, 64);
}

static void test_kbytes(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 512, "0.5" },
		{ 4096, "4" },
		{ 9999 * 1024 + 512, "9999.5" },
		{ 32 << 20, "32768" },
		{ UINT32_MAX - 511, "4194303.5" },
	};
	char buf[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		text_of_bytes(cases[i].bytes, buf);
		assert_string_equal(buf, cases[i].text);
	}
}

/* ---- compact records ---- */

/* Records of several CPUs are mixed: the counter of lost records may be older than the last one. */
static void test_lost(void **state)
{
	const uint32_t most = (1U << BLK_RECORD_LOST_BITS) - 1;
	uint32_t last = 0;

	(void)state;
	assert_int_equal(blk_record_lost(&last, 0), 0);
	assert_int_equal(blk_record_lost(&last, 5), 5);
	assert_int_equal(blk_record_lost(&last, 3), 0);
	assert_int_equal(blk_record_lost(&last, 5), 0);
	assert_int_equal(blk_record_lost(&last, 7), 2);
	last = most - 1;
	assert_int_equal(blk_record_lost(&last, 3), 5);
	assert_int_equal(last, 3);
	assert_int_equal(blk_record_lost(&last, most), 0);
	assert_int_equal(last, 3);
}

/* The largest parts of a compact record add up. */
static void test_compact(void **state)
{
	const struct blk_owner owner = { .pid = 7, .known = 1 };
	struct blk_record record = { .end_ns = 1, .owner = 2 * BLK_OWNERS - 1 };
	struct slow_rows rows = { 0 };

	(void)state;
	for (uint32_t epoch = 0; epoch < 3; epoch++)
		assert_int_equal(slow_rows_add_plain(&rows, &record, &owner, epoch, 0), 0);
	record.admit_ns = record.queue_ns = record.device_ns = UINT32_MAX;
	assert_int_equal(slow_rows_add_plain(&rows, &record, &owner, 2, 1), 0);
	assert_int_equal(rows.n, 4);
	assert_true(slow_rows_limit(&rows, 1) == 3ULL * UINT32_MAX);
	slow_rows_clear(&rows, 2);
	assert_int_equal(rows.n, 1);
	slow_rows_clear(&rows, 3);
	assert_int_equal(rows.n, 0);
	slow_rows_free(&rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_largest_of_many),
		cmocka_unit_test(test_each_table_once),
		cmocka_unit_test(test_fits_the_terminal),
		cmocka_unit_test(test_kbytes),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_compact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
