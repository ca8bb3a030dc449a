/* SPDX-License-Identifier: GPL-2.0-or-later */
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
#include <sys/stat.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/libbpf.h>
#include <cmocka.h>

#include "cmd/block/base.h"
#include "cmd/engine/tool.h"
#include "cmd/engine/tool_private.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "test/unit/capture.h"
#include "test/unit/fake_clock.h"
#include "test/unit/machine.h"
#include "test/unit/root.h"

/* A tool without programs: it notes what the engine asks of it, a letter for each. */
struct fake {
	struct args args;
	struct blk_filters filters;
	char calls[64];
	uint64_t counted, drained;
	struct fake_row {
		uint64_t count;
	} row;
};

static void note(void *ctx, char what)
{
	struct fake *f = ctx;

	f->calls[strlen(f->calls)] = what;
}

#define OWN struct fake
static const struct args_option fake_table[] = { BLK_FILTER_OPTIONS, { 0 } };
static const struct args_spec fake_args = { .options = fake_table, .doc = "" };

static int fake_options(struct tool_run *t, int argc, char **argv, struct error *err)
{
	struct fake *f = t->ctx;

	note(f, 'o');
	return args_parse(&fake_args, f, argc, argv, &f->args, err);
}

/* ---- what is asked for ---- */

/* Nothing of the kernel is looked at. */
static int no_more(struct tool_run *t, struct error *err)
{
	(void)err;
	assert_non_null(t->disks);
	note(t->ctx, 'r');
	return TOOL_DONE;
}

static const struct column fake_column = {
	"count", "COUNT", COLUMN_U64, ROLE_COUNTER, "", "count", offsetof(struct fake_row, count),
	5,	 false,	  NULL
};
static const struct schema fake_schema = { &fake_column, 1, sizeof(struct fake_row) };

static void fake_tables(void *ctx, struct show *show)
{
	(void)ctx;
	show->tables[0] = (struct recording_table){ "rows", &fake_schema };
	show->n_tables = 1;
}

static int fake_end(void *ctx, FILE *stream)
{
	(void)stream;
	note(ctx, 'e');
	return 0;
}

static const struct tool_view fake_view = { .tables = fake_tables, .text.end = fake_end };

static const struct tool filtered = {
	.name = "filtered",
	TOOL_CTX(struct fake, args),
	.base = &block_base,
	.view = &fake_view,
	.options = fake_options,
	.resolve = no_more,
};

/* Opens a tool with one option.  @f gets its filters; errors are in @err.  Returns tool_open()'s
 * value. */
static int opens(const char *option, const char *value, struct error *err, struct blk_filters *f)
{
	char name[] = "filtered",
	     *argv[] = { name, (char *)(uintptr_t)option, (char *)(uintptr_t)value, NULL };
	struct tool_run *t;
	int r = tool_open(&filtered, option ? 3 : 1, argv, &t, err);

	assert_non_null(t);
	assert_null(t->object.hooks); /* not chosen yet */
	*f = *block_of(t)->filters;
	if (r == TOOL_DONE)
		assert_string_equal(((struct fake *)t->ctx)->calls, "or");
	else
		assert_string_equal(((struct fake *)t->ctx)->calls, "o");
	tool_close(t);
	return r == TOOL_DONE ? 0 : (int)err->status;
}

static void test_open(void **state)
{
	static struct machine_disk disks[256];
	struct blk_filters f;
	struct error err;

	(void)state;
	if (access("/proc/diskstats", R_OK))
		skip();
	assert_int_equal(opens(NULL, NULL, &err, &f), 0);
	assert_int_equal(opens("-d", "no-such-disk", &err, &f), STATUS_USAGE);
	assert_non_null(strstr(err.what, "no-such-disk"));
	assert_int_equal(opens("-p", "2147483647", &err, &f), STATUS_USAGE);
	assert_string_equal(err.what, "no such process: 2147483647");
	/* what can be told of the arguments comes before the machine */
	assert_int_equal(opens("-p", "1", &err, &f), in_first_namespace() ? 0 : STATUS_UNSUPPORTED);
	if (in_first_namespace())
		assert_int_equal(f.pid, 1);
	if (machine_disks(disks, ARRAY_SIZE(disks)) == 0)
		skip();
	if (opens("-d", disks[0].name, &err, &f) == 0) {
		assert_int_equal(f.disk.dev, disks[0].dev);
		assert_int_equal(f.disk.whole, disks[0].dev);
	}
	tool_close(NULL);
}

