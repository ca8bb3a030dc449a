/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/isolation/child.h"
#include "test/unit/capture.h"
#include "test/unit/root.h"

static char path[PATH_MAX]; /* a file, which the commands write */

static int set_up(void **state)
{
	int r = make_root(state);

	in_root(path, "out");
	return r;
}

static struct child started(char *const *argv, const sigset_t *mask)
{
	struct child c = { 0, -1, -1 };
	struct error err;

	assert_int_equal(child_start(argv, mask, false, &c, &err), 0);
	assert_true(c.pid > 0);
	assert_true(c.release_fd >= 0);
	assert_true(c.exec_fd >= 0);
	return c;
}

/* Waits for the end as the run loop does, without its signals. */
static int end_of(struct child *c)
{
	int status = -1;

	while (!child_ended(c, &status)) {
		assert_true(c->pid > 0);
		poll(NULL, 0, 1);
	}
	assert_int_equal(c->pid, 0);
	assert_false(child_ended(c, &status));
	return status;
}

static int ran(char *const *argv, const sigset_t *mask)
{
	struct child c = started(argv, mask);
	struct error err;
	int status = -1;

	assert_int_equal(child_release(&c, argv[0], &status, &err), 0);
	assert_int_equal(status, -1);
	assert_int_equal(c.release_fd, -1);
	assert_int_equal(c.exec_fd, -1);
	return end_of(&c);
}

static int ran_shell(const char *script, const sigset_t *mask)
{
	char text[256];
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, text, path, NULL };

	assert_true(snprintf(text, sizeof(text), "%s", script) < (int)sizeof(text));
	return ran(argv, mask);
}

/* The first line of the file that the command wrote. */
static const char *written(void)
{
	static char line[256];
	FILE *file = fopen(path, "r");

	line[0] = '\0';
	assert_non_null(file);
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	return line;
}

static bool is_there(const char *file)
{
	return access(file, F_OK) == 0;
}

static void test_exit_statuses(void **state)
{
	static const struct {
		const char *script;
		int status;
	} cases[] = {
		{ "exit 0", 0 },
		{ "exit 7", 7 },
		{ "exit 255", 255 },
		{ "exit 126", 126 },
		{ "kill -TERM $$", 128 + SIGTERM },
		{ "kill -KILL $$", 128 + SIGKILL },
		{ "kill -INT $$", 128 + SIGINT },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(ran_shell(cases[i].script, NULL), cases[i].status);
}

static void test_arguments(void **state)
{
	char *argv[] = { (char[]){ "sh" },
			 (char[]){ "-c" },
			 (char[]){ "printf '<%s>' \"$@\" >$0" },
			 path,
			 (char[]){ "a b" },
			 (char[]){ "" },
			 (char[]){ "--json" },
			 (char[]){ "*" },
			 NULL };

	(void)state;
	assert_int_equal(ran(argv, NULL), 0);
	assert_string_equal(written(), "<a b><><--json><*>");
}

/* Its standard output is whatever standard error is. */
static void test_output_to_stderr(void **state)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ "echo ran" }, NULL };
	struct child c = { 0, -1, -1 };
	struct capture err;
	int status = -1;

	(void)state;
	capture_begin(&err, STDERR_FILENO);
	assert_int_equal(child_start(argv, NULL, true, &c, NULL), 0);
	assert_int_equal(child_release(&c, argv[0], &status, NULL), 0);
	assert_int_equal(end_of(&c), 0);
	assert_string_equal(capture_end(&err), "ran\n");
}

static void test_held_until_released(void **state)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ "echo ran >$0" }, path,
			 NULL };
	struct child c = started(argv, NULL);
	char exe[64], target[256], own[256];
	int status = -1;
	ssize_t n;

	(void)state;
	poll(NULL, 0, 50);
	assert_false(is_there(path));
	assert_false(child_ended(&c, &status));
	assert_int_equal(status, -1);
	/* it is this program still */
	snprintf(exe, sizeof(exe), "/proc/%d/exe", (int)c.pid);
	n = readlink(exe, target, sizeof(target));
	assert_true(n > 0);
	assert_int_equal(readlink("/proc/self/exe", own, sizeof(own)), n);
	assert_memory_equal(target, own, (size_t)n);
	assert_int_equal(child_release(&c, argv[0], &status, NULL), 0);
	assert_int_equal(end_of(&c), 0);
	assert_string_equal(written(), "ran");
}

