// SPDX-License-Identifier: GPL-2.0-or-later
/* Adding up rows for a full screen like top's: keys, the tree, sums, exited processes.  Every sum
 * equals what was counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/top/screen.h"
#include "core/base/array.h"

static struct top_slots slow;

#define ROW(number, comm, disk, cgroup, ios, size)                                                 \
	{                                                                                          \
		{ disk, comm, cgroup, "unit", "-", "root", 7, number },                            \
		    .letter = 'R', .op = "read", .io = (ios), .bytes = (size),                     \
		    .time_ns = (ios)*1000000, .max_ns = 1000000,                                   \
	}

static const struct top_row rows[] = {
	ROW(10, "dd", "sda", "/a/b", 1, 100),	 ROW(10, "dd", "sdb", "/a/b", 2, 200),
	ROW(11, "fio", "sda", "/a/b/c", 4, 400), ROW(12, "FIO", "sda", "/a-b", 8, 800),
	ROW(13, "cp", "sdb", "/", 16, 1600),
};

static struct top_options options;
static struct top_shown by_all = { .options = &options };
static struct pivot_kind kind;

static int begin(void **state)
{
	(void)state;
	by_all.rows = keys_all();
	kind = top_screen.kind;
	kind.all = top_screen.all();
	return 0;
}

static struct pivot_rows taken_by(struct top_shown *shown, const struct top_row *some, size_t n)
{
	struct pivot_rows p;

	assert_int_equal(pivot_copy(&p, &kind, some, n), 0);
	for (size_t i = 0; i < p.n; i++)
		top_screen.settle(shown, pivot_row(&p, i));
	return p;
}

static struct pivot_rows taken(const struct top_row *some, size_t n)
{
	return taken_by(&by_all, some, n);
}

/* The rows of the last view. */
static struct pivot_rows made;
static struct schema schema;

static bool is_shown(const void *shown, const void *row)
{
	return top_screen.is_shown(row, shown);
}

/* "name op io", a line each, by way @by of adding up, or as a tree. */
static const char *shown_of(struct top_shown *shown, const struct pivot_rows *p, size_t by,
			    bool tree)
{
	static struct column columns[TABLE_SCREEN_COLUMNS];
	static char text[1024];
	const struct pivot_view view = { &schema, tree ? "cgroup" : NULL, is_shown, &schema };
	size_t len = 0;
	char name[128];

	pivot_free(&made);
	schema = (struct schema){ columns, top_screen.by(shown, by, columns), kind.all->row_size };
	if (tree)
		schema =
		    (struct schema){ schema_column(kind.all, "cgroup"), 1, kind.all->row_size };
	assert_int_equal(pivot_make(p, &view, &made), 0);
	text[0] = 0;
	for (size_t i = 0; i < made.n; i++) {
		const struct top_row *row = pivot_row(&made, i);
		const struct column *comm = schema_column(&schema, "comm");

		assert_int_equal(row->bytes, row->io * 100);
		if (comm)
			comm->cell(row, name, sizeof(name));
		len +=
		    (size_t)snprintf(text + len, sizeof(text) - len, "%s%c%llu\n",
				     tree   ? row->by.cgroup
				     : comm ? name
					    : row->by.disk,
				     tree ? ' ' : (char)row->letter, (unsigned long long)row->io);
	}
	return text;
}

static const char *shown(const struct pivot_rows *p, size_t by)
{
	return shown_of(&by_all, p, by, false);
}

static const char *tree(const struct pivot_rows *p)
{
	return shown_of(&by_all, p, 0, true);
}

/* Rows, and each of their names once. */
static void test_memory(void **state)
{
	static char longer[100001];
	struct top_row some[] = { rows[0], rows[1], rows[2] };
	struct pivot_rows p = taken(some, 3);
	size_t before = pivot_memory(&p);

	(void)state;
	assert_in_range(before, 3 * sizeof(some[0]), 3 * sizeof(some[0]) + 1000);
	pivot_free(&p);
	memset(longer, 'x', sizeof(longer) - 1);
	some[0].by.comm = some[1].by.comm = longer;
	p = taken(some, 3);
	assert_in_range(pivot_memory(&p), before + 99000, before + 101000);
	pivot_free(&p);
}