/* ---- losses ---- */

static const struct tool_loss own_losses[] = {
	{ "own", "things of its own", "own_losses", 1, false },
	{ "found", "things found in user space", NULL, 0, false },
};

static const struct tool losing = {
	.name = "losing",
	.base = &block_base,
	.losses = own_losses,
	.n_losses = ARRAY_SIZE(own_losses),
};

/* A tool as if its programs were loaded, with their counters @counters. */
static void begin_losses(struct tool_run *t, const uint64_t *counters)
{
	memset(t, 0, sizeof(*t));
	t->tool = &losing;
	t->n_losses = BLK_LOSS_ROWS + ARRAY_SIZE(own_losses);
	for (size_t i = 0; i < BLK_LOSS_ROWS; i++)
		if (block_base.losses[i].variable)
			t->loss_at[i] = &counters[block_base.losses[i].index];
	t->loss_at[BLK_LOSS_ROWS] = &counters[BLK_LOSSES];
}

static uint64_t lost(const struct interval *interval, const char *key)
{
	for (size_t i = 0; i < interval->n_losses; i++)
		if (strcmp(interval->losses[i].key, key) == 0)
			return interval->losses[i].count;
	fail_msg("no loss '%s'", key);
	return 0;
}

static uint64_t all_lost(const struct interval *interval)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < interval->n_losses; i++)
		sum += interval->losses[i].count;
	return sum;
}

static void test_losses(void **state)
{
	uint64_t now[BLK_LOSSES + 1] = { 0 };
	struct interval interval = { 0 };
	static struct tool_run t;

	(void)state;
	begin_losses(&t, now);
	tool_losses(&t, &interval);
	assert_int_equal(interval.n_losses, BLK_LOSS_ROWS + ARRAY_SIZE(own_losses));
	assert_int_equal(all_lost(&interval), 0);
	for (size_t i = 0; i < interval.n_losses; i++) {
		assert_true(interval.losses[i].key[0]);
		assert_true(interval.losses[i].text[0]);
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(interval.losses[i].key, interval.losses[k].key);
			assert_string_not_equal(interval.losses[i].text, interval.losses[k].text);
		}
	}
	/* the probe's counters only grow; an interval shows the increase */
	now[LOSS_NO_START] = 5;
	now[LOSS_ROWS_BYTES] = 1ull << 40;
	now[LOSS_NO_END] = 2;
	now[BLK_LOSSES] = 7;
	tool_losses(&t, &interval);
	assert_int_equal(lost(&interval, "no_start"), 5);
	assert_int_equal(lost(&interval, "rows_full_bytes"), 1ull << 40);
	assert_int_equal(lost(&interval, "no_end"), 2);
	assert_int_equal(lost(&interval, "own"), 7);
	assert_int_equal(all_lost(&interval), 5 + (1ull << 40) + 2 + 7);
	tool_losses(&t, &interval);
	assert_int_equal(all_lost(&interval), 0);
	/* what user space found comes on top, once */
	now[LOSS_NO_END] = 5;
	tool_count_loss(&t, LOSS_NO_END, 4);
	tool_count_loss(&t, BLK_LOSS_ROWS + 1, 2);
	tool_count_loss(&t, BLK_LOSS_ROWS + 1, 3);
	tool_losses(&t, &interval);
	assert_int_equal(lost(&interval, "no_end"), 3 + 4);
	assert_int_equal(lost(&interval, "found"), 5);
	tool_losses(&t, &interval);
	assert_int_equal(all_lost(&interval), 0);
}

