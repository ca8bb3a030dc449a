/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/top/rows.h"
#include "output/hist.h"
#include "test/unit/rendered.h"
#include "test/unit/root.h"
#include "core/base/array.h"

static struct top_tables tables;

/* Processes 100 to 199, which began when the machine did. */
static int put_names(struct process_names *names)
{
	char comm[PROCESS_NAME_SIZE];
	int r = 0;

	for (uint32_t pid = 100; !r && pid < 200; pid++) {
		snprintf(comm, sizeof(comm), "proc%u", pid);
		r = process_names_put(names, pid, 0, comm);
	}
	return r;
}

static int make_tables(void **state)
{
	struct disk_roots roots = { root, root, root };

	if (make_root(state))
		return -1;
	put("diskstats",
	    " 8 0 sda 0 0 0\n 8 16 sdb 0 0 0\n 8 32 early 0 0 0\n 259 0 nvme0n1 0 0 0\n");
	tables = (struct top_tables){ 0 };
	return disks_open(&roots, &tables.disks, NULL) || process_names_open(&tables.names) ||
	       put_names(tables.names);
}

static int free_tables(void **state)
{
	disks_free(tables.disks);
	process_names_free(tables.names);
	cgroups_free(tables.cgroups);
	users_free(tables.users);
	memset(&tables, 0, sizeof(tables));
	return remove_root(state);
}

#define SDA  DISK_DEV(8, 0)
#define SDB  DISK_DEV(8, 16)
#define NVME DISK_DEV(259, 0)
#define LATE DISK_DEV(8, 32) /* by number; by name it is the first */

static void add(struct top_rows *rows, struct top_key key, struct top_value value)
{
	assert_int_equal(top_rows_add(rows, &key, &value, NULL), 0);
}

static void row_is(const struct top_rows *rows, size_t i, uint32_t pid, uint64_t io, uint64_t bytes,
		   uint64_t time_ns)
{
	assert_true(i < rows->n);
	assert_int_equal(rows->rows[i].pid, pid);
	assert_int_equal(rows->rows[i].io, io);
	assert_int_equal(rows->rows[i].bytes, bytes);
	assert_int_equal(rows->rows[i].time_ns, time_ns);
}

static void test_row_labels(void **state)
{
	struct top_rows rows = { 0 };
	const struct top_row *row;

	(void)state;
	add(&rows, (struct top_key){ .pid = 100, .dev = SDB, .op = BLK_WRITE, .known = 1 },
	    (struct top_value){ 2, 8192, 3000000, 0 });
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 1);
	row = rows.rows;
	row_is(&rows, 0, 100, 2, 8192, 3000000);
	assert_string_equal(row->comm, "proc100");
	assert_string_equal(row->op, "write");
	assert_int_equal(row->letter, 'W');
	assert_int_equal(row->major, 8);
	assert_int_equal(row->minor, 16);
	assert_string_equal(row->disk, "sdb");
	assert_false(row->writeback);
	assert_string_equal(row->cgroup, "");
	top_rows_free(&rows);
}

/* Rows with an unknown submitter, with a disk that does not exist, and without a disk. */
static void test_unknown_rows(void **state)
{
	struct top_rows rows = { 0 };

	(void)state;
	add(&rows, (struct top_key){ .pid = 0, .dev = NVME, .op = BLK_READ },
	    (struct top_value){ .bytes = 3 });
	add(&rows, (struct top_key){ .pid = 0, .dev = DISK_DEV(252, 7), .op = 200, .known = 1 },
	    (struct top_value){ .bytes = 2 });
	add(&rows, (struct top_key){ .pid = 0x70000000, .op = BLK_PASSTHROUGH, .known = 1 },
	    (struct top_value){ .bytes = 1 });
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 3);
	assert_string_equal(rows.rows[0].comm, "[unknown]");
	assert_string_equal(rows.rows[0].disk, "nvme0n1");
	assert_string_equal(rows.rows[1].comm, "?");
	assert_string_equal(rows.rows[1].op, "unknown");
	assert_int_equal(rows.rows[1].letter, '?');
	assert_string_equal(rows.rows[1].disk, "252:7");
	assert_int_equal(rows.rows[1].major, 252);
	assert_int_equal(rows.rows[1].minor, 7);
	assert_string_equal(rows.rows[2].comm, "?");
	assert_string_equal(rows.rows[2].disk, "-");
	top_rows_free(&rows);
}

/* Each CPU counts in a row of its own: together they are one. */
static void test_cpus_are_joined(void **state)
{
	struct top_rows rows = { 0 };
	const struct top_key key = { .pid = 100, .dev = SDA, .known = 1 };

	(void)state;
	for (uint16_t cpu = 0; cpu < 300; cpu++) {
		struct top_key a = key, b = key;

		a.cpu = b.cpu = cpu;
		b.pid = 101;
		add(&rows, a, (struct top_value){ 1, 512, cpu, 0 });
		add(&rows, b, (struct top_value){ 2, UINT32_MAX, 1, 0 });
	}
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 2);
	row_is(&rows, 0, 101, 600, 300ull * UINT32_MAX, 300);
	row_is(&rows, 1, 100, 300, 300 * 512, 299 * 300 / 2);
	top_rows_free(&rows);
}

