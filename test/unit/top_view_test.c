// SPDX-License-Identifier: GPL-2.0-or-later
/* What the screen of top shows of an interval: keys, filters, the tree, sums.  Every sum is that of
 * what was counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/top/view.h"

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
#define N (sizeof(rows) / sizeof(rows[0]))

static struct top_snapshot taken(const struct top_row *some, size_t n)
{
	const struct recording_interval in = { .interval = { .start_ns = 5, .end_ns = 9 },
					       .text = "load",
					       .tables = { { some, n } } };
	struct top_snapshot s;

	assert_int_equal(top_snapshot_take(&s, &in, keys_all()), 0);
	return s;
}

/* "name op io", a line each, in the order of the view. */
static const char *shown(struct top_view *v, const struct top_snapshot *s)
{
	static char text[1024];
	size_t len = 0;

	assert_int_equal(top_view_rows(v, s), 0);
	text[0] = 0;
	for (size_t i = 0; i < v->n; i++) {
		const struct key_labels *by = &v->rows[i].by;
		const char *name = v->tree			? by->cgroup
				   : keys_have(v->by, KEY_DISK) ? by->disk
								: by->comm;

		assert_int_equal(v->rows[i].bytes, v->rows[i].io * 100);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%c%llu\n", name,
					(char)v->rows[i].letter, (unsigned long long)v->rows[i].io);
	}
	return text;
}

static struct top_view view_of(void)
{
	return (struct top_view){ .have = keys_all() };
}

/* Rows, and each of their names once. */
static void test_memory(void **state)
{
	static char longer[100001];
	struct top_row some[] = { rows[0], rows[1], rows[2] };
	struct top_snapshot s = taken(some, 3);
	size_t before = top_snapshot_memory(&s);

	(void)state;
	assert_in_range(before, 3 * sizeof(some[0]), 3 * sizeof(some[0]) + 1000);
	top_snapshot_free(&s);
	memset(longer, 'x', sizeof(longer) - 1);
	some[0].by.comm = some[1].by.comm = longer;
	s = taken(some, 3);
	assert_in_range(top_snapshot_memory(&s), before + 99000, before + 101000);
	top_snapshot_free(&s);
}

static void test_keys(void **state)
{
	struct top_snapshot s = taken(rows, N);
	struct top_view v = view_of();
	by_keys disk = 0;

	(void)state;
	assert_string_equal(shown(&v, &s), "ddR1\nddR2\nfioR4\nFIOR8\ncpR16\n");
	top_view_next_by(&v);
	assert_int_equal(keys_parse("disk", &disk, NULL), 0);
	assert_int_equal(v.by, disk);
	top_view_columns(&v); /* before the rows */
	assert_string_equal(v.schema.columns[0].key, "disk");
	assert_string_equal(shown(&v, &s), "sdaR13\nsdbR18\n");
	top_view_next_by(&v);
	assert_string_equal(shown(&v, &s), "ddR3\nfioR4\nFIOR8\ncpR16\n");
	for (int i = 0; i < 6; i++)
		top_view_next_by(&v);
	assert_int_equal(v.by, 0);
	/* what a recording has not is not offered */
	v.have = disk;
	top_view_next_by(&v);
	assert_int_equal(v.by, disk);
	top_view_next_by(&v);
	assert_int_equal(v.by, 0);
	top_view_free(&v);
	top_snapshot_free(&s);
}

static void test_tree(void **state)
{
	struct top_snapshot s = taken(rows, N);
	struct top_view v = view_of();

	(void)state;
	v.tree = true;
	/* "/a-b" is beside "/a", not in it */
	assert_string_equal(shown(&v, &s), "/ 31\n  a 7\n    b 7\n      c 4\n  a-b 8\n");
	snprintf(v.filters[TOP_FILTER_DISK], sizeof(v.filters[0]), "sdb");
	assert_string_equal(shown(&v, &s), "/ 18\n  a 2\n    b 2\n");
	top_view_free(&v);
	top_snapshot_free(&s);
}

static const char *filtered(enum top_filter filter, const char *text)
{
	struct top_snapshot s = taken(rows, N);
	struct top_view v = view_of();
	const char *found;

	snprintf(v.filters[filter], sizeof(v.filters[0]), "%s", text);
	found = shown(&v, &s);
	top_view_free(&v);
	top_snapshot_free(&s);
	return found;
}

