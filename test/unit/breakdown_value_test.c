// SPDX-License-Identifier: GPL-2.0-or-later
/* breakdown --value: the distance that programs compute, the columns, and the summary. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmd/breakdown/value.h"
#include "test/unit/hist_add.h"
#include "test/unit/rendered.h"

static void fill_ends(__u64 ends[STREAM_ENDS], uint64_t end)
{
	for (size_t i = 0; i < STREAM_ENDS; i++)
		ends[i] = end;
}

static void test_nearest(void **state)
{
	__u64 ends[STREAM_ENDS];

	(void)state;
	fill_ends(ends, 1000);
	assert_int_equal(value_nearest(ends, 1000), 0);
	assert_int_equal(value_nearest(ends, 1008), 8 * 2);
	assert_int_equal(value_nearest(ends, 992), 8 * 2 + 1);
	/* any of them; of two as near, forward */
	for (size_t i = 0; i < STREAM_ENDS; i++) {
		fill_ends(ends, 1ull << 40);
		ends[i] = 2000;
		assert_int_equal(value_nearest(ends, 2000), 0);
		assert_int_equal(value_nearest(ends, 2001), 2);
		ends[STREAM_ENDS - 1 - i] = 2010;
		assert_int_equal(value_nearest(ends, 2005), 5 * 2);
	}
	/* the ends of the largest disk there could be */
	fill_ends(ends, (1ull << 55) - 1);
	assert_int_equal(value_nearest(ends, 0), ((1ull << 55) - 1) * 2 + 1);
	fill_ends(ends, 0);
	assert_int_equal(value_nearest(ends, (1ull << 55) - 1), ((1ull << 55) - 1) * 2);
}

/* The same numbers each time, against the plain definition. */
static void test_nearest_at_random(void **state)
{
	uint64_t value = 88172645463325252ull;
	__u64 ends[STREAM_ENDS] = { 0 };

	(void)state;
	for (int round = 0; round < 100000; round++) {
		uint64_t best = UINT64_MAX, at = 0;

		for (size_t i = 0; i <= STREAM_ENDS; i++) {
			value ^= value << 13;
			value ^= value >> 7;
			value ^= value << 17;
			at = value >> (9 + round % 55);
			if (i < STREAM_ENDS)
				ends[i] = at;
		}
		for (size_t i = 0; i < STREAM_ENDS; i++) {
			uint64_t code = at >= ends[i] ? (at - ends[i]) * 2 : (ends[i] - at) * 2 + 1;

			best = code < best ? code : best;
		}
		assert_int_equal(value_nearest(ends, at), best);
	}
}

/* Each operation has two rows of its own. */
static void test_rows(void **state)
{
	unsigned char used[VALUE_ROWS] = { 0 };

	(void)state;
	for (unsigned int op = 0; op < BLK_OPS; op++)
		for (unsigned int back = 0; back < 2; back++)
			assert_int_equal(used[VALUE_ROW(op, back)]++, 0);
}

/* ---- rows ---- */

static void add(struct hist *h, uint64_t value, unsigned int times)
{
	while (times--)
		hist_add(h, value, 1);
}

static struct breakdown_row row_of(const char *op, const struct hist *h, enum breakdown_value value,
				   bool back)
{
	struct breakdown_row row;

	breakdown_row_fill(&row, "blk", op, h);
	value_row_fill(&row, value, back);
	return row;
}

/* Sizes are percentiles as they are; a time is the middle of its slot. */
static void test_percentiles(void **state)
{
	static struct hist h;
	struct breakdown_row row;

	(void)state;
	memset(&h, 0, sizeof(h));
	add(&h, 4096, 90);
	add(&h, 65536, 10);
	row = row_of("read", &h, VALUE_SIZE, false);
	assert_int_equal(row.p50_ns, 4096);
	assert_int_equal(row.p90_ns, 4096);
	assert_int_equal(row.p99_ns, 65536);
	assert_int_equal(row.max_ns, 65536);
	assert_null(row.direction);
	row = row_of("read", &h, VALUE_GAP, false);
	assert_int_equal(row.p50_ns, 4096 + 511 / 2);
	assert_string_equal(row_of("read", &h, VALUE_DISTANCE, false).direction, "forward");
	assert_string_equal(row_of("read", &h, VALUE_DISTANCE, true).direction, "backward");
}