/* Whatever differs in the key but the CPU is a row of its own. */
static void test_keys_apart(void **state)
{
	static const struct top_key keys[] = {
		{ .pid = 100, .dev = SDA, .op = BLK_READ, .known = 1 },
		{ .pid = 101, .dev = SDA, .op = BLK_READ, .known = 1 },
		{ .pid = 100, .dev = SDB, .op = BLK_READ, .known = 1 },
		{ .pid = 100, .dev = SDA, .op = BLK_WRITE, .known = 1 },
		{ .pid = 100, .dev = SDA, .op = BLK_READ, .known = 1, .writeback = 1 },
		{ .pid = 100, .dev = SDA, .op = BLK_READ, .known = 1, .cgroup = 5 },
		{ .pid = 100, .dev = SDA, .op = BLK_READ },
	};
	struct top_rows rows = { 0 };
	uint64_t io = 0;

	(void)state;
	for (uint64_t round = 0; round < 2; round++)
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
			add(&rows, keys[i], (struct top_value){ 1ull << i, 1, 1, 0 });
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, ARRAY_SIZE(keys));
	for (size_t i = 0; i < rows.n; i++) {
		assert_int_equal(rows.rows[i].bytes, 2);
		io += rows.rows[i].io;
	}
	assert_int_equal(io, 2 * ((1 << ARRAY_SIZE(keys)) - 1));
	top_rows_free(&rows);
}

/* Now and then between two outputs: it joins, and takes nothing away. */
static void test_compact(void **state)
{
	const struct top_key small = { .pid = 100, .dev = SDA, .known = 1 };
	const struct top_key large = { .pid = 199, .dev = SDB, .known = 1 };
	struct top_rows rows = { 0 };
	struct top_value sum[2] = { 0 };

	(void)state;
	top_rows_compact(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 0);
	for (uint64_t round = 1; round <= 10; round++) {
		for (uint16_t cpu = 0; cpu < 100; cpu++) {
			struct top_key a = small, b = large;

			a.cpu = b.cpu = cpu;
			add(&rows, b, (struct top_value){ 2, 1ull << 32, round, 1 });
			add(&rows, a, (struct top_value){ 1, 512, cpu, 0 });
		}
		top_rows_compact(&rows, &tables, SORT_BYTES);
		assert_int_equal(rows.n, 2);
		for (size_t i = 0; i < 2; i++) {
			const struct top_row *row = &rows.rows[i];

			assert_int_equal(row->key.cpu, 0);
			sum[0].io += row->key.pid == 100 ? row->io : 0;
			sum[1].io += row->key.pid == 199 ? row->io : 0;
		}
	}
	/* 100 + 200 + ... + 1000, and twice that */
	assert_int_equal(sum[0].io, 5500);
	assert_int_equal(sum[1].io, 11000);
	/* a value added after the last output is counted */
	add(&rows, small, (struct top_value){ 7, 1, 1, 7 });
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 2);
	row_is(&rows, 0, 199, 2000, 1000ull << 32, 5500);
	assert_int_equal(rows.rows[0].untimed, 1000);
	row_is(&rows, 1, 100, 1007, 1000 * 512 + 1, 10 * 99 * 100 / 2 + 1);
	assert_int_equal(rows.rows[1].untimed, 7);
	top_rows_free(&rows);
}

#define MANY	   100000 /* more than TOP_ROWS_MAX, in as many rounds as drains */
#define ROUNDS	   10
#define FIRST_MANY 0x60000000U

/* Many processes of one small I/O each, on two disks, and two of which one is large, the other has
 * many I/Os. */
static void add_many(struct top_rows *rows, struct process_names *names, uint32_t from, uint32_t n)
{
	add(rows, (struct top_key){ .pid = 100, .dev = SDA, .known = 1 },
	    (struct top_value){ 2, 1 << 30, 1, 0 });
	add(rows, (struct top_key){ .pid = 101, .dev = SDB, .op = BLK_WRITE, .known = 1 },
	    (struct top_value){ 1000, 8192, 1, 1000 });
	for (uint32_t i = from; i < from + n; i++) {
		assert_int_equal(process_names_put(names, FIRST_MANY + i, i, "one of many"), 0);
		add(rows,
		    (struct top_key){ .pid = FIRST_MANY + i,
				      .start = i,
				      .cgroup = i,
				      .dev = i % 2 ? SDA : SDB,
				      .op = BLK_WRITE,
				      .writeback = i % 4 == 3,
				      .known = 1 },
		    (struct top_value){ 1, 4096, 7, i % 2 });
	}
}

