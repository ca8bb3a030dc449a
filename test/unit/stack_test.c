/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cmd/stack: options, and the table whose memory is bounded. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmd/stack/options.h"
#include "cmd/stack/paths.h"
#include "cmd/stack/schema.h"
#include "cmd/stack/table.h"
#include "core/base/array.h"
#include "core/base/clock.h"

/* ---- options ---- */

static int parse(const char *line, struct stack_options *o, struct error *err)
{
	static char text[256];
	static char *argv[16];
	char *rest = text;
	int argc = 0;

	memset(argv, 0, sizeof(argv));

	snprintf(text, sizeof(text), "%s", line);
	for (char *word; argc < 15 && (word = strsep(&rest, " "));)
		argv[argc++] = word;
	return stack_options(argc, argv, o, err);
}

static void test_direction(void **state)
{
	static const struct {
		const char *line;
		bool reads, writes;
	} want[] = {
		{ "stack", true, true },
		{ "stack -io w", false, true },
		{ "stack -io=w", false, true },
		{ "stack --iodir w", false, true },
		{ "stack --iodir=w", false, true },
		{ "stack -P -io r", true, false },
		{ "stack -io rw -K", true, true },
		{ "stack -io=r -io=w", false, true },
		{ "stack --io w", false, true },
	};
	struct stack_options o;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_int_equal(parse(want[i].line, &o, NULL), 0);
		assert_int_equal(o.reads, want[i].reads);
		assert_int_equal(o.writes, want[i].writes);
	}
}

static void test_options(void **state)
{
	struct stack_options o;

	(void)state;
	assert_int_equal(parse("stack -P -io w -D 86400", &o, NULL), 0);
	assert_true(o.per_pid && !o.kernel && !o.user && !o.folded && !o.svg);
	assert_true(o.args.interval_ns == 86400 * NS_PER_SEC);
	assert_int_equal(o.args.count, 1);
	assert_int_equal(parse("stack -KUf --svg x.svg -d sda -- prog -io x", &o, NULL), 0);
	assert_true(o.kernel && o.user && o.folded);
	assert_string_equal(o.svg, "x.svg");
	assert_true(o.args.interval_ns == 0 && o.args.count == 0);
	/* COMMAND's own are left alone */
	assert_string_equal(o.args.command[1], "-io");
	assert_int_equal(
	    parse("stack --kernel-stack --user-stack --perpid --folded --duration=2", &o, NULL), 0);
	assert_true(o.kernel && o.user && o.per_pid && o.folded);
	assert_int_equal(o.order, STACK_ORDER_PROCESS);
	assert_true(o.unit == STACK_BYTES && !o.ios && !o.max_rows);
	assert_int_equal(parse("stack --value time -r 3", &o, NULL), 0);
	assert_true(o.unit == STACK_TIME && o.ios && o.max_rows == 3);
	assert_int_equal(parse("stack --value ios --value bytes", &o, NULL), 0);
	assert_true(o.unit == STACK_BYTES && !o.ios);
	/* the recording says what it has */
	assert_int_equal(parse("stack --replay it.rec --value ios", &o, NULL), 0);
	assert_true(o.unit == STACK_IOS && !o.ios);
	assert_int_equal(parse("stack -f --order disk", &o, NULL), 0);
	assert_int_equal(o.order, STACK_ORDER_DISK);
	assert_int_equal(parse("stack --order disk -f --order=process", &o, NULL), 0);
	assert_int_equal(o.order, STACK_ORDER_PROCESS);
}

static void test_wrong_options(void **state)
{
	static const struct {
		const char *line, *what;
	} want[] = {
		{ "stack -io x", "invalid direction 'x': r, w or rw" },
		{ "stack -io=writes-and-more", "invalid direction 'writes-" },
		{ "stack 5 1 2", "too many arguments: '2'" },
		{ "stack -D 1 5", "-D and INTERVAL are mutually exclusive" },
		{ "stack --svg x 5", "--svg shows one output" },
		{ "stack -D 0", "-D" },
		{ "stack -io", "option '--iodir' needs a value" },
		{ "stack -f --json", "mutually exclusive" },
		{ "stack -f --order process,disk",
		  "invalid --order 'process,disk': process or disk" },
		{ "stack --order disk", "--order requires -f" },
		{ "stack --value waits", "invalid --value 'waits': bytes, ios, time or wait" },
		{ "stack --value io", "invalid --value 'io': bytes, ios, time or wait" },
		{ "stack -r 0", "-r" },
		{ "stack --by", "needs a value" },
		{ "stack --by=", "unknown key in --by ''" },
		{ "stack --by disk,", "unknown key in --by ''" },
		{ "stack --by disks", "unknown key in --by 'disks'" },
		{ "stack --by disk,comm,disk", "--by has 'disk' twice" },
		{ "stack --by disk -P", "-P and --by are mutually exclusive" },
		{ "stack --svg=", "--svg needs a file name" },
		{ "stack --svg -", "--svg needs a file name, not -" },
	};
	struct stack_options o;
	struct error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_true(parse(want[i].line, &o, &err) < 0);
		assert_int_equal(err.status, STATUS_USAGE);
		if (!strstr(err.what, want[i].what))
			fail_msg("%s: %s", want[i].line, err.what);
	}
}