static void test_json(void **state)
{
	struct column all[BREAKDOWN_COLUMNS_MAX];
	struct breakdown_row row;
	struct schema schema;
	static struct hist h;
	char *text;

	(void)state;
	memset(&h, 0, sizeof(h));
	add(&h, 0, 3);
	add(&h, 9, 1);
	row = row_of("write", &h, VALUE_DISTANCE, true);
	breakdown_keyed_schema(&value_schema, 0, all, &schema);
	value_columns(VALUE_DISTANCE, all, &schema);
	text = rendered(FORMAT_JSON, &schema, &row, 1);
	assert_string_equal(
	    text, "{\"type\":\"interval\",\"start\":1.000000000,\"end\":2.500000000,\"rows\":["
		  "{\"layer\":\"blk\",\"op\":\"write\",\"direction\":\"backward\",\"count\":4,"
		  "\"total\":9,\"p50\":0,\"p90\":9,\"p99\":9,\"p999\":9,\"max\":9,"
		  "\"slots\":[{\"lo\":0,\"hi\":0,\"count\":3},{\"lo\":9,\"hi\":9,\"count\":1}]}],"
		  "\"losses\":{}}\n");
	free(text);
}

/* Only a distance has a direction; each value has its unit. */
static void test_columns(void **state)
{
	static const char *const units[] = { "", "bytes", "sectors", "requests", "ns" };
	struct column all[BREAKDOWN_COLUMNS_MAX];
	struct schema schema;

	(void)state;
	for (enum breakdown_value value = VALUE_SIZE; value < VALUES; value++) {
		unsigned int directions = 0, with_unit = 0;

		breakdown_keyed_schema(&value_schema, 0, all, &schema);
		value_columns(value, all, &schema);
		for (size_t i = 0; i < schema.n; i++) {
			directions += strcmp(all[i].key, "direction") == 0;
			if (strcmp(all[i].key, "total") == 0 || strcmp(all[i].key, "p50") == 0 ||
			    strcmp(all[i].key, "max") == 0 || strcmp(all[i].key, "slots") == 0) {
				assert_string_equal(all[i].unit, units[value]);
				with_unit++;
			}
		}
		assert_int_equal(directions, value == VALUE_DISTANCE);
		assert_int_equal(with_unit, 4);
	}
}

/* ---- the summary ---- */

static void sums_up(const struct breakdown_row *rows, size_t n, enum breakdown_value value,
		    const char *want)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	assert_int_equal(value_summary(rows, n, value, stream), 0);
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(text, want);
	free(text);
}

static void test_summary_of_sizes(void **state)
{
	static struct hist reads, writes;
	struct breakdown_row rows[2];

	(void)state;
	memset(&reads, 0, sizeof(reads));
	memset(&writes, 0, sizeof(writes));
	add(&reads, 4096, 900);
	add(&reads, 65536, 70);
	add(&reads, 65536 + 4096, 20);
	add(&reads, 512, 9);
	add(&reads, 1 << 20, 1);
	add(&writes, 131072, 3);
	rows[0] = row_of("read", &reads, VALUE_SIZE, false);
	rows[1] = row_of("write", &writes, VALUE_SIZE, false);
	sums_up(rows, 2, VALUE_SIZE,
		"\n"
		"blk_read: 90 % are 4 KiB, 9 % 64 to 72 KiB, 1 % 512 B, <1 % other sizes\n"
		"blk_write: 100 % are 128 KiB\n");
	/* no longer each the lowest of its slot */
	add(&writes, 131072 + 4096, 1);
	rows[1] = row_of("write", &writes, VALUE_SIZE, false);
	sums_up(&rows[1], 1, VALUE_SIZE, "\nblk_write: 100 % are 128 to 144 KiB\n");
	sums_up(rows, 0, VALUE_SIZE, "");
}

/* Forward and backward are one line, and the rows of all keys. */
static void test_summary_of_distances(void **state)
{
	static struct hist forward, back, other;
	struct breakdown_row rows[3];

	(void)state;
	memset(&forward, 0, sizeof(forward));
	memset(&back, 0, sizeof(back));
	memset(&other, 0, sizeof(other));
	add(&forward, 0, 10);
	add(&forward, 8, 1);
	add(&forward, 2047, 2);
	add(&forward, 2048, 40);
	add(&back, 16, 5);
	add(&back, 1 << 20, 32);
	add(&other, 0, 10);
	rows[0] = row_of("read", &forward, VALUE_DISTANCE, false);
	rows[1] = row_of("read", &back, VALUE_DISTANCE, true);
	rows[2] = row_of("read", &other, VALUE_DISTANCE, false);
	sums_up(rows, 3, VALUE_DISTANCE,
		"\nblk_read: 20 % sequential, 8 % within 1 MiB, 72 % random (farther)\n");
	add(&forward, 4096, 999900);
	sums_up(rows, 3, VALUE_DISTANCE,
		"\nblk_read: <1 % sequential, <1 % within 1 MiB, >99 % random (farther)\n");
	/* A recording may contain anything. */
	memset(&forward, 0, sizeof(forward));
	forward.fine[0] = UINT64_MAX / 2;
	forward.fine[8] = back.fine[8] = UINT64_MAX - 5;
	back.count = UINT64_MAX - 5;
	forward.count = UINT64_MAX;
	sums_up(rows, 2, VALUE_DISTANCE,
		"\nblk_read: 50 % sequential, 50 % within 1 MiB, 0 % random (farther)\n");
}

