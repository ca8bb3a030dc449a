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

#include "cmd/kvm/log.h"
#include "cmd/kvm/options.h"
#include "cmd/kvm/record.h"
#include "test/unit/formats.h"
#include "recorded.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* A run as it goes on: two processes, three reasons, one of which turns up late. */
struct run {
	struct kvm_events e;
	struct kvm_rows rows;
	struct latency *latency;
	struct kvm_latency_row counted[3];
	struct kvm_namer namer;
	int exit_event;
};

static char *name_of(const void *ctx, uint32_t class, uint32_t reason, char name[REASON_NAME_SIZE])
{
	(void)ctx;
	snprintf(name, REASON_NAME_SIZE, "R%u_%u", class, reason);
	return name;
}

static void begin(struct run *run)
{
	*run = (struct run){ .namer = { name_of, NULL } };
	events_add(&run->e, "kvm_entry", -1, true);
	run->exit_event = events_add(&run->e, "kvm_exit", -1, true);
	events_add_child(&run->e, run->exit_event, "R1_30", true);
	run->e.v[0].off = true;
	assert_int_equal(latency_open(&run->latency), 0);
	assert_int_equal(guest_names_add(&run->rows.guests, 100, "web \"1\""), 0);
	assert_int_equal(guest_names_add(&run->rows.guests, 200, ""), 0);
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
}

static void end(struct run *run)
{
	latency_close(run->latency);
	kvm_rows_free(&run->rows);
	events_free(&run->e);
}

/* One output, as kvm.c makes it: rows in @format, and a line of the log. */
static void show(FILE *stream, enum format format, struct run *run, struct kvm_log *log,
		 const struct interval *interval)
{
	const struct schema *schema = kvm_schema(true, false);

	log->stream = stream;
	kvm_rows_clear(&run->rows);
	assert_int_equal(kvm_rows_of_events(&run->rows, &run->e, run->exit_event), 0);
	assert_int_equal(
	    kvm_rows_of_latency(&run->rows, &run->e, run->exit_event, run->latency, &run->namer, 0),
	    0);
	assert_int_equal(
	    render_interval(format, stream, interval, schema, run->rows.rows, run->rows.n), 0);
	assert_int_equal(kvm_log_line(log, &run->e, interval->end_ns, 0), 0);
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
	struct kvm_log log = { 0 };
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
		kvm_record_begin(&record);
		assert_int_equal(kvm_record_fill(&record, &run.e, run.latency, &run.rows,
						 run.exit_event, &run.namer, &in),
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
	free(log.columns);
	end(&run);
	return text;
}

/* From the recording, as the run was filtered, or by another @filter. */
static char *again(enum format format, struct recorded *r, bool as_filtered, const regex_t *filter)
{
	struct kvm_replay replay = { 0 };
	struct recording_interval in;
	struct kvm_log log = { 0 };
	struct run run = { .namer = { kvm_replay_name, &replay }, .exit_event = 1 };
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
		assert_int_equal(kvm_replay_latencies(&in, run.latency, &run.rows, &replay, &err),
				 0);
		if (i)
			show(stream, format, &run, &log, &in.interval);
		else
			assert_string_equal(in.text, KVM_RECORDED_START);
	}
	fclose(stream);
	recorded_end(r);
	free(log.columns);
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
	struct kvm_events names = { 0 }, e = { 0 };
	struct kvm_record record = { 0 };
	struct error err;

	(void)state;
	events_add(&names, "a", -1, true);
	events_add(&names, "b", 0, true);
	kvm_record_begin(&record);
	assert_int_equal(kvm_record_fill(&record, &names, NULL, NULL, 0, NULL, &in), 0);
	assert_int_equal(kvm_replay_events(&in, &e, true, &err), 0);
	assert_int_equal(e.n, 2);
	assert_int_equal(e.v[1].parent, 0);
	/* once more: that is no harm */
	assert_int_equal(kvm_replay_events(&in, &e, true, &err), 0);
	assert_int_equal(e.n, 2);
	/* nothing has changed */
	kvm_record_begin(&record);
	assert_int_equal(kvm_record_fill(&record, &names, NULL, NULL, 0, NULL, &in), 0);
	assert_int_equal(in.tables[0].n, 0);
	names.v[1].total = 5;
	kvm_record_begin(&record);
	assert_int_equal(kvm_record_fill(&record, &names, NULL, NULL, 0, NULL, &in), 0);
	assert_int_equal(in.tables[0].n, 1);
	assert_int_equal(kvm_replay_events(&in, &e, true, &err), 0);
	assert_int_equal(e.v[1].total, 5);
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
	kvm_record_begin(&record);
	assert_int_equal(kvm_record_fill(&record, &names, NULL, NULL, 0, NULL, &in), 0);
	refused(&in, &e, "out of their order");
	kvm_record_free(&record);
	/* a parent that is yet to come */
	events_free(&e);
	names.v[1].name[0] = 'b';
	names.v[1].parent = 7;
	kvm_record_begin(&record);
	assert_int_equal(kvm_record_fill(&record, &names, NULL, NULL, 0, NULL, &in), 0);
	refused(&in, &e, "out of their order");
	kvm_record_free(&record);
	events_free(&e);
	events_free(&names);
}

