/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The declarations of all subcommands: options and columns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>
#include <cmocka.h>

#include "cmd/breakdown/options.h"
#include "cmd/command.h"
#include "cmd/tool.h"

static size_t n_options;

static void is_said(void *ctx, const struct argp_option *option)
{
	(void)ctx;
	n_options++;
	assert_non_null(option->doc);
	assert_false(option->flags & OPTION_HIDDEN);
}

/* What --help, completion and manual pages are made of. */
static void test_options(void **state)
{
	(void)state;
	assert_true(n_commands >= 5);
	for (size_t i = 0; i < n_commands; i++) {
		n_options = 0;
		args_each(commands[i].command->args, is_said, NULL);
		assert_true(n_options > 5);
	}
	for (const struct argp_option *o = main_args.options; o->name; o++)
		is_said(NULL, o);
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
		if (commands[i].command->main)
			continue;
		assert_non_null(commands[i].command->columns(0, &with));
		for (size_t v = 0; (schema = commands[i].command->columns(v, &with)); v++) {
			assert_int_equal(with[0] != 0, v != 0);
			for (size_t c = 0; c < schema->n; c++)
				for (size_t k = 0; k < c; k++)
					differ(schema->columns[k].key, schema->columns[c].key);
		}
	}
}

/* With the suffix of a spare program too: bpftool shows 15 characters, and the engine finds spare
 * programs by their whole names (core/bpf/hooks_internal.h). */
static size_t names_fit(const struct tool_probe *probe)
{
	struct bpf_program *prog;
	struct bpf_object *obj;
	const void *elf;
	size_t size, n = 0;

	elf = probe->elf(&size);
	obj = bpf_object__open_mem(elf, size, NULL);
	assert_non_null(obj);
	bpf_object__for_each_program (prog, obj) {
		if (strlen(bpf_program__name(prog)) >= BPF_OBJ_NAME_LEN)
			fail_msg("%s", bpf_program__name(prog));
		n++;
	}
	bpf_object__close(obj);
	return n;
}

static void test_program_names(void **state)
{
	size_t n = 0;

	(void)state;
	libbpf_set_print(NULL);
	for (size_t i = 0; i < n_commands; i++) {
		const struct tool *tool = commands[i].command;
		const struct tool_part *part = tool->parts;

		if (tool->probe)
			n += names_fit(tool->probe);
		for (; part && part->tool; part++)
			if (part->tool->probe)
				n += names_fit(part->tool->probe);
	}
	assert_true(n > 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_program_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
