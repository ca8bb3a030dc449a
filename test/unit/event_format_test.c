/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The descriptions of tracepoints as kernels 5.10 to 7.2 have written them: test/data/kvm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmd/kvm/event_format.h"
#include "core/base/array.h"

static char *read_data(const char *name)
{
	char path[512], *text = NULL;
	size_t size = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/../data/kvm/%s.format", TEST_SOURCE_DIR, name);
	file = fopen(path, "r");
	if (!file)
		fail_msg("no %s", path);
	assert_true(getdelim(&text, &size, 0, file) > 0);
	fclose(file);
	return text;
}

static const char *const kernels[] = { "5.10", "6.1", "6.12", "6.18", "7.2" };
#define KERNELS ARRAY_SIZE(kernels)

static void parse_data(const char *name, struct event_format *format)
{
	char *text = read_data(name);

	assert_int_equal(event_format_parse(text, format), 0);
	free(text);
}

/* Event @event of kernel @i. */
static void parse_event(size_t i, const char *event, struct event_format *format)
{
	char name[64];

	snprintf(name, sizeof(name), "%s-%s", kernels[i], event);
	parse_data(name, format);
}

static void has_field(const struct event_format *format, const char *name, unsigned int offset,
		      unsigned int size)
{
	const struct event_field *field = event_format_field(format, name);

	assert_non_null(field);
	assert_int_equal(field->offset, offset);
	assert_int_equal(field->size, size);
}

static void test_fields(void **state)
{
	struct event_format format;

	(void)state;
	for (size_t i = 0; i < KERNELS; i++) {
		parse_event(i, "kvm_exit", &format);
		has_field(&format, "common_pid", 4, 4);
		has_field(&format, "exit_reason", 8, 4);
		has_field(&format, "guest_rip", 16, 8);
		has_field(&format, "isa", 24, 4);
		has_field(&format, "vcpu_id", 56, 4);
		assert_null(event_format_field(&format, "vcpu"));
		event_format_free(&format);
		parse_event(i, "kvm_userspace_exit", &format);
		has_field(&format, "reason", 8, 4);
		has_field(&format, "errno", 12, 4);
		event_format_free(&format);
		parse_event(i, "kvm_entry", &format);
		has_field(&format, "vcpu_id", 8, 4);
		event_format_free(&format);
	}
}

/* kvm_exit: VMX's table, SVM's, and VMX's flags. */
static void test_exit_tables(void **state)
{
	struct event_format format;

	(void)state;
	for (size_t i = 0; i < KERNELS; i++) {
		parse_event(i, "kvm_exit", &format);
		assert_int_equal(format.n_tables, 3);
		assert_string_equal(format.tables[0].field, "exit_reason");
		assert_true(format.tables[0].conditional);
		assert_string_equal(format.tables[0].when_field, "isa");
		assert_int_equal(format.tables[0].when, 1);
		assert_int_equal(format.tables[0].mask, 0xffff);
		assert_string_equal(event_table_name(&format.tables[0], 12), "HLT");
		assert_string_equal(event_table_name(&format.tables[0], 30), "IO_INSTRUCTION");
		assert_string_equal(event_table_name(&format.tables[0], 48), "EPT_VIOLATION");
		assert_null(event_table_name(&format.tables[0], 0x7b));
		assert_false(format.tables[1].conditional);
		assert_false(format.tables[1].flags);
		assert_true(format.tables[1].mask == UINT64_MAX);
		assert_string_equal(event_table_name(&format.tables[1], 0x7b), "io");
		assert_string_equal(event_table_name(&format.tables[1], 0x78), "hlt");
		assert_string_equal(event_table_name(&format.tables[1], 0x40 + 14), "PF excp");
		assert_string_equal(event_table_name(&format.tables[1], 0x400), "npf");
		assert_string_equal(event_table_name(&format.tables[1], UINT32_MAX),
				    "invalid_guest_state");
		assert_true(format.tables[2].flags);
		assert_true((uint32_t)format.tables[2].mask == 0xffff0000U);
		assert_string_equal(event_table_name(&format.tables[2], 0x80000000U),
				    "FAILED_VMENTRY");
		event_format_free(&format);
	}
}

