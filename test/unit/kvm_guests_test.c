// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace kvm -x: how often processes are asked for their names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "cmd/kvm/rows.h"

char *__wrap_guest_name(const char *root, uint32_t pid, char name[GUEST_NAME_SIZE]);

static size_t asked;

/* Process 2 has its name late, process 3 never. */
char *__wrap_guest_name(const char *root, uint32_t pid, char name[GUEST_NAME_SIZE])
{
	assert_null(root);
	asked++;
	snprintf(name, GUEST_NAME_SIZE, "%s",
		 pid == 1		 ? "one"
		 : pid == 2 && asked > 3 ? "two"
					 : "");
	return name;
}

static void learn(struct kvm_rows *rows, const struct latency *l, size_t want)
{
	assert_int_equal(kvm_rows_learn(rows, l), 0);
	assert_int_equal(asked, want);
}

static void test_looks(void **state)
{
	struct kvm_latency_row read[30] = { 0 };
	struct kvm_rows rows = { 0 };
	struct latency *l;

	(void)state;
	for (uint32_t i = 0; i < 30; i++)
		read[i] = (struct kvm_latency_row){ { 0, i, 1 + i % 3, 0 }, { .exits = 1 } };
	assert_int_equal(latency_open(&l), 0);
	assert_int_equal(latency_read(l, read, 30, NULL), 0);
	learn(&rows, l, 3);
	assert_string_equal(kvm_rows_guest(&rows, 1), "one");
	assert_string_equal(kvm_rows_guest(&rows, 2), "");
	learn(&rows, l, 5);
	assert_string_equal(kvm_rows_guest(&rows, 2), "two");
	learn(&rows, l, 6);
	for (int i = 0; i < 10; i++)
		learn(&rows, l, 6);
	assert_string_equal(kvm_rows_guest(&rows, 3), "");
	kvm_rows_free(&rows);
	latency_close(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_looks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