static void test_losses_shown(void **state)
{
	uint64_t now[BLK_LOSSES + 1] = { 0 };
	struct interval interval = { 0 };
	static struct tool_run t;
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	(void)state;
	assert_non_null(stream);
	begin_losses(&t, now);
	tool_losses(&t, &interval);
	assert_int_equal(render_losses(stream, &interval), 0);
	assert_int_equal(fflush(stream), 0);
	assert_string_equal(text, ""); /* what is 0 is not mentioned */
	now[LOSS_ROWS_FULL] = 3;
	tool_losses(&t, &interval);
	assert_int_equal(render_losses(stream, &interval), 0);
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(text, "iotrace: lost: 3 I/Os not shown: no room for another row\n");
	free(text);
}

/* ---- a disk that goes ---- */

static const char *const with_disk = " 8 0 sda 0 0 0 0 0 0 0 0 0 0 0\n";

/* Shows @t another /proc/diskstats and an event of a device; returns how often the disk was lost.
 */
static uint64_t disk_lost(struct tool_run *t, const char *diskstats)
{
	static unsigned int events;
	struct interval interval = { 0 };
	char number[16];

	put("proc/diskstats", diskstats);
	snprintf(number, sizeof(number), "%u\n", ++events);
	put("sys/kernel/uevent_seqnum", number);
	if (!t->disks)
		return 0;
	tool_look(t);
	tool_losses(t, &interval);
	return lost(&interval, "disk_gone");
}

/* While the disk is gone nothing is counted.  That is reported once, also by a tool without
 * programs. */
static void test_disk_goes(void **state)
{
	const uint64_t counters[BLK_LOSSES + 1] = { 0 };
	char proc[64], sys[64];
	const struct disk_roots roots = { proc, sys, proc };
	static struct tool_run t;
	uint32_t stopped = 0;
	struct error err;

	(void)state;
	snprintf(proc, sizeof(proc), "%s/proc", root);
	snprintf(sys, sizeof(sys), "%s/sys", root);
	for (int has_programs = 0; has_programs < 2; has_programs++) {
		struct blk_filters filters = { 0 };
		struct block_run block;

		begin_losses(&t, counters);
		disk_lost(&t, with_disk);
		put("sys/block/sda/size", "1\n");
		assert_int_equal(disks_open(&roots, &t.disks, &err), 0);
		assert_int_equal(disks_find(t.disks, "sda", &filters.disks[0], &err), 0);
		filters.n_disks = 1;
		block = (struct block_run){ .filters = &filters };
		t.base_data = &block;
		t.stopped = has_programs ? &stopped : NULL;
		assert_int_equal(disk_lost(&t, with_disk), 0);
		assert_int_equal(disk_lost(&t, "\n"), 1);
		assert_int_equal(stopped, has_programs);
		assert_int_equal(disk_lost(&t, "\n"), 0);
		assert_int_equal(disk_lost(&t, with_disk), 0);
		assert_int_equal(stopped, 0);
		disks_free(t.disks);
		t.base_data = NULL;
		t.stopped = NULL;
	}
}

/* ---- further objects ---- */

static void test_too_many_events(void **state)
{
	static const struct hook_event events[TOOL_EVENTS_MAX + 1];
	struct tool_object *object;
	static struct tool_run t;
	struct error err;

	(void)state;
	assert_int_equal(tool_attach_more(&t, events, ARRAY_SIZE(events), &object, &err), -E2BIG);
	assert_string_equal(err.what, "too many events");
	assert_null(object);
	assert_null(t.more);
}

/* ---- two in one process ---- */

static size_t fake_events(struct tool_run *t, struct hook_event *out)
{
	(void)out;
	note(t->ctx, 'c');
	return 0;
}

/* Says @fmt as libbpf would. */
__attribute__((format(printf, 1, 2))) static void libbpf_says(const char *fmt, ...)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL);
	va_list args;

	libbpf_set_print(print);
	va_start(args, fmt);
	if (print)
		print(LIBBPF_WARN, fmt, args);
	va_end(args);
}

static int fake_attached(struct tool_run *t, struct error *err)
{
	(void)err;
	note(t->ctx, 'a');
	libbpf_says("attaching tool %llu",
		    (unsigned long long)((struct fake *)t->ctx)->counted / 100);
	return 0;
}