/* The keys of the columns that go with some options, by commas. */
static const char *columns_of(const char *line)
{
	static char text[256];
	struct stack_schema schema;
	struct stack_options o;
	const struct schema *made;

	assert_int_equal(parse(line, &o, NULL), 0);
	made = stack_schema(&schema, &o);
	text[0] = 0;
	for (size_t i = 0; i < made->n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? "," : "",
			 made->columns[i].key);
	return text;
}

static void test_schema(void **state)
{
#define SUMS "kernel,user,read_bytes,write_bytes"
#define IOS  "read_ios,write_ios,read_time_ns,write_time_ns"
	(void)state;
	assert_string_equal(columns_of("stack"), "disk,comm,pid," SUMS);
	assert_string_equal(columns_of("stack -P"), "disk,comm,pid," SUMS);
	assert_string_equal(columns_of("stack --value ios"), "disk,comm,pid," SUMS "," IOS);
	assert_string_equal(columns_of("stack --by disk"), "disk," SUMS);
	assert_string_equal(columns_of("stack --by comm"), "comm," SUMS);
	assert_string_equal(columns_of("stack --by process"), "comm,pid," SUMS);
	assert_string_equal(columns_of("stack --by cgroup"), SUMS ",cgroup");
	assert_string_equal(columns_of("stack --by user,unit,container"),
			    SUMS ",unit,container,user_name");
	assert_string_equal(columns_of("stack --by process,disk,cgroup --value time"),
			    "disk,comm,pid," SUMS ",cgroup," IOS);
}

/* ---- stacks of earlier drains ---- */

static void take(struct symbolizer *n, uint64_t id, uint64_t frame)
{
	const struct stack_id key = { { id, id } };
	const struct stack_frames frames = { { frame, frame + 1 } };

	assert_int_equal(symbolizer_take_stack(n, &key, &frames), 0);
}

static void test_paths(void **state)
{
	const struct stack_id kernel = { { 2, 2 } }, user = { { 3, 3 } }, none = { { 0, 0 } };
	const struct stack_id *found, *found_user;
	struct stack_paths paths = { 0 };
	struct symbolizer n = { 0 };

	(void)state;
	take(&n, 2, 100);
	take(&n, 3, 200);
	assert_int_equal(stack_paths_keep(&paths, &kernel, &user, &n), 0);
	assert_int_equal(stack_paths_keep(&paths, &kernel, &none, &n), 0);
	symbolizer_end_drain(&n);
	assert_null(symbolizer_frames(&n, &kernel));
	assert_int_equal(
	    stack_paths_find(&paths, stack_path(&kernel, &none), &n, &found, &found_user), 0);
	assert_memory_equal(found, &kernel, sizeof(kernel));
	assert_memory_equal(found_user, &none, sizeof(none));
	assert_true(symbolizer_frames(&n, &kernel)[0] == 100 &&
		    symbolizer_frames(&n, &kernel)[2] == 0);
	assert_null(symbolizer_frames(&n, &user));
	assert_int_equal(
	    stack_paths_find(&paths, stack_path(&kernel, &user), &n, &found, &found_user), 0);
	assert_true(symbolizer_frames(&n, &user)[1] == 201);
	assert_int_equal(
	    stack_paths_find(&paths, stack_path(&user, &none), &n, &found, &found_user), -ENOENT);
	symbolizer_end_drain(&n);
	stack_paths_free(&paths);
}

/* One that is in use stays, however many come; memory is bounded. */
static void test_paths_are_bounded(void **state)
{
	const struct stack_id none = { { 0, 0 } }, used = { { 5, 5 } };
	const struct stack_id *found, *found_user;
	struct stack_paths paths = { 0 };
	struct symbolizer n = { 0 };

	(void)state;
	take(&n, 5, 1);
	assert_int_equal(stack_paths_keep(&paths, &used, &none, &n), 0);
	for (uint64_t i = 10; i < 200000; i++) {
		const struct stack_id id = { { i, i } };

		take(&n, i, i);
		assert_int_equal(stack_paths_keep(&paths, &id, &none, &n), 0);
		if (i % 1000)
			continue;
		symbolizer_end_drain(&n);
		assert_int_equal(
		    stack_paths_find(&paths, stack_path(&used, &none), &n, &found, &found_user), 0);
		stack_paths_age(&paths);
		assert_true(intern_memory(&paths.recent) + intern_memory(&paths.older) < 6 << 20);
	}
	symbolizer_end_drain(&n);
	stack_paths_free(&paths);
}

