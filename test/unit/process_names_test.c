/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/blame/rows.h"
#include "cmd/block/by.h"
#include "cmd/stack/table.h"
#include "cmd/top/rows.h"
#include "core/base/array.h"
#include "core/system/process.h"
#include "core/naming/process_names.h"
#include "output/metrics.h"

/* No process has this or a higher number: the kernel's limit is 4194304. */
#define NO_PID 0x70000000u

static struct process_names *opened(void)
{
	struct process_names *n = NULL;

	assert_int_equal(process_names_open(&n), 0);
	assert_non_null(n);
	return n;
}

static void put(struct process_names *n, uint32_t pid, uint64_t start_ns, const char *name)
{
	assert_int_equal(process_names_put(n, pid, start_ns, name), 0);
}

static void test_put(void **state)
{
	struct process_names *n = opened();

	(void)state;
	put(n, NO_PID, 5, "fio");
	assert_string_equal(process_names_get(n, NO_PID, 5), "fio");
	put(n, NO_PID, 5, "fifteen chars..");
	assert_string_equal(process_names_get(n, NO_PID, 5), "fifteen chars..");
	put(n, NO_PID, 5, "a\n\x1b\xff"); /* as the kernel has it */
	assert_string_equal(process_names_get(n, NO_PID, 5), "a\n\x1b\xff");
	put(n, NO_PID, 5, "sixteen, no end.");
	assert_string_equal(process_names_get(n, NO_PID, 5), "sixteen, no end");
	put(n, NO_PID, 5, ""); /* a name, too */
	assert_string_equal(process_names_get(n, NO_PID, 5), "");
	assert_int_equal(process_names_lost(n), 0);
	process_names_free(n);
	process_names_free(NULL);
}

/* A process that calls itself as rows of iotrace's own are called is none of these. */
static void test_own_names(void **state)
{
	static const char *const own[] = { METRICS_OTHER,   KEYS_UNKNOWN,	TOP_OTHERS,
					   STACK_TREE_LOST, TABLE_LOST_PROCESS, "?",
					   BLAME_ALL,	    BLAME_ITSELF,	BLAME_ALONE,
					   BLAME_IDLE };
	struct process_names *n = opened();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		put(n, NO_PID, 5, own[i]);
		assert_string_not_equal(process_names_get(n, NO_PID, 5), own[i]);
	}
	put(n, NO_PID, 5, "(other)");
	assert_string_equal(process_names_get(n, NO_PID, 5), "\\x28other)");
	put(n, NO_PID, 5, "[lost stack]");
	assert_string_equal(process_names_get(n, NO_PID, 5), "\\x5blost stack]");
	put(n, NO_PID, 5, "(itself)");
	assert_string_equal(process_names_get(n, NO_PID, 5), "\\x28itself)");
	put(n, NO_PID, 5, "(others)");
	assert_string_equal(process_names_get(n, NO_PID, 5), "(others)");
	process_names_free(n);
}

static void test_unknown(void **state)
{
	struct process_names *n = opened();

	(void)state;
	assert_string_equal(process_names_get(n, NO_PID, 1), "?");
	assert_string_equal(process_names_get(n, NO_PID + 1, 1), "?");
	assert_string_equal(process_names_get(n, UINT32_MAX, UINT64_MAX), "?");
	/* learnt later */
	put(n, NO_PID, 1, "late");
	assert_string_equal(process_names_get(n, NO_PID, 1), "late");
	assert_string_equal(process_names_get(n, NO_PID + 1, 1), "?");
	process_names_free(n);
}

/* Each process once, anew after each look. */
static void test_lost(void **state)
{
	struct process_names *n = opened();

	(void)state;
	assert_int_equal(process_names_lost(n), 0);
	for (int i = 0; i < 3; i++) {
		process_names_get(n, NO_PID, 1);
		process_names_get(n, NO_PID, 2);
		process_names_get(n, NO_PID + 1, 1);
	}
	assert_int_equal(process_names_lost(n), 3);
	assert_int_equal(process_names_lost(n), 0);
	process_names_get(n, NO_PID, 1);
	put(n, NO_PID, 2, "known");
	process_names_get(n, NO_PID, 2);
	assert_int_equal(process_names_lost(n), 1);
	process_names_free(n);
}

