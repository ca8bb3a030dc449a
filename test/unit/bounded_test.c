// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/isolation/bounded.h"
#include "core/base/clock.h"
#include "test/unit/held_clock.h"

static char folder[] = "/tmp/iotrace-bounded-XXXXXX";
static char plain[PATH_MAX], held[PATH_MAX];

static int setup(void **state)
{
	FILE *file;

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(plain, sizeof(plain), "%s/plain", folder);
	snprintf(held, sizeof(held), "%s/held", folder);
	file = fopen(plain, "we");
	if (!file || fputs("0123456789", file) < 0 || fclose(file))
		return -1;
	return mkfifo(held, 0600);
}

static int teardown(void **state)
{
	(void)state;
	unlink(plain);
	unlink(held);
	return rmdir(folder);
}

static int count_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* No child is left, except killed ones that, on a busy machine, have not exited yet. */
static void assert_no_child(void)
{
	int status;

	while (waitpid(-1, &status, __WALL) > 0)
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(errno, ECHILD);
}

static void test_read_fd(void **state)
{
	struct bounded_text text;
	int fd = open(plain, O_RDONLY | O_CLOEXEC), files = count_files();

	(void)state;
	assert_int_equal(bounded_read_fd(fd, 4, &text), 0);
	assert_string_equal(text.text, "0123");
	bounded_text_free(&text);
	assert_int_equal(bounded_read_fd(fd, 100, &text), 0);
	assert_int_equal(text.len, 6);
	assert_string_equal(text.text, "456789");
	bounded_text_free(&text);
	assert_int_equal(count_files(), files);
	close(fd);
	fd = open(held, O_RDWR | O_CLOEXEC); /* there is no writer */
	assert_int_equal(bounded_read_fd(fd, 4, &text), -ETIMEDOUT);
	close(fd);
	assert_int_equal(bounded_read_fd(-1, 4, &text), -EBADF);
	assert_no_child();
}

static void test_read(void **state)
{
	struct bounded_text text;

	(void)state;
	assert_int_equal(bounded_read(plain, 100, &text), 0);
	assert_int_equal(text.len, 10);
	assert_string_equal(text.text, "0123456789");
	bounded_text_free(&text);
	assert_int_equal(bounded_read(plain, 4, &text), 0);
	assert_int_equal(text.len, 4);
	assert_string_equal(text.text, "0123");
	bounded_text_free(&text);
	assert_int_equal(bounded_read("/proc/self/none", 4, &text), -ENOENT);
	assert_int_equal(bounded_read("/proc", 4, &text), -EISDIR);
	assert_no_child();
}

/* /proc/self is the reader's process: as a fork it has the same mappings as we. */
static void test_read_large(void **state)
{
	struct bounded_text text;

	(void)state;
	assert_int_equal(bounded_read("/proc/self/maps", 1 << 20, &text), 0);
	assert_true(text.len > 100);
	assert_non_null(strstr(text.text, "bounded_test"));
	bounded_text_free(&text);
}

static int open_path(void *ctx, void *result)
{
	int fd = open(ctx, O_RDONLY | O_CLOEXEC);

	(void)result;
	return fd < 0 ? -errno : fd;
}

/* What @call opens; there is no result. */
static int open_bounded(int (*call)(void *, void *), void *ctx)
{
	return bounded_open(call, ctx, -1, NULL, 0);
}

static void test_open(void **state)
{
	int files = count_files(), fd = open_bounded(open_path, plain);
	char missing[] = "/proc/self/none", text[4];

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(read(fd, text, 4), 4);
	assert_memory_equal(text, "0123", 4);
	close(fd);
	assert_int_equal(open_bounded(open_path, missing), -ENOENT);
	assert_int_equal(count_files(), files);
}

/* All descriptors of its own, as a string. */
static int open_and_list(void *ctx, void *result)
{
	char *out = result;
	int fd = open_path(ctx, NULL);

	for (int i = 0; i < 100; i++)
		*out++ = fcntl(i, F_GETFD) < 0 ? '-' : 'x';
	return fd;
}

/* The child has only the directory, its end of a socket, and the files it opens, and reports them.
 */
