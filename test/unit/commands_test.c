/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The declarations of all subcommands: options and columns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/breakdown/options.h"
#include "cmd/cli/command.h"
#include "cmd/engine/tool.h"

static size_t n_options;

static void is_said(void *ctx, const struct args_option *option)
{
	(void)ctx;
	n_options++;
	assert_non_null(option->help);
	assert_false(option->flags & ARGS_HIDDEN);
}

/* What --help, completion and manual pages are made of. */
static void test_options(void **state)
{
	(void)state;
	assert_true(n_commands >= 5);
	for (size_t i = 0; i < n_commands; i++) {
		n_options = 0;
		args_each(commands[i].args, is_said, NULL);
		assert_true(n_options >= 5);
	}
	for (const struct args_option *o = main_args.options; o->name; o++)
		is_said(NULL, o);
}

/* Each layer that --help lists for -T is accepted. */
static void test_layers(void **state)
{
	const struct args_option *layer = args_find(breakdown_args.options, "-T");
	char words[128], *rest = words, *word;
	size_t n = 0;

	(void)state;
	assert_non_null(layer);
	snprintf(words, sizeof(words), "%s", args_words(layer));
	while ((word = strsep(&rest, "|"))) {
		char *argv[] = { (char[]){ "breakdown" }, (char[]){ "-T" }, word, NULL };
		struct breakdown_options o;

		assert_int_equal(breakdown_options(3, argv, &o, NULL), 0);
		n++;
	}
	assert_true(n >= 10);
}

/* A column of the text alone has none. */
static void differ(const char *key, const char *other)
{
	if (key && other)
		assert_string_not_equal(key, other);
}

/* The keys of each variant of the columns are unique. */
static void test_columns(void **state)
{
	const struct schema *schema;
	const char *with;

	(void)state;
	for (size_t i = 0; i < n_commands; i++) {
		if (!commands[i].tool)
			continue;
		assert_non_null(view_columns(commands[i].tool->view, 0, &with));
		for (size_t v = 0; (schema = view_columns(commands[i].tool->view, v, &with)); v++) {
			assert_int_equal(with[0] != 0, v != 0);
			for (size_t c = 0; c < schema->n; c++)
				for (size_t k = 0; k < c; k++)
					differ(schema->columns[k].key, schema->columns[c].key);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
