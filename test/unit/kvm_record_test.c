/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What iotrace kvm records, and what it shows of it again: above all the times of exits, which not
 * every machine can measure. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmd/kvm/options.h"
#include "cmd/kvm/record.h"
#include "cmd/kvm/rows.h"
#include "test/unit/formats.h"
#include "recorded.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* A run as it goes on: two processes, three reasons, one of which turns up late. */
struct run {
	struct kvm_events e;
	struct kvm_rows rows;
	struct kvm_counts counts;
	struct latency *latency;
	struct kvm_latency_row counted[3];
	int exit_event;
};

static void begin(struct run *run)
{
	*run = (struct run){ .latency = NULL };
	events_add(&run->e, "kvm_entry", -1, true);
	run->exit_event = events_add(&run->e, "kvm_exit", -1, true);
	events_add_child(&run->e, run->exit_event, "R1_30", true);
	run->e.v[0].off = true;
	assert_int_equal(latency_open(&run->latency), 0);
	run->counted[0].key = (struct kvm_latency_key){ 1, 30, 100, 0 };
	run->counted[1].key = (struct kvm_latency_key){ 1, 12, 200, 1 };
	run->counted[2].key = (struct kvm_latency_key){ 1, 30, 100, 1 };
}

static void count(struct kvm_latency_row *row, unsigned int slot, uint64_t n)
{
	uint64_t lo, hi;

	hist_fine_bounds(slot, &lo, &hi);
	row->latency.exits += n;
	row->latency.fine[slot] += n;
	row->latency.total_ns += n * lo;
	if (lo > row->latency.max_ns)
		row->latency.max_ns = lo;
}

/* As kvm.c and counters.c do. */
static void name_row(struct run *run, struct latency_row *row)
{
	row->name = row->reason == 30 ? "R1_30" : "R1_12";
	row->event = events_add_child(&run->e, run->exit_event, row->name, false);
	row->guest = row->pid == 100 ? "web \"1\"" : "";
}

/* What was counted by output @round. */
static void go_on(struct run *run, int round)
{
	count(&run->counted[0], 80, 10);
	count(&run->counted[1], 120, 5);
	if (round)
		count(&run->counted[2], 90, 3);
	run->e.v[run->exit_event].total += round ? 18 : 15;
	run->e.v[2].total += round ? 13 : 10;
	if (round)
		events_add_child(&run->e, run->exit_event, "R1_12", false);
	if (round)
		run->e.v[3].total = 10;
	assert_int_equal(
	    latency_read(run->latency, run->counted, 2 + (size_t)round, KVM_BANKS, NULL), 0);
	for (size_t i = 0; i < run->latency->n; i++)
		name_row(run, &run->latency->rows[i]);
}

static void end(struct run *run)
{
	latency_close(run->latency);
	free(run->counts.v);
	kvm_rows_free(&run->rows);
	events_free(&run->e);
}

/* One output, as kvm.c makes it: rows in @format, and a line of the log. */
static void show(FILE *stream, enum format format, struct run *run, struct wide *log,
		 const struct interval *interval)
{
	const struct schema *schema = kvm_schema(true, false);

	log->stream = stream;
	kvm_rows_clear(&run->rows);
	assert_int_equal(kvm_rows_of_events(&run->rows, &run->e, run->exit_event), 0);
	assert_int_equal(kvm_rows_of_latency(&run->rows, &run->e, run->latency, 0), 0);
	assert_int_equal(
	    render_interval(format, stream, interval, schema, run->rows.rows, run->rows.n), 0);
	assert_int_equal(kvm_log_line(log, &run->e, &(struct recording_interval){ *interval }), 0);
	events_set_baseline(&run->e);
	latency_set_baseline(run->latency);
}

static const struct recording_setting settings[] = {
	{ "mode", KVM_LOG }, { "latency", 1 }, { "pid", 0 }, { "exit_event", 1 }
};
static const struct recording_head head = {
	{ "0.1.0", "6.1.0", "kvm", NULL, 0, NULL, 0 },
	settings,
	N(settings),
};
static const struct interval times[] = {
	{ 1700000000000000000ull, 1700000001000000000ull, NULL, 0 },
	{ 1700000001000000000ull, 1700000002000000000ull, NULL, 0 },
};

/* Runs, and records with @filter into @r; what was shown. */
static char *live(enum format format, struct recorded *r, const regex_t *filter)
{
	struct recording_interval in = { .text = KVM_RECORDED_START };
	struct kvm_record record = { 0 };
	struct recorder *recorder;
	struct wide log = { 0 };
	struct run run;
	char *text;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	begin(&run);
	events_set_filter(&run.e, filter);
	recorder = recorded_begin(r, &head, kvm_recorded_tables, KVM_RECORDED_TABLES);
	in.interval.start_ns = in.interval.end_ns = times[0].start_ns;
	for (int i = 0; i < 3; i++) {
		if (i) {
			go_on(&run, i - 1);
			in =
			    (struct recording_interval){ times[i - 1], .last = i == 2, .text = "" };
		}
		assert_int_equal(kvm_record_fill(&record, &run.e, &run.counts, run.latency, &in),
				 0);
		/* at first all; then what has counted, and a reason that is new */
		assert_int_equal(in.tables[0].n, 3);
		assert_int_equal(in.tables[1].n, i == 0 ? 0 : i + 1);
		recorded_add(recorder, &in);
		if (i)
			show(stream, format, &run, &log, &times[i - 1]);
	}
	fclose(stream);
	recorded_finish(r, recorder);
	kvm_record_free(&record);
	wide_free(&log);
	end(&run);
	return text;
}