/* Directories follow from files in a live run only. */
enum { FIRST, DISK, PROCESS, COMM, WAYS = BY_KEYS };

static void test_keys(void **state)
{
	struct column columns[TABLE_SCREEN_COLUMNS];
	struct pivot_rows p = taken(rows, ARRAY_SIZE(rows));
	struct top_shown few = by_all;

	(void)state;
	assert_string_equal(shown(&p, FIRST), "ddR1\nddR2\nfioR4\nFIOR8\ncpR16\n");
	assert_string_equal(shown(&p, DISK), "sdaR13\nsdbR18\n");
	assert_string_equal(schema.columns[0].key, "disk");
	assert_string_equal(shown(&p, PROCESS), "ddR3\nfioR4\nFIOR8\ncpR16\n");
	assert_int_not_equal(top_screen.by(&by_all, WAYS - 1, columns), 0);
	assert_int_equal(top_screen.by(&by_all, WAYS, columns), 0);
	/* a key that the recording does not have is not offered */
	assert_int_equal(keys_parse(&few.rows, "disk", NULL), 0);
	assert_int_not_equal(top_screen.by(&few, DISK, columns), 0);
	assert_int_equal(top_screen.by(&few, DISK + 1, columns), 0);
	/* nor is the initial key a second time */
	assert_int_equal(keys_parse(&options.by, "disk", NULL), 0);
	assert_int_equal(top_screen.by(&few, 1, columns), 0);
	options.by = 0;
	pivot_free(&p);
}

static void test_tree(void **state)
{
	struct pivot_rows p = taken(rows, ARRAY_SIZE(rows)), one = taken(&rows[1], 1);

	(void)state;
	/* "/a-b" is not in "/a" */
	assert_string_equal(tree(&p), "/ 31\n  a 7\n    b 7\n      c 4\n  a-b 8\n");
	assert_string_equal(tree(&one), "/ 2\n  a 2\n    b 2\n");
	pivot_free(&one);
	pivot_free(&p);
}

/* Groups nested without end: the last level of the tree has what is below. */
static void test_deep_tree(void **state)
{
	char path[2 * 500 + 1];
	struct top_row one;
	struct pivot_rows p;

	(void)state;
	for (size_t i = 0; i < sizeof(path) - 1; i++)
		path[i] = i % 2 ? 'a' : '/';
	path[sizeof(path) - 1] = 0;
	one = (struct top_row)ROW(1, "x", "sda", path, 3, 300);
	p = taken(&one, 1);
	tree(&p);
	assert_int_equal(made.n, 17); /* "/" and 16 levels */
	for (size_t i = 0; i < made.n; i++)
		assert_int_equal(((struct top_row *)pivot_row(&made, i))->io, 3);
	pivot_free(&p);
}

static void test_names(void **state)
{
	struct pivot_rows p = taken(rows, ARRAY_SIZE(rows));

	(void)state;
	assert_true(pivot_row_has(&kind, pivot_row(&p, 2), "fi"));
	assert_true(pivot_row_has(&kind, pivot_row(&p, 3), "fi"));
	assert_true(pivot_row_has(&kind, pivot_row(&p, 3), "a-b"));
	assert_false(pivot_row_has(&kind, pivot_row(&p, 3), "a/b"));
	pivot_free(&p);
}

static void add(struct pivot_rows *sum, const struct top_row *some, size_t n)
{
	struct pivot_rows p = taken(some, n);

	assert_int_equal(pivot_add(sum, &p, "bytes", TOP_ROWS_MAX), 0);
	pivot_free(&p);
}

static void test_sum(void **state)
{
	struct pivot_rows sum = { 0 };

	(void)state;
	for (int i = 0; i < 3; i++)
		add(&sum, rows, i == 2 ? 1 : ARRAY_SIZE(rows));
	assert_string_equal(shown(&sum, FIRST), "ddR3\nddR4\nfioR8\nFIOR16\ncpR32\n");
	pivot_free(&sum);
}

