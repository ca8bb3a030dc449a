/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iotrace kvm where memory runs out: each allocation fails in its turn, and nothing is left over or
 * freed twice. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/kvm/banks.h"
#include "cmd/kvm/debugfs.h"
#include "cmd/kvm/exit_reasons.h"
#include "cmd/kvm/latency.h"
#include "cmd/kvm/rows.h"
#include "test/unit/root.h"

/* ---- memory that runs out (the linker puts these in place of the C library's: CMakeLists.txt) */

#define MAX_BLOCKS 4096

static void *blocks[MAX_BLOCKS]; /* what was allocated and not freed */
static size_t n_blocks;
static long before_failure = -1; /* so many allocations succeed; -1: all */
static bool for_good;		 /* once one has failed, all do */
static bool failed;

void *__real_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t n, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);

static bool fails(void)
{
	if (before_failure < 0 || before_failure--)
		return false;
	before_failure = for_good ? 0 : -1;
	failed = true;
	errno = ENOMEM;
	return true;
}

static void note(void *block)
{
	if (!block)
		return;
	assert_true(n_blocks < MAX_BLOCKS);
	blocks[n_blocks++] = block;
}

/* One that is not ours is the C library's own (getline), or was freed before, which it notices. */
static void forget(void *block)
{
	for (size_t i = 0; i < n_blocks; i++)
		if (blocks[i] == block) {
			blocks[i] = blocks[--n_blocks];
			return;
		}
}

void *__wrap_malloc(size_t size)
{
	void *block = fails() ? NULL : __real_malloc(size);

	note(block);
	return block;
}

void *__wrap_calloc(size_t n, size_t size)
{
	void *block = __wrap_malloc(n * size);

	return block ? memset(block, 0, n * size) : NULL;
}

void *__wrap_realloc(void *old, size_t size)
{
	void *block;

	if (fails())
		return NULL;
	forget(old);
	block = __real_realloc(old, size);
	note(block);
	return block;
}

void *__wrap_reallocarray(void *old, size_t n, size_t size)
{
	return __wrap_realloc(old, n * size);
}

char *__wrap_strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = __wrap_malloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

void __wrap_free(void *block)
{
	forget(block);
	__real_free(block);
}

/* Runs @work until no allocation of it has failed.  -ENOMEM is the one way to fail. */
static void starve_one(int (*work)(void))
{
	long n = -1;
	int r;

	do {
		failed = false;
		before_failure = ++n;
		r = work();
		before_failure = -1;
		if (r != (failed ? -ENOMEM : 0))
			fail_msg("allocation %ld failed: %d", n, r);
		if (n_blocks)
			fail_msg("allocation %ld failed: %zu blocks are left", n, n_blocks);
	} while (failed);
	assert_true(n > 0);
}

static void starve(int (*work)(void))
{
	for_good = false;
	starve_one(work);
	for_good = true;
	starve_one(work);
}

/* ---- what is done with it ---- */

static const struct kvm_latency_row counted[] = {
	{ { 1, 30, 100, 0 }, { .exits = 2, .total_ns = 7, .max_ns = 4, .fine[3] = 2 } },
	{ { 1, 12, 200, 0 }, { .exits = 3, .total_ns = 9, .max_ns = 4, .fine[4] = 1 } },
	{ { 1, 12, 100, 1 }, { .exits = 1, .total_ns = 2, .max_ns = 2, .fine[2] = 1 } },
};

static int make_events(struct kvm_events *e)
{
	int r = events_add(e, "kvm_exit", -1, true);

	return r < 0 ? r : events_add_child(e, r, "HLT", true);
}

static int add_rows(struct kvm_rows *rows, const struct kvm_events *e, const struct latency *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct kvm_row *row = kvm_rows_add(rows, e, 1);

		if (!row)
			return -ENOMEM;
		row->pid = l->rows[i].key.tgid;
		row->slots = &l->rows[i].times;
	}
	return 0;
}

static int log_and_rows(void)
{
	struct wide log = { .stream = fopen("/dev/null", "w"), .csv = true };
	struct kvm_rows rows = { 0 }, shown = { 0 };
	struct pivot_rows times = { 0 };
	struct kvm_events e = { 0 };
	struct latency l = { NULL };
	int r = make_events(&e);

	assert_non_null(log.stream);
	r = r < 0 ? r : latency_read(&l, counted, 3, KVM_BANKS, NULL);
	if (!r)
		r = add_rows(&rows, &e, &l);
	if (!r)
		r = kvm_add_times(&rows, &(struct kvm_selection){ 0 }, true, true, &times);
	if (!r)
		r = kvm_log_line(&log, &e, &(struct recording_interval){ 0 });
	if (!r)
		r = kvm_rows_of_events(&shown, &e, -1);
	if (!r)
		r = kvm_rows_of_times(&shown, &e, &times);
	fclose(log.stream);
	wide_free(&log);
	pivot_free(&times);
	free(rows.rows);
	free(shown.rows);
	latency_free(&l);
	events_free(&e);
	return r;
}

static int make_banks(void)
{
	uint32_t active = KVM_BANKS;
	const struct bank_arrays arrays = { &active, NULL, 0, 3, 8, NULL, 2 };
	struct banks *b;
	int r = banks_open(&arrays, &b);

	if (!r)
		banks_close(b);
	return r;
}

static char *exit_format;
static size_t n_reasons; /* of which none is left out */

static int name_reasons(void)
{
	struct reasons *reasons;
	int r = reasons_open(&(struct reason_formats){ .exit = exit_format }, CPU_SVM, &reasons);
	size_t n;

	if (r)
		return r;
	reasons_list(reasons, &n);
	n_reasons = n_reasons ? n_reasons : n;
	assert_true(n > 150);
	assert_int_equal(n, n_reasons);
	reasons_free(reasons);
	return 0;
}

static int look_at_debugfs(void)
{
	struct kvm_counts counts = { 0 };
	struct kvm_events e = { 0 };
	struct debugfs *d = NULL;
	struct error err;
	int r = debugfs_open(root, &e, &d, &err);

	if (!r) {
		r = debugfs_read(d, &counts, &err);
		debugfs_close(d);
	}
	assert_true(!r || r == -ENOMEM);
	free(counts.v);
	events_free(&e);
	return r;
}

/* ---- tests ---- */

static void test_rows(void **state)
{
	(void)state;
	starve(log_and_rows);
}

static void test_banks(void **state)
{
	(void)state;
	starve(make_banks);
}

static void test_reasons(void **state)
{
	FILE *file = fopen(TEST_SOURCE_DIR "/../data/kvm/6.12-kvm_exit.format", "r");
	size_t size = 0;

	(void)state;
	assert_non_null(file);
	assert_true(getdelim(&exit_format, &size, 0, file) > 0);
	fclose(file);
	assert_int_equal(name_reasons(), 0);
	starve(name_reasons);
	free(exit_format);
}

static void test_debugfs(void **state)
{
	(void)state;
	put("sys/kernel/debug/bdi/x", "");
	put("sys/kernel/debug/kvm/exits", "1\n");
	put("sys/kernel/debug/kvm/halts", "2\n");
	put("sys/kernel/debug/kvm/12-3/exits", "1\n");
	put("sys/kernel/debug/kvm/12-3/halts", "2\n");
	put("sys/kernel/debug/kvm/45-6/exits", "0\n");
	starve(look_at_debugfs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_banks),
		cmocka_unit_test(test_reasons),
		in_fresh_root(test_debugfs),
	};

	return cmocka_run_group_tests_name("kvm_memory", tests, NULL, NULL);
}