static void fake_stop(struct tool_run *t)
{
	note(t->ctx, 's');
}

static uint64_t fails_at; /* the count that cannot be drained */

static int fake_drain(struct tool_run *t, int inactive, struct error *err)
{
	struct fake *f = t->ctx;

	(void)inactive;
	(void)err;
	note(t->ctx, 'd');
	f->drained = ++f->counted;
	if (f->counted == fails_at)
		return -EIO;
	return 0;
}

static int fake_rows(struct tool_run *t, struct recording_interval *out, struct error *err)
{
	struct fake *f = t->ctx;

	(void)err;
	f->row.count = f->drained;
	out->tables[0] = (struct recording_rows){ &f->row, 1 };
	return 0;
}

static void fake_end_output(struct tool_run *t, bool last)
{
	note(t->ctx, last ? 'L' : '.');
}

static const struct tool counting = {
	.name = "counting",
	TOOL_CTX(struct fake, args),
	.view = &fake_view,
	.events = fake_events,
	.attached = fake_attached,
	.options = fake_options,
	.stop = fake_stop,
	.drain = fake_drain,
	.rows = fake_rows,
	.end_output = fake_end_output,
};

/* With what the contract demands for a run, and no more. */
static const struct tool bare = {
	.name = "bare",
	TOOL_CTX(struct fake, args),
	.view = &fake_view,
	.options = fake_options,
	.rows = fake_rows,
};

#define MS (NS_PER_SEC / 1000)

struct sunk {
	const struct tool_run *of[16];
	uint64_t at[16], counts[16], since[16], end[16];
	bool last[16];
	size_t n;
};

static int sink(void *ctx, struct tool_run *t, struct recording_interval *in, struct error *err)
{
	struct sunk *s = ctx;

	(void)err;
	assert_true(s->n < ARRAY_SIZE(s->of));
	s->of[s->n] = t;
	s->at[s->n] = fake_clock.now_ns;
	s->counts[s->n] = ((const struct fake_row *)in->tables[0].rows)->count;
	s->since[s->n] = in->interval.start_ns;
	s->end[s->n] = in->interval.end_ns;
	s->last[s->n++] = in->last;
	return 0;
}

static void interrupt(void *ctx)
{
	(void)ctx;
	kill(getpid(), SIGINT);
}

static const struct tool *opened = &counting; /* by run_tools() */
static bool others_go_on;		      /* when a tool has failed */

static void fake_failed(void *ctx, struct tool_run *t, const struct error *err)
{
	(void)ctx;
	(void)err;
	note(t->ctx, 'f');
}

/* Runs tools with these files in one loop, with the interval and the count of the first; what has
 * no file goes to @sunk.  Returns the status of the loop. */
static int run_tools(struct tool_run **tools, size_t n, const struct args *own, struct sunk *sunk)
{
	char name[] = "counting", *argv[] = { name, NULL };
	struct args args = { .interval_ns = own->interval_ns, .count = own->count };
	struct error err;
	struct run run;
	int status;

	assert_int_equal(run_begin(&run, &args, &err), 0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(tool_open(opened, 1, argv, &tools[i], &err), 0);
		tools[i]->failed = others_go_on ? fake_failed : NULL;
		tools[i]->args->verbose = own[i].verbose;
		tools[i]->args->output = own[i].output;
		tools[i]->args->format = own[i].format;
		tools[i]->sink = own[i].output ? NULL : sink;
		tools[i]->sink_ctx = sunk;
		((struct fake *)tools[i]->ctx)->counted = i * 100;
		assert_int_equal(tool_attach(tools[i], &run, &err), 0);
	}
	status = tools_loop(tools, n, &run);
	for (size_t i = 0; i < n; i++)
		status = show_close(&tools[i]->show, status);
	run_end(&run);
	fake_clock_stop();
	return status;
}

static void close_tools(struct tool_run **tools, size_t n)
{
	for (size_t i = 0; i < n; i++)
		tool_close(tools[i]);
}

static const char *calls_of(const struct tool_run *t)
{
	return ((const struct fake *)t->ctx)->calls;
}