/* Once released it is the command, not a process that is about to become it. */
static void test_released_is_the_command(void **state)
{
	char *argv[] = { (char[]){ "sleep" }, (char[]){ "60" }, NULL };
	struct child c = started(argv, NULL);
	char name[64], comm[32] = "";
	int status = -1;
	FILE *file;

	(void)state;
	assert_int_equal(child_release(&c, argv[0], &status, NULL), 0);
	snprintf(name, sizeof(name), "/proc/%d/comm", (int)c.pid);
	file = fopen(name, "r");
	assert_non_null(file);
	assert_non_null(fgets(comm, sizeof(comm), file));
	fclose(file);
	assert_string_equal(comm, "sleep\n");
	assert_false(child_ended(&c, &status));
	assert_int_equal(kill(c.pid, SIGTERM), 0);
	assert_int_equal(end_of(&c), 128 + SIGTERM);
}

static void cannot_run(const char *name, int code, int expected)
{
	char text[128], what[256];
	char *argv[] = { text, NULL };
	struct error err;
	struct child c;
	int status = -1;
	pid_t pid;

	snprintf(text, sizeof(text), "%s", name);
	c = started(argv, NULL);
	pid = c.pid;
	memset(&err, 0x5a, sizeof(err));
	assert_int_equal(child_release(&c, name, &status, &err), -code);
	assert_int_equal(status, expected);
	assert_int_equal(err.status, STATUS_FAILED);
	snprintf(what, sizeof(what), "cannot run '%s': %s", name, strerror(code));
	assert_string_equal(err.what, what);
	/* gone, and waited for */
	assert_int_equal(c.pid, 0);
	assert_int_equal(c.release_fd, -1);
	assert_int_equal(c.exec_fd, -1);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
	assert_false(child_ended(&c, &status));
	child_discard(&c);
}

static void test_no_such_command(void **state)
{
	(void)state;
	cannot_run("/nonexistent/command", ENOENT, 127);
	cannot_run("no-such-command-in-the-path", ENOENT, 127);
	cannot_run("", ENOENT, 127);
}

static void test_not_executable(void **state)
{
	(void)state;
	put("out", "");
	assert_int_equal(chmod(path, 0644), 0);
	cannot_run(path, EACCES, 126);
	cannot_run(root, EACCES, 126);
	cannot_run("/etc/passwd/x", ENOTDIR, 126);
}

/* A script whose interpreter is not there is "no such file", as a shell says. */
static void test_no_interpreter(void **state)
{
	(void)state;
	put("out", "#!/nonexistent/interpreter\n");
	assert_int_equal(chmod(path, 0755), 0);
	cannot_run(path, ENOENT, 127);
}

static void test_discard(void **state)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ "echo ran >$0" }, path,
			 NULL };
	struct child c = started(argv, NULL), unused = { 0, -1, -1 }, zero = { 0 };
	pid_t pid = c.pid;
	int status = -1;

	(void)state;
	child_discard(&c);
	assert_int_equal(c.pid, 0);
	assert_int_equal(c.release_fd, -1);
	assert_int_equal(c.exec_fd, -1);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
	assert_false(is_there(path));
	assert_false(child_ended(&c, &status));
	child_discard(&c);
	child_discard(&unused);
	child_discard(&zero); /* which does not own standard input */
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	child_discard(NULL);
}

/* Signals that were held back when it was forked do not keep it. */
static void test_discard_with_signals_blocked(void **state)
{
	char *argv[] = { (char[]){ "true" }, NULL };
	sigset_t mask, old;
	struct child c;
	pid_t pid;

	(void)state;
	sigfillset(&mask);
	assert_int_equal(sigprocmask(SIG_BLOCK, &mask, &old), 0);
	c = started(argv, &old);
	pid = c.pid;
	child_discard(&c);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

/* iotrace was killed: the command is not run untraced. */
static void test_parent_dies(void **state)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ "echo ran >$0" }, path,
			 NULL };
	int told[2], wstatus;
	pid_t middle, held;
	struct child c;

	(void)state;
	assert_int_equal(pipe(told), 0);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	middle = fork();
	assert_true(middle >= 0);
	if (middle == 0) {
		if (child_start(argv, NULL, false, &c, NULL))
			_exit(1);
		_exit(write(told[1], &c.pid, sizeof(c.pid)) == sizeof(c.pid) ? 0 : 1);
	}
	assert_int_equal(read(told[0], &held, sizeof(held)), sizeof(held));
	assert_int_equal(waitpid(middle, &wstatus, 0), middle);
	assert_int_equal(wstatus, 0);
	assert_int_equal(waitpid(held, &wstatus, 0), held);
	assert_true(WIFEXITED(wstatus));
	assert_int_equal(WEXITSTATUS(wstatus), 127);
	assert_false(is_there(path));
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
	close(told[0]);
	close(told[1]);
}

