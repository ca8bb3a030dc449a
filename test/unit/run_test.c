/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The run loop, with outputs that are made up.  Times are short, and none is asserted on. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/run.h"

#define MS 1000000ull

/* What the made-up outputs saw, and what they do. */
struct outputs {
	unsigned int n;
	bool last[16]; /* of each */
	unsigned int signal_at;
	int signal; /* sent to ourselves in output @signal_at, which counts from 1 */
	unsigned int fail_at;
	int fail_with;
	const char *fail_text; /* NULL: an error of standard output */
};

static int emit(void *ctx, bool last, struct error *err)
{
	struct outputs *o = ctx;

	if (o->n == sizeof(o->last) / sizeof(o->last[0]))
		return error_set(err, STATUS_FAILED, -E2BIG, "it does not end");
	o->last[o->n++] = last;
	if (o->n == o->signal_at)
		kill(getpid(), o->signal);
	if (o->n != o->fail_at)
		return 0;
	if (o->fail_text)
		return error_set(err, STATUS_UNSUPPORTED, o->fail_with, "%s", o->fail_text);
	return o->fail_with;
}

/* Only the last is the last. */
static void outputs_are(const struct outputs *o, unsigned int n)
{
	assert_int_equal(o->n, n);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(o->last[i], i + 1 == n);
}

static sigset_t mask_before;

static int set_up(void **state)
{
	(void)state;
	return sigprocmask(SIG_SETMASK, NULL, &mask_before);
}

/* The signals that the loop holds back, and the pipe that it minds. */
static int tear_down(void **state)
{
	sigset_t pending;

	(void)state;
	sigpending(&pending);
	if (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
	    sigismember(&pending, SIGHUP))
		return -1;
	signal(SIGPIPE, SIG_DFL);
	return sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

struct stderr_text {
	char text[512];
	FILE *file;
	int old;
};

static void catch_stderr(struct stderr_text *t)
{
	t->file = tmpfile();
	assert_non_null(t->file);
	fflush(stderr);
	t->old = dup(STDERR_FILENO);
	assert_true(t->old >= 0);
	assert_true(dup2(fileno(t->file), STDERR_FILENO) >= 0);
}

static const char *caught(struct stderr_text *t)
{
	size_t len;

	fflush(stderr);
	assert_true(dup2(t->old, STDERR_FILENO) >= 0);
	close(t->old);
	rewind(t->file);
	len = fread(t->text, 1, sizeof(t->text) - 1, t->file);
	t->text[len] = '\0';
	fclose(t->file);
	return t->text;
}

/* Runs it all; returns the exit status. What goes to standard error is @expected. */
static int runs(const struct args *args, struct outputs *o, const char *expected)
{
	const struct run_emit output = { emit, o };
	struct stderr_text text;
	struct error err;
	struct run run;
	int status;

	if (run_begin(&run, args, &err))
		fail_msg("%s", err.what);
	assert_int_equal(o->n, 0);
	catch_stderr(&text);
	status = run_loop(&run, &output);
	run_end(&run);
	assert_string_equal(caught(&text), expected);
	/* the next one of this test starts as the first did */
	assert_int_equal(sigprocmask(SIG_SETMASK, &mask_before, NULL), 0);
	return status;
}

static int runs_shell(struct args args, struct outputs *o, const char *script, const char *expected)
{
	char text[256];
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, text, NULL };

	assert_true(snprintf(text, sizeof(text), "%s", script) < (int)sizeof(text));
	args.command = argv;
	return runs(&args, o, expected);
}

/* ---- without COMMAND ---- */

static void test_count(void **state)
{
	(void)state;
	for (uint64_t count = 1; count <= 4; count++) {
		const struct args args = { .interval_ns = 10 * MS, .count = count };
		struct outputs o = { 0 };

		assert_int_equal(runs(&args, &o, ""), 0);
		outputs_are(&o, (unsigned int)count);
	}
}