static void test_filters(void **state)
{
	(void)state;
	assert_string_equal(filtered(TOP_FILTER_NAME, "fio"), "fioR4\nFIOR8\n");
	assert_string_equal(filtered(TOP_FILTER_NAME, "a-b"), "FIOR8\n");
	assert_string_equal(filtered(TOP_FILTER_NAME, "nothing"), "");
	assert_string_equal(filtered(TOP_FILTER_PROCESS, "10"), "ddR1\nddR2\n");
	assert_string_equal(filtered(TOP_FILTER_PROCESS, "1"), "");
	assert_string_equal(filtered(TOP_FILTER_PROCESS, "cp"), "cpR16\n");
	assert_string_equal(filtered(TOP_FILTER_DISK, "sdb"), "ddR2\ncpR16\n");
	assert_string_equal(filtered(TOP_FILTER_DISK, "sd"), "");
	assert_string_equal(filtered(TOP_FILTER_CGROUP, "/a/b"), "ddR1\nddR2\nfioR4\n");
}

static void test_sum(void **state)
{
	struct top_snapshot sum = { 0 };
	struct top_view v = view_of();

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct top_snapshot s = taken(rows, i == 2 ? 1 : N);

		assert_int_equal(top_snapshot_add(&sum, &s, keys_all()), 0);
		top_snapshot_free(&s);
	}
	assert_int_equal(sum.ns, 12);
	assert_string_equal(shown(&v, &sum), "ddR3\nddR4\nfioR8\nFIOR16\ncpR32\n");
	top_view_free(&v);
	top_snapshot_free(&sum);
}

/* Groups nested without end: the last level of the tree has what is below. */
static void test_deep_tree(void **state)
{
	char path[2 * 500 + 1];
	struct top_row one;
	struct top_snapshot s;
	struct top_view v = { .have = keys_all(), .tree = true };

	(void)state;
	for (size_t i = 0; i < sizeof(path) - 1; i++)
		path[i] = i % 2 ? 'a' : '/';
	path[sizeof(path) - 1] = 0;
	one = (struct top_row)ROW(1, "x", "sda", path, 3, 300);
	s = taken(&one, 1);
	assert_int_equal(top_view_rows(&v, &s), 0);
	assert_int_equal(v.n, 17); /* "/" and 16 levels */
	for (size_t i = 0; i < v.n; i++)
		assert_int_equal(v.rows[i].io, 3);
	top_view_free(&v);
	top_snapshot_free(&s);
}

/* More rows than are kept: all is still counted. */
static void test_bounded(void **state)
{
	size_t n = TOP_ROWS_MAX + 100;
	struct top_row *many = calloc(n, sizeof(*many));
	struct top_snapshot sum = { 0 }, s;
	uint64_t io = 0;

	(void)state;
	assert_non_null(many);
	for (size_t i = 0; i < n; i++)
		many[i] = (struct top_row)ROW((uint32_t)i + 1, "x", "sda", "/", i, i * 100);
	s = taken(many, n);
	assert_int_equal(top_snapshot_add(&sum, &s, keys_all()), 0);
	assert_int_equal(sum.n, TOP_ROWS_MAX / 2 + 1);
	for (size_t i = 0; i < sum.n; i++)
		io += sum.rows[i].io;
	assert_int_equal(io, n * (n - 1) / 2);
	free(many);
	top_snapshot_free(&s);
	top_snapshot_free(&sum);
}

/* The percentile of several rows is that of all of their times, or not known. */
static void test_disks(void **state)
{
	struct top_row some[] = { rows[0], rows[2], rows[1] };
	struct top_snapshot s;
	struct top_disk disks[2];

	(void)state;
	memset(&slow, 0, sizeof(slow));
	slow.counts[60] = 1;
	some[0].slots = &slow;
	some[0].p99_ns = 42;
	some[2].p99_ns = 43;
	s = taken(some, 3);
	assert_int_equal(top_disks(&s, disks, 2), 2);
	assert_string_equal(disks[0].name, "sda");
	assert_int_equal(disks[0].io, 5);
	assert_int_equal(disks[0].bytes, 500);
	assert_int_equal(disks[0].p99_ns, 0); /* 4 of 5 have no slots */
	assert_string_equal(disks[1].name, "sdb");
	assert_int_equal(disks[1].p99_ns, 43);
	assert_int_equal(top_disks(&s, disks, 1), 1);
	top_snapshot_free(&s);
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
	const struct recording_interval in = { .tables = { { &plain, 1 } } };
	struct top_snapshot s;
	struct top_view v = { .have = top_keys_of(0, false) };

	(void)state;
	assert_int_equal(top_snapshot_take(&s, &in, 0), 0);
	assert_string_equal(shown(&v, &s), "ddR1\n");
	assert_int_equal(v.rows[0].pid, 5);
	assert_string_equal(v.rows[0].disk, "sda");
	top_view_next_by(&v);
	assert_string_equal(shown(&v, &s), "sdaR1\n");
	top_view_free(&v);
	top_snapshot_free(&s);
}

