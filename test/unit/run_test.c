/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The run loop, with outputs that are made up, and time as well where no process is waited for. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/cli/report.h"
#include "cmd/engine/run.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "output/render.h"

#include "test/unit/capture.h"
#include "test/unit/fake_clock.h"

#define MS 1000000ull
/* A COMMAND that ends on demand. */
struct held_command {
	int ends[2]; /* of a pipe */
	char script[64];
	char *argv[4];
};

/* Does @before (shell), and at end_held() exits with @status. */
static void hold(struct held_command *c, const char *before, int status)
{
	static char shell[] = "sh", option[] = "-c";

	assert_int_equal(pipe(c->ends), 0);
	assert_true(snprintf(c->script, sizeof(c->script), "%s read x <&%d; exit %d", before,
			     c->ends[0], status) < (int)sizeof(c->script));
	c->argv[0] = shell;
	c->argv[1] = option;
	c->argv[2] = c->script;
	c->argv[3] = NULL;
}

/* Returns when it has ended, with SIGCHLD sent and not yet handled. */
static void end_held(void *ctx)
{
	struct held_command *c = ctx;
	siginfo_t info;

	assert_int_equal(write(c->ends[1], "\n", 1), 1);
	assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
	close(c->ends[0]);
	close(c->ends[1]);
}

/* What the made-up outputs saw, and what they do. */
struct outputs {
	unsigned int n;
	bool last[1024]; /* of each; more than a slow machine makes in any test */
	unsigned int signal_at;
	int signal; /* sent to ourselves in output @signal_at, which counts from 1 */
	unsigned int fail_at;
	int fail_with;
	const char *fail_text; /* NULL: an error of standard output */
	bool as_key;	       /* the signal comes from the terminal */
	unsigned int end_at;   /* output in which @command ends */
	struct held_command *command;
	unsigned int collected, collected_late;
	unsigned int collect_fail_at;
	uint64_t spend_ns; /* what an output takes */
};

/* A signal as the terminal sends it (SI_KERNEL): a process may send itself any siginfo. */
static void send_key(int signo)
{
	siginfo_t info = { 0 };

	info.si_signo = signo;
	info.si_code = SI_KERNEL;
	if (syscall(SYS_rt_sigqueueinfo, getpid(), signo, &info))
		abort();
}

static int emit(void *ctx, bool last, struct error *err)
{
	struct outputs *o = ctx;

	if (o->n == ARRAY_SIZE(o->last))
		return error_set(err, STATUS_FAILED, -E2BIG, "it does not end");
	o->last[o->n++] = last;
	fake_clock_spend(o->spend_ns);
	if (o->n == o->signal_at && o->as_key)
		send_key(o->signal);
	else if (o->n == o->signal_at)
		kill(getpid(), o->signal);
	if (o->n == o->end_at)
		end_held(o->command);
	if (o->n != o->fail_at)
		return 0;
	if (o->fail_text)
		return error_set(err, STATUS_UNSUPPORTED, o->fail_with, "%s", o->fail_text);
	return o->fail_with;
}

static int collect(void *ctx, struct error *err)
{
	struct outputs *o = ctx;

	o->collected++;
	if (o->n && o->last[o->n - 1])
		o->collected_late++;
	if (o->collected != o->collect_fail_at)
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

static const int ends_a_run[] = { SIGINT, SIGTERM, SIGHUP };

static sigset_t mask_before;

static int set_up(void **state)
{
	(void)state;
	child_set_signal(SIGPIPE, SIG_IGN); /* as main() does */
	for (size_t i = 0; i < ARRAY_SIZE(ends_a_run); i++)
		signal(ends_a_run[i], SIG_DFL);
	return sigprocmask(SIG_SETMASK, NULL, &mask_before);
}

static int set_up_fake(void **state)
{
	fake_clock_start();
	return set_up(state);
}

/* The signals that the loop holds back, and the pipe that it minds. */
static int tear_down(void **state)
{
	sigset_t pending;

	(void)state;
	fake_clock_stop();
	sigpending(&pending);
	if (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
	    sigismember(&pending, SIGHUP))
		return -1;
	alarm(0);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	for (size_t i = 0; i < ARRAY_SIZE(ends_a_run); i++)
		signal(ends_a_run[i], SIG_DFL);
	return sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

/* Runs it all; returns the exit status. What goes to standard error is @expected. */
static int runs(const struct args *args, struct outputs *o, const char *expected)
{
	const struct run_emit output = { emit, collect, o };
	struct capture text;
	struct error err;
	struct run run;
	int status;

	if (run_begin(&run, args, &err))
		fail_msg("%s", err.what);
	assert_int_equal(o->n, 0);
	capture_begin(&text, STDERR_FILENO);
	status = run_loop(&run, &output);
	run_end(&run);
	assert_string_equal(capture_end(&text), expected);
	assert_int_equal(alarm(0), 0); /* none is left to come */
	assert_false(run.stuck);
	assert_int_equal(o->collected_late, 0);
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

		fake_clock_start();
		assert_int_equal(runs(&args, &o, ""), 0);
		outputs_are(&o, (unsigned int)count);
		assert_int_equal(fake_clock.now_ns, count * 10 * MS);
	}
}

/* The interval that is under way is not lost. */
static void test_signal_gives_a_last_output(void **state)
{
	const struct args args = { .interval_ns = 10 * MS };

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(ends_a_run); i++) {
		struct outputs o = { .signal_at = 2, .signal = ends_a_run[i / 2], .as_key = i % 2 };

		assert_int_equal(runs(&args, &o, ""), 0);
		outputs_are(&o, 3);
	}
}