static void test_summary_of_depths(void **state)
{
	static struct hist h;
	struct breakdown_row row;

	(void)state;
	memset(&h, 0, sizeof(h));
	add(&h, 1, 4);
	row = row_of("flush", &h, VALUE_DEPTH, false);
	sums_up(&row, 1, VALUE_DEPTH, "\nblk_flush: depth 1\n");
	add(&h, 2, 5);
	add(&h, 3, 1);
	row = row_of("read", &h, VALUE_DEPTH, false);
	sums_up(&row, 1, VALUE_DEPTH, "\nblk_read: depth 1 to 3, median 2\n");
}

static void test_summary_of_gaps(void **state)
{
	static struct hist h;
	struct breakdown_row row;

	(void)state;
	memset(&h, 0, sizeof(h));
	add(&h, 20, 99);
	add(&h, 5000000, 1);
	row = row_of("read", &h, VALUE_GAP, false);
	sums_up(&row, 1, VALUE_GAP,
		"\nblk_read: gaps: median 20ns, 99 % up to 20ns, longest 5.00ms\n");
}

/* A recording may have any number of operations, of any name. */
static void test_summary_is_bounded(void **state)
{
	static struct hist h;
	static char names[100][16];
	static struct breakdown_row rows[100];
	char *text = NULL;
	size_t size = 0, lines = 0;
	FILE *stream = open_memstream(&text, &size);

	(void)state;
	assert_non_null(stream);
	memset(&h, 0, sizeof(h));
	add(&h, 1, 1);
	for (size_t i = 0; i < 100; i++) {
		snprintf(names[i], sizeof(names[i]), "\033[%zu", i);
		rows[i] = row_of(names[i], &h, VALUE_DEPTH, false);
	}
	assert_int_equal(value_summary(rows, 100, VALUE_DEPTH, stream), 0);
	assert_int_equal(fclose(stream), 0);
	assert_null(strchr(text, '\033'));
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	assert_int_equal(lines, 1 + BLK_OPS);
	free(text);
}

/* Text: 0 is a line of its own, backward another histogram; no sum of depths. */
static void test_text(void **state)
{
	static struct hist forward, back;
	struct breakdown_row rows[2];
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	(void)state;
	assert_non_null(stream);
	memset(&forward, 0, sizeof(forward));
	memset(&back, 0, sizeof(back));
	add(&forward, 0, 4);
	add(&forward, 1, 1);
	add(&forward, 2, 2);
	add(&back, 9, 4);
	rows[0] = row_of("read", &forward, VALUE_DISTANCE, false);
	rows[1] = row_of("read", &back, VALUE_DISTANCE, true);
	assert_int_equal(breakdown_print(rows, 2, 0, value_unit(VALUE_DISTANCE), stream), 0);
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(
	    text, "operation = blk_read\n"
		  "     sectors             : count     distribution\n"
		  "         0 -> 0          : 4        |****************************************|\n"
		  "         1 -> 1          : 1        |**********                              |\n"
		  "         2 -> 3          : 2        |********************                    |\n"
		  "\n"
		  "operation = blk_read_back\n"
		  "     sectors             : count     distribution\n"
		  "         8 -> 15         : 4        |****************************************|\n"
		  "\n"
		  "OPERATION     COUNT AVG P50 P90 P99 P99.9 MAX\n"
		  "blk_read          7 0.7   0   2   2     2   2\n"
		  "blk_read_back     4 9.0   9   9   9     9   9\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_nearest_at_random),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_summary_of_sizes),
		cmocka_unit_test(test_summary_of_distances),
		cmocka_unit_test(test_summary_of_depths),
		cmocka_unit_test(test_summary_of_gaps),
		cmocka_unit_test(test_summary_is_bounded),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
