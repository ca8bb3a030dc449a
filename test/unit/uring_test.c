/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows of `uring`: parts of several CPUs and rings, names, percentiles, the limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/uring/options.h"
#include "cmd/uring/rows.h"

static void test_operations(void **state)
{
	char buf[URING_OP_SIZE];

	(void)state;
	assert_string_equal(uring_op_name(0, buf), "nop");
	assert_string_equal(uring_op_name(13, buf), "accept");
	assert_string_equal(uring_op_name(22, buf), "read");
	assert_string_equal(uring_op_name(49, buf), "read_multishot");
	assert_string_equal(uring_op_name(64, buf), "uring_cmd128");
	assert_string_equal(uring_op_name(65, buf), "op 65");
	assert_string_equal(uring_op_name(255, buf), "op 255");
	assert_string_equal(uring_op_name(URING_UNKNOWN, buf), "(unknown)");
	assert_string_equal(uring_op_name(URING_NO_REQUEST, buf), "(no request)");
}

/* @count requests of @ns each; the comm fills its array. */
static struct uring_value value_of(int32_t fd, uint64_t count, uint64_t ns)
{
	struct uring_value value = { .fd = fd, .flags = URING_SQPOLL, .count = count };

	memcpy(value.comm, "sixteen letters!", URING_COMM);
	value.timed = count;
	value.inlined = 1;
	value.more = 2;
	value.latency.total_ns = count * ns;
	value.latency.max_ns = ns;
	value.latency.fine[probe_fine_slot(ns)] = count;
	return value;
}

static void add(struct uring_rows *rows, const struct uring_key *key,
		const struct uring_value *value)
{
	assert_int_equal(uring_rows_add(rows, key, value), 0);
}

static void test_parts(void **state)
{
	const struct uring_value some = value_of(5, 10, 1000), slow = value_of(5, 10, 1000000);
	const struct uring_value no_fd = { .fd = -1, .count = 3 };
	struct uring_rows rows = { 0 };

	(void)state;
	/* Two CPUs, and a ring that took the descriptor of one that was closed. */
	add(&rows, &(struct uring_key){ .ring = 1, .pid = 9, .opcode = 22 }, &some);
	add(&rows, &(struct uring_key){ .ring = 1, .pid = 9, .opcode = 22, .cpu = 1 }, &slow);
	add(&rows, &(struct uring_key){ .ring = 2, .pid = 9, .opcode = 22 }, &some);
	/* Others. */
	add(&rows, &(struct uring_key){ .ring = 1, .pid = 9, .opcode = 0 }, &some);
	add(&rows, &(struct uring_key){ .ring = 3, .pid = 7, .opcode = 22 }, &no_fd);
	uring_rows_finish(&rows);
	assert_int_equal(rows.n, 3);
	assert_int_equal(rows.rows[0].pid, 7);
	assert_string_equal(rows.rows[0].ring, "?");
	assert_string_equal(rows.rows[0].comm, "");
	assert_string_equal(rows.rows[0].mode, "");
	assert_int_equal(rows.rows[0].count, 3);
	assert_null(rows.rows[0].latency);
	assert_string_equal(rows.rows[1].op, "nop");
	assert_string_equal(rows.rows[2].op, "read");
	assert_string_equal(rows.rows[2].comm, "sixteen letters!");
	assert_string_equal(rows.rows[2].ring, "5");
	assert_string_equal(rows.rows[2].mode, "sqpoll");
	assert_int_equal(rows.rows[2].count, 30);
	assert_int_equal(rows.rows[2].timed, 30);
	assert_int_equal(rows.rows[2].inlined, 3);
	assert_int_equal(rows.rows[2].more, 6);
	assert_int_equal(rows.rows[2].time_ns, 20 * 1000 + 10 * 1000000);
	assert_int_equal(rows.rows[2].max_ns, 1000000);
	assert_in_range(rows.rows[2].p50_ns, 1000 - 1000 / 16, 1000 + 1000 / 16);
	assert_int_equal(rows.rows[2].latency->count, 30);
	uring_rows_clear(&rows);
	assert_int_equal(rows.n, 0);
}

static void test_limit(void **state)
{
	const struct uring_value value = { .fd = 1, .count = 2, .more = 1 };
	struct uring_rows rows = { 0 };

	(void)state;
	for (uint32_t pid = URING_ROWS_MAX + 2; pid > 0; pid--)
		add(&rows, &(struct uring_key){ .pid = pid }, &value);
	assert_int_equal(rows.n, URING_ROWS_MAX);
	assert_int_equal(rows.left_out, 2 * 3);
	/* A row that is there goes on. */
	add(&rows, &(struct uring_key){ .pid = URING_ROWS_MAX }, &value);
	assert_int_equal(rows.left_out, 2 * 3);
	uring_rows_clear(&rows);
}

static int parse(struct uring_options *o, const char *first, const char *second)
{
	char name[] = "iotrace uring", *argv[] = { name, (char *)first, (char *)second, NULL };
	struct error err = { 0 };

	return uring_options(first ? second ? 3 : 2 : 1, argv, o, &err);
}

static void test_options(void **state)
{
	struct uring_options o;

	(void)state;
	assert_int_equal(parse(&o, NULL, NULL), 0);
	assert_int_equal(o.args.interval_ns, 1000000000);
	assert_null(o.filters.pid_arg);
	assert_int_equal(parse(&o, "-p", "1,2"), 0);
	assert_string_equal(o.filters.pid_arg, "1,2");
	assert_int_equal(parse(&o, "0.5", "3"), 0);
	assert_int_equal(o.args.interval_ns, 500000000);
	assert_int_equal(o.args.count, 3);
	assert_int_not_equal(parse(&o, "-x", NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