/* Started by nohup: it is not for us. */
static void test_ignored_hangup(void **state)
{
	const struct args args = { .interval_ns = 10 * MS, .count = 3 };

	(void)state;
	signal(SIGHUP, SIG_IGN);
	for (int as_key = 0; as_key < 2; as_key++) {
		struct outputs o = { .signal_at = 1, .signal = SIGHUP, .as_key = as_key };
		struct sigaction now;

		assert_int_equal(runs(&args, &o, ""), 0);
		outputs_are(&o, 3);
		assert_int_equal(sigaction(SIGHUP, NULL, &now), 0);
		assert_ptr_equal(now.sa_handler, SIG_IGN);
	}
}

/* A background job of a script is started with SIGINT ignored: sent to us it ends the run. */
static void test_signals_inherited_as_ignored(void **state)
{
	static const int signals[] = { SIGINT, SIGTERM };
	const struct args args = { .interval_ns = 10 * MS, .count = 9 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct outputs o = { .signal_at = 1, .signal = signals[i] };

		for (size_t k = 0; k < ARRAY_SIZE(ends_a_run); k++)
			signal(ends_a_run[k], SIG_IGN);
		assert_int_equal(runs(&args, &o, ""), 0);
		outputs_are(&o, 2);
	}
}

/* ---- between outputs ---- */

static void test_collect(void **state)
{
	struct held_command command;
	struct args args = { .interval_ns = 2400 * MS, .count = 1 };
	struct outputs o = { 0 };

	(void)state;
	assert_int_equal(runs(&args, &o, ""), 0);
	outputs_are(&o, 1);
	assert_int_equal(o.collected, 2);
	/* without INTERVAL: as long as COMMAND runs */
	hold(&command, "", 4);
	args = (struct args){ .command = command.argv };
	o = (struct outputs){ 0 };
	fake_clock_start();
	fake_clock_at(3400 * MS, end_held, &command);
	assert_int_equal(runs(&args, &o, ""), 4);
	outputs_are(&o, 1);
	assert_int_equal(o.collected, 3);
}

/* An output does it, too. */
static void test_no_collect(void **state)
{
	const struct args args = { .interval_ns = 100 * MS, .count = 12 };
	struct outputs o = { 0 };

	(void)state;
	assert_int_equal(runs(&args, &o, ""), 0);
	outputs_are(&o, 12);
	assert_int_equal(o.collected, 0);
}

static void test_nothing_to_collect(void **state)
{
	const struct args args = { .interval_ns = 1300 * MS, .count = 1 };
	struct outputs o = { 0 };
	const struct run_emit output = { emit, NULL, &o };
	struct run run;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	assert_int_equal(run_loop(&run, &output), 0);
	run_end(&run);
	outputs_are(&o, 1);
	assert_int_equal(o.collected, 0);
}

static void test_collect_fails(void **state)
{
	const struct args args = { .interval_ns = 60 * 1000 * MS };
	struct outputs o = { .collect_fail_at = 1, .fail_with = -EIO, .fail_text = "it is broken" };

	(void)state;
	assert_int_equal(runs(&args, &o, "iotrace: it is broken\n"), STATUS_UNSUPPORTED);
	assert_int_equal(o.n, 0);
	assert_int_equal(o.collected, 1);
	assert_int_equal(fake_clock.now_ns, 1000 * MS);
}

static void test_signal_before_count(void **state)
{
	const struct args args = { .interval_ns = 10 * MS, .count = 10 };
	struct outputs o = { .signal_at = 1, .signal = SIGINT };

	(void)state;
	assert_int_equal(runs(&args, &o, ""), 0);
	outputs_are(&o, 2);
}

/* While things are attached, each of them ends the program, also if it was held back or ignored
 * when that was started. */
static void test_signal_while_attaching(void **state)
{
	static const int signals[] = { SIGINT, SIGTERM };
	const struct args args = { .interval_ns = 1000 * MS };
	struct run run;
	sigset_t all;
	int status;
	pid_t pid;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			sigfillset(&all);
			sigprocmask(SIG_BLOCK, &all, NULL);
			signal(signals[i], SIG_IGN);
			(void)!run_begin(&run, &args, NULL);
			kill(getpid(), signals[i]);
			_exit(9);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), signals[i]);
	}
}

/* One that came when all was attached. */
static void test_signal_before_the_loop(void **state)
{
	const struct args args = { .interval_ns = 1000 * 1000 * MS, .count = 5 };
	struct outputs o = { 0 };
	const struct run_emit output = { emit, NULL, &o };
	struct run run;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	assert_int_equal(run_hold(&run, NULL), 0);
	kill(getpid(), SIGTERM);
	assert_int_equal(run_loop(&run, &output), 0);
	run_end(&run);
	outputs_are(&o, 1);
}

static void interrupt(void *ctx)
{
	kill(getpid(), *(const int *)ctx);
}

/* Without INTERVAL: one output, when it is stopped. */
static void test_no_interval(void **state)
{
	const struct args args = { .interval_ns = 0 };
	struct outputs o = { 0 };
	const struct run_emit output = { emit, NULL, &o };
	int signo = SIGINT;
	struct run run;

	(void)state;
	fake_clock_at(3600 * 1000 * MS, interrupt, &signo); /* nothing comes meanwhile */
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	assert_int_equal(run_loop(&run, &output), 0);
	run_end(&run);
	outputs_are(&o, 1);
	assert_int_equal(fake_clock.now_ns, 3600 * 1000 * MS);
}

