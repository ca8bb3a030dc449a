/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which part of a growing perf map is read, and how often. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/symbols/perf_map.h"
#include "core/symbols/perf_maps.h"
#include "core/system/process.h"

static char path[64];
static uint32_t self;
static uint64_t start;

static uint64_t start_of(pid_t pid)
{
	struct process process;

	assert_int_equal(process_read((uint32_t)pid, &process), 0);
	return process.start_ns;
}

static void set_path(uint32_t pid)
{
	snprintf(path, sizeof(path), "/tmp/perf-%u.map", pid);
}

static int set_up(void **state)
{
	self = (uint32_t)getpid();
	start = start_of(getpid());
	set_path(self);
	*state = perf_maps_new();
	return *state ? 0 : -1;
}

static int tear_down(void **state)
{
	unlink(path);
	perf_maps_free(*state);
	return 0;
}

static void append(size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	char *bytes = calloc(1, size);

	assert_int_equal(write(fd, bytes, size), (ssize_t)size);
	free(bytes);
	close(fd);
}

static off_t position(const struct perf_map_reading *r)
{
	return lseek(r->file.fd, 0, SEEK_CUR);
}

/* Reads all of it, which takes @took_ns. */
static void read_all(struct perf_maps *m, uint64_t took_ns)
{
	struct perf_map_reading r;

	assert_int_equal(perf_maps_begin(m, self, start, PERF_MAP_NO_OWNER, &r), 0);
	assert_true(perf_maps_read_all(&r));
	assert_int_equal(position(&r), 0);
	perf_maps_end(&r, took_ns);
}

/* The offset from which the added part is read; -1: it is not read. */
static off_t read_added(struct perf_maps *m, bool is_new)
{
	struct perf_map_reading r;
	off_t at;

	assert_int_equal(perf_maps_begin(m, self, start, PERF_MAP_NO_OWNER, &r), 0);
	assert_int_equal(r.is_new, is_new);
	at = perf_maps_read_added(&r) ? position(&r) : -1;
	perf_maps_end(&r, 0);
	return at;
}

static bool changed_now(struct perf_maps *m)
{
	perf_maps_end_round(m);
	return perf_maps_changed(m, self, start);
}

static void test_none(void **state)
{
	struct perf_map_reading r;

	assert_int_equal(perf_maps_begin(*state, self, start, PERF_MAP_NO_OWNER, &r), -ENOENT);
	assert_false(perf_maps_has(*state, self, start));
	assert_false(perf_maps_changed(*state, self, start));
	assert_false(perf_maps_has(NULL, self, start));
	assert_false(perf_maps_changed(NULL, self, start));
}

static void test_grows(void **state)
{
	append(100);
	assert_int_equal(read_added(*state, true), -1);
	assert_true(perf_maps_changed(*state, self, start)); /* nothing has been read yet */
	read_all(*state, 0);
	assert_true(perf_maps_has(*state, self, start));
	assert_false(perf_maps_has(*state, self + 1024, start));
	assert_false(changed_now(*state));
	assert_int_equal(read_added(*state, false), -1);
	append(1000000);
	assert_false(perf_maps_changed(*state, self, start)); /* the same round */
	assert_true(changed_now(*state));
	assert_int_equal(read_added(*state, false), 0);
	assert_false(perf_maps_changed(*state, self, start));
	append(1);
	assert_true(changed_now(*state));
	/* A line that had been written in part is read again. */
	assert_int_equal(read_added(*state, false), 1000100 - 65536);
	assert_false(changed_now(*state));
}

static void test_another_file(void **state)
{
	char old[80];

	snprintf(old, sizeof(old), "%s.old", path);
	append(100);
	read_all(*state, 0);
	assert_int_equal(truncate(path, 50), 0);
	assert_true(changed_now(*state));
	assert_int_equal(read_added(*state, true), -1);
	read_all(*state, 0);
	assert_false(changed_now(*state));
	assert_int_equal(rename(path, old), 0);
	assert_false(changed_now(*state)); /* what was read of it stays */
	append(200);
	assert_true(changed_now(*state));
	assert_int_equal(read_added(*state, true), -1);
	unlink(old);
}

