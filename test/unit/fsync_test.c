// SPDX-License-Identifier: GPL-2.0-or-later
/* The parts of an fsync's time, and its rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/slow/fsync_parts.h"
#include "cmd/slow/fsync_rows.h"
#include "core/base/array.h"

static uint64_t sum(const struct fsync_parts *p)
{
	return p->data + p->previous + p->locking + p->ordered + p->log + p->flush + p->rest;
}

/* A call of ext4, from 1000 to 2000, whose data is written back at 1100. */
static struct fsync_call call_of(uint32_t transaction)
{
	return (struct fsync_call){
		.enter_ns = 1000,
		.sync_ns = 1010,
		.data_ns = 1100,
		.exit_ns = 2000,
		.waits = FSYNC_WAITS_FOR,
		.transaction = transaction,
	};
}

static struct fsync_commit commit_of(uint32_t transaction, uint64_t start_ns)
{
	return (struct fsync_commit){
		.transaction = transaction,
		.start_ns = start_ns,
		.locking_ns = start_ns + 5,
		.flushing_ns = start_ns + 25,
		.logging_ns = start_ns + 55,
		.wait_ns = start_ns + 60,
		.waited_ns = start_ns + 100,
		.flush_ns = start_ns + 120,
		.end_ns = start_ns + 200,
	};
}

static void assert_parts(const struct fsync_parts *p, uint64_t data, uint64_t previous,
			 uint64_t locking, uint64_t ordered, uint64_t log, uint64_t flush,
			 uint64_t rest)
{
	assert_int_equal(p->data, data);
	assert_int_equal(p->previous, previous);
	assert_int_equal(p->locking, locking);
	assert_int_equal(p->ordered, ordered);
	assert_int_equal(p->log, log);
	assert_int_equal(p->flush, flush);
	assert_int_equal(p->rest, rest);
}

/* It waits for commit 7, which has to wait for 6; 5 was over, and 8 is of others. */
static void test_commit(void **state)
{
	const struct fsync_call call = call_of(7);
	struct fsync_commit commits[] = {
		commit_of(5, 890),
		commit_of(6, 1050),
		commit_of(7, 1300),
		commit_of(8, 1550),
	};
	struct fsync_parts p;

	(void)state;
	fsync_parts(&call, commits, ARRAY_SIZE(commits), &p);
	assert_ptr_equal(p.commit, &commits[2]);
	/* 6 from 1100 to 1250, 7 from 1300 to 1500: 5 of it until the locking. */
	assert_parts(&p, 90, 150 + 5, 20, 30 + 40, 5 + 20, 80, 10 + 50 + 500);

	/* It had begun before the data was written back: its locking and a part of the ordered. */
	commits[2] = commit_of(7, 1060);
	fsync_parts(&call, &commits[2], 1, &p);
	assert_parts(&p, 90, 0, 0, 15 + 40, 5 + 20, 80, 10 + 740);

	/* Without a flush the commit record is a part of the log. */
	commits[2].flush_ns = 0;
	fsync_parts(&call, &commits[2], 1, &p);
	assert_parts(&p, 90, 0, 0, 15 + 40, 5 + 100, 0, 10 + 740);

	/* What it did before the run is not known. */
	commits[2] = (struct fsync_commit){ .transaction = 7, .end_ns = 1500 };
	fsync_parts(&call, &commits[2], 1, &p);
	assert_parts(&p, 90, 0, 0, 0, 0, 0, 10 + 900);
}

static void test_no_commit(void **state)
{
	const struct fsync_commit other = commit_of(8, 1200);
	struct fsync_call call = call_of(7);
	struct fsync_parts p;

	(void)state;
	/* The commit is over, the call flushes itself; another one's is not waited for. */
	call.flush_ns = 1500;
	fsync_parts(&call, &other, 1, &p);
	assert_null(p.commit);
	assert_parts(&p, 90, 0, 0, 0, 0, 500, 10 + 400);
	/* Without the number the last one that ends before the flush. */
	call.waits = FSYNC_WAITS_UNKNOWN;
	fsync_parts(&call, &other, 1, &p);
	assert_ptr_equal(p.commit, &other);
	assert_parts(&p, 90, 5, 20, 70, 25, 80 + 500, 10 + 200);
	call.flush_ns = 1300;
	fsync_parts(&call, &other, 1, &p);
	assert_null(p.commit);
	/* A flush before the data was written back is a part of writing it. */
	call.flush_ns = 1050;
	fsync_parts(&call, NULL, 0, &p);
	assert_parts(&p, 90, 0, 0, 0, 0, 0, 10 + 900);
}