static struct top_value sum_of(const struct top_rows *rows, const char *disk, bool writeback)
{
	struct top_value sum = { 0 };

	for (size_t i = 0; i < rows->n; i++) {
		const struct top_row *row = &rows->rows[i];

		if (row->pid == 100 || row->pid == 101 || strcmp(row->disk, disk) != 0 ||
		    row->writeback != writeback)
			continue;
		sum.io += row->io;
		sum.bytes += row->bytes;
		sum.time_ns += row->time_ns;
		sum.untimed += row->untimed;
	}
	return sum;
}

static void sum_is(const struct top_rows *rows, const char *disk, bool writeback, uint64_t io,
		   uint64_t untimed)
{
	struct top_value sum = sum_of(rows, disk, writeback);

	assert_int_equal(sum.io, io);
	assert_int_equal(sum.bytes, io * 4096);
	assert_int_equal(sum.time_ns, io * 7);
	assert_int_equal(sum.untimed, untimed);
}

/* However many processes there are in an interval: memory has a bound, sums are exact, what is
 * large by the order that was asked for stays, with its name. */
static void check_many(enum top_sort sort, uint32_t stays, uint64_t io, uint64_t bytes)
{
	struct top_tables own = { .disks = tables.disks };
	struct top_rows rows = { 0 };
	uint64_t named = 0, others = 0;
	size_t before, at = 0;

	assert_int_equal(process_names_open(&own.names), 0);
	assert_int_equal(put_names(own.names), 0);
	before = mallinfo2().uordblks;
	for (uint32_t i = 0; i < MANY; i += MANY / ROUNDS) {
		add_many(&rows, own.names, i, MANY / ROUNDS);
		top_rows_compact(&rows, &own, sort);
		assert_true(rows.n <= TOP_ROWS_MAX);
		/* Each drain stores the name again while the process does I/O. */
		assert_int_equal(put_names(own.names), 0);
	}
	assert_true(mallinfo2().uordblks < before + (64U << 20));
	top_rows_finish(&rows, &own, sort);
	while (at < rows.n && rows.rows[at].pid != stays)
		at++;
	row_is(&rows, at, stays, io, bytes, ROUNDS);
	assert_string_equal(rows.rows[at].comm, stays == 100 ? "proc100" : "proc101");
	sum_is(&rows, "sda", false, MANY / 4, MANY / 4);
	sum_is(&rows, "sda", true, MANY / 4, MANY / 4);
	sum_is(&rows, "sdb", false, MANY / 2, 0);
	for (size_t i = 0; i < rows.n; i++) {
		const struct top_row *row = &rows.rows[i];

		others += strcmp(row->comm, TOP_OTHERS) == 0;
		named += strcmp(row->comm, "one of many") == 0;
		if (row->pid >= FIRST_MANY)
			assert_int_equal(row->pid - FIRST_MANY, row->start);
	}
	assert_int_equal(others, 3);
	assert_int_equal(named, rows.n - others - 2);
	assert_int_equal(rows.evicted + named, MANY);
	assert_int_equal(process_names_lost(own.names), 0);
	top_rows_free(&rows);
	process_names_free(own.names);
}

static void test_many_processes(void **state)
{
	(void)state;
	check_many(SORT_BYTES, 100, 2 * ROUNDS, (uint64_t)ROUNDS << 30);
	check_many(SORT_IO, 101, 1000 * ROUNDS, 8192 * ROUNDS);
}

/* One number, three processes: three rows, in the order in which they started. */
static void test_number_used_again(void **state)
{
	const uint64_t starts[] = { 1ull << 33, 1ull << 32, 5 };
	struct top_tables own = tables;
	struct top_rows rows = { 0 };

	(void)state;
	assert_int_equal(process_names_open(&own.names), 0);
	assert_int_equal(process_names_put(own.names, 150, starts[0], "late"), 0);
	assert_int_equal(process_names_put(own.names, 150, starts[2], "early"), 0);
	for (uint16_t cpu = 0; cpu < 2; cpu++)
		for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
			add(&rows,
			    (struct top_key){ starts[i], 0, 150, SDA, .known = 1, .cpu = cpu },
			    (struct top_value){ 1, 7, 1, 0 });
	top_rows_finish(&rows, &own, SORT_BYTES);
	assert_int_equal(rows.n, ARRAY_SIZE(starts));
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		assert_int_equal(rows.rows[i].start, starts[ARRAY_SIZE(starts) - 1 - i]);
		assert_int_equal(rows.rows[i].pid, 150);
		assert_int_equal(rows.rows[i].io, 2);
	}
	assert_string_equal(rows.rows[0].comm, "early");
	assert_string_equal(rows.rows[1].comm, "?");
	assert_string_equal(rows.rows[2].comm, "late");
	assert_int_equal(process_names_lost(own.names), 1);
	top_rows_free(&rows);
	process_names_free(own.names);
}

