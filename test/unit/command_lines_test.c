// SPDX-License-Identifier: GPL-2.0-or-later
/* Command lines of processes: read from /proc once, whatever the process has put there. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/naming/command_lines.h"

#define LINE_SIZE     512
#define READS_AT_ONCE 128
#define LONG_SIZE     (64 << 10)

static struct command_lines *opened(void)
{
	struct command_lines *c = command_lines_open();

	assert_non_null(c);
	command_lines_begin(c);
	return c;
}

/* A shell with these words as its command line, which waits until stop(). */
static pid_t start(const char *const words[])
{
	int begun[2], held[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(begun, O_CLOEXEC), 0);
	assert_int_equal(pipe2(held, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(held[0], STDIN_FILENO);
		execv("/bin/sh", (char *const *)words);
		_exit(127);
	}
	close(begun[1]);
	close(held[0]);
	assert_int_equal(read(begun[0], &byte, 1), 0); /* closed by exec */
	close(begun[0]);
	return pid; /* held[1] stays open */
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#define WAITS "read line" /* for standard input, which stays open */

/* Words are separated by blanks; the renderer escapes the rest. */
static void test_control_characters(void **state)
{
	const char *const words[] = { "sh",	  "-c", WAITS,	"a\033[2J\n\tb",
				      "\xff\x80", "",	"last", NULL };
	struct command_lines *c = opened();
	pid_t pid = start(words);

	(void)state;
	assert_string_equal(command_lines_find(c, (uint32_t)pid, 1, "sh"),
			    "sh -c " WAITS " a\033[2J\n\tb \xff\x80  last");
	stop(pid);
	command_lines_free(c);
}

static void test_long(void **state)
{
	static char word[LONG_SIZE];
	const char *const words[] = { "sh", "-c", WAITS, word, NULL };
	static const char begin[] = "sh -c " WAITS " ";
	struct command_lines *c = opened();
	const char *line;
	pid_t pid;

	(void)state;
	memset(word, 'w', sizeof(word) - 1);
	pid = start(words);
	line = command_lines_find(c, (uint32_t)pid, 1, "sh");
	assert_int_equal(strlen(line), LINE_SIZE);
	assert_int_equal(strncmp(line, begin, strlen(begin)), 0);
	assert_int_equal(strspn(line + strlen(begin), "w"), LINE_SIZE - strlen(begin));
	stop(pid);
	command_lines_free(c);
}

static void test_empty(void **state)
{
	const char *const words[] = { "", NULL };
	struct command_lines *c = opened();
	pid_t pid = start(words);

	(void)state;
	assert_string_equal(command_lines_find(c, (uint32_t)pid, 1, "sh"), "");
	assert_string_equal(command_lines_find(c, 0, 1, "idle"), "");
	stop(pid);
	command_lines_free(c);
}

/* What was read stays when the process is gone.  One that was gone before has none. */
static void test_gone(void **state)
{
	const char *const words[] = { "sh", "-c", WAITS, NULL };
	struct command_lines *c = opened();
	pid_t pid = start(words);

	(void)state;
	assert_string_equal(command_lines_find(c, (uint32_t)pid, 1, "sh"), "sh -c " WAITS);
	stop(pid);
	command_lines_begin(c);
	assert_string_equal(command_lines_find(c, (uint32_t)pid, 1, "sh"), "sh -c " WAITS);
	assert_string_equal(command_lines_find(c, (uint32_t)pid, 2, "sh"), "");
	command_lines_free(c);
}

/* A process of another name has called exec: its line is read once more. */
static void test_exec(void **state)
{
	const char *const words[] = { "sh", "-c", WAITS, NULL };
	struct command_lines *c = opened();
	pid_t pid = start(words);

	(void)state;
	assert_string_equal(command_lines_find(c, (uint32_t)pid, 1, "sh"), "sh -c " WAITS);
	stop(pid);
	assert_string_equal(command_lines_find(c, (uint32_t)pid, 1, "sh"), "sh -c " WAITS);
	assert_string_equal(command_lines_find(c, (uint32_t)pid, 1, "other"), "");
	command_lines_free(c);
}

/* No more than some files are read for an output. */
static void test_bounded(void **state)
{
	struct command_lines *c = opened();
	const uint32_t pid = (uint32_t)getpid();

	(void)state;
	for (uint64_t i = 1; i <= READS_AT_ONCE; i++)
		assert_string_not_equal(command_lines_find(c, pid, i, "test"), "");
	assert_string_equal(command_lines_find(c, pid, READS_AT_ONCE + 1, "test"), "");
	assert_string_not_equal(command_lines_find(c, pid, 1, "test"), ""); /* known */
	command_lines_begin(c);
	assert_string_not_equal(command_lines_find(c, pid, READS_AT_ONCE + 1, "test"), "");
	command_lines_free(c);
	command_lines_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_control_characters),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_exec),
		cmocka_unit_test(test_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
