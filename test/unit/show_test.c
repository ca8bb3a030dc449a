/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/engine/show.h"
#include "test/unit/capture.h"

struct row {
	uint64_t io;
};

static const struct column column = {
	"io", "I/O", COLUMN_U64, ROLE_COUNTER, "requests", "requests", offsetof(struct row, io),
	5,    false, NULL
};
static const struct schema schema = { &column, 1, sizeof(struct row) };

static void tables(void *ctx, struct show *show)
{
	(void)ctx;
	show->tables[0] = (struct recording_table){ "rows", &schema };
	show->n_tables = 1;
}

static const struct tool_view view = { .tables = tables };

static struct show show_of(const struct args *args)
{
	return (struct show){ .args = args, .subcommand = "example", .view = &view };
}

static int output(struct show *show, uint64_t io, struct error *err)
{
	const struct row row = { io };
	struct recording_interval in = { .interval = { 1000000000, 2000000000, NULL, 0, false },
					 .tables[0] = { &row, 1 },
					 .last = true };

	return show_output(show, &in, err);
}

static char folder[] = "/tmp/iotrace-show-XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return chdir("/") || rmdir(folder) ? -1 : 0;
}

static void assert_file(const char *path, const char *want)
{
	char text[256] = "";
	FILE *file = fopen(path, "re");

	assert_non_null(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	assert_string_equal(text, want);
	unlink(path);
}

/* Several tools may run in one process: each writes to its own file, none to standard output. */
static void two_files(void **state)
{
	const struct args args[] = { { .format = FORMAT_CSV, .output = "a" },
				     { .format = FORMAT_CSV, .output = "b" } };
	struct show shows[] = { show_of(&args[0]), show_of(&args[1]) };
	struct error err = { .status = STATUS_OK };
	struct stat before, after;

	(void)state;
	assert_int_equal(fstat(STDOUT_FILENO, &before), 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(show_open(&shows[i], NULL, 0, NULL, 0, &err), 0);
		assert_false(show_on_terminal(&shows[i]));
	}
	assert_int_equal(fstat(STDOUT_FILENO, &after), 0);
	assert_true(before.st_dev == after.st_dev && before.st_ino == after.st_ino);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(show_start(&shows[i], &err), 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(output(&shows[i], 7 + i, &err), 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(show_close(&shows[i], 0), 0);
	assert_file("a", "start,end,io\n1.000000000,2.000000000,7\n");
	assert_file("b", "start,end,io\n1.000000000,2.000000000,8\n");
}

/* Old contents of the file stay until the first output, which replaces them. */
static void old_contents(void **state)
{
	const struct args args = { .format = FORMAT_CSV, .output = "old" };
	struct show show = show_of(&args);
	struct error err = { .status = STATUS_OK };
	FILE *file = fopen("old", "we");

	(void)state;
	assert_non_null(file);
	fputs("longer than what comes\n", file);
	fclose(file);
	assert_int_equal(show_open(&show, NULL, 0, NULL, 0, &err), 0);
	assert_int_equal(show_close(&show, STATUS_FAILED), STATUS_FAILED);
	show = show_of(&args);
	assert_int_equal(show_open(&show, NULL, 0, NULL, 0, &err), 0);
	assert_int_equal(show_start(&show, &err), 0);
	assert_int_equal(show_close(&show, 0), 0);
	assert_file("old", "start,end,io\n");
}

static void cannot_be_opened(void **state)
{
	const struct args args = { .format = FORMAT_CSV, .output = "missing/file" };
	struct show show = show_of(&args);
	struct error err = { .status = STATUS_OK };

	(void)state;
	assert_int_equal(show_open(&show, NULL, 0, NULL, 0, &err), -ENOENT);
	assert_int_equal(show_close(&show, STATUS_FAILED), STATUS_FAILED);
	assert_int_equal(fcntl(STDOUT_FILENO, F_GETFD) < 0, 0); /* still there */
}

static void full_disk(void **state)
{
	const struct args args = { .format = FORMAT_CSV, .output = "/dev/full" };
	struct show show = show_of(&args);
	struct error err = { .status = STATUS_OK };

	(void)state;
	assert_int_equal(show_open(&show, NULL, 0, NULL, 0, &err), 0);
	assert_int_equal(show_start(&show, &err), -ENOSPC);
	assert_int_equal(err.status, STATUS_FAILED);
	assert_string_equal(err.what, "cannot write /dev/full: No space left on device");
	assert_int_equal(show_close(&show, STATUS_FAILED), STATUS_FAILED);
}

/* If the reader of -o is gone the run ends without an error, as with standard output. */
static void reader_gone(void **state)
{
	const struct args args = { .format = FORMAT_CSV, .output = "fifo" };
	struct show show = show_of(&args);
	struct error err = { .status = STATUS_OK };
	int reader;

	(void)state;
	signal(SIGPIPE, SIG_IGN); /* as main() does */
	assert_int_equal(mkfifo("fifo", 0600), 0);
	reader = open("fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(reader >= 0);
	assert_int_equal(show_open(&show, NULL, 0, NULL, 0, &err), 0);
	close(reader);
	assert_int_equal(show_start(&show, &err), -EPIPE);
	assert_int_equal(err.status, STATUS_OK);
	assert_int_equal(show_close(&show, 0), 0);
	unlink("fifo");
}

/* The share of the losses that are events, once, at the end. */
static void worry_of(uint64_t lost, uint64_t untimed, const char *want)
{
	static const char *const not_events[] = { "bytes", NULL };
	static const char *const in_rows[] = { "times", NULL };
	static const struct tool_view counts = {
		.tables = tables, .events = { "io" }, .not_events = not_events, .in_rows = in_rows
	};
	const struct args args = { .format = FORMAT_CSV, .output = "losses" };
	const struct loss losses[] = { { "full", "x", lost },
				       { "bytes", "y", 1000 },
				       { "times", "z", untimed } };
	struct show show = show_of(&args);
	struct error err = { .status = STATUS_OK };
	struct capture c;

	show.view = &counts;
	assert_int_equal(show_open(&show, NULL, 0, NULL, 0, &err), 0);
	assert_int_equal(show_start(&show, &err), 0);
	capture_begin(&c, STDERR_FILENO);
	for (int last = 0; last <= 1; last++) {
		const struct row row = { 600 };
		struct recording_interval in = { .interval = { 1000000000, 2000000000, losses, 3 },
						 .tables[0] = { &row, 1 },
						 .last = last };

		assert_int_equal(show_output(&show, &in, &err), 0);
	}
	assert_string_equal(strstr(capture_end(&c), "iotrace: note: ") ?: "", want);
	assert_int_equal(show_close(&show, 0), 0);
	unlink("losses");
}

static void losses_are_compared(void **state)
{
	(void)state;
	worry_of(0, 0, "");
	worry_of(5, 0,
		 "iotrace: note: lost 10 of 1,210 events (0.83%): figures may be off by as much "
		 "(docs/TROUBLESHOOTING.md#iotrace-lost)\n");
	worry_of(600, 0,
		 "iotrace: note: lost 1,200 of 2,400 events (50.00%): do not trust the figures "
		 "(docs/TROUBLESHOOTING.md#iotrace-lost)\n");
	worry_of(0, 150,
		 "iotrace: note: lost 300 of 1,200 events (25.00%): do not trust the figures "
		 "(docs/TROUBLESHOOTING.md#iotrace-lost)\n");
	worry_of(100, 900,
		 "iotrace: note: lost 2,000 of 2,000 events (100.00%): do not trust the figures "
		 "(docs/TROUBLESHOOTING.md#iotrace-lost)\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_files),	    cmocka_unit_test(old_contents),
		cmocka_unit_test(cannot_be_opened), cmocka_unit_test(full_disk),
		cmocka_unit_test(reader_gone),	    cmocka_unit_test(losses_are_compared),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