/* Killed while it was held: no error of the exec, and its end is seen as usual. */
static void test_killed_while_held(void **state)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ "echo ran >$0" }, path,
			 NULL };
	struct child c = started(argv, NULL);
	int status = -1;

	(void)state;
	signal(SIGPIPE, SIG_IGN); /* as main() does */
	assert_int_equal(kill(c.pid, SIGKILL), 0);
	assert_int_equal(child_release(&c, argv[0], &status, NULL), 0);
	assert_int_equal(end_of(&c), 128 + SIGKILL);
	assert_false(is_there(path));
	signal(SIGPIPE, SIG_DFL);
}

static uint64_t mask_in(const char *line, const char *key)
{
	unsigned long long mask = 0;

	assert_memory_equal(line, key, strlen(key));
	assert_int_equal(sscanf(line + strlen(key), "%llx", &mask), 1);
	return mask;
}

#define BIT(signal) (1ull << ((signal)-1))

/* The command gets the mask that iotrace was started with, not the one of its run loop. */
static void test_signal_mask(void **state)
{
	sigset_t mask, given, old;

	(void)state;
	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGCHLD);
	assert_int_equal(sigprocmask(SIG_BLOCK, &mask, &old), 0);
	assert_int_equal(ran_shell("exec grep SigBlk: /proc/self/status >$0", &old), 0);
	assert_int_equal(mask_in(written(), "SigBlk:") & (BIT(SIGINT) | BIT(SIGTERM)), 0);
	sigemptyset(&given);
	sigaddset(&given, SIGUSR2);
	assert_int_equal(ran_shell("exec grep SigBlk: /proc/self/status >$0", &given), 0);
	assert_int_equal(mask_in(written(), "SigBlk:"), BIT(SIGUSR2));
	/* without a mask nothing changes */
	assert_int_equal(ran_shell("exec grep SigBlk: /proc/self/status >$0", NULL), 0);
	assert_int_equal(mask_in(written(), "SigBlk:") & (BIT(SIGINT) | BIT(SIGTERM)),
			 BIT(SIGINT) | BIT(SIGTERM));
	assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

/* A command inherits the signal dispositions that iotrace was started with, not iotrace's own. */
static void test_dispositions(void **state)
{
	void (*const all[])(int) = { SIG_DFL, SIG_IGN };
	uint64_t ignored;
	int wstatus;
	pid_t pid;

	(void)state;
	for (int i = 0; i < 4; i++) {
		pid = fork(); /* what was there first is remembered for good */
		assert_true(pid >= 0);
		if (pid == 0) {
			signal(SIGPIPE, all[i % 2]);
			child_set_signal(SIGPIPE, all[i / 2]);
			child_set_signal(SIGPIPE, all[i / 2]);
			_exit(ran_shell("exec grep SigIgn: /proc/self/status >$0", NULL));
		}
		assert_int_equal(waitpid(pid, &wstatus, 0), pid);
		assert_int_equal(wstatus, 0);
		ignored = mask_in(written(), "SigIgn:") & BIT(SIGPIPE);
		assert_int_equal(ignored != 0, all[i % 2] == SIG_IGN);
	}
}

/* Both ends of the two pipes are closed: a thousand commands need no more. */
static void test_no_descriptors_left(void **state)
{
	char *argv[] = { (char[]){ "true" }, NULL };
	int before = dup(STDERR_FILENO), after;
	struct child c;

	(void)state;
	close(before);
	assert_int_equal(ran(argv, NULL), 0);
	cannot_run("/nonexistent/command", ENOENT, 127);
	c = started(argv, NULL);
	child_discard(&c);
	after = dup(STDERR_FILENO);
	close(after);
	assert_int_equal(after, before);
}

#define in_dir(test) cmocka_unit_test_setup_teardown(test, set_up, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_dir(test_exit_statuses),
		in_dir(test_arguments),
		in_dir(test_output_to_stderr),
		in_dir(test_held_until_released),
		in_dir(test_released_is_the_command),
		in_dir(test_no_such_command),
		in_dir(test_not_executable),
		in_dir(test_no_interpreter),
		in_dir(test_discard),
		in_dir(test_discard_with_signals_blocked),
		in_dir(test_parent_dies),
		in_dir(test_killed_while_held),
		in_dir(test_signal_mask),
		in_dir(test_dispositions),
		in_dir(test_no_descriptors_left),
	};

	alarm(600); /* whatever hangs */
	/* a folder that may not be looked into would be EACCES */
	setenv("PATH", "/usr/bin:/bin", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
