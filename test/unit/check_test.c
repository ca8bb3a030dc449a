/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `iotrace --check`: how the findings are combined and printed (golden/check*: run
 * with GOLDEN_UPDATE=1 to write them anew). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmd/engine/check.h"
#include "test/unit/golden.h"
#include "core/base/array.h"

/* ---- golden outputs ---- */

static const struct check_item items[] = {
	{ "btf", "BTF", true, NULL, NULL, NULL },
	{ "lockdown", "lockdown", true, "integrity", NULL, NULL },
	{ "tracefs", "tracefs", false, NULL, "not mounted", "mount -t tracefs tracefs /x" },
	{ "fentry", "fentry", false, NULL, "Operation not permitted", "" },
};

static const struct check_kept keeps[] = {
	{ .when = "" },
	{ .when = "with -U", .names = { "CAP_BPF", "CAP_SYS_PTRACE" }, .n = 2 },
};

static const struct meta_hook hooks[] = {
	{ "submit", "tp_btf", "block_io_start", "this kernel has no such tracepoint" },
	{ "submit", "tp_btf", "block_getrq", NULL },
	{ "issue", "raw_tp", "block_rq_issue", NULL },
};

static const struct check_gap gaps[] = {
	{ "-x", "cannot be \"seen\"", "leave it out" },
	{ "", "only by interrupts", "" },
};

static const struct check_subcommand subcommands[] = {
	{ "top", CHECK_YES, NULL, NULL, NULL, 0, hooks, ARRAY_SIZE(hooks), keeps,
	  ARRAY_SIZE(keeps) },
	{ "virtio", CHECK_IN_PART, NULL, NULL, gaps, ARRAY_SIZE(gaps), hooks + 2, 1 },
	{ "kvm", CHECK_NO, "kvm is not\nloaded", "modprobe kvm_intel", NULL, 0, hooks, 1 },
};

static struct check_report report_of(size_t n)
{
	return (struct check_report){ "0.1.0",		 "6.1.0-37-amd64", "x86_64", items,
				      ARRAY_SIZE(items), subcommands,	   n };
}

static void golden(const char *name, enum format format, size_t n, bool verbose)
{
	const struct check_report report = report_of(n);
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	assert_int_equal(render_check(format, stream, &report, verbose), 0);
	fclose(stream);
	assert_golden(name, text, size);
	free(text);
}

static void test_golden(void **state)
{
	(void)state;
	golden("check.text", FORMAT_TEXT, 3, false);
	golden("check-v.text", FORMAT_TEXT, 3, true);
	golden("check.json", FORMAT_JSON, 3, false);
	golden("check-ok.json", FORMAT_JSON, 1, false);
}

static void test_all_work(void **state)
{
	struct check_report report = report_of(1);

	(void)state;
	assert_true(check_all_work(&report));
	report.n_subcommands = 2; /* in part is not in full */
	assert_false(check_all_work(&report));
	report.n_subcommands = 3;
	assert_false(check_all_work(&report));
}

static void test_full(void **state)
{
	const struct check_report report = report_of(3);
	FILE *full = fopen("/dev/full", "w");

	(void)state;
	assert_non_null(full);
	assert_int_equal(render_check(FORMAT_TEXT, full, &report, false), -ENOSPC);
	fclose(full);
}

/* ---- what subcommands find out ---- */

static const struct hook_choice choices[] = {
	{ .event = "submit", .kind = "tp_btf", .target = "a", .reason = "not here" },
	{ .event = "submit", .kind = "raw_tp", .target = "a", .chosen = true },
	{ .event = "bio", .kind = "tp_btf", .target = "b", .reason = "first reason" },
	{ .event = "bio", .kind = "raw_tp", .target = "b", .reason = "second reason" },
};