/* Each is asked in turn, in one loop, and knows nothing of the other. */
static void test_two(void **state)
{
	static const struct args own[2] = { { .interval_ns = 10 * MS, .count = 3 },
					    { .interval_ns = 10 * MS, .count = 3 } };
	struct tool_run *tools[2];
	struct sunk sunk = { 0 };

	(void)state;
	fake_clock_start();
	assert_int_equal(run_tools(tools, 2, own, &sunk), 0);
	assert_int_equal(sunk.n, 6);
	for (size_t i = 0; i < sunk.n; i++) {
		assert_ptr_equal(sunk.of[i], tools[i % 2]);
		assert_int_equal(sunk.at[i], (i / 2 + 1) * 10 * MS);
		assert_int_equal(sunk.counts[i], i % 2 * 100 + i / 2 + 1);
		if (i >= 2)
			assert_int_equal(sunk.since[i], sunk.end[i - 2]);
	}
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(calls_of(tools[i]), "ocad.d.sdL");
	close_tools(tools, 2);
}

#define HOUR_NS (3600 * NS_PER_SEC)

static void set_clock(void *ctx)
{
	fake_clock.epoch_less += *(const uint64_t *)ctx;
}

/* The clock is set while an interval lasts: that is as long as it was, and ends at the time that
 * it is then. */
static void test_clock_is_set(void **state)
{
	static const struct args own[2] = { { .interval_ns = NS_PER_SEC, .count = 4 },
					    { .interval_ns = NS_PER_SEC, .count = 4 } };
	static uint64_t forward = 3 * HOUR_NS, back = -HOUR_NS;
	static const uint64_t ends[] = { NS_PER_SEC, 3 * HOUR_NS + 2 * NS_PER_SEC,
					 2 * HOUR_NS + 3 * NS_PER_SEC,
					 2 * HOUR_NS + 4 * NS_PER_SEC };
	const uint64_t epoch = 1000000 * HOUR_NS;
	struct tool_run *tools[2];
	struct sunk sunk = { 0 };

	(void)state;
	fake_clock_start();
	fake_clock.epoch_less = epoch;
	fake_clock_at(NS_PER_SEC * 3 / 2, set_clock, &forward);
	fake_clock_at(NS_PER_SEC * 5 / 2, set_clock, &back);
	assert_int_equal(run_tools(tools, 2, own, &sunk), 0);
	assert_int_equal(sunk.n, 2 * ARRAY_SIZE(ends));
	for (size_t i = 0; i < sunk.n; i++) {
		assert_int_equal(sunk.end[i], epoch + ends[i / 2]);
		assert_int_equal(sunk.end[i] - sunk.since[i], NS_PER_SEC);
	}
	close_tools(tools, 2);
}

/* A signal ends all. */
static void test_two_interrupted(void **state)
{
	static const struct args own[2] = { { .interval_ns = 20 * MS } };
	struct tool_run *tools[2];
	struct sunk sunk = { 0 };

	(void)state;
	fake_clock_start();
	fake_clock_at(50 * MS, interrupt, NULL);
	assert_int_equal(run_tools(tools, 2, own, &sunk), 0);
	assert_int_equal(sunk.n, 6);
	for (size_t i = 4; i < 6; i++) {
		assert_ptr_equal(sunk.of[i], tools[i - 4]);
		assert_int_equal(sunk.at[i], 50 * MS);
		assert_true(sunk.last[i]);
	}
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(calls_of(tools[i]), "ocad.d.sdL");
	close_tools(tools, 2);
}

/* libbpf's messages are shown for the one that wants them, whichever was opened last. */
static void test_two_logs(void **state)
{
	for (size_t verbose = 0; verbose < 2; verbose++) {
		struct args own[2] = { { .interval_ns = 10 * MS, .count = 1 },
				       { .interval_ns = 10 * MS, .count = 1 } };
		struct tool_run *tools[2];
		struct sunk sunk = { 0 };
		struct capture out;
		char expected[64];

		(void)state;
		own[verbose].verbose = true;
		snprintf(expected, sizeof(expected), "iotrace: attaching tool %zu\n", verbose);
		capture_begin(&out, STDERR_FILENO);
		fake_clock_start();
		run_tools(tools, 2, own, &sunk);
		assert_string_equal(capture_end(&out), expected);
		close_tools(tools, 2);
	}
}

