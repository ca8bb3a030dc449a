// SPDX-License-Identifier: GPL-2.0-or-later
/* The names of the tools whose work iotrace takes over, and their spelling of options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/cli/old_names.h"

static const char *option;

static const char *command(const char *path)
{
	char *none[] = { NULL };

	option = NULL;
	return old_names_command(path, none, &option);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(command("virtiostat"), "virtio");
	assert_string_equal(command("/usr/sbin/biotop"), "top");
	assert_string_equal(command("./iostackbreakdown"), "breakdown");
	assert_string_equal(command("iostack"), "stack");
	assert_null(option);
	assert_string_equal(command("kvm_stat"), "kvm");
	assert_string_equal(option, "--kvm-stat-names");
	assert_null(command("iotrace"));
	assert_null(command("/biotop/iotrace"));
	assert_null(command(""));
}

/* Names of the tools' files. */
static void test_files(void **state)
{
	(void)state;
	assert_string_equal(command("./IOStackBreakdown"), "breakdown");
	assert_string_equal(command("IOStackBreakdown.py"), "breakdown");
	assert_string_equal(command("biotop.py"), "top");
	assert_string_equal(command("/usr/sbin/biotop-bpfcc"), "top");
	assert_string_equal(command("virtiostat-bpfcc"), "virtio");
	assert_null(command("biotop-"));
	assert_null(command("biotop.pyc"));
	assert_null(command("biotop2"));
	assert_null(command("iostack-bpf"));
}

/* @name called with the arguments of @line is the command line @want. */
static void becomes(const char *name, const char *line, const char *want)
{
	char text[256], got[256] = "", *argv[16] = { NULL }, *rest;
	size_t n = 0;

	snprintf(text, sizeof(text), "%s", line);
	for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		argv[n++] = word;
	assert_non_null(old_names_command(name, argv, &option));
	for (size_t i = 0; i < n; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s", i ? " " : "",
			 argv[i]);
	assert_string_equal(got, want);
}

static void test_words(void **state)
{
	(void)state;
	becomes("biotop", "--rows 5 -s all 3", "--maxrows 5 -s bytes 3");
	becomes("biotop", "--sort all -sall --sort=all all",
		"--sort bytes -sbytes --sort=bytes all");
	becomes("biotop", "-s io -- x -s all --rows", "-s io -- x -s all --rows");
	becomes("kvm_stat", "-l --csv -- x --csv", "-l -c -- x --csv");
	becomes("iostack", "--csv --rows", "--csv --rows");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_names),
					    cmocka_unit_test(test_files),
					    cmocka_unit_test(test_words) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