/* From the recording, as the run was filtered, or by another @filter. */
static char *again(enum format format, struct recorded *r, bool as_filtered, const regex_t *filter)
{
	struct recording_interval in;
	struct wide log = { 0 };
	struct run run = { .exit_event = 1 };
	struct error err;
	char *text;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	events_set_filter(&run.e, filter);
	assert_int_equal(latency_open(&run.latency), 0);
	recorded_play(r, kvm_recorded_tables, KVM_RECORDED_TABLES);
	for (int i = 0; i < 3; i++) {
		recorded_next(r, &in);
		assert_int_equal(kvm_replay_events(&in, &run.e, as_filtered, &err), 0);
		assert_int_equal(kvm_replay_latencies(&in, &run.e, 1, run.latency, &err), 0);
		if (i)
			show(stream, format, &run, &log, &in.interval);
		else
			assert_string_equal(in.text, KVM_RECORDED_START);
	}
	fclose(stream);
	recorded_end(r);
	wide_free(&log);
	end(&run);
	return text;
}

static void same(const regex_t *filter, bool keep, const char *part, const char *no_part)
{
	for (int format = FORMAT_TEXT; format <= FORMAT_CSV; format++) {
		struct recorded r = { 0 };
		char *want = live((enum format)format, &r, filter), *got;

		if (keep)
			recorded_keep(&r, "kvm-x.rec");
		got = again((enum format)format, &r, true, NULL);
		assert_string_equal(got, want);
		if (format == FORMAT_JSON && !strstr(got, part))
			fail_msg("no %s in %s", part, got);
		if (no_part && strstr(got, no_part))
			fail_msg("%s in %s", no_part, got);
		free(want);
		free(got);
	}
}

static void test_round_trip(void **state)
{
	(void)state;
	same(NULL, true, "\"guest\":\"web \\\"1\\\"\"", "kvm_entry");
}

/* A run with filter @run, replayed by @own, is a run with @own: the recording has everything. */
static void refiltered(const regex_t *run, const regex_t *own, const char *no_part)
{
	for (int format = FORMAT_TEXT; format <= FORMAT_CSV; format++) {
		struct recorded r = { 0 }, other = { 0 };
		char *filtered = live((enum format)format, &r, run);
		char *got = again((enum format)format, &r, false, own);
		char *want = live((enum format)format, &other, own);

		assert_string_not_equal(got, filtered);
		assert_string_equal(got, want);
		if (no_part && strstr(got, no_part))
			fail_msg("%s in %s", no_part, got);
		free(again((enum format)format, &other, true, NULL));
		free(filtered);
		free(got);
		free(want);
	}
}

static void test_filter(void **state)
{
	regex_t filter, another;
	struct error err;

	(void)state;
	assert_int_equal(kvm_regex("kvm_exit\\(R1_30", &filter, &err), 0);
	assert_int_equal(kvm_regex("kvm_exit\\(R1_12", &another, &err), 0);
	same(&filter, false, "R1_30", "R1_12");
	refiltered(&filter, NULL, NULL);
	refiltered(&filter, &another, "R1_30");
	regfree(&filter);
	regfree(&another);
}

static void refused(const struct recording_interval *in, struct kvm_events *e, const char *why)
{
	struct error err;

	assert_true(kvm_replay_events(in, e, true, &err) < 0);
	assert_int_equal(err.status, STATUS_FAILED);
	if (!strstr(err.what, why))
		fail_msg("%s", err.what);
}