/* ---- the table ---- */

static uint32_t stack_of(struct stack_tree *t, unsigned int n)
{
	uint32_t node = stack_tree_node(t, 0, stack_tree_name(t, "main"));
	char name[64];

	for (int level = 0; level < 10; level++) {
		snprintf(name, sizeof(name), "function%u_%d", n, level);
		node = stack_tree_node(t, node, stack_tree_name(t, name));
	}
	return node;
}

static void test_table(void **state)
{
	struct table t = { .tree.limit = 1 << 20 };
	struct table_key key = { .disk = stack_tree_name(&t.tree, "sda"),
				 .comm = stack_tree_name(&t.tree, "dd") };
	struct table_row row = { { 1, 2 }, { 0, 0 }, { 0, 0 } };
	struct frames frames;

	(void)state;
	key.kernel = stack_of(&t.tree, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(table_add(&t, &key, &row), 0);
	key.user = stack_of(&t.tree, 1);
	assert_int_equal(key.user, key.kernel);
	assert_int_equal(table_add(&t, &key, &row), 0);
	assert_int_equal(t.rows.n, 2);
	assert_true(table_row(&t, 0)->bytes[0] == 3 && table_row(&t, 0)->bytes[1] == 6);
	assert_string_equal(stack_tree_text(&t.tree, table_key(&t, 0)->comm), "dd");
	frames = stack_tree_frames(&t.tree, key.kernel);
	assert_string_equal(frames_next(&frames), "function1_9");
	for (int i = 0; i < 9; i++)
		frames_next(&frames);
	assert_string_equal(frames_next(&frames), "main");
	assert_null(frames_next(&frames));
	frames = stack_tree_frames(&t.tree, 0);
	assert_null(frames_next(&frames));
	table_free(&t);
}

/* However much comes, the limit holds, no byte is lost, and the largest rows stay whole. */
static void test_table_is_bounded(void **state)
{
	struct table t = { .tree.limit = 1 << 20 };
	uint64_t sum[2] = { 0, 0 }, want[2] = { 0, 0 };
	bool largest = false, lost = false;

	(void)state;
	for (unsigned int i = 0; i < 20000; i++) {
		struct table_row row = { { i == 5 ? 1 << 30 : i, 1 }, { 1, 0 }, { 0, 2 } };
		char comm[16];
		struct table_key key = { .disk = stack_tree_name(&t.tree, "sda"), .pid = i + 1 };

		snprintf(comm, sizeof(comm), "proc%u", i);
		key.comm = stack_tree_name(&t.tree, comm);
		key.kernel = stack_of(&t.tree, i);
		assert_int_equal(table_add(&t, &key, &row), 0);
		want[0] += row.bytes[0];
		want[1] += row.bytes[1];
		assert_int_equal(table_fit(&t), 0);
		assert_true(stack_tree_memory(&t.tree) <= t.tree.limit);
	}
	for (uint32_t i = 0; i < t.rows.n; i++) {
		const struct table_key *key = table_key(&t, i);
		struct frames frames = stack_tree_frames(&t.tree, key->kernel);
		const char *leaf = frames_next(&frames),
			   *comm = stack_tree_text(&t.tree, key->comm);

		sum[0] += table_row(&t, i)->bytes[0];
		sum[1] += table_row(&t, i)->bytes[1];
		if (key->pid == 6)
			largest = strcmp(leaf, "function5_9") == 0 && strcmp(comm, "proc5") == 0;
		if (strcmp(leaf, STACK_TREE_LOST) == 0 && strcmp(comm, TABLE_LOST_PROCESS) == 0)
			lost = key->pid == 0;
	}
	assert_true(sum[0] == want[0] && sum[1] == want[1]);
	assert_true(largest && lost);
	assert_true(t.evicted > 0 && t.tree.rebuilt > 0);
	table_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_direction),     cmocka_unit_test(test_options),
		cmocka_unit_test(test_wrong_options), cmocka_unit_test(test_schema),
		cmocka_unit_test(test_paths),	      cmocka_unit_test(test_paths_are_bounded),
		cmocka_unit_test(test_table),	      cmocka_unit_test(test_table_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