/* The interval that is under way is not lost. */
static void test_signal_gives_a_last_output(void **state)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	const struct args args = { .interval_ns = 10 * MS };

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct outputs o = { .signal_at = 2, .signal = signals[i] };

		assert_int_equal(runs(&args, &o, ""), 0);
		outputs_are(&o, 3);
	}
}

static void test_signal_before_count(void **state)
{
	const struct args args = { .interval_ns = 10 * MS, .count = 10 };
	struct outputs o = { .signal_at = 1, .signal = SIGINT };

	(void)state;
	assert_int_equal(runs(&args, &o, ""), 0);
	outputs_are(&o, 2);
}

/* One that came while things were being attached. */
static void test_signal_before_the_loop(void **state)
{
	const struct args args = { .interval_ns = 1000 * 1000 * MS, .count = 5 };
	struct outputs o = { 0 };
	const struct run_emit output = { emit, &o };
	struct run run;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	kill(getpid(), SIGTERM);
	assert_int_equal(run_loop(&run, &output), 0);
	run_end(&run);
	outputs_are(&o, 1);
}

/* Without INTERVAL: one output, when it is stopped. */
static void test_no_interval(void **state)
{
	const struct args args = { .interval_ns = 0 };
	struct outputs o = { 0 };
	const struct run_emit output = { emit, &o };
	pid_t parent = getpid(), pid;
	struct run run;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		poll(NULL, 0, 50); /* nothing comes meanwhile */
		_exit(kill(parent, SIGINT) ? 1 : 0);
	}
	assert_int_equal(run_loop(&run, &output), 0);
	run_end(&run);
	outputs_are(&o, 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A child that is none of ours ends: that is no reason to stop. */
static void test_other_child(void **state)
{
	const struct args args = { .interval_ns = 10 * MS, .count = 3 };
	struct outputs o = { 0 };
	const struct run_emit output = { emit, &o };
	struct run run;
	pid_t pid;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(9);
	assert_int_equal(run_loop(&run, &output), 0);
	run_end(&run);
	outputs_are(&o, 3);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_closed_pipe(void **state)
{
	const struct args args = { .interval_ns = 10 * MS };
	struct outputs o = { .fail_at = 2, .fail_with = -EPIPE };

	(void)state;
	assert_int_equal(runs(&args, &o, ""), 0);
	assert_int_equal(o.n, 2);
}

/* Writing to it does not kill us either. */
static void test_closed_pipe_for_real(void **state)
{
	const struct args args = { .interval_ns = 10 * MS, .count = 1 };
	struct run run;
	int ends[2];

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	assert_int_equal(write(ends[1], "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	close(ends[1]);
	run_end(&run);
}

static void test_full_disk(void **state)
{
	const struct args args = { .interval_ns = 10 * MS };
	struct outputs o = { .fail_at = 1, .fail_with = -ENOSPC };

	(void)state;
	assert_int_equal(
	    runs(&args, &o, "iotrace: cannot write to standard output: No space left on device\n"),
	    STATUS_FAILED);
	assert_int_equal(o.n, 1);
}

/* Its status, too, says nothing of what we lost. */
static void test_full_disk_with_command(void **state)
{
	struct outputs o = { .fail_at = 1, .fail_with = -ENOSPC };

	(void)state;
	assert_int_equal(
	    runs_shell((struct args){ .interval_ns = 10 * MS }, &o, "sleep 0.1",
		       "iotrace: cannot write to standard output: No space left on device\n"),
	    STATUS_FAILED);
	assert_int_equal(o.n, 1);
}

/* An error that the output explains itself, with a status of its own. */
static void test_output_fails(void **state)
{
	const struct args args = { .interval_ns = 10 * MS };
	struct outputs o = { .fail_at = 3, .fail_with = -EIO, .fail_text = "it is broken" };

	(void)state;
	assert_int_equal(runs(&args, &o, "iotrace: it is broken\n"), STATUS_UNSUPPORTED);
	assert_int_equal(o.n, 3);
	assert_false(o.last[2]);
}

static void test_end_without_loop(void **state)
{
	const struct args args = { .interval_ns = 10 * MS };
	int before = dup(STDERR_FILENO), after;
	struct run run;

	(void)state;
	close(before);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(run_begin(&run, &args, NULL), 0);
		run_end(&run);
	}
	after = dup(STDERR_FILENO);
	close(after);
	assert_int_equal(after, before);
}

/* ---- with COMMAND ---- */

static void test_command_status(void **state)
{
	static const struct {
		const char *script;
		int status;
	} cases[] = {
		{ "exit 0", 0 },
		{ "exit 7", 7 },
		{ "exit 255", 255 },
		{ "kill -KILL $$", 128 + SIGKILL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outputs o = { 0 };

		/* with no interval one output, when it has ended */
		assert_int_equal(runs_shell((struct args){ 0 }, &o, cases[i].script, ""),
				 cases[i].status);
		outputs_are(&o, 1);
	}
}

/* Whoever started us may have ignored SIGCHLD, which is inherited. */
static void test_sigchld_was_ignored(void **state)
{
	struct outputs o = { 0 };

	(void)state;
	signal(SIGCHLD, SIG_IGN);
	assert_int_equal(runs_shell((struct args){ 0 }, &o, "exit 7", ""), 7);
	outputs_are(&o, 1);
	signal(SIGCHLD, SIG_DFL);
}

static void test_command_true(void **state)
{
	char *argv[] = { (char[]){ "true" }, NULL };
	const struct args args = { .interval_ns = 1000 * 1000 * MS, .command = argv };
	struct outputs o = { 0 };

	(void)state;
	assert_int_equal(runs(&args, &o, ""), 0);
	outputs_are(&o, 1);
}

/* Its outputs are through before it has ended: its status all the same. */
static void test_command_outlives_count(void **state)
{
	struct outputs o = { 0 };

	(void)state;
	assert_int_equal(runs_shell((struct args){ .interval_ns = 10 * MS, .count = 2 }, &o,
				    "sleep 0.2; exit 9", ""),
			 9);
	outputs_are(&o, 2);
}

static void test_command_ends_before_count(void **state)
{
	struct outputs o = { 0 };

	(void)state;
	assert_int_equal(runs_shell((struct args){ .interval_ns = 1000 * 1000 * MS, .count = 5 },
				    &o, "exit 3", ""),
			 3);
	outputs_are(&o, 1);
}

/* It has ended while an output was made, and no SIGCHLD is left to tell. */
static void test_command_ends_during_output(void **state)
{
	struct outputs o = { 0 };

	(void)state;
	assert_int_equal(
	    runs_shell((struct args){ .interval_ns = 20 * MS }, &o, "sleep 0.05; exit 4", ""), 4);
	assert_true(o.n >= 1);
	outputs_are(&o, o.n);
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, ms) > 0;
}

static void test_command_is_held(void **state)
{
	char script[64];
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, script, NULL };
	const struct args args = { .command = argv };
	struct outputs o = { 0 };
	const struct run_emit output = { emit, &o };
	struct run run;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	snprintf(script, sizeof(script), "echo ran >&%d", ends[1]);
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	assert_true(run.child.pid > 0);
	assert_false(readable(ends[0], 50));
	assert_int_equal(run_loop(&run, &output), 0);
	assert_true(readable(ends[0], 0));
	run_end(&run);
	close(ends[0]);
	close(ends[1]);
}

/* Nothing could be attached: it does not run at all. */
static void test_command_is_discarded(void **state)
{
	char script[64];
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, script, NULL };
	const struct args args = { .command = argv };
	struct run run;
	int ends[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	snprintf(script, sizeof(script), "echo ran >&%d", ends[1]);
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	pid = run.child.pid;
	run_end(&run);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
	assert_false(readable(ends[0], 0));
	close(ends[0]);
	close(ends[1]);
}

static void test_command_cannot_run(void **state)
{
	char missing[] = "/nonexistent/command", dir[] = "/tmp";
	char *argv[] = { missing, NULL };
	const struct args args = { .interval_ns = 10 * MS, .command = argv };
	struct outputs o = { 0 };

	(void)state;
	assert_int_equal(
	    runs(&args, &o,
		 "iotrace: cannot run '/nonexistent/command': No such file or directory\n"),
	    127);
	argv[0] = dir;
	assert_int_equal(runs(&args, &o, "iotrace: cannot run '/tmp': Permission denied\n"), 126);
	assert_int_equal(o.n, 0);
}

/* Signals are the command's too: it ends by them, and we with it. */
static void test_signal_is_passed_on(void **state)
{
	static const int signals[] = { SIGTERM, SIGHUP, SIGINT };

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct outputs o = { .signal_at = 1, .signal = signals[i] };

		assert_int_equal(
		    runs_shell((struct args){ .interval_ns = 10 * MS }, &o, "exec sleep 60", ""),
		    128 + signals[i]);
		assert_true(o.n >= 2);
		outputs_are(&o, o.n);
	}
}

/* A command that does not care is left behind by the second one. */
static void test_second_signal_ends(void **state)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" },
			 (char[]){ "trap '' INT TERM; exec sleep 60" }, NULL };
	const struct args args = { .interval_ns = 10 * MS, .command = argv };
	struct outputs o = { 0 };
	const struct run_emit output = { emit, &o };
	pid_t parent = getpid(), pid, command;
	struct run run;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	command = run.child.pid;
	/* passed on right away, before the trap is set, it would end the command */
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char path[64], comm[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/comm", (int)command);
		while (strcmp(comm, "sleep\n") != 0) {
			file = fopen(path, "r");
			if (!file || !fgets(comm, sizeof(comm), file))
				_exit(1);
			fclose(file);
			poll(NULL, 0, 1);
		}
		kill(parent, SIGTERM);
		poll(NULL, 0, 50); /* two of one kind would be one */
		kill(parent, SIGTERM);
		_exit(0);
	}
	assert_int_equal(run_loop(&run, &output), 0);
	run_end(&run);
	assert_true(o.n >= 1);
	outputs_are(&o, o.n);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(kill(command, SIGKILL), 0); /* it is there still */
	assert_int_equal(waitpid(command, NULL, 0), command);
}

