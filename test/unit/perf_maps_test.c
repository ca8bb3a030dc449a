/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is read of a perf map that grows, and how often. */
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

#include "core/clock.h"
#include "core/perf_maps.h"

static char path[64];
static uint32_t self;

static void set_path(uint32_t pid)
{
	snprintf(path, sizeof(path), "/tmp/perf-%u.map", pid);
}

static int set_up(void **state)
{
	self = (uint32_t)getpid();
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
	return lseek(r->fd, 0, SEEK_CUR);
}

/* Reads all of it, which takes @took_ns. */
static void read_all(struct perf_maps *m, uint64_t took_ns)
{
	struct perf_map_reading r;

	assert_int_equal(perf_maps_begin(m, self, &r), 0);
	assert_true(perf_maps_read_all(&r));
	assert_int_equal(position(&r), 0);
	perf_maps_end(&r, took_ns);
}

/* Where what was added is read from; -1: it is not read. */
static off_t read_added(struct perf_maps *m, bool is_new)
{
	struct perf_map_reading r;
	off_t at;

	assert_int_equal(perf_maps_begin(m, self, &r), 0);
	assert_int_equal(r.is_new, is_new);
	at = perf_maps_read_added(&r) ? position(&r) : -1;
	perf_maps_end(&r, 0);
	return at;
}

static bool changed_now(struct perf_maps *m)
{
	perf_maps_end_round(m);
	return perf_maps_changed(m, self);
}

static void test_none(void **state)
{
	struct perf_map_reading r;

	assert_int_equal(perf_maps_begin(*state, self, &r), -ENOENT);
	assert_false(perf_maps_has(*state, self));
	assert_false(perf_maps_changed(*state, self));
	assert_false(perf_maps_has(NULL, self));
	assert_false(perf_maps_changed(NULL, self));
}

static void test_grows(void **state)
{
	append(100);
	assert_int_equal(read_added(*state, true), -1);
	assert_true(perf_maps_changed(*state, self)); /* nothing has been read yet */
	read_all(*state, 0);
	assert_true(perf_maps_has(*state, self));
	assert_false(perf_maps_has(*state, self + 1024));
	assert_false(changed_now(*state));
	assert_int_equal(read_added(*state, false), -1);
	append(1000000);
	assert_false(perf_maps_changed(*state, self)); /* the same round */
	assert_true(changed_now(*state));
	assert_int_equal(read_added(*state, false), 0);
	assert_false(perf_maps_changed(*state, self));
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
	/* of the same slot: by its number, which is nobody's */
	assert_int_equal(perf_maps_begin(*state, self + 1024 * 4096, &r), -ENOENT);
	assert_true(perf_maps_has(*state, self));
}

static void test_share(void **state)
{
	const uint64_t saved_ns = 10 * NS_PER_SEC, hour_ns = 3600 * NS_PER_SEC;
	struct perf_map_reading r;

	append(100);
	/* What was not used before is there at once, but not twice. */
	read_all(*state, saved_ns / PERF_MAP_SHARE / 2);
	read_all(*state, saved_ns / PERF_MAP_SHARE / 4);
	read_all(*state, hour_ns / PERF_MAP_SHARE);
	assert_int_equal(perf_maps_begin(*state, self, &r), 0);
	assert_false(perf_maps_read_all(&r));
	perf_maps_end(&r, 0);
	append(100);
	assert_true(changed_now(*state));
	assert_int_equal(read_added(*state, false), -1);
	assert_true(perf_maps_changed(*state, self)); /* it has still to be read */
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
	assert_int_equal(perf_maps_begin(*state, (uint32_t)child, &r), 0);
	assert_false(perf_maps_read_all(&r));
	perf_maps_end(&r, 0);
	assert_true(perf_maps_changed(*state, (uint32_t)child));
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
		cmocka_unit_test_setup_teardown(test_share, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_share_of_all, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