static void test_no_rows(void **state)
{
	struct top_rows rows = { 0 };

	(void)state;
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 0);
	top_rows_free(&rows);
	top_rows_free(&rows);
}

static void test_sort_orders(void **state)
{
	static const struct {
		enum top_sort sort;
		uint32_t pids[4];
	} orders[] = {
		{ SORT_BYTES, { 102, 100, 103, 101 } },
		{ SORT_IO, { 101, 103, 100, 102 } },
		{ SORT_TIME, { 103, 102, 101, 100 } },
	};
	struct top_rows rows = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		rows.n = 0;
		add(&rows, (struct top_key){ .pid = 100, .dev = SDA, .known = 1 },
		    (struct top_value){ 20, 3000, 1, 0 });
		add(&rows, (struct top_key){ .pid = 101, .dev = SDA, .known = 1 },
		    (struct top_value){ 40, 1000, 2, 0 });
		add(&rows, (struct top_key){ .pid = 102, .dev = SDA, .known = 1 },
		    (struct top_value){ 10, 1ull << 33, 3, 0 });
		add(&rows, (struct top_key){ .pid = 103, .dev = SDA, .known = 1 },
		    (struct top_value){ 30, 2000, 1ull << 34, 0 });
		top_rows_finish(&rows, &tables, orders[i].sort);
		assert_int_equal(rows.n, 4);
		for (size_t k = 0; k < 4; k++)
			assert_int_equal(rows.rows[k].pid, orders[i].pids[k]);
	}
	top_rows_free(&rows);
}

/* Rows with equal values are sorted by I/Os, process, operation, disk. */
static void test_sort_ties(void **state)
{
	static const struct top_key keys[] = {
		{ .pid = 100, .dev = LATE, .op = BLK_READ, .known = 1 },
		{ .pid = 100, .dev = SDA, .op = BLK_READ, .known = 1 },
		{ .pid = 100, .dev = SDB, .op = BLK_READ, .known = 1 },
		{ .pid = 100, .dev = SDA, .op = BLK_WRITE, .known = 1 },
		{ .pid = 101, .dev = SDA, .op = BLK_READ, .known = 1 },
	};
	struct top_rows rows = { 0 };

	(void)state;
	/* in any order that they are drained in */
	for (size_t first = 0; first < ARRAY_SIZE(keys); first++) {
		rows.n = 0;
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
			add(&rows, keys[(first + i) % ARRAY_SIZE(keys)],
			    (struct top_value){ 1, 512, 1, 0 });
		add(&rows, (struct top_key){ .pid = 199, .dev = SDA, .known = 1 },
		    (struct top_value){ 2, 512, 1, 0 });
		top_rows_finish(&rows, &tables, SORT_BYTES);
		assert_int_equal(rows.n, ARRAY_SIZE(keys) + 1);
		assert_int_equal(rows.rows[0].pid, 199);
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
			assert_memory_equal(&rows.rows[i + 1].key, &keys[i], sizeof(keys[i]));
	}
	top_rows_free(&rows);
}

/* Rows that differ only in keys that are not shown keep their order. */
static void test_sort_is_stable(void **state)
{
	struct top_rows rows = { 0 };
	uint64_t before[50];

	(void)state;
	for (int round = 0; round < 10; round++) {
		rows.n = 0;
		for (uint64_t i = 0; i < 50; i++)
			add(&rows,
			    (struct top_key){ .pid = 100,
					      .dev = SDA,
					      .known = 1,
					      .cgroup = 1 + (i * 7 + (uint64_t)round * 11) % 50 },
			    (struct top_value){ 1, 512, 1, 0 });
		top_rows_finish(&rows, &tables, SORT_BYTES);
		assert_int_equal(rows.n, 50);
		for (size_t i = 0; i < 50; i++) {
			if (round)
				assert_int_equal(rows.rows[i].key.cgroup, before[i]);
			before[i] = rows.rows[i].key.cgroup;
		}
	}
	top_rows_free(&rows);
}

/* Rows as they are shown with @o. */
static char *rendered_with(const struct top_options *o, enum format format,
			   const struct top_rows *rows)
{
	struct column columns[TOP_COLUMNS_MAX];
	struct schema schema;

	top_schema(o, columns, &schema);
	return rendered(format, &schema, rows->rows, rows->n);
}

static void shown_as(struct top_rows *rows, enum format format, const char *expected)
{
	char *text;

	top_rows_finish(rows, &tables, SORT_BYTES);
	text = rendered_with(&(struct top_options){ .cgroup_owner = tables.cgroups }, format, rows);
	assert_string_equal(text, expected);
	free(text);
}