/* A child that is none of ours ends: that is no reason to stop. */
static void test_other_child(void **state)
{
	const struct args args = { .interval_ns = 10 * MS, .count = 3 };
	struct outputs o = { 0 };
	const struct run_emit output = { emit, NULL, &o };
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
	struct held_command command;
	const struct args args = { .interval_ns = 10 * MS, .command = command.argv };
	struct outputs o = { .fail_at = 1, .fail_with = -ENOSPC };

	(void)state;
	hold(&command, "", 0);
	fake_clock_at(100 * MS, end_held, &command);
	assert_int_equal(
	    runs(&args, &o, "iotrace: cannot write to standard output: No space left on device\n"),
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
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
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
	struct held_command command;
	const struct args args = { .interval_ns = 10 * MS, .count = 2, .command = command.argv };
	struct outputs o = { 0 };

	(void)state;
	hold(&command, "", 9);
	fake_clock_at(200 * MS, end_held, &command);
	assert_int_equal(runs(&args, &o, ""), 9);
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

/* COMMAND ends during an output. */
static void test_command_ends_during_output(void **state)
{
	struct held_command command;
	const struct args args = { .interval_ns = 20 * MS, .command = command.argv };
	struct outputs o = { .end_at = 2, .command = &command };

	(void)state;
	hold(&command, "", 4);
	assert_int_equal(runs(&args, &o, ""), 4);
	outputs_are(&o, 3);
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
	const struct run_emit output = { emit, NULL, &o };
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
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct outputs o = { .signal_at = 1, .signal = signals[i] };

		assert_int_equal(
		    runs_shell((struct args){ .interval_ns = 10 * MS }, &o, "exec sleep 60", ""),
		    128 + signals[i]);
		assert_true(o.n >= 2);
		outputs_are(&o, o.n);
	}
}

/* The terminal sends it to COMMAND, too, which knows what it means. */
static void test_key_is_for_command(void **state)
{
	struct held_command command;
	const struct args args = { .interval_ns = 20 * MS, .command = command.argv };

	(void)state;
	for (unsigned int at = 1; at <= 2; at++) {
		struct outputs o = { .signal_at = at, .signal = SIGINT, .as_key = true };

		fake_clock_start();
		hold(&command, "", 6);
		fake_clock_at(90 * MS, end_held, &command);
		assert_int_equal(runs(&args, &o, ""), 6);
		outputs_are(&o, 5);
	}
}

static void test_keys_between_outputs(void **state)
{
	struct held_command command;
	const struct args args = { .interval_ns = 20 * MS, .count = 2, .command = command.argv };
	struct outputs o = { .signal_at = 2, .signal = SIGINT, .as_key = true };
	const struct run_emit output = { emit, NULL, &o };
	struct run run;

	(void)state;
	hold(&command, "", 6);
	fake_clock_at(200 * MS, end_held, &command);
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	assert_int_equal(run_hold(&run, NULL), 0);
	send_key(SIGINT);
	assert_int_equal(run_loop(&run, &output), 6);
	run_end(&run);
	assert_int_equal(run.asked, 0);
	assert_false(run.stopped);
	outputs_are(&o, 2);
}

/* COMMAND ignores the signals that iotrace ignores. */
static void test_ignored_signal_with_command(void **state)
{
	struct held_command command;
	const struct args args = { .interval_ns = 20 * MS, .command = command.argv };
	struct outputs o = { .signal_at = 1, .signal = SIGHUP };

	(void)state;
	signal(SIGHUP, SIG_IGN);
	hold(&command, "kill -HUP $$;", 3);
	fake_clock_at(90 * MS, end_held, &command);
	assert_int_equal(runs(&args, &o, ""), 3);
	outputs_are(&o, 5);
}

/* Our signal settings are not inherited by COMMAND. */
static void test_command_gets_plain_signals(void **state)
{
	static const char *const names[] = { "INT", "TERM", "HUP", "ALRM", "PIPE" };
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPIPE };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct outputs o = { 0 };
		char script[64];

		snprintf(script, sizeof(script), "kill -%s $$; exit 3", names[i]);
		assert_int_equal(runs_shell((struct args){ 0 }, &o, script, ""), 128 + numbers[i]);
	}
}

/* A signal for us, once COMMAND has become sleep(1). */
struct later_signal {
	const struct child *command;
	int signo;
};

static void send_later(void *ctx)
{
	const struct later_signal *later = ctx;
	char path[64], comm[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)later->command->pid);
	while (strcmp(comm, "sleep\n") != 0) {
		file = fopen(path, "r");
		assert_non_null(file);
		assert_non_null(fgets(comm, sizeof(comm), file));
		fclose(file);
	}
	kill(getpid(), later->signo);
}

/* A command that does not care is left behind by the second signal, 10 ms after the first. */
static void left_behind(uint64_t count, uint64_t first_ns, int first, int second)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" },
			 (char[]){ "trap '' INT TERM HUP; exec sleep 60" }, NULL };
	const struct args args = { .interval_ns = count ? 10 * MS : 200 * MS,
				   .count = count,
				   .command = argv };
	struct outputs o = { 0 };
	const struct run_emit output = { emit, NULL, &o };
	struct capture text;
	char expected[96];
	struct run run;
	struct later_signal signals[] = { { &run.child, first }, { &run.child, second } };
	pid_t command;
	int status;

	fake_clock_start();
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	command = run.child.pid;
	/* passed on right away, before the trap is set, it would end the command */
	fake_clock_at(first_ns, send_later, &signals[0]);
	fake_clock_at(first_ns + 10 * MS, send_later, &signals[1]);
	capture_begin(&text, STDERR_FILENO);
	status = run_loop(&run, &output);
	run_end(&run);
	snprintf(expected, sizeof(expected), "iotrace: the command (pid %d) is still running\n",
		 (int)command);
	assert_string_equal(capture_end(&text), expected);
	assert_int_equal(status, 128 + second);
	assert_true(run.stopped);
	assert_false(run.stuck);
	assert_int_equal(run.asked, 2);
	outputs_are(&o, count ? (unsigned int)count : 1);
	assert_int_equal(fake_clock.now_ns, first_ns + 10 * MS);
	assert_int_equal(kill(command, SIGKILL), 0); /* it is there still */
	assert_int_equal(waitpid(command, NULL, 0), command);
	assert_int_equal(sigprocmask(SIG_SETMASK, &mask_before, NULL), 0);
}