/* The same number, one after the other. */
static void test_number_used_again(void **state)
{
	struct process_names *n = opened();

	(void)state;
	put(n, NO_PID, 1000, "first");
	put(n, NO_PID, 1001, "second");
	put(n, NO_PID, 1000ull << 32, "third");
	assert_string_equal(process_names_get(n, NO_PID, 1000), "first");
	assert_string_equal(process_names_get(n, NO_PID, 1001), "second");
	assert_string_equal(process_names_get(n, NO_PID, 1000ull << 32), "third");
	assert_string_equal(process_names_get(n, NO_PID, 999), "?");
	process_names_free(n);
}

static struct process self(void)
{
	struct process process;

	assert_int_equal(process_read((uint32_t)getpid(), &process), 0);
	return process;
}

static void test_proc(void **state)
{
	struct process_names *n = opened();
	uint64_t start_ns = self().start_ns, tick_ns = process_tick_ns();
	uint32_t pid = (uint32_t)getpid();

	(void)state;
	assert_int_equal(prctl(PR_SET_NAME, "names) in (proc"), 0);
	assert_string_equal(self().comm, "names) in (proc");
	/* /proc shows the tick, the probes know the nanosecond */
	assert_string_equal(process_names_get(n, pid, start_ns), "names) in (proc");
	assert_string_equal(process_names_get(n, pid, start_ns + tick_ns - 1), "names) in (proc");
	/* the previous and the next process with the number */
	assert_string_equal(process_names_get(n, pid, start_ns - 1), "?");
	assert_string_equal(process_names_get(n, pid, start_ns + tick_ns), "?");
	assert_int_equal(process_names_lost(n), 2);
	/* the probes know better */
	put(n, pid, start_ns, "from the probe");
	assert_string_equal(process_names_get(n, pid, start_ns), "from the probe");
	process_names_free(n);
}

/* The name of a process stays known after its exit. */
static void test_proc_exited(void **state)
{
	struct process_names *n = opened();
	int ready[2], end[2];
	struct process process;
	uint32_t child;
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(end), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(end[1]);
		prctl(PR_SET_NAME, "short-lived");
		_exit(write(ready[1], "", 1) == 1 && read(end[0], &byte, 1) == 0 ? 0 : 1);
	}
	child = (uint32_t)pid;
	close(end[0]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(process_read(child, &process), 0);
	assert_true(process.start_ns >= self().start_ns);
	assert_string_equal(process_names_get(n, child, process.start_ns), "short-lived");
	close(end[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ready[0]);
	close(ready[1]);
	assert_string_equal(process_names_get(n, child, process.start_ns), "short-lived");
	assert_true(process_read(NO_PID, &process) < 0);
	process_names_free(n);
}

/* A returned name stays valid, however many are added. */
static void test_names_stay(void **state)
{
	struct process_names *n = opened();
	const char *first;

	(void)state;
	put(n, NO_PID, 1, "first");
	first = process_names_get(n, NO_PID, 1);
	for (uint32_t i = 1; i < 1000; i++)
		put(n, NO_PID + i, 1, "other");
	assert_string_equal(first, "first");
	process_names_free(n);
}

static void fill(struct process_names *n, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		put(n, NO_PID + first + i, 1, "one of many");
}

/* A name that was not asked for during 65536 others is dropped. */
static void test_forget_when_many(void **state)
{
	struct process_names *n = opened();

	(void)state;
	fill(n, 0, 65535);
	process_names_forget(n);
	process_names_forget(n);
	assert_string_equal(process_names_get(n, NO_PID, 1), "one of many");
	put(n, NO_PID + 65535, 1, "the last");
	process_names_forget(n); /* all are old now */
	assert_string_equal(process_names_get(n, NO_PID + 1, 1), "one of many");
	fill(n, 65536, 65534);
	process_names_forget(n); /* one less: one was wanted */
	assert_string_equal(process_names_get(n, NO_PID + 65535, 1), "the last");
	process_names_forget(n);
	assert_string_equal(process_names_get(n, NO_PID, 1), "?");
	assert_string_equal(process_names_get(n, NO_PID + 1, 1), "one of many");
	assert_string_equal(process_names_get(n, NO_PID + 65535, 1), "the last");
	/* and on from there */
	put(n, NO_PID, 1, "again");
	process_names_forget(n);
	assert_string_equal(process_names_get(n, NO_PID, 1), "again");
	process_names_free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_put),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_own_names),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_number_used_again),
		cmocka_unit_test(test_proc),
		cmocka_unit_test(test_proc_exited),
		cmocka_unit_test(test_names_stay),
		cmocka_unit_test(test_forget_when_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