/* The commit comes first, then the data: or, up to 6.2, a later commit after the data. */
static void test_journalled_data(void **state)
{
	struct fsync_commit commit = commit_of(7, 1020);
	struct fsync_call call = call_of(7);
	struct fsync_parts p;

	(void)state;
	call.journals_data = 1;
	call.data_ns = 1700;
	fsync_parts(&call, &commit, 1, &p);
	assert_parts(&p, 10 + 480, 5, 20, 70, 25, 80, 10 + 300);
	call.data_ns = 1100;
	commit = commit_of(9, 1200);
	fsync_parts(&call, &commit, 1, &p);
	assert_parts(&p, 90, 5, 20, 70, 25, 80, 10 + 100 + 600);
}

static void test_fast_commit(void **state)
{
	struct fsync_commit commit = commit_of(7, 1150);
	struct fsync_call call = call_of(7);
	struct fsync_parts p;

	(void)state;
	call.fast_ns = 1110;
	call.fast_wait_ns = 1120;
	call.fast_waited_ns = 1140;
	call.flush_ns = 1160;
	call.fast_end_ns = 1190;
	fsync_parts(&call, NULL, 0, &p);
	assert_parts(&p, 90, 0, 0, 20, 10 + 20, 840, 10 + 10);
	assert_int_equal(fsync_file_ns(&call, &p, 1112, UINT64_MAX), 20);
	assert_int_equal(fsync_file_ns(&call, &p, 1112, 1125), 5);
	assert_int_equal(fsync_file_ns(&call, &p, 1100, UINT64_MAX), 0);
	/* It could not be fast. */
	call.flush_ns = call.fast_wait_ns = call.fast_waited_ns = 0;
	call.fast_end_ns = 1400;
	fsync_parts(&call, &commit, 1, &p);
	assert_parts(&p, 90, 5, 20, 70, 40 + 25 + 50, 80, 10 + 10 + 600);
}

static void test_xfs(void **state)
{
	const struct fsync_call call = { .enter_ns = 1000,
					 .data_ns = 1100,
					 .force_ns = 1150,
					 .flush_ns = 1400,
					 .exit_ns = 2000 };
	struct fsync_parts p;

	(void)state;
	fsync_parts(&call, NULL, 0, &p);
	assert_parts(&p, 100, 0, 0, 0, 250, 600, 50);
}

static uint64_t random_below(uint64_t *seed, uint64_t n)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (*seed >> 33) % n;
}

/* Whatever the times are, each nanosecond is in one part. */
static void test_sum(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 200000; round++) {
		struct fsync_call call = { .enter_ns = 1000 };
		struct fsync_commit commits[3] = { 0 };
		__u64 *const of_call[] = { &call.sync_ns,	 &call.data_ns,
					   &call.fast_ns,	 &call.fast_wait_ns,
					   &call.fast_waited_ns, &call.fast_end_ns,
					   &call.force_ns,	 &call.flush_ns };
		struct fsync_parts p;

		call.exit_ns = 1000 + random_below(&seed, 1000);
		for (size_t i = 0; i < ARRAY_SIZE(of_call); i++)
			*of_call[i] = random_below(&seed, 3) ? 900 + random_below(&seed, 1200) : 0;
		call.waits = random_below(&seed, 2);
		call.transaction = random_below(&seed, 4);
		call.journals_data = random_below(&seed, 4) == 0;
		for (uint32_t i = 0; i < ARRAY_SIZE(commits); i++) {
			__u64 *const times = &commits[i].start_ns;

			for (size_t k = 0; k < 8; k++)
				times[k] =
				    random_below(&seed, 5) ? 800 + random_below(&seed, 1500) : 0;
			commits[i].transaction = i;
		}
		fsync_parts(&call, commits, ARRAY_SIZE(commits), &p);
		assert_int_equal(sum(&p), call.exit_ns - call.enter_ns);
		assert_in_range(p.n_phases, 0, FSYNC_PHASES);
		for (size_t i = 0; i < p.n_phases; i++) {
			assert_true(!i || p.phases[i].part != p.phases[i - 1].part);
			*(uint64_t *)((char *)&p + p.phases[i].part) -= p.phases[i].ns;
		}
		assert_int_equal(sum(&p), 0);
		assert_parts(&p, 0, 0, 0, 0, 0, 0, 0);
	}
}

/* ---- rows ---- */

static struct fsync_tables tables_of(uint32_t epoch)
{
	struct fsync_tables t = { .epoch = epoch };

	assert_int_equal(cgroups_open("/nonexistent", "/nonexistent", &t.cgroups), 0);
	assert_int_equal(mounts_open("/nonexistent", &t.mounts), 0);
	return t;
}