static void test_second_signal_ends(void **state)
{
	(void)state;
	left_behind(0, 10 * MS, SIGTERM, SIGTERM);
}

/* All outputs are through, and only COMMAND is waited for. */
static void test_second_signal_ends_waiting(void **state)
{
	(void)state;
	left_behind(1, 100 * MS, SIGTERM, SIGHUP);
	left_behind(2, 100 * MS, SIGHUP, SIGINT);
}

static void test_signal_is_passed_on_waiting(void **state)
{
	char *argv[] = { (char[]){ "sleep" }, (char[]){ "60" }, NULL };
	const struct args args = { .interval_ns = 10 * MS, .count = 1, .command = argv };
	struct outputs o = { 0 };
	const struct run_emit output = { emit, NULL, &o };
	struct run run;
	struct later_signal term = { &run.child, SIGTERM };

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	fake_clock_at(100 * MS, send_later, &term);
	assert_int_equal(run_loop(&run, &output), 128 + SIGTERM);
	run_end(&run);
	assert_int_equal(run.asked, 1);
	assert_false(run.stopped);
	outputs_are(&o, 1);
}

/* ---- descriptors ---- */

/* A pipe that is watched, and what its callback does. */
struct watched {
	struct run *run;
	int ends[2];
	unsigned int called;
	int wants;
	const struct outputs *o;
	unsigned int outputs_at_last; /* that there were when it was called last */
	int unwatch[2];		      /* descriptors; 0: none */
	struct watched *adds;
	bool leave; /* what there is to read */
};

static void open_watched(struct watched *w, struct run *run)
{
	w->run = run;
	assert_int_equal(pipe2(w->ends, O_CLOEXEC | O_NONBLOCK), 0);
}

static void close_watched(struct watched *w)
{
	close(w->ends[0]);
	close(w->ends[1]);
}

static void press_key(void *ctx)
{
	const struct watched *w = ctx;

	assert_int_equal(write(w->ends[1], "x", 1), 1);
}

static int on_watched(void *ctx, short events, struct error *err)
{
	struct watched *w = ctx;
	char key;

	assert_true(events & POLLIN);
	w->called++;
	if (w->o)
		w->outputs_at_last = w->o->n;
	if (!w->leave)
		assert_int_equal(read(w->ends[0], &key, 1), 1);
	for (size_t i = 0; i < ARRAY_SIZE(w->unwatch); i++)
		if (w->unwatch[i])
			run_unwatch(w->run, w->unwatch[i]);
	if (w->adds)
		assert_int_equal(
		    run_watch(w->run, w->adds->ends[0], POLLIN, on_watched, w->adds, err), 0);
	if (w->wants < 0)
		return error_set(err, STATUS_UNSUPPORTED, w->wants, "it is broken");
	return w->wants;
}

static void watch_pipe(struct watched *w, struct run *run)
{
	struct error err;

	open_watched(w, run);
	assert_int_equal(run_watch(run, w->ends[0], POLLIN, on_watched, w, &err), 0);
}

/* Like runs(), for a run that watches descriptors already. */
static int loops(struct run *run, struct outputs *o)
{
	const struct run_emit output = { emit, collect, o };
	int status = run_loop(run, &output);

	run_end(run);
	assert_int_equal(sigprocmask(SIG_SETMASK, &mask_before, NULL), 0);
	return status;
}

/* Each output is late for the one after it: a key is read between the two all the same, and so is a
 * signal. */
static void test_slow_outputs(void **state)
{
	const struct args args = { .interval_ns = 10 * MS, .count = 1000 };
	int term = SIGTERM;

	(void)state;
	for (int with_signal = 0; with_signal < 2; with_signal++) {
		struct outputs o = { .spend_ns = 25 * MS };
		struct watched key = { .o = &o, .wants = RUN_STOP };
		struct run run;

		fake_clock_start();
		assert_int_equal(run_begin(&run, &args, NULL), 0);
		watch_pipe(&key, &run);
		if (with_signal)
			fake_clock_at(100 * MS, interrupt, &term);
		else
			fake_clock_at(100 * MS, press_key, &key);
		assert_int_equal(loops(&run, &o), 0);
		/* The fourth, begun at 85 ms, is under way at 100. */
		assert_int_equal(key.called, !with_signal);
		outputs_are(&o, 5);
		close_watched(&key);
	}
}

/* Outputs that keys ask for do not change the count of outputs. */
static void test_keys_and_outputs(void **state)
{
	const struct args args = { .interval_ns = 10 * MS, .count = 3 };
	struct outputs o = { .spend_ns = 25 * MS };
	struct watched key = { .wants = RUN_OUTPUT, .leave = true };
	struct run run;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	watch_pipe(&key, &run);
	fake_clock_at(15 * MS, press_key, &key); /* and there it stays */
	assert_int_equal(loops(&run, &o), 0);
	outputs_are(&o, 3);
	assert_int_equal(key.called, 2);
	close_watched(&key);
}

/* An output that is asked for counts as none. */
static void test_asked_for(void **state)
{
	const struct args args = { .interval_ns = 10 * MS, .count = 2 };
	struct outputs o = { 0 };
	struct watched key = { .wants = RUN_OUTPUT };
	struct run run;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	watch_pipe(&key, &run);
	fake_clock_at(13 * MS, press_key, &key);
	fake_clock_at(16 * MS, press_key, &key);
	assert_int_equal(loops(&run, &o), 0);
	outputs_are(&o, 4);
	assert_int_equal(key.called, 2);
	assert_int_equal(fake_clock.now_ns, 20 * MS);
	close_watched(&key);
}