static void test_closed_pipe_with_command(void **state)
{
	struct outputs o = { .fail_at = 1, .fail_with = -EPIPE };

	(void)state;
	assert_int_equal(
	    runs_shell((struct args){ .interval_ns = 10 * MS }, &o, "sleep 0.1; exit 5", ""), 5);
	assert_int_equal(o.n, 1);
}

#define in_loop(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_loop(test_count),
		in_loop(test_signal_gives_a_last_output),
		in_loop(test_signal_before_count),
		in_loop(test_signal_before_the_loop),
		in_loop(test_no_interval),
		in_loop(test_other_child),
		in_loop(test_closed_pipe),
		in_loop(test_closed_pipe_for_real),
		in_loop(test_full_disk),
		in_loop(test_full_disk_with_command),
		in_loop(test_output_fails),
		in_loop(test_end_without_loop),
		in_loop(test_command_status),
		in_loop(test_sigchld_was_ignored),
		in_loop(test_command_true),
		in_loop(test_command_outlives_count),
		in_loop(test_command_ends_before_count),
		in_loop(test_command_ends_during_output),
		in_loop(test_command_is_held),
		in_loop(test_command_is_discarded),
		in_loop(test_command_cannot_run),
		in_loop(test_signal_is_passed_on),
		in_loop(test_second_signal_ends),
		in_loop(test_closed_pipe_with_command),
	};

	alarm(60); /* whatever hangs */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