static void add_five(struct top_rows *rows)
{
	rows->n = 0;
	add(rows, (struct top_key){ .pid = 100, .dev = SDA, .op = BLK_READ, .known = 1 },
	    (struct top_value){ 1000, 4096000, 1234567890, 0 });
	add(rows,
	    (struct top_key){
		.pid = 101, .dev = NVME, .op = BLK_WRITE, .known = 1, .writeback = 1 },
	    (struct top_value){ 3, 1024 * 1024 + 1023, 100000, 0 });
	add(rows, (struct top_key){ .pid = 102, .dev = SDB, .op = BLK_DISCARD, .known = 1 },
	    (struct top_value){ 1, 1023, 5000, 0 });
	/* bytes of a request whose end is not there yet: no average */
	add(rows, (struct top_key){ .pid = 103, .dev = SDB, .op = BLK_READ, .known = 1 },
	    (struct top_value){ 0, 512, 0, 0 });
	add(rows, (struct top_key){ .dev = SDB, .op = BLK_FLUSH },
	    (struct top_value){ 1, 0, 4999, 0 });
}

static void test_rows_as_text(void **state)
{
	struct top_rows rows = { 0 };

	(void)state;
	add_five(&rows);
	shown_as(&rows, FORMAT_TEXT,
		 "PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms\n"
		 "100    proc100          R 8   0   sda       1000    4000   1.23\n"
		 "101    proc101-wb       W 259 0   nvme0n1      3    1024   0.03\n"
		 "102    proc102          D 8   16  sdb          1       0   0.01\n"
		 "103    proc103          R 8   16  sdb          0       0      -\n"
		 "0      [unknown]        F 8   16  sdb          1       0   0.00\n");
	top_rows_free(&rows);
}

/* A process that calls itself "x-wb" or "(other)" is neither write-back nor the rest. */
static void test_marks_are_not_imitated(void **state)
{
	const struct top_value value = { 1, 4096, 1000000, 0 };
	struct top_rows rows = { 0 };

	(void)state;
	assert_int_equal(process_names_put(tables.names, 100, 0, "proc101-wb"), 0);
	assert_int_equal(process_names_put(tables.names, 102, 0, "(other)"), 0);
	add(&rows, (struct top_key){ .pid = 100, .dev = SDA, .op = BLK_WRITE, .known = 1 }, value);
	add(&rows,
	    (struct top_key){ .pid = 101, .dev = SDA, .op = BLK_WRITE, .known = 1, .writeback = 1 },
	    value);
	add(&rows, (struct top_key){ .pid = 102, .dev = SDA, .op = BLK_WRITE, .known = 1 }, value);
	shown_as(&rows, FORMAT_TEXT,
		 "PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms\n"
		 "100    proc101\\\\x2dwb   W 8   0   sda          1       4   1.00\n"
		 "101    proc101-wb       W 8   0   sda          1       4   1.00\n"
		 "102    \\\\x28other)      W 8   0   sda          1       4   1.00\n");
	top_rows_free(&rows);
}

/* Numbers that outgrow their column are not cut. */
static void test_large_rows_as_text(void **state)
{
	struct top_rows rows = { 0 };

	(void)state;
	add(&rows, (struct top_key){ .pid = 4194303, .dev = DISK_DEV(4095, 1048575), .known = 1 },
	    (struct top_value){ 1, UINT64_MAX, UINT64_MAX, 0 });
	shown_as(&rows, FORMAT_TEXT,
		 "PID     COMM             D MAJ  MIN     DISK           I/O  Kbytes  AVGms\n"
		 "4194303 ?                R 4095 1048575 4095:1048575     1 18014398509481983 "
		 "18446744073709.55\n");
	top_rows_free(&rows);
}

#define TIMES "1.000000000,2.500000000,"

static void test_rows_as_csv(void **state)
{
	struct top_rows rows = { 0 };

	(void)state;
	add_five(&rows);
	/* raw: the mark of write-back is a column, bytes are bytes, times are added up */
	shown_as(&rows, FORMAT_CSV,
		 TIMES "100,proc100,read,8,0,sda,1000,4096000,1234567890,false\n" TIMES
		       "101,proc101,write,259,0,nvme0n1,3,1049599,100000,true\n" TIMES
		       "102,proc102,discard,8,16,sdb,1,1023,5000,false\n" TIMES
		       "103,proc103,read,8,16,sdb,0,512,0,false\n" TIMES
		       "0,[unknown],flush,8,16,sdb,1,0,4999,false\n");
	top_rows_free(&rows);
}