/* Each of 200 ready descriptors is called once. */
static void test_many_descriptors(void **state)
{
	static struct watched many[200];
	const struct args args = { .interval_ns = 10 * MS, .count = 1 };
	struct outputs o = { 0 };
	struct error err;
	struct run run;

	(void)state;
	memset(many, 0, sizeof(many));
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		watch_pipe(&many[i], &run);
		press_key(&many[i]);
	}
	assert_int_equal(run_watch(&run, many[7].ends[0], POLLIN, on_watched, &many[7], &err),
			 -EEXIST);
	run_unwatch(&run, many[8].ends[0]);
	run_unwatch(&run, many[8].ends[0]);
	run_unwatch(&run, many[8].ends[1]);
	assert_true(run_is_due(&run));
	assert_int_equal(loops(&run, &o), 0);
	outputs_are(&o, 1);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		assert_int_equal(many[i].called, i != 8);
		close_watched(&many[i]);
	}
}

/* A callback adds and removes descriptors.  A removed one is not called, although it was ready. */
static void test_watched_in_callback(void **state)
{
	const struct args args = { .interval_ns = 10 * MS, .count = 1 };
	struct outputs o = { 0 };
	struct watched added[60] = { 0 }, first = { 0 }, second = { 0 }, *last = &first;
	struct run run;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	watch_pipe(&first, &run);
	watch_pipe(&second, &run);
	for (size_t i = 0; i < ARRAY_SIZE(added); i++) {
		open_watched(&added[i], &run);
		press_key(&added[i]);
		last->adds = &added[i];
		last->unwatch[0] = last->ends[0];
		last = &added[i];
	}
	first.unwatch[1] = second.ends[0];
	for (int i = 0; i < 2; i++) {
		press_key(&first);
		press_key(&second);
	}
	assert_int_equal(loops(&run, &o), 0);
	outputs_are(&o, 1);
	assert_int_equal(first.called, 1);
	assert_int_equal(second.called, 0);
	for (size_t i = 0; i < ARRAY_SIZE(added); i++) {
		assert_int_equal(added[i].called, 1);
		close_watched(&added[i]);
	}
	close_watched(&first);
	close_watched(&second);
}

static void test_callback_fails(void **state)
{
	const struct args args = { .interval_ns = 10 * MS };
	struct outputs o = { 0 };
	struct watched key = { .wants = -EIO };
	struct capture text;
	struct run run;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	watch_pipe(&key, &run);
	fake_clock_at(25 * MS, press_key, &key);
	capture_begin(&text, STDERR_FILENO);
	assert_int_equal(loops(&run, &o), STATUS_UNSUPPORTED);
	assert_string_equal(capture_end(&text), "iotrace: it is broken\n");
	assert_int_equal(o.n, 2);
	close_watched(&key);
}

/* One that is closed would be ready for ever. */
static void test_closed_descriptor(void **state)
{
	const struct args args = { .interval_ns = 10 * MS };
	const int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 500);
	struct outputs o = { 0 };
	struct watched key = { 0 };
	struct capture text;
	char expected[64];
	struct error err;
	struct run run;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	assert_int_equal(run_watch(&run, fd, POLLIN, on_watched, &key, &err), 0);
	close(fd);
	snprintf(expected, sizeof(expected), "iotrace: descriptor %d was closed\n", fd);
	capture_begin(&text, STDERR_FILENO);
	assert_int_equal(loops(&run, &o), STATUS_FAILED);
	assert_string_equal(capture_end(&text), expected);
	assert_int_equal(o.n, 0);
}

/* Descriptors that are always ready do not delay the draining of the kernel's maps. */
static void test_collect_during_keys(void **state)
{
	const struct args args = { .interval_ns = 2400 * MS, .count = 1 };
	struct outputs o = { 0 };
	struct watched key = { 0 };
	struct run run;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	watch_pipe(&key, &run);
	fake_clock_at(300 * MS, press_key, &key);
	fake_clock_at(900 * MS, press_key, &key);
	fake_clock_at(1500 * MS, press_key, &key);
	fake_clock_at(1900 * MS, press_key, &key);
	assert_int_equal(loops(&run, &o), 0);
	outputs_are(&o, 1);
	assert_int_equal(o.collected, 2);
	assert_int_equal(key.called, 4);
	close_watched(&key);
}

struct ticker {
	struct run *run;
	int fd;
	unsigned int called, unwatch_at;
	uint64_t last_ns;
};

static int on_tick(void *ctx, short events, struct error *err)
{
	struct ticker *t = ctx;

	(void)events;
	(void)err;
	t->last_ns = fake_clock.now_ns;
	if (++t->called == t->unwatch_at)
		run_unwatch(t->run, t->fd);
	return RUN_GO_ON;
}

