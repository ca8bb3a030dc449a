/* SPDX-License-Identifier: GPL-2.0-or-later */
/* core/isolation/sandbox.c: what a replay may still do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <asm/termbits.h>
#include <signal.h>
#include <sys/wait.h>

#include "core/isolation/sandbox.h"
#include "pty.h"

/* The requests that the terminal's modes are read and set by: the first four of the C library up to
 * glibc 2.41, the others since.  The number of the first that fails, counted from 1. */
static int use_terminal(int fd)
{
	static const unsigned long old[] = { TCSETS, TCSETSW, TCSETSF },
				   new[] = { TCSETS2, TCSETSW2, TCSETSF2 };
	struct termios modes;
	struct termios2 modes2;

	if (ioctl(fd, TCGETS, &modes))
		return 1;
	for (int i = 0; i < 3; i++)
		if (ioctl(fd, old[i], &modes))
			return 2 + i;
	if (ioctl(fd, TCGETS2, &modes2))
		return 5;
	for (int i = 0; i < 3; i++)
		if (ioctl(fd, new[i], &modes2))
			return 6 + i;
	return 0;
}

static void test_terminal(void **state)
{
	static struct pty p;
	int status, fd;
	pid_t pid;

	(void)state;
	pty_open(&p, 24, 80);
	fd = fileno(p.in);
	assert_int_equal(use_terminal(fd), 0);
	pid = fork();
	if (!pid) {
		struct error err;

		if (sandbox_view(false, &err))
			_exit(100);
		_exit(use_terminal(fd));
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	pty_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_terminal) };

	return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