static void add_call(struct fsync_rows *rows, uint32_t epoch, uint64_t enter_ns, uint64_t exit_ns)
{
	struct fsync_call_record r = { .call = call_of(7), .path = { .kind = FILE_UNNAMED } };

	r.call.head = (struct fsync_head){ FSYNC_CALL, epoch, 5, 0 };
	r.call.enter_ns = enter_ns;
	r.call.exit_ns = exit_ns;
	memcpy(r.call.comm, "syncer", 7);
	memcpy(r.call.fs, "ext4", 5);
	assert_int_equal(fsync_rows_add(rows, &r, sizeof(r)), 0);
}

static void add_file(struct fsync_rows *rows, uint32_t dev, uint64_t begin_ns, uint64_t inode)
{
	struct fsync_file_record r = { .begin_ns = begin_ns,
				       .path = { .kind = FILE_UNNAMED, .inode = inode } };

	r.head = (struct fsync_head){ FSYNC_FILE, 1, dev, 0 };
	assert_int_equal(fsync_rows_add(rows, &r, sizeof(r)), 0);
}

static void add_commit(struct fsync_rows *rows, uint32_t dev, uint64_t holder_ns)
{
	struct fsync_commit c = commit_of(7, 1300);

	c.head = (struct fsync_head){ FSYNC_COMMIT, 1, dev, 0 };
	c.holder = 42;
	c.holder_ns = holder_ns;
	memcpy(c.holder_comm, "tar", 4);
	assert_int_equal(fsync_rows_add(rows, &c, sizeof(c)), 0);
}

static void test_rows(void **state)
{
	struct fsync_tables t = tables_of(2);
	struct fsync_rows rows = { 0 };

	(void)state;
	add_call(&rows, 1, 1000, 2000);
	add_call(&rows, 1, 1000, 1900);
	add_call(&rows, 2, 1500, 2100);
	add_commit(&rows, 5, 1310);
	add_commit(&rows, 6, 1310); /* of another file system */
	/* Two files: submitted from 1325 and 1335 to 1355; waited for from 1360 and 1370 to 1400.
	 */
	add_file(&rows, 5, 1370, 12);
	add_file(&rows, 5, 1325, 12);
	add_file(&rows, 5, 1335, 11);
	add_file(&rows, 5, 1360, 11);
	add_file(&rows, 6, 1340, 13);
	assert_int_equal(fsync_rows_make(&rows, &t, 0), 0);
	assert_int_equal(rows.n_rows, 2);
	assert_int_equal(rows.rows[0].total_ns, 900);
	assert_int_equal(rows.rows[1].total_ns, 1000);
	assert_int_equal(rows.rows[0].transaction, 7);
	assert_int_equal(rows.rows[0].ordered_ns, 70);
	assert_string_equal(rows.rows[0].holder, "tar[42]");
	assert_string_equal(rows.rows[0].covered, "all");
	assert_string_equal(rows.rows[0].ordered_files,
			    "[no name: inode 12 of a file system] (0.000 ms), "
			    "[no name: inode 11 of a file system] (0.000 ms)");
	assert_int_equal(fsync_rows_make(&rows, &t, 1), 0);
	assert_int_equal(rows.n_rows, 1);
	assert_int_equal(rows.rows[0].total_ns, 1000);
	/* The third call began before the commit ended: it stays, with its files. */
	fsync_rows_clear(&rows, 2, 1800);
	assert_int_equal(rows.n_calls, 1);
	assert_int_equal(rows.n_commits, 2);
	assert_int_equal(rows.n_files, 5);
	t.epoch = 3;
	assert_int_equal(fsync_rows_make(&rows, &t, 0), 0);
	assert_int_equal(rows.n_rows, 1);
	fsync_rows_clear(&rows, 3, 1800);
	assert_int_equal(rows.n_calls + rows.n_commits + rows.n_files, 0);
	fsync_rows_free(&rows);
	cgroups_free(t.cgroups);
	mounts_free(t.mounts);
}

/* In a long interval: calls that are not among the slowest, and commits and files that no call
 * which is kept needs, make room for later ones. */
static void test_forget(void **state)
{
	struct fsync_tables t = tables_of(2);
	struct fsync_rows rows = { 0 };

	(void)state;
	add_call(&rows, 1, 1000, 2000);
	add_commit(&rows, 5, 0);
	add_file(&rows, 5, 1340, 12);
	for (uint64_t i = 0; i < 2 * FSYNC_ROWS_MAX; i++) {
		struct fsync_commit c = commit_of(8 + (uint32_t)i, 3000 + 1000 * i);

		c.head = (struct fsync_head){ FSYNC_COMMIT, 1, 5, 0 };
		add_call(&rows, 1, 3000 + 1000 * i, 3300 + 1000 * i);
		assert_int_equal(fsync_rows_add(&rows, &c, sizeof(c)), 0);
		add_file(&rows, 5, 3040 + 1000 * i, 13);
		if (i % 10000 == 9999) {
			fsync_rows_limit(&rows, 1);
			fsync_rows_forget(&rows, 3500 + 1000 * i);
			assert_int_equal(rows.n_calls, 1);
			assert_int_equal(rows.n_commits, 1);
			assert_int_equal(rows.n_files, 1);
		}
	}
	assert_int_equal(rows.full, 0);
	assert_int_equal(fsync_rows_make(&rows, &t, 1), 0);
	assert_int_equal(rows.n_rows, 1);
	assert_int_equal(rows.rows[0].total_ns, 1000);
	assert_int_equal(rows.rows[0].transaction, 7);
	assert_int_equal(rows.rows[0].ordered_ns, 70);
	assert_string_not_equal(rows.rows[0].ordered_files, "");
	fsync_rows_free(&rows);
	cgroups_free(t.cgroups);
	mounts_free(t.mounts);
}

