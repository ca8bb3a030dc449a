/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the completion knows of values, for every option of every subcommand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/breakdown/options.h"
#include "cmd/command.h"
#include "cmd/completion.h"

static enum value_kind kind_of(const struct args_spec *spec, const char *arg, const char **words)
{
	const struct argp_option option = { "name", 'n', arg, 0, "", 0 };

	return completion_kind(spec, &option, words);
}

static void test_kinds(void **state)
{
	static const struct args_values values[] = { { "LAYER", "vfs|blk" }, { 0 } };
	const struct args_spec spec = { .values = values }, none = { 0 };
	const char *words = "";

	(void)state;
	assert_int_equal(kind_of(&spec, NULL, &words), VALUE_NONE);
	assert_string_equal(words, "");
	assert_int_equal(kind_of(&spec, "DISK", &words), VALUE_DISK);
	assert_int_equal(kind_of(&none, "FILE", &words), VALUE_FILE);
	assert_int_equal(kind_of(&none, "SECS", &words), VALUE_FREE);
	assert_int_equal(kind_of(&none, "r|w", &words), VALUE_WORDS);
	assert_string_equal(words, "r|w");
	assert_int_equal(kind_of(&spec, "LAYER", &words), VALUE_WORDS);
	assert_string_equal(words, "vfs|blk");
	assert_int_equal(kind_of(&none, "LAYER", &words), VALUE_UNKNOWN);
	assert_int_equal(kind_of(&none, "DISKS", &words), VALUE_UNKNOWN);
}

struct seen {
	const struct args_spec *spec;
	size_t n;
};

static void must_be_known(void *ctx, const struct argp_option *option)
{
	struct seen *seen = ctx;
	const char *words;

	seen->n++;
	if (completion_kind(seen->spec, option, &words) == VALUE_UNKNOWN)
		fail_msg("kinds[] of cmd/completion.c does not know %s", option->arg);
	assert_non_null(option->doc);
	assert_false(option->flags & OPTION_HIDDEN);
}

/* An argument's name that is not in the table would be completed by nothing. */
static void test_all_known(void **state)
{
	(void)state;
	assert_true(n_commands >= 5);
	for (size_t i = 0; i < n_commands; i++) {
		struct seen seen = { commands[i].command->args, 0 };

		args_each(seen.spec, must_be_known, &seen);
		assert_true(seen.n > 6);
	}
	for (const struct argp_option *o = main_args.options; o->name; o++) {
		struct seen seen = { &main_args, 0 };

		must_be_known(&seen, o);
	}
}

/* What is offered for -T is taken. */
static void test_layers(void **state)
{
	const struct args_values *v = breakdown_args.values;
	char words[128], *rest = words, *word;
	size_t n = 0;

	(void)state;
	assert_string_equal(v->arg, "LAYER");
	snprintf(words, sizeof(words), "%s", v->words);
	while ((word = strsep(&rest, "|"))) {
		char *argv[] = { (char[]){ "breakdown" }, (char[]){ "-T" }, word, NULL };
		struct breakdown_options o;

		assert_int_equal(breakdown_options(3, argv, &o, NULL), 0);
		n++;
	}
	assert_true(n >= 10);
}

/* The keys of each variant of the columns are unique. */
static void test_columns(void **state)
{
	const struct schema *schema;
	const char *with;

	(void)state;
	for (size_t i = 0; i < n_commands; i++) {
		assert_non_null(commands[i].command->columns(0, &with));
		for (size_t v = 0; (schema = commands[i].command->columns(v, &with)); v++) {
			assert_int_equal(with[0] != 0, v != 0);
			for (size_t c = 0; c < schema->n; c++)
				for (size_t k = 0; k < c; k++)
					assert_string_not_equal(schema->columns[k].key,
								schema->columns[c].key);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_all_known),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