static void test_own_files(void **state)
{
	int before = open(plain, O_RDONLY | O_CLOEXEC), dir = open(folder, O_PATH | O_CLOEXEC);
	int files = count_files(), fd, n = 0;
	char result[100];

	(void)state;
	fd = bounded_open(open_and_list, plain, dir, result, sizeof(result));
	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof(result); i++)
		n += result[i] == 'x';
	assert_int_equal(n, 3);
	assert_int_equal(result[dir], 'x');
	assert_int_equal(result[before], '-');
	assert_int_equal(count_files(), files + 1);
	bounded_close(fd);
	assert_int_equal(count_files(), files);
	fd = bounded_open(open_and_list, plain, -1, result, sizeof(result));
	assert_int_equal(result[dir], '-');
	bounded_close(fd);
	bounded_close(before);
	close(dir);
	assert_no_child();
}

/* Killed with a descriptor that the caller does not have yet. */
static int open_both(void *ctx, void *result)
{
	int first = open_path(plain, result);

	return first < 0 ? first : open_path(ctx, result);
}

static void test_held_with_a_file(void **state)
{
	int files = count_files();

	(void)state;
	assert_int_equal(open_bounded(open_both, held), -ETIMEDOUT);
	assert_int_equal(count_files(), files);
	assert_no_child();
}

/* @ctx: what is ours, and what is shared. */
static int write_both(void *ctx)
{
	int **both = ctx, files = 0;

	*both[0] = *both[1] = 2;
	for (int i = 0; i < 100; i++)
		files += fcntl(i, F_GETFD) >= 0;
	return files;
}

static int open_held(void *ctx)
{
	return open_path(ctx, NULL);
}

/* The child has a copy of our memory, and only the descriptors that it is given. */
static void test_apart(void **state)
{
	int files = count_files(), low = open(folder, O_PATH | O_CLOEXEC), high = dup(low), own = 1;
	int *shared =
	    mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int *both[] = { &own, shared };
	const int kept[] = { low, high };

	(void)state;
	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_int_equal(bounded_forked(write_both, both, kept, 2), 2);
	assert_int_equal(own, 1);
	assert_int_equal(*shared, 2);
	assert_int_equal(bounded_forked(open_held, held, NULL, 0), -ETIMEDOUT);
	munmap(shared, sizeof(int));
	close(low);
	close(high);
	assert_no_child();
	assert_int_equal(count_files(), files);
}

#define MS (NS_PER_SEC / 1000)

/* How long it was held, in ms. */
static uint64_t held_ms(void)
{
	uint64_t since_ns = clock_mono_ns();
	struct bounded_text text;

	assert_int_equal(bounded_read(held, 100, &text), -ETIMEDOUT);
	return (clock_mono_ns() - since_ns) / MS;
}

/* However often: neither tasks nor descriptors are left, little time is spent, and others are
 * read. */
static void test_held(void **state)
{
	struct bounded_text text;
	int files = count_files();

	(void)state;
	held_clock_pass(100 * NS_PER_SEC);
	assert_int_equal(held_ms(), 500);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(held_ms(), 10);
		assert_int_equal(open_bounded(open_path, held), -ETIMEDOUT);
	}
	assert_int_equal(bounded_read(plain, 100, &text), 0);
	assert_string_equal(text.text, "0123456789");
	bounded_text_free(&text);
	held_clock_pass(10 * NS_PER_SEC);
	assert_in_range(held_ms(), 200, 210); /* 2 % of the time since */
	assert_no_child();
	assert_int_equal(count_files(), files);
}

/* Works for @busy_ms of the clock, in many parts. */
static uint64_t busy_ms;

static int open_late(void *ctx, void *result)
{
	for (uint64_t i = 0; i < busy_ms / 20; i++) {
		unsigned int polls = __atomic_load_n(&held_clock.polls, __ATOMIC_SEQ_CST);

		while (__atomic_load_n(&held_clock.polls, __ATOMIC_SEQ_CST) == polls)
			;
		held_clock_pass(20 * MS);
	}
	return open_path(ctx, result);
}

/* A task that has or wants a CPU is not blocked, and has a second, however little is left. */
static void test_busy(void **state)
{
	int fd;

	(void)state;
	for (int i = 0; i < 3; i++)
		held_ms();
	held_clock.ticks = true;
	busy_ms = 400;
	fd = open_bounded(open_late, plain);
	assert_true(fd >= 0);
	close(fd);
	busy_ms = 1200;
	assert_int_equal(open_bounded(open_late, plain), -ETIMEDOUT);
	held_clock.ticks = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),	   cmocka_unit_test(test_read_fd),
		cmocka_unit_test(test_read_large), cmocka_unit_test(test_open),
		cmocka_unit_test(test_own_files),  cmocka_unit_test(test_held_with_a_file),
		cmocka_unit_test(test_held),	   cmocka_unit_test(test_busy),
		cmocka_unit_test(test_apart),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