/* ---- files of each ---- */

static void close_end(void *ctx)
{
	close(*(const int *)ctx);
}

/* A pipe by name, which is read from now on. */
static int make_pipe(char *path)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0 && !close(fd) && !unlink(path) && !mkfifo(path, 0600));
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* A reader who goes away ends the run while nothing is written, whichever tool he reads; the others
 * have their last output. */
static void test_two_readers(void **state)
{
	for (size_t gone = 0; gone < 2; gone++) {
		char paths[2][32] = { "/tmp/tool_test.XXXXXX", "/tmp/tool_test.XXXXXX" };
		const struct args own[2] = {
			{ .interval_ns = 1000 * MS, .output = paths[0], .format = FORMAT_CSV },
			{ .interval_ns = 1000 * MS, .output = paths[1], .format = FORMAT_CSV },
		};
		int ends[2] = { make_pipe(paths[0]), make_pipe(paths[1]) };
		struct tool_run *tools[2];
		struct sunk sunk = { 0 };

		(void)state;
		signal(SIGPIPE, SIG_IGN); /* as main() does */
		fake_clock_start();
		fake_clock_at(1500 * MS, close_end, &ends[gone]);
		assert_int_equal(run_tools(tools, 2, own, &sunk), 0);
		assert_int_equal(fake_clock.now_ns, 1500 * MS);
		assert_string_equal(calls_of(tools[gone]), "ocad.sd.");
		assert_string_equal(calls_of(tools[!gone]), "ocad.sdL");
		close_tools(tools, 2);
		close(ends[!gone]);
		unlink(paths[0]);
		unlink(paths[1]);
	}
}

/* One that cannot go on ends the run; what the others have counted is not lost. */
static void test_second_fails(void **state)
{
	const struct args own[2] = { { .interval_ns = 10 * MS, .output = "/dev/null" },
				     { .interval_ns = 10 * MS, .output = "/dev/null" } };

	(void)state;
	for (size_t failing = 0; failing < 2; failing++) {
		struct tool_run *tools[2];
		struct sunk sunk = { 0 };
		struct capture out;

		fails_at = failing * 100 + 2;
		capture_begin(&out, STDERR_FILENO);
		fake_clock_start();
		assert_int_equal(run_tools(tools, 2, own, &sunk), STATUS_FAILED);
		assert_string_equal(capture_end(&out),
				    "iotrace: cannot read the BPF maps: Input/output error\n");
		assert_string_equal(calls_of(tools[failing]), "ocad.de");
		assert_string_equal(calls_of(tools[!failing]),
				    failing ? "ocad.d.sdLe" : "ocad.sdLe");
		close_tools(tools, 2);
	}
	fails_at = 0;
}

/* One fails, and the other goes on. */
static void test_other_goes_on(void **state)
{
	const struct args own[2] = { { .interval_ns = 10 * MS, .count = 3 } };

	(void)state;
	others_go_on = true;
	for (size_t failing = 0; failing < 2; failing++) {
		struct tool_run *tools[2];
		struct sunk sunk = { 0 };

		fails_at = failing * 100 + 2;
		fake_clock_start();
		assert_int_equal(run_tools(tools, 2, own, &sunk), 0);
		assert_string_equal(calls_of(tools[failing]), "ocad.df");
		assert_string_equal(calls_of(tools[!failing]), "ocad.d.sdL");
		close_tools(tools, 2);
	}
	others_go_on = false;
	fails_at = 0;
}

static int fake_collect(struct tool_run *t, struct error *err)
{
	(void)err;
	note(t->ctx, 'C');
	return ((struct fake *)t->ctx)->counted < 100 ? 0 : -EIO;
}