/* Users of the loop have timers of their own. */
static void test_timers(void **state)
{
	static const struct {
		uint64_t first, every;
		unsigned int called, unwatch_at;
		uint64_t last;
	} cases[] = {
		{ 7 * MS, 7 * MS, 14, 0, 98 * MS },
		{ 30 * MS, 0, 1, 0, 30 * MS },
		{ 0, 5 * MS, 0, 0, 0 },
		{ 1 * MS, 20 * MS, 5, 0, 81 * MS },
		{ 3 * MS, 3 * MS, 4, 4, 12 * MS },
	};
	const struct args args = { .interval_ns = 10 * MS, .count = 10 };
	struct ticker tickers[ARRAY_SIZE(cases)] = { 0 };
	int before = dup(STDERR_FILENO), after;
	struct outputs o = { 0 };
	struct error err;
	struct run run;

	(void)state;
	close(before);
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		tickers[i] = (struct ticker){ .run = &run, .unwatch_at = cases[i].unwatch_at };
		tickers[i].fd = run_watch_timer(&run, cases[i].first, cases[i].every, on_tick,
						&tickers[i], &err);
		assert_true(tickers[i].fd >= 0);
	}
	assert_int_equal(loops(&run, &o), 0);
	outputs_are(&o, 10);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(tickers[i].called, cases[i].called);
		assert_int_equal(tickers[i].last_ns, cases[i].last);
	}
	after = dup(STDERR_FILENO);
	close(after);
	assert_int_equal(after, before);
}

/* A timer that expired several times during an output is called once. */
static void test_timer_during_slow_output(void **state)
{
	const struct args args = { .interval_ns = 100 * MS, .count = 3 };
	struct ticker ticker = { 0 };
	struct outputs o = { .spend_ns = 50 * MS };
	struct error err;
	struct run run;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	ticker.fd = run_watch_timer(&run, 10 * MS, 10 * MS, on_tick, &ticker, &err);
	assert_true(ticker.fd >= 0);
	assert_int_equal(loops(&run, &o), 0);
	outputs_are(&o, 3);
	/* 10 to 100, then those missed in one, 160 to 200, and so on */
	assert_int_equal(ticker.called, 10 + 1 + 5 + 1 + 5);
	assert_int_equal(ticker.last_ns, 300 * MS);
}

static void test_watched_signal(void **state)
{
	const struct args args = { .interval_ns = 10 * MS, .count = 4 };
	struct ticker ticker = { 0 };
	struct outputs o = { .signal_at = 1, .signal = SIGWINCH };
	int winch = SIGWINCH;
	struct error err;
	struct run run;

	(void)state;
	assert_int_equal(run_begin(&run, &args, NULL), 0);
	ticker.fd = run_watch_signal(&run, SIGWINCH, on_tick, &ticker, &err);
	assert_true(ticker.fd >= 0);
	fake_clock_at(25 * MS, interrupt, &winch);
	assert_int_equal(loops(&run, &o), 0);
	outputs_are(&o, 4);
	assert_int_equal(ticker.called, 2);
	assert_int_equal(ticker.last_ns, 25 * MS);
}

/* ---- output without a reader ---- */

#define BLOCKED_BYTES (1 << 20) /* more than any pipe takes by itself */

/* Results of a loop that runs in a child process, whose standard output is a pipe. */
struct found {
	int status, asked;
	bool stuck, stopped;
	unsigned int n, alarm_left, alarm_s;
	uint64_t now_ns; /* fake_clock's */
	bool writing;	 /* just about to */
};

static int emit_much(void *ctx, bool last, struct error *err)
{
	static char text[BLOCKED_BYTES];
	struct found *f = ctx;

	(void)last;
	(void)err;
	f->n++;
	memset(text, 'x', sizeof(text));
	__atomic_store_n(&f->writing, true, __ATOMIC_SEQ_CST);
	if (fwrite(text, 1, sizeof(text), stdout) != sizeof(text) || fputs("end\n", stdout) < 0)
		return -errno;
	return render_flush(stdout);
}

static int emit_nothing(void *ctx, bool last, struct error *err)
{
	struct found *f = ctx;

	(void)last;
	(void)err;
	f->n++;
	return 0;
}

static void __attribute__((noreturn)) loop_into(const struct args *args, int out, struct found *f)
{
	const struct run_emit output = { emit_much, NULL, f };
	struct run run;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || dup2(out, STDOUT_FILENO) < 0 ||
	    run_begin(&run, args, NULL) || run_watch_reader(&run, STDOUT_FILENO, NULL))
		_exit(1);
	f->status = run_loop(&run, &output);
	f->alarm_left = alarm(0);
	f->alarm_s = fake_clock.alarm_s;
	f->now_ns = fake_clock.now_ns;
	f->stuck = run.stuck;
	f->stopped = run.stopped;
	f->asked = run.asked;
	run_end(&run);
	exit(0); /* flushes: what is stuck must not be there any more */
}

static struct found *shared(void)
{
	struct found *f =
	    mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(f, MAP_FAILED);
	return f;
}

static void fill_pipe(int fd)
{
	char page[4096] = { 0 };
	int flags = fcntl(fd, F_GETFL);

	assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
	while (write(fd, page, sizeof(page)) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(fcntl(fd, F_SETFL, flags), 0);
}

static void nap(int ms)
{
	__real_poll(NULL, 0, ms);
}

/* Waits until the process is blocked in write(). */
static void wait_blocked(const struct found *f, pid_t pid)
{
	char path[64], line[64] = "";
	FILE *file;

	while (!__atomic_load_n(&f->writing, __ATOMIC_SEQ_CST))
		nap(1);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	for (;;) {
		const char *after;

		file = fopen(path, "r");
		assert_non_null(file);
		assert_non_null(fgets(line, sizeof(line), file));
		fclose(file);
		after = strrchr(line, ')');
		assert_non_null(after);
		if (after[2] == 'S')
			break;
		nap(1);
	}
	nap(2 * FAKE_ALARM_US / 1000);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
}

/* Without a reader, @signo ends it, a second later. */
static struct found gets_stuck(const struct args *args, bool full, int signo)
{
	struct found *f = shared(), found;
	int ends[2], status;
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	if (full)
		fill_pipe(ends[1]);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		loop_into(args, ends[1], f);
	close(ends[1]);
	wait_blocked(f, pid);
	assert_int_equal(kill(pid, signo), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid); /* else kill_what_hangs() */
	assert_int_equal(status, 0);
	close(ends[0]);
	found = *f;
	munmap(f, sizeof(*f));
	assert_true(found.stuck);
	assert_int_equal(found.n, 1); /* no other is tried */
	assert_int_equal(found.alarm_s, 1);
	assert_int_equal(found.alarm_left, 0);
	return found;
}

static void test_stuck(void **state)
{
	const struct args args = { .interval_ns = 10 * MS };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ends_a_run); i++) {
		/* nothing could be written, or a part of it: that write is tried again */
		assert_int_equal(gets_stuck(&args, true, ends_a_run[i]).status, 0);
		assert_int_equal(gets_stuck(&args, false, ends_a_run[i]).status, 0);
	}
}