/* The average is over the I/Os whose time is known. */
static void test_untimed(void **state)
{
	static const struct {
		uint64_t io, time_ns, untimed;
		const char *average;
	} cases[] = {
		{ 10, 30000000, 0, "3.00" },
		{ 10, 30000000, 4, "5.00" },
		{ 10, 30000000, 9, "30.00" },
		{ 10, 0, 10, "-" },
		{ 1, 0, 1, "-" },
		{ 0, 0, 0, "-" },
		{ 10, 0, 0, "0.00" }, /* known, and next to nothing */
		{ 10, 0, 11, "-" },   /* cannot be: the counters are read one by one */
		{ 0, 0, 1, "-" },
		{ UINT64_MAX, 1000000, UINT64_MAX - 1, "1.00" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct top_rows rows = { 0 };
		char expected[64], *text;
		size_t len;

		add(&rows, (struct top_key){ .pid = 100, .dev = SDA, .known = 1 },
		    (struct top_value){ cases[i].io, 1, cases[i].time_ns, cases[i].untimed });
		top_rows_finish(&rows, &tables, SORT_BYTES);
		text =
		    rendered_with(&(struct top_options){ .extended = false }, FORMAT_TEXT, &rows);
		len = (size_t)snprintf(expected, sizeof(expected), "%7s\n", cases[i].average);
		assert_true(strlen(text) > len);
		assert_string_equal(text + strlen(text) - len, expected);
		free(text);
		top_rows_free(&rows);
	}
}

/* Untimed I/Os are added up over all CPUs; machine-readable output has the sum of times, no
 * average. */
static void test_untimed_is_joined(void **state)
{
	struct top_rows rows = { 0 };
	struct top_key key = { .pid = 100, .dev = SDA, .known = 1 };

	(void)state;
	for (key.cpu = 0; key.cpu < 4; key.cpu++)
		add(&rows, key, (struct top_value){ 5, 1024, 6000000, 2 });
	shown_as(&rows, FORMAT_TEXT,
		 "PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms\n"
		 "100    proc100          R 8   0   sda         20       4   2.00\n");
	assert_int_equal(rows.rows[0].untimed, 8);
	shown_as(&rows, FORMAT_CSV, TIMES "100,proc100,read,8,0,sda,20,4096,24000000,false\n");
	top_rows_free(&rows);
}

static void test_rows_with_cgroup(void **state)
{
	struct top_rows rows = { 0 };
	char path[PATH_MAX];
	struct stat st;

	(void)state;
	snprintf(path, sizeof(path), "%s/system.slice", root);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(cgroups_open(root, NULL, &tables.cgroups), 0);
	add(&rows,
	    (struct top_key){ .pid = 100,
			      .dev = SDA,
			      .op = BLK_WRITE,
			      .known = 1,
			      .writeback = 1,
			      .cgroup = st.st_ino },
	    (struct top_value){ 1, 2048, 0, 1 });
	add(&rows, (struct top_key){ .pid = 100, .dev = SDA, .known = 1 },
	    (struct top_value){ 1, 1024, 0, 0 });
	shown_as(&rows, FORMAT_TEXT,
		 "PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms CGROUP\n"
		 "100    proc100-wb       W 8   0   sda          1       2      - /system.slice\n"
		 "100    proc100          R 8   0   sda          1       1   0.00 -\n");
	top_rows_free(&rows);
}

/* Adds @n I/Os of @ns each, one of them with an error, of CPU @cpu. */
static void add_times(struct top_rows *rows, uint32_t pid, uint16_t cpu, uint32_t n, uint64_t ns)
{
	const struct top_key key = { .pid = pid, .dev = SDA, .known = 1, .cpu = cpu };
	const struct top_value value = {
		.io = n, .bytes = n * 1024, .time_ns = n * ns, .max_ns = ns, .errors = 1
	};
	struct top_slots slots = { { 0 } };
	unsigned int slot = hist_fine_slot(ns);

	slot = slot < TOP_SLOT_FIRST ? 0 : slot - TOP_SLOT_FIRST;
	slots.counts[slot < TOP_SLOTS ? slot : TOP_SLOTS - 1] = n;
	assert_int_equal(top_rows_add(rows, &key, &value, &slots), 0);
}

static void test_percentile(void **state)
{
	static const struct {
		uint32_t fast, slow;
		uint64_t fast_ns, slow_ns, p99_lo, p99_hi;
	} cases[] = {
		{ 99, 1, 1000000, 50000000, 937500, 1062500 }, /* the 99th of 100 */
		{ 98, 2, 1000000, 50000000, 46875000, 50000000 },
		{ 1, 1, 1000000, 50000000, 50000000, 50000000 }, /* the last: the maximum */
		{ 999, 1, 100, 50000000, 1024, 1152 },		 /* below 1 us */
		{ 1, 1, 1000000, 90000000000, 90000000000, 90000000000 }, /* above 69 s */
		{ UINT32_MAX, 3, 1000000, 50000000, 0, 0 }, /* more than a slot can count */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct top_rows rows = { 0 };

		add_times(&rows, 100, 0, cases[i].fast, cases[i].fast_ns);
		add_times(&rows, 100, 1, cases[i].slow, cases[i].slow_ns);
		if (cases[i].fast == UINT32_MAX)
			add_times(&rows, 100, 2, 5, cases[i].fast_ns);
		top_rows_finish(&rows, &tables, SORT_BYTES);
		assert_int_equal(rows.n, 1);
		assert_in_range(rows.rows[0].p99_ns, cases[i].p99_lo, cases[i].p99_hi);
		assert_int_equal(rows.rows[0].max_ns, cases[i].slow_ns);
		top_rows_free(&rows);
	}
}

/* One CPU had no room for slots: what the other saw is not the row's percentile. */
static void test_percentile_of_a_part(void **state)
{
	struct top_rows rows = { 0 };

	(void)state;
	add_times(&rows, 100, 0, 10, 1000000);
	add(&rows, (struct top_key){ .pid = 100, .dev = SDA, .known = 1, .cpu = 1 },
	    (struct top_value){ .io = 1, .bytes = 1024, .time_ns = 9000000, .max_ns = 9000000 });
	top_rows_finish(&rows, &tables, SORT_BYTES);
	assert_int_equal(rows.n, 1);
	assert_int_equal(rows.rows[0].p99_ns, 0);
	assert_int_equal(rows.rows[0].max_ns, 9000000);
	top_rows_free(&rows);
}

/* -x: processes with one name, (other), and rows that are never shown. */
static void test_extended(void **state)
{
	struct top_options o = { .extended = true };
	struct top_rows rows = { 0 };
	char *text;

	(void)state;
	tables.by = 0;
	add_times(&rows, 100, 0, 10, 2000000);
	add_times(&rows, 100, 3, 10, 4000000);
	add(&rows, (struct top_key){ .pid = 101, .dev = SDA, .known = 1 },
	    (struct top_value){ .io = 1, .bytes = 1024, .untimed = 1 });
	top_rows_finish(&rows, &tables, SORT_BYTES);
	text = rendered_with(&o, FORMAT_TEXT, &rows);
	assert_string_equal(text,
			    "PID    COMM             D MAJ MIN DISK       I/O  Kbytes  AVGms   "
			    "P99ms   MAXms  ERR\n"
			    "100    proc100          R 8   0   sda         20      20   3.00    "
			    "4.00    4.00    2\n"
			    "101    proc101          R 8   0   sda          1       1      -       "
			    "-       -    0\n");
	free(text);
	rows.n = 0;
	assert_int_equal(keys_parse(&tables.by, "process", NULL), 0);
	o.by = tables.by;
	add_times(&rows, 100, 0, 3, 1000000);
	add_times(&rows, 101, 0, 2, 2000000);
	add_times(&rows, 102, 0, 1, 5000000);
	top_rows_finish(&rows, &tables, SORT_BYTES);
	rows.n = top_rows_limit(rows.rows, rows.n, tables.by, 1);
	text = rendered_with(&o, FORMAT_CSV, &rows);
	assert_string_equal(text, TIMES "100,proc100,read,3,3072,3000000,1000000,1000000,1\n" TIMES
					"0,(other),read,3,3072,9000000,5000000,5000000,2\n");
	free(text);
	rows.n = 0;
	tables.by = 0;
	add_times(&rows, 100, 0, 3, 1000000);
	top_rows_free(&rows);
}

static struct top_rows rows_by(const char *keys)
{
	struct top_rows rows = { 0 };

	assert_int_equal(keys_parse(&tables.by, keys, NULL), 0);
	if (keys_have(tables.by, KEY_USER) && !tables.users)
		assert_int_equal(users_open("/dev/null", &tables.users), 0);
	add(&rows, (struct top_key){ .pid = 100, .dev = SDA, .op = BLK_READ, .known = 1, .uid = 5 },
	    (struct top_value){ 4, 4096, 3000000, 0 });
	add(&rows,
	    (struct top_key){ .pid = 101,
			      .dev = SDA,
			      .op = BLK_READ,
			      .known = 1,
			      .writeback = 1,
			      .uid = 5,
			      .cpu = 1 },
	    (struct top_value){ 3, 3072, 1000000, 1 });
	add(&rows, (struct top_key){ .pid = 100, .dev = SDB, .op = BLK_WRITE, .known = 1 },
	    (struct top_value){ 2, 2048, 2000000, 0 });
	add(&rows, (struct top_key){ .dev = SDB, .op = BLK_READ },
	    (struct top_value){ 1, 1024, 1000000, 0 });
	top_rows_finish(&rows, &tables, SORT_BYTES);
	return rows;
}

static void shown_by(const char *keys, uint64_t most, const char *expected)
{
	struct top_rows rows = rows_by(keys);
	char *text;

	rows.n = top_rows_limit(rows.rows, rows.n, tables.by, most);
	text = rendered_with(&(struct top_options){ .by = tables.by }, FORMAT_CSV, &rows);
	assert_string_equal(text, expected);
	free(text);
	top_rows_free(&rows);
}

/* Only the keys of --by, and always the operation, are part of the key. */
static void test_by(void **state)
{
	(void)state;
	shown_by("disk", 9,
		 TIMES "sda,read,7,7168,4000000\n" TIMES "sdb,write,2,2048,2000000\n" TIMES
		       "sdb,read,1,1024,1000000\n");
	shown_by("comm", 9,
		 TIMES "proc100,read,4,4096,3000000\n" TIMES "proc101,read,3,3072,1000000\n" TIMES
		       "proc100,write,2,2048,2000000\n" TIMES "[unknown],read,1,1024,1000000\n");
	shown_by("user", 9,
		 TIMES "5,read,7,7168,4000000\n" TIMES "0,write,2,2048,2000000\n" TIMES
		       "[unknown],read,1,1024,1000000\n");
	shown_by("process,disk", 1,
		 TIMES "100,proc100,sda,read,4,4096,3000000\n" TIMES
		       "0,(other),(other),read,4,4096,2000000\n" TIMES
		       "0,(other),(other),write,2,2048,2000000\n");
}

/* Process 0 is the idle task, and a number that [unknown] and (other) do not have. */
static void test_by_idle_task(void **state)
{
	static const struct top_key keys[] = {
		{ .dev = SDA, .op = BLK_READ, .known = 1 },
		{ .dev = SDA, .op = BLK_READ },
		{ .pid = 100, .dev = SDA, .op = BLK_READ, .known = 1 },
	};
	struct top_rows rows = { 0 };
	char *text;

	(void)state;
	assert_int_equal(keys_parse(&tables.by, "process", NULL), 0);
	assert_int_equal(process_names_put(tables.names, 0, 0, "swapper/0"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		add(&rows, keys[i], (struct top_value){ 4 - i, 4096 * (4 - i), 1000 * (4 - i), 0 });
	top_rows_finish(&rows, &tables, SORT_BYTES);
	rows.n = top_rows_limit(rows.rows, rows.n, tables.by, 2);
	text = rendered_with(&(struct top_options){ .by = tables.by }, FORMAT_CSV, &rows);
	assert_string_equal(text, TIMES "0,swapper/0,read,4,16384,4000\n" TIMES
					"0,[unknown],read,3,12288,3000\n" TIMES
					"0,(other),read,2,8192,2000\n");
	free(text);
	top_rows_free(&rows);
}

/* If a recording has a row (other) already, the limit does not add a second one. */
static void test_by_limit(void **state)
{
	struct top_row rows[4] = { { .letter = 'R', .io = 1 },
				   { .letter = 'R', .io = 2 },
				   { .letter = 'W', .io = 4 },
				   { .letter = 'R', .io = 8 } };
	by_keys by;

	(void)state;
	assert_int_equal(keys_parse(&by, "comm", NULL), 0);
	for (size_t i = 0; i < 4; i++)
		rows[i].by.comm = "a";
	rows[1].by = keys_other;
	assert_int_equal(top_rows_limit(rows, 4, by, 4), 4);
	assert_int_equal(top_rows_limit(rows, 4, by, 2), 3);
	assert_int_equal(rows[0].io, 1);
	assert_int_equal(rows[1].io, 10);
	assert_int_equal(rows[2].io, 4);
	assert_string_equal(rows[2].by.comm, "(other)");
}

/* Whoever wrote a recording: such keys have no column, and no label. */
static void test_by_no_key(void **state)
{
	static const by_keys numbers[] = { BY_KEYS + 1, UINT64_MAX, (KEY_DISK + 1) << 8 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		struct top_row rows[3] = { { .by.disk = "sda", .letter = 'R', .io = 1 },
					   { .by.disk = "sda", .letter = 'W', .io = 2 },
					   { .by.disk = "sda", .letter = 'R', .io = 4 } };

		uint64_t io = 0;
		size_t n;

		top_rows_sort(rows, ARRAY_SIZE(rows), numbers[i], SORT_BYTES);
		n = top_rows_limit(rows, ARRAY_SIZE(rows), numbers[i], 1);
		while (n > 0)
			io += rows[--n].io;
		assert_int_equal(io, 7);
	}
}

#define with_tables(test) cmocka_unit_test_setup_teardown(test, make_tables, free_tables)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_tables(test_row_labels),
		with_tables(test_unknown_rows),
		with_tables(test_cpus_are_joined),
		with_tables(test_keys_apart),
		with_tables(test_compact),
		with_tables(test_many_processes),
		with_tables(test_number_used_again),
		with_tables(test_no_rows),
		with_tables(test_sort_orders),
		with_tables(test_sort_ties),
		with_tables(test_sort_is_stable),
		with_tables(test_rows_as_text),
		with_tables(test_marks_are_not_imitated),
		with_tables(test_large_rows_as_text),
		with_tables(test_rows_as_csv),
		with_tables(test_untimed),
		with_tables(test_untimed_is_joined),
		with_tables(test_rows_with_cgroup),
		with_tables(test_percentile),
		with_tables(test_percentile_of_a_part),
		with_tables(test_extended),
		with_tables(test_by),
		with_tables(test_by_idle_task),
		cmocka_unit_test(test_by_limit),
		cmocka_unit_test(test_by_no_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