/* ---- processes that exit ---- */

static uint32_t dead[3];

static bool exists(uint32_t pid)
{
	assert_int_not_equal(pid, 0);
	for (size_t i = 0; i < sizeof(dead) / sizeof(dead[0]); i++)
		if (dead[i] == pid)
			return false;
	return true;
}

/* A process that has exited is shown for one interval more than it lived, or for its last, with
 * what it did then; sums and other keys do not change. */
static void test_gone(void **state)
{
	static const struct top_row later[] = { ROW(10, "dd", "sda", "/a/b", 32, 3200) };
	struct top_snapshot first = taken(rows, N), second = taken(later, 1),
			    third = taken(NULL, 0);
	struct top_disk disks[2];
	struct top_view v = view_of();

	(void)state;
	dead[0] = 11;
	assert_int_equal(top_snapshot_mark_gone(&first, &third, exists), 0);
	assert_string_equal(shown(&v, &first), "ddR1\nddR2\nfio (gone)R4\nFIOR8\ncpR16\n");
	dead[1] = 10;
	dead[2] = 12;
	assert_int_equal(top_snapshot_mark_gone(&second, &first, exists), 0);
	assert_string_equal(shown(&v, &second), "dd (gone)R32\nFIO (gone)R0\n");
	assert_string_equal(v.rows[0].comm, "dd (gone)");
	snprintf(v.filters[TOP_FILTER_PROCESS], sizeof(v.filters[0]), "FIO");
	assert_string_equal(shown(&v, &second), "FIO (gone)R0\n");
	v.filters[TOP_FILTER_PROCESS][0] = 0;
	top_view_next_by(&v);
	assert_string_equal(shown(&v, &second), "sdaR32\n");
	top_view_next_by(&v);
	top_view_next_by(&v);
	assert_string_equal(shown(&v, &second), "ddR32\n");
	v.tree = true;
	assert_string_equal(shown(&v, &second), "/ 32\n  a 32\n    b 32\n");
	assert_int_equal(top_disks(&second, disks, 2), 1);
	v.tree = false;
	while (v.by)
		top_view_next_by(&v);
	assert_int_equal(top_snapshot_mark_gone(&third, &second, exists), 0);
	assert_string_equal(shown(&v, &third), "");
	memset(dead, 0, sizeof(dead));
	top_view_free(&v);
	top_snapshot_free(&first);
	top_snapshot_free(&second);
	top_snapshot_free(&third);
}

/* A process that gives itself such a name is not taken for one that has exited. */
static void test_gone_by_name(void **state)
{
	static const struct top_row alive[] = { ROW(10, "postgres (gone)", "sda", "/a", 1, 100),
						ROW(11, "fio (gone)", "sda", "/a", 2, 200) };
	struct top_snapshot s = taken(alive, 2), none = taken(NULL, 0);
	struct top_view v = view_of();

	(void)state;
	dead[0] = 11;
	assert_int_equal(top_snapshot_mark_gone(&s, &none, exists), 0);
	assert_string_equal(shown(&v, &s), "postgres\\x20(gone)R1\nfio\\x20(gone) (gone)R2\n");
	do
		top_view_next_by(&v);
	while (!keys_have(v.by, KEY_COMM) || keys_have(v.by, KEY_PROCESS));
	assert_string_equal(shown(&v, &s), "fio\\x20(gone)R2\npostgres\\x20(gone)R1\n");
	memset(dead, 0, sizeof(dead));
	top_view_free(&v);
	top_snapshot_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),	     cmocka_unit_test(test_keys),
		cmocka_unit_test(test_tree),	     cmocka_unit_test(test_deep_tree),
		cmocka_unit_test(test_filters),	     cmocka_unit_test(test_sum),
		cmocka_unit_test(test_bounded),	     cmocka_unit_test(test_disks),
		cmocka_unit_test(test_plain),	     cmocka_unit_test(test_gone),
		cmocka_unit_test(test_gone_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