/* Recordings that no run has written: events that are there twice, or in another order. */
static void test_nonsense(void **state)
{
	struct recording_interval in = { .text = "" };
	const struct kvm_counts none = { 0 };
	struct kvm_events names = { 0 }, e = { 0 };
	struct kvm_record record = { 0 };
	struct error err;

	(void)state;
	events_add(&names, "a", -1, true);
	events_add(&names, "b", 0, true);
	assert_int_equal(kvm_record_fill(&record, &names, &none, NULL, &in), 0);
	assert_int_equal(kvm_replay_events(&in, &e, true, &err), 0);
	assert_int_equal(e.n, 2);
	assert_int_equal(e.v[1].parent, 0);
	/* once more: that is no harm */
	assert_int_equal(kvm_replay_events(&in, &e, true, &err), 0);
	assert_int_equal(e.n, 2);
	/* nothing has changed */
	assert_int_equal(kvm_record_fill(&record, &names, &none, NULL, &in), 0);
	assert_int_equal(in.tables[0].n, 0);
	names.v[1].total = 5;
	assert_int_equal(kvm_record_fill(&record, &names, &none, NULL, &in), 0);
	assert_int_equal(in.tables[0].n, 1);
	assert_int_equal(kvm_replay_events(&in, &e, true, &err), 0);
	assert_int_equal(e.v[1].total, 5);
	assert_int_equal(kvm_record_fill(&record, &names, &none, NULL, &in), 0);
	assert_int_equal(in.tables[0].n, 0);
	names.v[1].total = 6;
	assert_int_equal(kvm_record_fill(&record, &names, &none, NULL, &in), 0);
	/* the second without the first */
	events_free(&e);
	refused(&in, &e, "out of their order");
	/* another name, another parent */
	events_add(&e, "a", -1, true);
	events_add(&e, "c", 0, true);
	refused(&in, &e, "out of their order");
	events_free(&e);
	events_add(&e, "a", -1, true);
	events_add(&e, "b", -1, true);
	refused(&in, &e, "out of their order");
	kvm_record_free(&record);
	/* a name that is there twice */
	events_free(&e);
	names.v[1].name[0] = 'a';
	assert_int_equal(kvm_record_fill(&record, &names, &none, NULL, &in), 0);
	refused(&in, &e, "out of their order");
	kvm_record_free(&record);
	/* a parent that is yet to come */
	events_free(&e);
	names.v[1].name[0] = 'b';
	names.v[1].parent = 7;
	assert_int_equal(kvm_record_fill(&record, &names, &none, NULL, &in), 0);
	refused(&in, &e, "out of their order");
	kvm_record_free(&record);
	events_free(&e);
	events_free(&names);
}

static void add_counts(struct kvm_counts *c, struct kvm_events *e, uint64_t rounds)
{
	static const struct {
		uint32_t pid;
		int event;
		uint64_t n;
	} counts[] = { { 100, 0, 5 }, { 200, 0, 7 }, { 100, 1, 2 }, { 100, 1, 3 }, { 300, 1, 0 } };

	c->n = 0;
	e->v[0].total = 12 * rounds;
	e->v[1].total = 5 * rounds;
	for (size_t i = 0; i < N(counts); i++)
		assert_int_equal(
		    counts_add(c, counts[i].pid, counts[i].event, counts[i].n * rounds), 0);
	for (size_t i = 0; i < c->n; i++)
		c->v[i].guest = c->v[i].pid == 100 ? "web" : "";
}

static void total_is(struct kvm_events *e, const struct kvm_counts *c, uint32_t pid,
		     const char *guest, uint64_t want)
{
	events_select(e, c, pid, guest);
	assert_int_equal(e->v[0].total, want);
}

/* What one process has counted, of a recording of all. */
static void test_process(void **state)
{
	struct recording_interval in = { .text = "" };
	struct kvm_events names = { 0 }, e = { 0 };
	struct kvm_counts counts = { 0 }, c = { 0 };
	struct kvm_record record = { 0 };
	struct error err;

	(void)state;
	events_add(&names, "a", -1, true);
	events_add(&names, "b", -1, true);
	for (uint64_t rounds = 1; rounds < 3; rounds++) {
		add_counts(&counts, &names, rounds);
		assert_int_equal(kvm_record_fill(&record, &names, &counts, NULL, &in), 0);
		assert_int_equal(in.tables[2].n, 4);
		assert_int_equal(kvm_replay_events(&in, &e, true, &err), 0);
		assert_int_equal(kvm_replay_counts(&in, &e, &c), 0);
		assert_int_equal(e.v[0].total, 12 * rounds);
		assert_int_equal(counts_process(&c, "web"), 100);
		assert_int_equal(counts_process(&c, "we"), 0);
		assert_string_equal(counts_guest(&c, 100), "web");
		assert_string_equal(counts_guest(&c, 300), "");
		total_is(&e, &c, 200, NULL, 7 * rounds);
		assert_int_equal(e.v[1].total, 0);
		total_is(&e, &c, 200, "", 7 * rounds);
		total_is(&e, &c, 200, "web", 12 * rounds);
		total_is(&e, &c, 100, "web", 5 * rounds);
		assert_int_equal(e.v[1].total, 5 * rounds);
		assert_int_equal(events_delta(&e.v[1]), 5);
		events_set_baseline(&e);
	}
	/* of an event that is not there: no recording of ours */
	e.n = 1;
	assert_int_equal(kvm_replay_counts(&in, &e, &c), 0);
	assert_int_equal(c.n, 2);
	total_is(&e, &c, 100, NULL, 10);
	e.n = 2;
	kvm_record_free(&record);
	free(counts.v);
	free(c.v);
	events_free(&e);
	events_free(&names);
}

/* Times of no event: no recording of ours. */
static void test_no_exits(void **state)
{
	struct recording_interval in = { .text = "" };
	struct kvm_events e = { 0 };
	struct latency *latency;
	struct error err;

	(void)state;
	assert_int_equal(latency_open(&latency), 0);
	assert_int_equal(kvm_replay_latencies(&in, &e, 0, latency, &err), -EINVAL);
	assert_non_null(strstr(err.what, "times of no event"));
	latency_close(latency);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_filter),
		cmocka_unit_test(test_nonsense),   cmocka_unit_test(test_process),
		cmocka_unit_test(test_no_exits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
