// SPDX-License-Identifier: GPL-2.0-or-later
/* blame --held: the rows made of counts, and settings of limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/blame/held_limits.h"
#include "cmd/blame/held_rows.h"

#define MS UINT64_C(1000000)

static void check_line(const char *line, const char *wanted)
{
	char text[HELD_LIMIT_SIZE];

	held_limit_line(line, text, sizeof(text));
	assert_string_equal(text, wanted);
}

static void limits(void **state)
{
	char small[12];

	(void)state;
	check_line("8:0 rbps=max wbps=52428800 riops=max wiops=max\n", "wbps=50M");
	check_line("8:0 rbps=1 wbps=1024 riops=1024 wiops=max\n", "rbps=1 wbps=1K riops=1024");
	check_line("8:0 rbps=18446744073709550592 wbps=0", "rbps=18014398509481983K wbps=0");
	check_line("8:0 target=75000\n", "target=75000");
	check_line("8:0 rbps=max wbps=max riops=max wiops=max\n", "");
	check_line("", "");
	check_line("8:0", "");
	check_line("8:0 = nothing =1 bps=2048", "= =1 bps=2K");
	held_limit_line("8:0 wbps=52428800 wiops=1000000", small, sizeof(small));
	assert_string_equal(small, "wbps=50M wi");
}

/* A machine without disks and cgroups. */
static struct held_rows opened(struct blame_options *o)
{
	static const struct disk_roots roots = { "/nowhere", "/nowhere", "/nowhere" };
	struct held_rows rows = { 0 };
	struct error err;

	o->by = KEY_CGROUP + 1;
	rows.from.o = o;
	disks_open(&roots, &rows.from.disks, &err);
	assert_int_equal(cgroups_open("/nowhere", "/nowhere", &rows.from.cgroups), 0);
	return rows;
}

static void closed(struct held_rows *rows)
{
	held_rows_free(rows);
	cgroups_free(rows->from.cgroups);
	disks_free(rows->from.disks);
}

static void add(struct held_rows *rows, uint16_t kind, uint64_t cgroup, uint64_t n, uint64_t ns)
{
	const struct hist_key key = { .row = kind, .cgroup = cgroup, .known = 1 };
	struct keyed_hist *hist = calloc(1, sizeof(*hist));

	assert_non_null(hist);
	hist->hist.fine[probe_fine_slot(ns)] = n;
	hist->hist.total_ns = n * ns;
	hist->max_ns[cgroup % KEYED_CPUS] = ns;
	assert_int_equal(held_rows_add(rows, &key, hist), 0);
	free(hist);
}

static void sums(void **state)
{
	struct blame_options o = { 0 };
	struct held_rows rows = opened(&o);

	(void)state;
	add(&rows, HELD_FROZEN, 1, 3, 2 * MS);
	add(&rows, HELD_FROZEN, 1, 1, 6 * MS);
	add(&rows, HELD_WBT, 1, 5, MS);
	add(&rows, HELD_FROZEN, 2, 1, 20 * MS);
	add(&rows, HELD_KINDS, 1, 7, MS); /* of no kind */
	assert_int_equal(held_rows_make(&rows), 0);
	assert_int_equal(rows.n, 3);
	assert_string_equal(rows.rows[0].victim, "cgroup:2");
	assert_int_equal(rows.rows[0].total_ns, 20 * MS);
	assert_string_equal(rows.rows[1].kind, "frozen queue");
	assert_int_equal(rows.rows[1].count, 4);
	assert_int_equal(rows.rows[1].timed, 4);
	assert_int_equal(rows.rows[1].total_ns, 12 * MS);
	assert_int_equal(rows.rows[1].avg_ns, 3 * MS);
	assert_int_equal(rows.rows[1].max_ns, 6 * MS);
	assert_int_equal(rows.rows[1].p99_ns, 6 * MS);
	assert_string_equal(rows.rows[1].limit, "-");
	assert_string_equal(rows.rows[2].kind, "wbt");
	held_rows_clear(&rows);
	assert_int_equal(held_rows_make(&rows), 0);
	assert_int_equal(rows.n, 0);
	closed(&rows);
}

/* Bios without a time count, and are in no average. */
static void untimed(void **state)
{
	struct blame_options o = { 0 };
	struct held_rows rows = opened(&o);

	(void)state;
	add(&rows, HELD_IO_MAX_UNTIMED, 1, 9, 0);
	add(&rows, HELD_IO_MAX, 1, 2, 4 * MS);
	assert_int_equal(held_rows_make(&rows), 0);
	assert_int_equal(rows.n, 1);
	assert_int_equal(rows.rows[0].count, 11);
	assert_int_equal(rows.rows[0].timed, 2);
	assert_int_equal(rows.rows[0].avg_ns, 4 * MS);
	closed(&rows);
}

static void bounded(void **state)
{
	struct blame_options o = { 0 };
	struct held_rows rows = opened(&o);
	size_t memory;

	(void)state;
	for (uint64_t i = 1; i <= HELD_ROWS; i++)
		add(&rows, HELD_TAG, i, 2, MS);
	memory = text_set_memory(&rows.texts);
	for (uint64_t i = 1; i <= 10; i++)
		add(&rows, HELD_TAG, HELD_ROWS + i, 2, MS);
	assert_int_equal(rows.full, 20);
	/* Names that have no row are not stored; a row that is there goes on. */
	assert_int_equal(text_set_memory(&rows.texts), memory);
	add(&rows, HELD_TAG, 7, 3, MS);
	assert_int_equal(rows.full, 20);
	assert_int_equal(held_rows_make(&rows), 0);
	assert_int_equal(rows.n, HELD_ROWS);
	closed(&rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits),
		cmocka_unit_test(sums),
		cmocka_unit_test(untimed),
		cmocka_unit_test(bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
