// SPDX-License-Identifier: GPL-2.0-or-later
/* The details of a row: the rows that it is the sum of, their names, operations and times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/engine/row_details.h"
#include "core/base/array.h"
#include "output/columns.h"

struct row {
	const char *comm, *disk, *op;
	uint32_t pid;
	uint64_t io, bytes;
};

#define ROW   struct row
#define PID   LABEL(pid, "PID", 5, "")
#define COMM  LABEL(comm, "COMM", 8, "")
#define DISK  LABEL(disk, "DISK", 5, "")
#define OP    LABEL(op, "D", 1, "")
#define IO    COUNTER(io, "I/O", 5, "requests", "", .rate = "IOPS")
#define BYTES COUNTER(bytes, "Kbytes", 7, "bytes", "", .rate = "KiB/s", .text = column_kbytes)
static const struct column columns[] = { PID, COMM, DISK, OP, IO, BYTES };
static const struct column by_disk[] = { DISK, OP, IO, BYTES };
static const struct column by_comm[] = { COMM, IO };
#undef ROW
static const struct schema all = SCHEMA(columns, struct row);
static const struct schema disks = SCHEMA(by_disk, struct row);
static const struct schema comms = SCHEMA(by_comm, struct row);
static const struct pivot_kind kind = { .all = &all };

static const struct row rows[] = {
	{ "dd", "sda", "R", 10, 4, 4096 },	     { "dd", "sda", "W", 10, 6, 8192 },
	{ "fio", "sda", "R", 11, 100, 409600 },	     { "fio", "sdb", "R", 11, 7, 7168 },
	{ "evil\033[2J\n", "sdb", "R", 12, 1, 512 },
};

/* Of a row with the labels of @row; the caller frees. */
static char *details(const struct schema *shown, struct row row, const struct row *of, size_t n,
		     struct row_details d)
{
	struct pivot_rows parts;
	char *text;

	assert_int_equal(pivot_copy(&parts, &kind, of, n), 0);
	d.kind = &kind;
	d.schema = shown;
	d.row = &row;
	d.parts = &parts;
	text = row_details(&d);
	assert_non_null(text);
	pivot_free(&parts);
	return text;
}

static void expect(const struct schema *shown, struct row row, struct row_details d,
		   const char *expected)
{
	char *text = details(shown, row, rows, ARRAY_SIZE(rows), d);

	assert_string_equal(text, expected);
	free(text);
}

/* Its own columns, then names that only its parts have, then a table of what they differ in. */
static void test_names_and_operations(void **state)
{
	const struct row sda = { "", "sda", "R", 0, 104, 413696 };

	(void)state;
	expect(&disks, sda, (struct row_details){ .width = 80 },
	       "DISK: sda  D: R  I/O: 104  Kbytes: 404\n"
	       "PID: 10, 11  COMM: dd, fio\n"
	       "\n"
	       "PID   COMM     D   I/O  Kbytes\n"
	       "10    dd       R     4       4\n"
	       "10    dd       W     6       8\n"
	       "11    fio      R   100     400\n");
	/* per second */
	expect(&disks, sda, (struct row_details){ .secs = 2, .width = 80 },
	       "DISK: sda  D: R  IOPS: 52.0  KiB/s: 202.0\n"
	       "PID: 10, 11  COMM: dd, fio\n"
	       "\n"
	       "PID   COMM     D   I/O  Kbytes\n"
	       "10    dd       R     4       4\n"
	       "10    dd       W     6       8\n"
	       "11    fio      R   100     400\n");
}

/* Hostile names are escaped wherever they stand. */
static void test_hostile(void **state)
{
	const struct row evil = { "evil\033[2J\n", "", "", 0, 1, 0 };
	const struct row sdb = { "", "sdb", "R", 0, 8, 7680 };

	(void)state;
	expect(&comms, evil, (struct row_details){ .width = 80 },
	       "COMM: evil\\x1b[2J\\x0a  I/O: 1\n"
	       "PID: 12  DISK: sdb  D: R\n");
	expect(&disks, sdb, (struct row_details){ .width = 80 },
	       "DISK: sdb  D: R  I/O: 8  Kbytes: 7.5\n"
	       "PID: 11, 12  COMM: fio, evil\\x1b[2J\\x0a\n"
	       "\n"
	       "PID   COMM              I/O  Kbytes\n"
	       "11    fio                 7       7\n"
	       "12    evil\\x1b[2J\\x0a     1     0.5\n");
}

static bool is_read(const void *ctx, const void *row)
{
	(void)ctx;
	return strcmp(((const struct row *)row)->op, "R") == 0;
}

/* What the filters of the screen leave out is not in its details. */
static void test_filtered(void **state)
{
	const struct row dd = { "dd", "", "", 0, 4, 4096 };

	(void)state;
	expect(&comms, dd, (struct row_details){ .is_shown = is_read, .width = 80 },
	       "COMM: dd  I/O: 4\n"
	       "PID: 10  DISK: sda  D: R\n");
}

/* At most so many names and parts, and how many more there are. */
static void test_many(void **state)
{
	static struct row many[100];
	const struct row sda = { "", "sda", "R", 0, 100, 0 };
	size_t lines = 0;
	char *text, *at;

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct row){ "dd", "sda", "R", 1 + i, 1, 0 };
	text = details(&disks, sda, many, ARRAY_SIZE(many), (struct row_details){ .width = 80 });
	assert_non_null(strstr(text, "PID: 1, 2, 3, 4, 5, 6, 7, 8, ...  COMM: dd\n"));
	for (at = text; (at = strchr(at, '\n')); at++)
		lines++;
	assert_int_equal(lines, 2 + 1 + 1 + 64 + 1);
	assert_non_null(strstr(text, "\nand 36 more\n"));
	free(text);
}

static void test_times(void **state)
{
	const struct row dd = { "dd", "", "", 0, 10, 12288 };
	struct hist times = { .count = 4, .total = 2100 + 2 * 5000 + 1000000, .max = 1000000 };

	(void)state;
	times.fine[hist_fine_slot(2100)] = 1;
	times.fine[hist_fine_slot(5000)] = 2;
	times.fine[hist_fine_slot(1000000)] = 1;
	expect(&comms, dd, (struct row_details){ .times = &times, .width = 44 },
	       "COMM: dd  I/O: 10\n"
	       "PID: 10  DISK: sda  D: R, W\n"
	       "\n"
	       "Times: P50 4.86 us, P90 1.00 ms, P99 1.00 ms, P99.9 1.00 ms, max 1.00 ms\n"
	       " 2.05 us +           1  *****\n"
	       " 4.10 us +           2  **********\n"
	       " 8.19 us +           0\n"
	       " 16.4 us +           0\n"
	       " 32.8 us +           0\n"
	       " 65.5 us +           0\n"
	       "  131 us +           0\n"
	       "  262 us +           0\n"
	       "  524 us +           1  *****\n"
	       "\n"
	       "D   I/O\n"
	       "R     4\n"
	       "W     6\n");
	times = (struct hist){ 0 }; /* none: nothing is drawn */
	expect(&comms, dd, (struct row_details){ .times = &times, .width = 44 },
	       "COMM: dd  I/O: 10\n"
	       "PID: 10  DISK: sda  D: R, W\n"
	       "\n"
	       "D   I/O\n"
	       "R     4\n"
	       "W     6\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_and_operations),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_filtered),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
