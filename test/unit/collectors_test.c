/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The collectors of iotrace export, with tools of the test's own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define tool_top fake_top
#include "cmd/export/collectors.c" /* NOLINT(bugprone-suspicious-include) */

struct fake {
	struct args args;
	const char *key;
};

static unsigned int opened, freed;
static bool fails;

static int fake_options(struct tool_run *t, int argc, char **argv, struct error *err)
{
	struct fake *f = t->ctx;

	(void)err;
	assert_int_equal(argc, 4);
	f->key = argv[2];
	opened++;
	return 0;
}

static int fake_begin(struct tool_run *t, struct error *err)
{
	const struct fake *f = t->ctx;

	assert_string_equal(f->key, "disk");
	return fails ? error_set(err, STATUS_FAILED, -EIO, "it cannot begin") : 0;
}

static void fake_free(void *ctx)
{
	(void)ctx;
	freed++;
}

struct fake_row {
	uint64_t count;
};

static const struct column fake_columns[] = {
	{ "count", "COUNT", COLUMN_U64, ROLE_COUNTER, "", "how many", 0, 5, false, NULL },
};
static const struct schema fake_schema = SCHEMA(fake_columns, struct fake_row);

static void fake_tables(void *ctx, struct show *show)
{
	(void)ctx;
	show->tables[0] = (struct recording_table){ "rows", &fake_schema };
	show->n_tables = 1;
}

static const struct tool_view fake_view = { .tables = fake_tables };

const struct tool fake_top = {
	.name = "top",
	TOOL_CTX(struct fake, args),
	.view = &fake_view,
	.options = fake_options,
	.begin = fake_begin,
	.free = fake_free,
};

/* Opens and attaches "top"; returns what attaching it does. */
static int attached(struct collectors **c, struct error *err)
{
	struct export_options o = { .series = 1, .names = { "top" }, .n_names = 1 };
	struct run run = { 0 };

	opened = freed = 0;
	if (collectors_open(&o, c, err) || !*c)
		abort(); /* an assertion of cmocka does not end the analyzer's path */
	assert_int_equal(opened, 1);
	return collectors_attach(*c, &run, err);
}

static void test_attached(void **state)
{
	struct collectors *c;
	struct error err;

	(void)state;
	fails = false;
	assert_int_equal(attached(&c, &err), 0);
	assert_int_equal(freed, 0);
	assert_true(c->list[0].up);
	collectors_close(c);
	assert_int_equal(freed, 1);
}

/* One that has failed is gone at once, whatever it had attached by then. */
static void test_failed(void **state)
{
	struct collectors *c;
	struct error err;

	(void)state;
	fails = true;
	assert_int_equal(attached(&c, &err), -ENOTSUP);
	assert_string_equal(err.what, "it cannot begin");
	assert_int_equal(freed, 1);
	assert_false(c->list[0].up);
	collectors_close(c);
	assert_int_equal(freed, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attached),
		cmocka_unit_test(test_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