static void add_counts(struct kvm_record *record, struct kvm_rows *rows, struct kvm_events *e,
		       uint64_t rounds)
{
	static const struct {
		uint32_t pid;
		int event;
		uint64_t n;
	} counts[] = { { 100, 0, 5 }, { 200, 0, 7 }, { 100, 1, 2 }, { 100, 1, 3 }, { 300, 1, 0 } };

	kvm_record_begin(record);
	e->v[0].total = 12 * rounds;
	e->v[1].total = 5 * rounds;
	for (size_t i = 0; i < N(counts); i++)
		assert_int_equal(kvm_record_process(record, rows, counts[i].pid, counts[i].event,
						    counts[i].n * rounds),
				 0);
}

/* What one process has counted, of a recording of all. */
static void test_process(void **state)
{
	struct recording_interval in = { .text = "" };
	struct kvm_events names = { 0 }, e = { 0 };
	struct kvm_record record = { 0 };
	struct kvm_rows rows = { 0 };
	struct error err;

	(void)state;
	events_add(&names, "a", -1, true);
	events_add(&names, "b", -1, true);
	assert_int_equal(guest_names_add(&rows.guests, 100, "web"), 0);
	for (uint64_t rounds = 1; rounds < 3; rounds++) {
		add_counts(&record, &rows, &names, rounds);
		assert_int_equal(kvm_record_fill(&record, &names, NULL, &rows, 0, NULL, &in), 0);
		assert_int_equal(in.tables[2].n, 4);
		assert_int_equal(kvm_replay_events(&in, &e, true, &err), 0);
		assert_int_equal(e.v[0].total, 12 * rounds);
		assert_int_equal(kvm_replay_guest(&in, "web"), 100);
		assert_int_equal(kvm_replay_guest(&in, "we"), 0);
		kvm_replay_process(&in, &e, 200, NULL);
		assert_int_equal(e.v[0].total, 7 * rounds);
		assert_int_equal(e.v[1].total, 0);
		kvm_replay_process(&in, &e, 200, "");
		assert_int_equal(e.v[0].total, 7 * rounds);
		kvm_replay_process(&in, &e, 200, "web");
		assert_int_equal(e.v[0].total, 12 * rounds);
		kvm_replay_process(&in, &e, 100, "web");
		assert_int_equal(e.v[0].total, 5 * rounds);
		assert_int_equal(e.v[1].total, 5 * rounds);
		assert_int_equal(events_delta(&e.v[1]), 5);
		events_set_baseline(&e);
	}
	/* of an event that is not there: no recording of ours */
	e.n = 1;
	kvm_replay_process(&in, &e, 100, NULL);
	assert_int_equal(e.v[0].total, 10);
	e.n = 2;
	kvm_record_free(&record);
	kvm_rows_free(&rows);
	events_free(&e);
	events_free(&names);
}

/* A recording that names other processes in each interval: those of one are kept. */
static void test_replayed_guests(void **state)
{
	struct kvm_latency_row counted[10] = { 0 };
	struct recording_interval in = { .text = "" };
	struct kvm_record record = { 0 };
	struct kvm_replay replay = { 0 };
	struct latency *latency;
	struct kvm_rows made = { 0 };
	struct error err;
	struct run run;

	(void)state;
	begin(&run);
	assert_int_equal(latency_open(&latency), 0);
	for (uint32_t round = 0; round < 100; round++) {
		for (uint32_t i = 0; i < N(counted); i++) {
			counted[i].key.tgid = 1000 + round * N(counted) + i;
			counted[i].latency.exits = 1;
			assert_int_equal(
			    guest_names_add(&run.rows.guests, counted[i].key.tgid, "guest"), 0);
		}
		assert_int_equal(latency_read(run.latency, counted, N(counted), KVM_BANKS, NULL),
				 0);
		kvm_record_begin(&record);
		assert_int_equal(kvm_record_fill(&record, &run.e, run.latency, &run.rows,
						 run.exit_event, &run.namer, &in),
				 0);
		assert_int_equal(kvm_replay_latencies(&in, latency, &made, &replay, &err), 0);
		assert_string_equal(guest_names_find(&made.guests, counted[9].key.tgid), "guest");
		assert_int_equal(made.guests.n, N(counted));
	}
	kvm_record_free(&record);
	kvm_rows_free(&made);
	latency_close(latency);
	end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),	cmocka_unit_test(test_filter),
		cmocka_unit_test(test_nonsense),	cmocka_unit_test(test_process),
		cmocka_unit_test(test_replayed_guests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