/* More rows than are kept: all is still counted. */
static void test_bounded(void **state)
{
	size_t n = TOP_ROWS_MAX + 100;
	struct top_row *many = calloc(n, sizeof(*many));
	struct pivot_rows sum = { 0 };
	uint64_t io = 0;

	(void)state;
	assert_non_null(many);
	for (size_t i = 0; i < n; i++)
		many[i] = (struct top_row)ROW((uint32_t)i + 1, "x", "sda", "/", i, i * 100);
	add(&sum, many, n);
	assert_int_equal(sum.n, TOP_ROWS_MAX / 2 + 1);
	for (size_t i = 0; i < sum.n; i++)
		io += ((struct top_row *)pivot_row(&sum, i))->io;
	assert_int_equal(io, n * (n - 1) / 2);
	free(many);
	pivot_free(&sum);
}

/* The percentile of added rows is computed from all their times, or not known. */
static void test_percentiles(void **state)
{
	struct top_row some[] = { rows[0], rows[2], rows[1] };
	const struct top_row *sda, *sdb;
	struct pivot_rows p;

	(void)state;
	memset(&slow, 0, sizeof(slow));
	slow.counts[60] = 1;
	some[0].slots = &slow;
	some[0].p99_ns = 42;
	some[2].p99_ns = 43;
	p = taken(some, 3);
	assert_string_equal(shown(&p, DISK), "sdaR5\nsdbR2\n");
	sda = pivot_row(&made, 0);
	sdb = pivot_row(&made, 1);
	assert_int_equal(sda->p99_ns, 0); /* 4 of 5 have no slots */
	assert_int_equal(sdb->p99_ns, 43);
	pivot_free(&p);
}

/* A recording without --by has the columns of its own only. */
static void test_plain(void **state)
{
	const struct top_row plain = { .pid = 5,
				       .comm = "dd",
				       .disk = "sda",
				       .op = "read",
				       .letter = 'R',
				       .io = 1,
				       .bytes = 100 };
	struct top_shown without = { .options = &options };
	struct pivot_rows p = taken_by(&without, &plain, 1);
	const struct top_row *row;

	(void)state;
	assert_string_equal(shown_of(&without, &p, FIRST, false), "ddR1\n");
	row = pivot_row(&made, 0);
	assert_int_equal(row->pid, 5);
	assert_string_equal(row->disk, "sda");
	assert_string_equal(shown_of(&without, &p, DISK, false), "sdaR1\n");
	pivot_free(&p);
}

/* ---- processes that exit ---- */

static uint32_t dead[5];

static bool exists(uint32_t pid)
{
	assert_int_not_equal(pid, 0);
	for (size_t i = 0; i < ARRAY_SIZE(dead); i++)
		if (dead[i] == pid)
			return false;
	return true;
}

/* A process that has exited is shown for one interval more than it lived, or for its last, with
 * what it did then; sums and other keys do not change. */
static void test_gone(void **state)
{
	static const struct top_row later[] = { ROW(10, "dd", "sda", "/a/b", 32, 3200) };
	struct pivot_rows first = taken(rows, ARRAY_SIZE(rows)), second = taken(later, 1),
			  third = taken(NULL, 0);

	(void)state;
	dead[0] = 11;
	assert_int_equal(top_mark_gone(&first, &third, exists), 0);
	assert_string_equal(shown(&first, FIRST), "ddR1\nddR2\nfio (gone)R4\nFIOR8\ncpR16\n");
	dead[1] = 10;
	dead[2] = 12;
	assert_int_equal(top_mark_gone(&second, &first, exists), 0);
	assert_string_equal(shown(&second, FIRST), "dd (gone)R32\nFIO (gone)R0\n");
	assert_string_equal(shown(&second, DISK), "sdaR32\n");
	assert_string_equal(shown(&second, COMM), "ddR32\n");
	assert_string_equal(tree(&second), "/ 32\n  a 32\n    b 32\n");
	assert_int_equal(top_mark_gone(&third, &second, exists), 0);
	assert_string_equal(shown(&third, FIRST), "");
	memset(dead, 0, sizeof(dead));
	pivot_free(&first);
	pivot_free(&second);
	pivot_free(&third);
}