/* As many files as there may be, each submitted and waited for, and many calls: some waited for all
 * of them, others began in between.  Time that is quadratic in the files would be minutes. */
static void test_many_files(void **state)
{
	const uint64_t n = FSYNC_FILES_MAX / 2, begin_ns = 1000000;
	struct fsync_commit c = commit_of(7, begin_ns);
	struct fsync_tables t = tables_of(2);
	struct fsync_rows rows = { 0 };
	const char *text;

	(void)state;
	c.head = (struct fsync_head){ FSYNC_COMMIT, 1, 5, 0 };
	c.flushing_ns = begin_ns + 100;
	c.logging_ns = c.flushing_ns + 100 * n;
	c.wait_ns = c.logging_ns + 100;
	c.waited_ns = c.wait_ns + 1000 * n;
	c.flush_ns = c.waited_ns + 100;
	c.end_ns = c.flush_ns + 100;
	assert_int_equal(fsync_rows_add(&rows, &c, sizeof(c)), 0);
	for (uint64_t i = 0; i < n; i++) {
		add_file(&rows, 5, c.flushing_ns + 100 * i, 1 + i);
		/* The last is waited for 500 ns longer than the others. */
		add_file(&rows, 5, c.wait_ns + 1000 * i - (i == n - 1 ? 500 : 0), 1 + i);
	}
	for (uint64_t i = 0; i < 4000; i++)
		add_call(&rows, 1, begin_ns - 500000 + i, c.end_ns + 1000 + i);
	for (uint64_t i = 0; i < 20; i++)
		add_call(&rows, 1, c.flushing_ns + 100 * (n / 2), c.end_ns + 9000 + i);
	assert_int_equal(fsync_rows_make(&rows, &t, 0), 0);
	assert_int_equal(rows.n_rows, 4020);
	text = rows.rows[0].ordered_files;
	assert_ptr_equal(strstr(text, "[no name: inode 16384 of a file system] (0.002 ms), "
				      "[no name: inode 1 of a file system] (0.001 ms), "),
			 text);
	assert_non_null(strstr(text, ", ..."));
	for (size_t i = 1; i < 4000; i++)
		assert_string_equal(rows.rows[i].ordered_files, text);
	fsync_rows_free(&rows);
	cgroups_free(t.cgroups);
	mounts_free(t.mounts);
}

/* A handle that ended while another file system's commit waited for its handles. */
static void test_other_holder(void **state)
{
	struct fsync_tables t = tables_of(2);
	struct fsync_rows rows = { 0 };

	(void)state;
	add_call(&rows, 1, 1000, 2000);
	add_commit(&rows, 5, 1200);
	assert_int_equal(fsync_rows_make(&rows, &t, 0), 0);
	assert_int_equal(rows.rows[0].locking_ns, 20);
	assert_string_equal(rows.rows[0].holder, "");
	fsync_rows_free(&rows);
	cgroups_free(t.cgroups);
	mounts_free(t.mounts);
}

static void test_bad_records(void **state)
{
	struct fsync_call_record call = { .call.head.type = FSYNC_CALL,
					  .path.path_bytes = FILE_PATH + 1 };
	struct fsync_rows rows = { 0 };

	(void)state;
	assert_int_equal(fsync_rows_add(&rows, &call, sizeof(call)), 0);
	assert_int_equal(fsync_rows_add(&rows, &call, sizeof(struct fsync_head)), 0);
	call.call.head.type = 99;
	assert_int_equal(fsync_rows_add(&rows, &call, sizeof(call)), 0);
	assert_int_equal(rows.n_calls + rows.n_commits + rows.n_files, 0);
	fsync_rows_free(&rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commit),
		cmocka_unit_test(test_no_commit),
		cmocka_unit_test(test_journalled_data),
		cmocka_unit_test(test_fast_commit),
		cmocka_unit_test(test_xfs),
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_forget),
		cmocka_unit_test(test_many_files),
		cmocka_unit_test(test_other_holder),
		cmocka_unit_test(test_bad_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