static void test_userspace_table(void **state)
{
	struct event_format format;

	(void)state;
	for (size_t i = 0; i < KERNELS; i++) {
		parse_event(i, "kvm_userspace_exit", &format);
		assert_int_equal(format.n_tables, 1);
		assert_string_equal(format.tables[0].field, "reason");
		assert_false(format.tables[0].conditional);
		assert_string_equal(event_table_name(&format.tables[0], 2), "KVM_EXIT_IO");
		assert_string_equal(event_table_name(&format.tables[0], 5), "KVM_EXIT_HLT");
		assert_string_equal(event_table_name(&format.tables[0], 10), "KVM_EXIT_INTR");
		event_format_free(&format);
	}
}

static void test_arm64(void **state)
{
	struct event_format format;

	(void)state;
	parse_data("arm64-kvm_exit", &format);
	has_field(&format, "ret", 8, 4);
	has_field(&format, "esr_ec", 12, 4);
	assert_int_equal(format.n_tables, 2);
	assert_string_equal(event_table_name(&format.tables[0], 0), "IRQ");
	assert_string_equal(event_table_name(&format.tables[0], (uint32_t)-2), "HYP_GONE");
	assert_string_equal(event_table_name(&format.tables[1], 0x24), "DABT_LOW");
	assert_string_equal(event_table_name(&format.tables[1], 0), "UNKNOWN");
	/* the one whose value is no number is left out */
	assert_int_equal(format.tables[1].n, 6);
	event_format_free(&format);
}

/* Whatever a kernel writes, it is read without harm. */
static void test_odd_texts(void **state)
{
	static const char *const texts[] = {
		"",
		"\n\n",
		"field:",
		"\tfield:int a;\toffset:x;\tsize:4;\n",
		"\tfield:char name[16];\toffset:8;\tsize:16;\tsigned:0;\n",
		"print fmt: \"x\", __print_symbolic(",
		"print fmt: \"x\", __print_symbolic(REC->a",
		"print fmt: \"x\", __print_symbolic(REC->a, ",
		"print fmt: \"x\", __print_symbolic(REC->a, {",
		"print fmt: \"x\", __print_symbolic(REC->a, { 1",
		"print fmt: \"x\", __print_symbolic(REC->a, { 1, ",
		"print fmt: \"x\", __print_symbolic(REC->a, { 1, \"b",
		"print fmt: \"x\", __print_symbolic(REC->a, { 1, \"b\"",
		"print fmt: \"x\", __print_symbolic(REC->a, { 1 << 99, \"b\" })",
		"print fmt: \"x\", __print_symbolic(REC->a, { ((((, \"b\" })",
		"print fmt: \"x\", __print_symbolic(REC->a & , { 1, \"b\" })",
		"print fmt: \"x\", __print_symbolic(foo(REC->a), { 1, \"b\" })",
		"print fmt: \"x\", __print_flags(REC->a, \"|\", { 1 << 3, \"b\" \"c\" })",
		"print fmt: \"x\", __print_hex(REC->a, 4)",
		"print fmt: \"x\", (REC->b == ) ? __print_symbolic(REC->a, { 1, \"b\" }) : 0",
	};
	struct event_format format;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(event_format_parse(texts[i], &format), 0);
		event_format_free(&format);
	}
	assert_int_equal(event_format_parse(texts[4], &format), 0);
	has_field(&format, "name", 8, 16);
	event_format_free(&format);
	assert_int_equal(event_format_parse(texts[17], &format), 0);
	assert_int_equal(format.n_tables, 1);
	assert_string_equal(event_table_name(&format.tables[0], 8), "bc");
	event_format_free(&format);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),		cmocka_unit_test(test_exit_tables),
		cmocka_unit_test(test_userspace_table), cmocka_unit_test(test_arm64),
		cmocka_unit_test(test_odd_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