/* The signal is COMMAND's all the same, and its status ours. */
static void test_stuck_with_command(void **state)
{
	char *argv[] = { (char[]){ "sleep" }, (char[]){ "60" }, NULL };
	const struct args args = { .interval_ns = 10 * MS, .command = argv };
	struct found found;

	(void)state;
	for (int full = 0; full < 2; full++) {
		found = gets_stuck(&args, full, SIGTERM);
		assert_int_equal(found.status, 128 + SIGTERM);
		assert_int_equal(found.asked, 1);
		assert_false(found.stopped);
	}
}

/* ---- standard error without a reader ---- */

/* Lines before the loop and after it. */
static void __attribute__((noreturn)) report_into(const struct args *args, int err, struct found *f)
{
	const struct run_emit output = { emit_nothing, NULL, f };
	struct run run;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || dup2(err, STDERR_FILENO) < 0 ||
	    run_begin(&run, args, NULL) || run_hold(&run, NULL))
		_exit(1);
	__atomic_store_n(&f->writing, true, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 5; i++)
		report_line("line %d", i);
	f->status = run_loop(&run, &output);
	report_line("the end");
	f->stuck = run.stuck;
	f->stopped = run.stopped;
	run_end(&run);
	exit(0);
}

/* A signal ends what is written while signals are held back, and with it the run. */
static void test_full_stderr(void **state)
{
	const struct args args = { .interval_ns = 1000 * 1000 * MS };
	struct found *f = shared();
	int ends[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fill_pipe(ends[1]);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		report_into(&args, ends[1], f);
	wait_blocked(f, pid);
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid); /* else kill_what_hangs() */
	assert_int_equal(status, 0);
	assert_int_equal(f->status, 0);
	assert_int_equal(f->n, 1);
	assert_true(f->stopped);
	assert_false(f->stuck); /* standard output is read */
	close(ends[0]);
	close(ends[1]);
	munmap(f, sizeof(*f));
}

static void close_end(void *ctx)
{
	close(*(const int *)ctx);
}

/* Runs the loop in a child process, whose standard output is a pipe or a socket.  The other end is
 * closed at 50 ms, while there is nothing to write.  @command, which may be NULL, ends at 90 ms. */
static struct found reader_leaves(const struct args *args, bool with_socket,
				  struct held_command *command)
{
	struct found *f = shared(), found;
	int ends[2], status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) { /* the only one with these ends: COMMAND would be a reader */
		if (with_socket ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
				: pipe2(ends, O_CLOEXEC))
			_exit(1);
		fake_clock_at(50 * MS, close_end, &ends[0]);
		if (command)
			fake_clock_at(90 * MS, end_held, command);
		loop_into(args, ends[1], f);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	found = *f;
	munmap(f, sizeof(*f));
	return found;
}

/* There is a last output, as after a signal, for whatever else it is written to. */
static void test_reader_leaves(void **state)
{
	const struct args args = { .interval_ns = 1000 * 1000 * MS };
	struct found found;

	(void)state;
	for (int with_socket = 0; with_socket < 2; with_socket++) {
		found = reader_leaves(&args, with_socket, NULL);
		assert_int_equal(found.status, 0);
		assert_int_equal(found.n, 1);
		assert_int_equal(found.now_ns, 50 * MS);
		assert_false(found.stopped);
		assert_false(found.stuck);
	}
}

/* COMMAND is waited for, and its status ours. */
static void test_reader_leaves_command(void **state)
{
	struct held_command command;
	const struct args args = { .interval_ns = 1000 * 1000 * MS, .command = command.argv };
	struct found found;

	(void)state;
	hold(&command, "", 5);
	found = reader_leaves(&args, false, &command);
	close(command.ends[0]);
	close(command.ends[1]);
	assert_int_equal(found.status, 5);
	assert_int_equal(found.n, 1);
	assert_in_range(found.now_ns, 90 * MS, 1100 * MS);
}

