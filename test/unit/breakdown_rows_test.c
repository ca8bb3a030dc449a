/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/breakdown/rows.h"
#include "test/unit/hist_add.h"
#include "test/unit/rendered.h"

static const struct breakdown_unit nsecs = { "nsecs", 1 }, usecs = { "usecs", 1000 },
				   msecs = { "msecs", 1000000 };

/* 990 times 1000 ns, 9 times 10000, once a million. */
static void fill(struct hist *h, uint64_t unit_ns)
{
	memset(h, 0, sizeof(*h));
	for (int i = 0; i < 990; i++)
		hist_add(h, 1000, unit_ns);
	for (int i = 0; i < 9; i++)
		hist_add(h, 10000, unit_ns);
	hist_add(h, 1000000, unit_ns);
}

static void test_figures(void **state)
{
	static struct hist h;
	struct breakdown_row row;

	(void)state;
	fill(&h, 1);
	memset(&row, 0x5a, sizeof(row));
	breakdown_row_fill(&row, "blk", "read", &h);
	assert_string_equal(row.layer, "blk");
	assert_string_equal(row.op, "read");
	assert_ptr_equal(row.slots, &h);
	assert_int_equal(row.count, 1000);
	assert_int_equal(row.total_ns, 990 * 1000 + 9 * 10000 + 1000000);
	assert_int_equal(row.max_ns, 1000000);
	/* right to 1/16 */
	assert_in_range(row.p50_ns, 938, 1062);
	assert_in_range(row.p90_ns, 938, 1062);
	assert_in_range(row.p99_ns, 938, 1062);
	assert_in_range(row.p999_ns, 9375, 10625);
}

static void test_empty(void **state)
{
	static const struct hist h;
	struct breakdown_row row;

	(void)state;
	breakdown_row_fill(&row, "blk", "flush", &h);
	assert_int_equal(row.count, 0);
	assert_int_equal(row.total_ns, 0);
	assert_int_equal(row.p50_ns, 0);
	assert_int_equal(row.p999_ns, 0);
	assert_int_equal(row.max_ns, 0);
}

static void test_one(void **state)
{
	static struct hist h;
	struct breakdown_row row;

	(void)state;
	hist_add(&h, 123456, 1);
	breakdown_row_fill(&row, "blk", "read", &h);
	assert_int_equal(row.count, 1);
	assert_int_equal(row.total_ns, 123456);
	assert_int_equal(row.p50_ns, 123456);
	assert_int_equal(row.p999_ns, 123456);
	assert_int_equal(row.max_ns, 123456);
}

static void prints(struct breakdown_row *rows, size_t n, const struct breakdown_unit *unit,
		   const char *expected)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	assert_int_equal(breakdown_print(rows, n, 0, unit, stream), 0);
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(text, expected);
	free(text);
}

static void test_nsecs(void **state)
{
	static struct hist reads, writes;
	struct breakdown_row rows[2];

	(void)state;
	for (int i = 0; i < 4; i++)
		hist_add(&reads, 5, 1);
	hist_add(&reads, 9, 1);
	hist_add(&writes, 1, 1);
	breakdown_row_fill(&rows[0], "blk", "read", &reads);
	breakdown_row_fill(&rows[1], "blk", "write", &writes);
	prints(rows, 2, &nsecs,
	       "operation = blk_read\n"
	       "     nsecs               : count     distribution\n"
	       "         0 -> 1          : 0        |                                        |\n"
	       "         2 -> 3          : 0        |                                        |\n"
	       "         4 -> 7          : 4        |****************************************|\n"
	       "         8 -> 15         : 1        |**********                              |\n"
	       "\n"
	       "operation = blk_write\n"
	       "     nsecs               : count     distribution\n"
	       "         0 -> 1          : 1        |****************************************|\n"
	       "\n"
	       "OPERATION COUNT TOTAL nsecs AVG P50 P90 P99 P99.9 MAX\n"
	       "blk_read      5          29   5   5   9   9     9   9\n"
	       "blk_write     1           1   1   1   1   1     1   1\n");
	prints(rows, 0, &nsecs, "");
}

static void test_usecs(void **state)
{
	static struct hist h;
	struct breakdown_row row;

	(void)state;
	hist_add(&h, 999, 1000);
	hist_add(&h, 5001, 1000);
	breakdown_row_fill(&row, "blk", "discard", &h);
	row.p50_ns = 1000; /* the percentiles are the histogram's, and tested there */
	prints(&row, 1, &usecs,
	       "operation = blk_discard\n"
	       "     usecs               : count     distribution\n"
	       "         0 -> 1          : 1        |****************************************|\n"
	       "         2 -> 3          : 0        |                                        |\n"
	       "         4 -> 7          : 1        |****************************************|\n"
	       "\n"
	       "OPERATION   COUNT TOTAL usecs   AVG   P50   P90   P99 P99.9   MAX\n"
	       "blk_discard     2       6.000 3.000 1.000 5.001 5.001 5.001 5.001\n");
}

static void test_msecs(void **state)
{
	static struct hist h;
	struct breakdown_row row;

	(void)state;
	hist_add(&h, 2500000, 1000000);
	breakdown_row_fill(&row, "blk", "flush", &h);
	prints(&row, 1, &msecs,
	       "operation = blk_flush\n"
	       "     msecs               : count     distribution\n"
	       "         0 -> 1          : 0        |                                        |\n"
	       "         2 -> 3          : 1        |****************************************|\n"
	       "\n"
	       "OPERATION COUNT TOTAL msecs   AVG   P50   P90   P99 P99.9   MAX\n"
	       "blk_flush     1       2.500 2.500 2.500 2.500 2.500 2.500 2.500\n");
}

static void test_full_disk(void **state)
{
	static struct hist h;
	struct breakdown_row row;
	FILE *stream = fopen("/dev/full", "w");

	(void)state;
	if (!stream)
		skip();
	setvbuf(stream, NULL, _IONBF, 0);
	hist_add(&h, 1, 1);
	breakdown_row_fill(&row, "blk", "flush", &h);
	assert_int_equal(breakdown_print(&row, 1, 0, &nsecs, stream), -ENOSPC);
	fclose(stream);
}

static void test_json(void **state)
{
	static struct hist h;
	struct breakdown_row row;
	char *text;

	(void)state;
	hist_add(&h, 5, 1);
	breakdown_row_fill(&row, "blk", "sync", &h);
	text = rendered(FORMAT_JSON, &breakdown_schema, &row, 1);
	assert_string_equal(
	    text, "{\"type\":\"interval\",\"start\":1.000000000,\"end\":2.500000000,\"rows\":["
		  "{\"layer\":\"blk\",\"op\":\"sync\",\"count\":1,\"total_ns\":5,\"p50_ns\":5,"
		  "\"p90_ns\":5,\"p99_ns\":5,\"p999_ns\":5,\"max_ns\":5,"
		  "\"slots\":[{\"lo\":4,\"hi\":7,\"count\":1}]}],\"losses\":{}}\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_figures),	  cmocka_unit_test(test_empty),
		cmocka_unit_test(test_one),	  cmocka_unit_test(test_nsecs),
		cmocka_unit_test(test_usecs),	  cmocka_unit_test(test_msecs),
		cmocka_unit_test(test_full_disk), cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