/* Processes of one name, disk and operation that are gone are one row, with their number and their
 * sum.  Other rows, and running processes, stay as they are. */
static void test_folded(void **state)
{
	static const struct top_row short_lived[] = {
		ROW(10, "cc1", "sda", "/a", 1, 100),
		ROW(11, "cc1", "sda", "/a", 2, 200),
		ROW(12, "cc1", "sda", "/a", 4, 400),
		ROW(13, "cc1", "sda", "/a", 8, 800),
		ROW(14, "cc1", "sdb", "/a", 16, 1600),
		ROW(15, "ld", "sda", "/a", 32, 3200),
		ROW(16, "cc1 (7 gone)", "sda", "/a", 64, 6400),
	};
	static const uint32_t gone[] = { 10, 11, 12, 14, 15 };
	struct pivot_rows p = taken(short_lived, ARRAY_SIZE(short_lived)), none = taken(NULL, 0);
	const struct column *pid, *comm;
	char text[512] = "", cells[2][64];
	size_t len = 0;

	(void)state;
	memcpy(dead, gone, sizeof(gone));
	assert_int_equal(top_mark_gone(&p, &none, exists), 0);
	shown(&p, FIRST);
	top_screen.finish(&by_all, &made, &schema);
	pid = schema_column(&schema, "pid");
	comm = schema_column(&schema, "comm");
	for (size_t i = 0; i < made.n; i++) {
		const struct top_row *row = pivot_row(&made, i);

		cells[0][0] = 0;
		pid->cell(row, cells[0], sizeof(cells[0]));
		comm->cell(row, cells[1], sizeof(cells[1]));
		assert_int_equal(row->bytes, row->io * 100);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s,%s,%s,%llu\n", cells[0],
					cells[1], row->disk, (unsigned long long)row->io);
	}
	assert_string_equal(text, "13,cc1,sda,8\n"
				  "16,cc1 (7\\x20gone),sda,64\n"
				  ",cc1 (3 gone),sda,7\n"
				  "14,cc1 (gone),sdb,16\n"
				  "15,ld (gone),sda,32\n");
	/* by other keys it is the same sum */
	assert_string_equal(shown(&p, DISK), "sdaR111\nsdbR16\n");
	memset(dead, 0, sizeof(dead));
	pivot_free(&p);
	pivot_free(&none);
}

/* A process that gives itself such a name is not taken for one that has exited. */
static void test_gone_by_name(void **state)
{
	static const struct top_row alive[] = { ROW(10, "postgres (gone)", "sda", "/a", 1, 100),
						ROW(11, "fio (gone)", "sda", "/a", 2, 200) };
	struct pivot_rows p = taken(alive, 2), none = taken(NULL, 0);

	(void)state;
	dead[0] = 11;
	assert_int_equal(top_mark_gone(&p, &none, exists), 0);
	assert_string_equal(shown(&p, FIRST), "postgres\\x20(gone)R1\nfio\\x20(gone) (gone)R2\n");
	assert_string_equal(shown(&p, COMM), "fio\\x20(gone)R2\npostgres\\x20(gone)R1\n");
	memset(dead, 0, sizeof(dead));
	pivot_free(&p);
	pivot_free(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),	cmocka_unit_test(test_keys),
		cmocka_unit_test(test_tree),	cmocka_unit_test(test_deep_tree),
		cmocka_unit_test(test_names),	cmocka_unit_test(test_sum),
		cmocka_unit_test(test_bounded), cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_plain),	cmocka_unit_test(test_gone),
		cmocka_unit_test(test_folded),	cmocka_unit_test(test_gone_by_name),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
