/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/breakdown/keyed.h"

#define ROWS 4

struct fixture {
	struct keyed k;
	struct hist_row other[ROWS];
};

static by_keys keys_of(const char *text)
{
	by_keys keys;

	assert_int_equal(keys_parse(&keys, text, NULL), 0);
	return keys;
}

static void set_up(struct fixture *f, const char *keys)
{
	memset(f, 0, sizeof(*f));
	f->k.keys = keys_of(keys);
	f->k.other = f->other;
	f->k.n_rows = ROWS;
	assert_int_equal(process_names_open(&f->k.names), 0);
}

static void tear_down(struct fixture *f)
{
	keyed_free(&f->k);
	process_names_free(f->k.names);
}

/* @n times @ns of process @pid. */
static void put(struct fixture *f, uint32_t pid, uint16_t row, uint64_t n, uint64_t ns)
{
	static struct keyed_hist hist;
	const struct hist_key key = { .start = 1000 + pid, .pid = pid, .row = row, .known = 1 };

	memset(&hist, 0, sizeof(hist));
	hist.hist.fine[probe_fine_slot(ns)] = n;
	hist.hist.total_ns = n * ns;
	hist.max_ns[pid % KEYED_CPUS] = ns;
	assert_int_equal(keyed_add(&f->k, &key, &hist), 0);
}

static void test_keys(void **state)
{
	by_keys keys;

	(void)state;
	keys = keys_of("process,disk");
	assert_true(keys_have(keys, KEY_PROCESS));
	assert_true(keys_have(keys, KEY_DISK));
	assert_false(keys_have(keys, KEY_CGROUP));
	assert_true(keys_of_process(keys));
	assert_false(keys_of_submitter(keys_of("disk")));
	assert_true(keys_of_submitter(keys_of("cgroup")));
	assert_int_equal(keys_parse(&keys, "", NULL), -EINVAL);
	assert_int_equal(keys_parse(&keys, "disk,", NULL), -EINVAL);
	assert_int_equal(keys_parse(&keys, "disks", NULL), -EINVAL);
	assert_int_equal(keys_parse(&keys, "disk,disk", NULL), -EINVAL);
	assert_int_equal(keys_parse(&keys, "disk,process,comm,cgroup", NULL), 0);
}

static void test_columns(void **state)
{
	struct column columns[KEY_COLUMNS_MAX];

	(void)state;
	assert_int_equal(keys_columns(keys_of("cgroup,process,comm"), 16, columns), 4);
	assert_string_equal(columns[0].key, "cgroup");
	assert_int_equal(columns[0].offset, 16 + offsetof(struct key_labels, cgroup));
	assert_string_equal(columns[1].key, "pid");
	assert_string_equal(columns[2].key, "comm");
	assert_string_equal(columns[3].key, "start");
}

/* Drained in parts, by different names, and ordered. */
static void test_order(void **state)
{
	static struct fixture f;

	(void)state;
	set_up(&f, "process");
	put(&f, 1, 0, 10, 100);
	put(&f, 2, 1, 1, 5008);
	keyed_compact(&f.k);
	put(&f, 1, 0, 20, 200);
	put(&f, 1, 1, 1, 7);
	keyed_compact(&f.k);
	assert_int_equal(keyed_finish(&f.k), 0);
	assert_int_equal(f.k.n_groups, 2);
	assert_int_equal(f.k.groups[0].total_ns, 5008);
	assert_int_equal(f.k.groups[0].n, 1);
	assert_int_equal(f.k.groups[1].total_ns, 5007);
	assert_int_equal(f.k.groups[1].n, 2);
	assert_int_equal(f.k.entries[f.k.groups[1].first]->row.hist.count, 30);
	assert_int_equal(f.k.entries[f.k.groups[1].first]->row.hist.max, 200);
	assert_string_equal(f.k.entries[0]->labels.comm, "?");
	tear_down(&f);
}

static void test_comm(void **state)
{
	static struct fixture f;

	(void)state;
	set_up(&f, "comm");
	assert_int_equal(process_names_put(f.k.names, 1, 1001, "one"), 0);
	assert_int_equal(process_names_put(f.k.names, 2, 1002, "one"), 0);
	put(&f, 1, 0, 1, 100);
	put(&f, 2, 0, 2, 100);
	keyed_compact(&f.k);
	/* I/O before the rename is counted under the old name. */
	assert_int_equal(process_names_put(f.k.names, 1, 1001, "another"), 0);
	put(&f, 1, 0, 4, 100);
	assert_int_equal(keyed_finish(&f.k), 0);
	assert_int_equal(f.k.n_groups, 2);
	assert_string_equal(f.k.entries[f.k.groups[0].first]->labels.comm, "another");
	assert_int_equal(f.k.entries[f.k.groups[0].first]->row.hist.count, 4);
	assert_string_equal(f.k.entries[f.k.groups[1].first]->labels.comm, "one");
	assert_int_equal(f.k.entries[f.k.groups[1].first]->row.hist.count, 3);
	tear_down(&f);
}

/* Many processes in a long interval: the largest stay, and the sums are exact. */
static void test_bounded(void **state)
{
	uint64_t count = 0, total = 0, max = 0;
	static struct fixture f;

	(void)state;
	set_up(&f, "process");
	for (uint32_t pid = 1; pid <= 20000; pid++) {
		put(&f, pid, (uint16_t)(pid % ROWS), 3, pid);
		if (pid % 1000 == 0)
			put(&f, 7, 0, 1, 1000000);
		if (pid % (KEYED_HISTS / 2) == 0)
			keyed_compact(&f.k);
		assert_true(f.k.n <= KEYED_ENTRIES_MAX + KEYED_HISTS);
	}
	keyed_compact(&f.k);
	assert_true(f.k.n <= KEYED_ENTRIES_MAX);
	assert_int_equal(keyed_finish(&f.k), 0);
	assert_int_equal(f.k.entries[f.k.groups[0].first]->key.pid, 7);
	assert_int_equal(f.k.groups[0].total_ns, 20 * 1000000);
	for (size_t i = 0; i < f.k.n; i++) {
		count += f.k.entries[i]->row.hist.count;
		total += f.k.entries[i]->row.hist.total;
	}
	for (size_t i = 0; i < ROWS; i++) {
		count += f.other[i].hist.count;
		total += f.other[i].hist.total;
		if (f.other[i].hist.max > max)
			max = f.other[i].hist.max;
	}
	assert_int_equal(count, 3 * 20000 + 20);
	assert_int_equal(total, 3 * 20000ULL * 20001 / 2 + 20 * 1000000);
	assert_true(max > 0 && max < 20000);
	tear_down(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),	cmocka_unit_test(test_columns),
		cmocka_unit_test(test_order),	cmocka_unit_test(test_comm),
		cmocka_unit_test(test_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