/* The same where one fails between two outputs: it has none any more, and fails once. */
static void test_collect_fails(void **state)
{
	static const struct args own[2] = { { .interval_ns = 1500 * MS, .count = 2 } };
	struct tool collecting = counting;
	struct tool_run *tools[2];
	struct sunk sunk = { 0 };

	(void)state;
	collecting.collect = fake_collect;
	opened = &collecting;
	others_go_on = true;
	fake_clock_start();
	assert_int_equal(run_tools(tools, 2, own, &sunk), 0);
	assert_string_equal(calls_of(tools[1]), "ocaCf");
	assert_int_equal(sunk.n, 2);
	close_tools(tools, 2);
	others_go_on = false;
	opened = &counting;
}

/* Optional functions of struct tool may be NULL. */
static void test_bare(void **state)
{
	static const struct args own[2] = { { .interval_ns = 10 * MS, .count = 3 } };
	struct tool_run *tools[2];
	struct sunk sunk = { 0 };

	(void)state;
	opened = &bare;
	fake_clock_start();
	assert_int_equal(run_tools(tools, 2, own, &sunk), 0);
	assert_int_equal(sunk.n, 6);
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(calls_of(tools[i]), "o");
	for (size_t i = 0; i < sunk.n; i++)
		assert_true(sunk.end[i] > sunk.since[i]);
	close_tools(tools, 2);
	opened = &counting;
}

/* ---- replays ---- */

extern const struct tool tool_top, tool_virtio;

#define RECORDINGS TEST_SOURCE_DIR "/../data/recordings/"

static void read_all(int fd, char *buf, size_t size)
{
	ssize_t n = pread(fd, buf, size - 1, 0);

	assert_true(n > 0 && (size_t)n < size - 1);
	buf[n] = '\0';
}

static void file_is(const char *path, const char *expected)
{
	static char got[1 << 20], want[1 << 20];
	int fd = open(path, O_RDONLY), wanted = open(expected, O_RDONLY);

	assert_true(fd >= 0 && wanted >= 0);
	read_all(fd, got, sizeof(got));
	read_all(wanted, want, sizeof(want));
	assert_string_equal(got, want);
	close(fd);
	close(wanted);
}

/* @recording in @path is what is in @expected. */
static void replays(const struct tool *tool, const char *recording, const char *format,
		    const char *path, const char *expected)
{
	const char *const words[] = { tool->name, "--replay", recording, "-o", path, format, NULL };
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork(); /* it gives up its rights for good */
	if (pid == 0)
		_exit(tool_main(tool, format ? 6 : 5, (char **)(uintptr_t)words));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, STATUS_OK);
	file_is(path, expected);
}

/* Each replay uses its own file and time zone; standard output and TZ do not change. */
static void test_replays(void **state)
{
	char top[] = "/tmp/tool_test.XXXXXX", virtio[] = "/tmp/tool_test.XXXXXX";
	int top_fd = mkstemp(top), virtio_fd = mkstemp(virtio);
	struct capture out;

	(void)state;
	assert_true(top_fd >= 0 && virtio_fd >= 0);
	setenv("TZ", "Asia/Kolkata", 1);
	tzset();
	capture_begin(&out, STDOUT_FILENO);
	replays(&tool_top, RECORDINGS "top.rec", NULL, top, RECORDINGS "top.text");
	replays(&tool_virtio, RECORDINGS "virtio-irq.rec", "--json", virtio,
		RECORDINGS "virtio-irq.json");
	replays(&tool_top, RECORDINGS "top.rec", "--csv", top, RECORDINGS "top.csv");
	fputs("still there\n", stdout);
	assert_string_equal(capture_end(&out), "still there\n");
	assert_string_equal(getenv("TZ"), "Asia/Kolkata");
	close(top_fd);
	close(virtio_fd);
	unlink(top);
	unlink(virtio);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_losses_shown),
		in_fresh_root(test_disk_goes),
		cmocka_unit_test(test_too_many_events),
		/* The last: they give up capabilities. */
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_clock_is_set),
		cmocka_unit_test(test_two_interrupted),
		cmocka_unit_test(test_two_logs),
		cmocka_unit_test(test_two_readers),
		cmocka_unit_test(test_second_fails),
		cmocka_unit_test(test_other_goes_on),
		cmocka_unit_test(test_collect_fails),
		cmocka_unit_test(test_bare),
		cmocka_unit_test(test_replays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
