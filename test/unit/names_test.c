/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/names.h"

/* No process has such a number: the kernel's limit is 4194304. */
#define NOBODY 0x70000000u

/* The probe's map: one process, or any when @pid is 0. */
struct map {
	uint32_t pid;
	const char *comm; /* NULL: nothing is known */
	unsigned int calls;
};

static int lookup(void *ctx, uint32_t pid, char comm[NAME_SIZE])
{
	struct map *map = ctx;

	map->calls++;
	if (!map->comm || (map->pid && map->pid != pid))
		return -ENOENT;
	snprintf(comm, NAME_SIZE, "%s", map->comm);
	return 0;
}

static struct names *opened(struct map *map)
{
	struct names *n = NULL;

	assert_int_equal(names_open(lookup, map, &n), 0);
	assert_non_null(n);
	return n;
}

static void test_lookup(void **state)
{
	struct map map = { NOBODY, "fio", 0 };
	struct names *n = opened(&map);

	(void)state;
	assert_string_equal(names_of(n, NOBODY), "fio");
	assert_int_equal(map.calls, 1);
	map.comm = "fifteen chars..";
	assert_string_equal(names_of(n, NOBODY), "fifteen chars..");
	map.comm = "a\n\x1b\xff"; /* as the kernel has it */
	assert_string_equal(names_of(n, NOBODY), "a\n\x1b\xff");
	names_free(n);
	names_free(NULL);
}

static void test_unknown(void **state)
{
	struct map map = { NOBODY, NULL, 0 };
	struct names *n = opened(&map);

	(void)state;
	assert_string_equal(names_of(n, NOBODY), "?");
	assert_string_equal(names_of(n, NOBODY + 1), "?");
	assert_string_equal(names_of(n, UINT32_MAX), "?");
	/* learnt later */
	map.comm = "late";
	assert_string_equal(names_of(n, NOBODY), "late");
	assert_string_equal(names_of(n, NOBODY + 1), "?");
	names_free(n);
}

static void test_exited_keeps_its_name(void **state)
{
	struct map map = { NOBODY, "gone", 0 };
	struct names *n = opened(&map);

	(void)state;
	assert_string_equal(names_of(n, NOBODY), "gone");
	map.comm = NULL; /* the map had to make room */
	assert_string_equal(names_of(n, NOBODY), "gone");
	names_forget(n); /* few: all are kept */
	assert_string_equal(names_of(n, NOBODY), "gone");
	names_free(n);
}

static void test_rename_is_picked_up(void **state)
{
	struct map map = { NOBODY, "sh", 0 };
	struct names *n = opened(&map);

	(void)state;
	assert_string_equal(names_of(n, NOBODY), "sh");
	map.comm = "dd";
	assert_string_equal(names_of(n, NOBODY), "dd");
	map.comm = NULL;
	assert_string_equal(names_of(n, NOBODY), "dd");
	names_free(n);
}

static void test_proc(void **state)
{
	struct map map = { NOBODY, NULL, 0 };
	struct names *n = opened(&map);
	uint32_t self = (uint32_t)getpid();

	(void)state;
	assert_int_equal(prctl(PR_SET_NAME, "names in proc"), 0);
	assert_string_equal(names_of(n, self), "names in proc");
	/* the map knows better */
	map = (struct map){ self, "from the map", 0 };
	assert_string_equal(names_of(n, self), "from the map");
	map.comm = NULL;
	assert_string_equal(names_of(n, self), "from the map");
	names_free(n);
}

static void test_proc_longest(void **state)
{
	struct map map = { NOBODY, NULL, 0 };
	struct names *n = opened(&map);

	(void)state;
	assert_int_equal(prctl(PR_SET_NAME, "123456789012345"), 0);
	assert_string_equal(names_of(n, (uint32_t)getpid()), "123456789012345");
	names_free(n);
}

/* A real process that is there at first and gone later. */
static void test_proc_exited(void **state)
{
	struct map map = { NOBODY, NULL, 0 };
	struct names *n = opened(&map);
	int ready[2], end[2];
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
	assert_string_equal(names_of(n, child), "short-lived");
	close(end[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ready[0]);
	close(ready[1]);
	assert_string_equal(names_of(n, child), "short-lived");
	names_free(n);
}

/* What was handed out stays, however many come after. */
static void test_names_stay(void **state)
{
	struct map map = { 0, "first", 0 };
	struct names *n = opened(&map);
	const char *first = names_of(n, NOBODY);

	(void)state;
	map.comm = "other";
	for (uint32_t i = 1; i < 1000; i++)
		assert_string_equal(names_of(n, NOBODY + i), "other");
	assert_string_equal(first, "first");
	names_free(n);
}

static void fill(struct names *n, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		names_of(n, NOBODY + i);
}

static void test_forget_when_many(void **state)
{
	struct map map = { 0, "one of many", 0 };
	struct names *n = opened(&map);

	(void)state;
	fill(n, 65535);
	names_forget(n);
	map.comm = NULL;
	assert_string_equal(names_of(n, NOBODY), "one of many");
	assert_string_equal(names_of(n, NOBODY + 65534), "one of many");
	map.comm = "one of many";
	fill(n, 65536);
	names_forget(n);
	map.comm = NULL;
	assert_string_equal(names_of(n, NOBODY), "?");
	assert_string_equal(names_of(n, NOBODY + 65535), "?");
	/* and on from there */
	map.comm = "again";
	assert_string_equal(names_of(n, NOBODY), "again");
	names_forget(n);
	map.comm = NULL;
	assert_string_equal(names_of(n, NOBODY), "again");
	names_free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lookup),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_exited_keeps_its_name),
		cmocka_unit_test(test_rename_is_picked_up),
		cmocka_unit_test(test_proc),
		cmocka_unit_test(test_proc_longest),
		cmocka_unit_test(test_proc_exited),
		cmocka_unit_test(test_names_stay),
		cmocka_unit_test(test_forget_when_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