static void test_another_process(void **state)
{
	struct perf_map_reading r;

	append(100);
	read_all(*state, 0);
	/* of the same slot: by its number, which no process has */
	assert_int_equal(perf_maps_begin(*state, self + 1024 * 4096, start, PERF_MAP_NO_OWNER, &r),
			 -ENOENT);
	assert_true(perf_maps_has(*state, self, start));
	assert_false(perf_maps_has(*state, self, start + 1));
}

/* Its number is used again: of the former there is no map any more, and nothing has been read. */
static void test_number_used_again(void **state)
{
	const uint64_t later = start + 1; /* within a tick: the same process for /proc */
	struct perf_map_reading r;

	append(100);
	read_all(*state, 0);
	assert_int_equal(perf_maps_begin(*state, self, later, PERF_MAP_NO_OWNER, &r), 0);
	assert_true(r.is_new);
	perf_maps_end(&r, 0);
	assert_false(perf_maps_has(*state, self, start));
	assert_true(perf_maps_changed(*state, self, later));
}

/* A map of a process that has ended is still read, as its user is known. */
static void test_ended(void **state)
{
	struct perf_map_reading r;
	pid_t child = fork();
	uint64_t began;

	if (child == 0) {
		pause();
		_exit(0);
	}
	began = start_of(child);
	set_path((uint32_t)child);
	append(100);
	if (geteuid() == 0)
		assert_int_equal(chown(path, 12345, 12345), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	if (geteuid() == 0) {
		assert_int_equal(
		    perf_maps_begin(*state, (uint32_t)child, began, PERF_MAP_NO_OWNER, &r),
		    -EACCES);
		assert_int_equal(perf_maps_begin(*state, (uint32_t)child, began, 12345, &r), 0);
		perf_maps_end(&r, 0);
		assert_int_equal(
		    perf_maps_begin(*state, (uint32_t)child, began, PERF_MAP_NO_OWNER, &r), 0);
		perf_maps_end(&r, 0);
	}
	assert_int_equal(
	    perf_maps_begin(*state, (uint32_t)child, began + NS_PER_SEC, PERF_MAP_NO_OWNER, &r),
	    geteuid() ? 0 : -EACCES);
}

static void test_share(void **state)
{
	const uint64_t saved_ns = 10 * NS_PER_SEC, hour_ns = 3600 * NS_PER_SEC;
	struct perf_map_reading r;

	append(100);
	/* Time that was not used before is available at once, but only once. */
	read_all(*state, saved_ns / PERF_MAP_SHARE / 2);
	read_all(*state, saved_ns / PERF_MAP_SHARE / 4);
	read_all(*state, hour_ns / PERF_MAP_SHARE);
	assert_int_equal(perf_maps_begin(*state, self, start, PERF_MAP_NO_OWNER, &r), 0);
	assert_false(perf_maps_read_all(&r));
	perf_maps_end(&r, 0);
	append(100);
	assert_true(changed_now(*state));
	assert_int_equal(read_added(*state, false), -1);
	assert_true(perf_maps_changed(*state, self, start)); /* it has still to be read */
}

/* All maps together have a share, too. */
static void test_share_of_all(void **state)
{
	struct perf_map_reading r;
	pid_t child = fork();

	if (child == 0) {
		pause();
		_exit(0);
	}
	append(100);
	read_all(*state, 3600 * NS_PER_SEC);
	unlink(path);
	set_path((uint32_t)child);
	append(100);
	assert_int_equal(
	    perf_maps_begin(*state, (uint32_t)child, start_of(child), PERF_MAP_NO_OWNER, &r), 0);
	assert_false(perf_maps_read_all(&r));
	perf_maps_end(&r, 0);
	assert_true(perf_maps_changed(*state, (uint32_t)child, start_of(child)));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_grows, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_another_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_another_process, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_number_used_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ended, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_share, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_share_of_all, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