static void test_options(void **state)
{
	static const struct tool_optional options[] = { { "submit", "-p" },
							{ "bio", "--bio" },
							{ NULL, NULL } };
	struct check check = { 0 };

	(void)state;
	assert_int_equal(check_keep(&check, choices, 2), 0);
	assert_int_equal(check_keep(&check, choices + 2, 2), 0);
	assert_int_equal(check_keep(&check, choices, 0), 0);
	assert_int_equal(check.n_choices, 4);
	assert_int_equal(check.works, CHECK_NO);
	check_optional(&check, options);
	assert_int_equal(check.n_gaps, 1);
	assert_string_equal(check.gaps[0].what, "--bio");
	assert_string_equal(check.gaps[0].why,
			    "no usable hook for the event 'bio' on this kernel: second reason");
	assert_string_equal(check.gaps[0].hint, "");
	check_works(&check);
	assert_int_equal(check.works, CHECK_IN_PART);
	check_free(&check);
}

static void test_no_gap(void **state)
{
	static const struct tool_optional options[] = { { "submit", "-p" }, { NULL, NULL } };
	struct check check = { 0 };

	(void)state;
	assert_int_equal(check_keep(&check, choices, ARRAY_SIZE(choices)), 0);
	check_optional(&check, options);
	check_works(&check);
	assert_int_equal(check.works, CHECK_YES);
	check_free(&check);
}

static void test_many_gaps(void **state)
{
	struct check check = { 0 };
	struct error err;

	(void)state;
	error_set(&err, STATUS_UNSUPPORTED, -ENOTSUP, "why");
	error_hint(&err, "hint");
	for (int i = 0; i < CHECK_GAPS + 3; i++)
		check_gap(&check, "-x", &err);
	assert_int_equal(check.n_gaps, CHECK_GAPS);
	assert_string_equal(check.gaps[CHECK_GAPS - 1].why, "why");
	assert_string_equal(check.gaps[CHECK_GAPS - 1].hint, "hint");
}

/* ---- a tool that may refuse some of its options ---- */

struct picky {
	struct args args;
	bool all;
};

static bool refuses_all, refuses_any;

static int picky_options(struct tool_run *t, int argc, char **argv, struct error *err)
{
	(void)err;
	((struct picky *)t->ctx)->all = argc == 2 && strcmp(argv[1], "--all") == 0;
	return 0;
}

static const struct check_line picky_checks[] = { { { "--all" }, "" }, { { NULL }, NULL } };

static int picky_resolve(struct tool_run *t, struct error *err)
{
	const struct picky *p = t->ctx;

	if (refuses_any)
		return error_set(err, STATUS_UNSUPPORTED, -ENOTSUP, "%s",
				 p->all ? "with all" : "without");
	if (p->all && refuses_all)
		return error_set(err, STATUS_UNSUPPORTED, -ENOTSUP, "no cgroups");
	return 0;
}

static const struct tool picky = {
	.name = "picky",
	TOOL_CTX(struct picky, args),
	.options = picky_options,
	.checks = picky_checks,
	.resolve = picky_resolve,
};

/* A subcommand that works without options is not reported as not working. */
static void test_not_with_all(void **state)
{
	struct check check = { 0 };

	(void)state;
	tool_check(&picky, &check);
	assert_int_equal(check.works, CHECK_YES);
	assert_int_equal(check.n_gaps, 0);
	check_free(&check);
	refuses_all = true;
	check = (struct check){ 0 };
	tool_check(&picky, &check);
	assert_int_equal(check.works, CHECK_IN_PART);
	assert_int_equal(check.n_gaps, 1);
	assert_string_equal(check.gaps[0].what, "");
	assert_string_equal(check.gaps[0].why, "not all of its options work: no cgroups");
	check_free(&check);
	refuses_any = true;
	check = (struct check){ 0 };
	tool_check(&picky, &check);
	assert_int_equal(check.works, CHECK_NO);
	assert_string_equal(check.err.what, "with all");
	check_free(&check);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),	     cmocka_unit_test(test_all_work),
		cmocka_unit_test(test_full),	     cmocka_unit_test(test_options),
		cmocka_unit_test(test_no_gap),	     cmocka_unit_test(test_many_gaps),
		cmocka_unit_test(test_not_with_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