/* A reader that takes its time is no reason to give up. */
static void test_slow_reader(void **state)
{
	const struct args args = { .interval_ns = 10 * MS, .count = 1 };
	struct found *f = shared();
	char page[4096], tail[4] = { 0 };
	size_t sum = 0;
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		loop_into(&args, ends[1], f);
	close(ends[1]);
	wait_blocked(f, pid);
	nap(20 * FAKE_ALARM_US / 1000);
	while ((n = read(ends[0], page, sizeof(page))) > 0) {
		sum += (size_t)n;
		for (ssize_t i = 0; i < n; i++) {
			memmove(tail, tail + 1, sizeof(tail) - 1);
			tail[sizeof(tail) - 1] = page[i];
		}
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(sum, BLOCKED_BYTES + 4);
	assert_memory_equal(tail, "end\n", sizeof(tail));
	assert_false(f->stuck);
	assert_int_equal(f->status, 0);
	assert_int_equal(f->n, 1);
	close(ends[0]);
	munmap(f, sizeof(*f));
}

static void test_closed_pipe_with_command(void **state)
{
	struct held_command command;
	const struct args args = { .interval_ns = 10 * MS, .command = command.argv };
	struct outputs o = { .fail_at = 1, .fail_with = -EPIPE };

	(void)state;
	hold(&command, "", 5);
	fake_clock_at(100 * MS, end_held, &command);
	assert_int_equal(runs(&args, &o, ""), 5);
	assert_int_equal(o.n, 1);
}

/* The loop uses alarm() itself; nothing can hold SIGKILL back. */
static void kill_what_hangs(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	const struct itimerspec spec = { .it_value = { 120, 0 } };
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
		timer_settime(timer, 0, &spec, NULL);
}

#define in_loop(test)	   cmocka_unit_test_setup_teardown(test, set_up_fake, tear_down)
#define in_real_time(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* A check whether an output is due leaves events for the loop. */
static void test_due(void **state)
{
	static const char *const argv[] = { "true", NULL };
	struct args args = { .command = (char **)(uintptr_t)argv };
	struct signalfd_siginfo info;
	struct run run;
	struct error err;
	int status;

	(void)state;
	assert_int_equal(run_begin(&run, &args, &err), 0);
	assert_int_equal(run_hold(&run, &err), 0);
	assert_false(run_is_due(&run));
	kill(getpid(), SIGTERM);
	assert_true(run_is_due(&run));
	assert_true(run_is_due(&run));
	assert_int_equal(read(run.signal_fd, &info, sizeof(info)), sizeof(info));
	assert_false(run_is_due(&run));
	assert_int_equal(child_release(&run.child, "true", &status, &err), 0);
	while (!run_is_due(&run))
		usleep(1000);
	assert_true(child_ended(&run.child, &status));
	assert_false(run_is_due(&run));
	run.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	run_set_interval(&run, NS_PER_SEC / 50, NS_PER_SEC);
	while (!run_is_due(&run))
		usleep(1000);
	assert_true(run_is_due(&run));
	run_end(&run);
}

static void test_adapt(void **state)
{
	struct run run = { .collect_ms = 1000 };
	struct run_fill fills[] = { { 50, 100 }, { 0, 16384 } };

	(void)state;
	run_adapt(&run, 1000, fills, 2); /* half of it, and no more */
	assert_int_equal(run.collect_ms, 1000);
	fills[0].used = 51;
	run_adapt(&run, 1000, fills, 2);
	assert_int_equal(run.collect_ms, 500);
	fills[0].used = 0;
	fills[1].used = 16384; /* either */
	run_adapt(&run, 1000, fills, 2);
	assert_int_equal(run.collect_ms, 250);
	for (int i = 0; i < 10; i++)
		run_adapt(&run, 1000, fills, 2);
	assert_int_equal(run.collect_ms, 20);
	fills[1].used = 2048; /* an eighth: it stays */
	run_adapt(&run, 1000, fills, 2);
	assert_int_equal(run.collect_ms, 20);
	fills[1].used = 2047;
	run_adapt(&run, 1000, fills, 2);
	assert_int_equal(run.collect_ms, 40);
	fills[0].used = 12; /* not all are */
	run_adapt(&run, 1000, fills, 2);
	assert_int_equal(run.collect_ms, 40);
	fills[0].used = 0;
	for (int i = 0; i < 10; i++)
		run_adapt(&run, 1000, fills, 2);
	assert_int_equal(run.collect_ms, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_loop(test_count),
		in_loop(test_signal_gives_a_last_output),
		in_loop(test_ignored_hangup),
		in_loop(test_signals_inherited_as_ignored),
		in_loop(test_collect),
		in_loop(test_no_collect),
		in_loop(test_nothing_to_collect),
		in_loop(test_collect_fails),
		in_loop(test_signal_before_count),
		in_loop(test_signal_while_attaching),
		in_loop(test_signal_before_the_loop),
		in_loop(test_no_interval),
		in_loop(test_other_child),
		in_loop(test_closed_pipe),
		in_loop(test_closed_pipe_for_real),
		in_loop(test_full_disk),
		in_loop(test_full_disk_with_command),
		in_loop(test_output_fails),
		in_loop(test_end_without_loop),
		in_real_time(test_command_status),
		in_real_time(test_sigchld_was_ignored),
		in_real_time(test_command_true),
		in_loop(test_command_outlives_count),
		in_real_time(test_command_ends_before_count),
		in_loop(test_command_ends_during_output),
		in_real_time(test_command_is_held),
		in_real_time(test_command_is_discarded),
		in_real_time(test_command_cannot_run),
		in_real_time(test_signal_is_passed_on),
		in_loop(test_key_is_for_command),
		in_loop(test_keys_between_outputs),
		in_loop(test_ignored_signal_with_command),
		in_real_time(test_command_gets_plain_signals),
		in_loop(test_second_signal_ends),
		in_loop(test_second_signal_ends_waiting),
		in_loop(test_signal_is_passed_on_waiting),
		in_loop(test_stuck),
		in_loop(test_stuck_with_command),
		in_loop(test_reader_leaves),
		in_loop(test_reader_leaves_command),
		in_loop(test_slow_reader),
		in_loop(test_closed_pipe_with_command),
		in_loop(test_slow_outputs),
		in_loop(test_keys_and_outputs),
		in_loop(test_asked_for),
		in_loop(test_many_descriptors),
		in_loop(test_watched_in_callback),
		in_loop(test_callback_fails),
		in_loop(test_closed_descriptor),
		in_loop(test_collect_during_keys),
		in_loop(test_timers),
		in_loop(test_timer_during_slow_output),
		in_loop(test_watched_signal),
		in_loop(test_full_stderr),
		cmocka_unit_test(test_adapt),
		cmocka_unit_test(test_due),
	};

	kill_what_hangs();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
