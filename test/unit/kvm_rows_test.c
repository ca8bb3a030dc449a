/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What iotrace kvm makes of the rows of its intervals: above all of the times of exits, which not
 * every machine can measure. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmd/kvm/filter.h"
#include "cmd/kvm/latency.h"
#include "cmd/kvm/rows.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

static const struct kvm_selection all = { 0, NULL };

static struct kvm_row counted(const char *event, const char *parent, uint32_t pid, uint64_t delta)
{
	return (struct kvm_row){ .event = event,
				 .parent = parent,
				 .listed = true,
				 .pid = pid,
				 .guest = pid == 100 ? "web" : "",
				 .vcpu = "",
				 .delta = delta };
}

static uint64_t total(const struct kvm_events *e, const char *name)
{
	return e->v[events_find(e, name)].total;
}

static uint64_t delta(const struct kvm_events *e, const char *name)
{
	return events_delta(&e->v[events_find(e, name)]);
}

/* Totals are the sums, of all processes or of some; a counter that sinks is not below 0. */
static void test_counts(void **state)
{
	struct kvm_row made[] = {
		counted("kvm_exit", "", 0, 0),
		counted("kvm_exit(HLT)", "kvm_exit", 0, 0),
		counted("kvm_exit", "", 100, 5),
		counted("kvm_exit", "", 200, 7),
		counted("kvm_exit(HLT)", "kvm_exit", 100, 5),
		counted("pages", "", 200, 3),
	};
	const struct kvm_rows rows = { made, N(made) };
	struct kvm_events e = { 0 };
	struct error err;

	(void)state;
	assert_int_equal(kvm_replay_events(&rows, &e, true, &err), 0);
	assert_int_equal(kvm_replay_events(&rows, &e, true, &err), 0);
	assert_int_equal(e.n, 3);
	assert_int_equal(e.v[1].parent, 0);
	assert_string_equal(e.v[1].path, "/kvm_exit/HLT");
	kvm_count_events(&rows, &all, &e);
	kvm_count_events(&rows, &(struct kvm_selection){ 100, NULL }, &e);
	assert_int_equal(total(&e, "kvm_exit"), 17);
	assert_int_equal(delta(&e, "kvm_exit"), 5);
	kvm_count_events(&rows, &(struct kvm_selection){ 7, "web" }, &e);
	assert_int_equal(total(&e, "kvm_exit"), 22);
	assert_int_equal(total(&e, "kvm_exit(HLT)"), 15);
	made[5].delta = (uint64_t)-2;
	kvm_count_events(&rows, &all, &e);
	assert_int_equal(total(&e, "pages"), 1);
	assert_int_equal(delta(&e, "pages"), 0);
	kvm_count_events(&rows, &all, &e);
	assert_int_equal(total(&e, "pages"), 0);
	made[5].delta = 4;
	kvm_count_events(&rows, &all, &e);
	assert_int_equal(total(&e, "pages"), 3);
	assert_int_equal(delta(&e, "pages"), 3);
	events_free(&e);
}

/* What was counted before the start is in the totals, and in no interval's growth. */
static void test_past(void **state)
{
	struct kvm_row made[] = { counted("exits", "", 100, 5), counted("exits", "", 100, 0),
				  counted("exits", "", 200, 0) };
	const struct kvm_rows rows = { made, N(made) };
	struct kvm_events e = { 0 };
	struct error err;

	(void)state;
	made[1].past = 1000;
	made[2].past = 200;
	assert_int_equal(kvm_replay_events(&rows, &e, true, &err), 0);
	kvm_count_events(&rows, &(struct kvm_selection){ 100, NULL }, &e);
	assert_int_equal(total(&e, "exits"), 1005);
	assert_int_equal(delta(&e, "exits"), 5);
	events_free(&e);
}

/* A replay hides what the run's -f hid, unless it has a filter of its own. */
static void test_filter(void **state)
{
	struct kvm_row made[] = { counted("a", "", 0, 1), counted("b", "", 0, 1) };
	const struct kvm_rows rows = { made, N(made) };
	struct kvm_events e = { 0 };
	struct error err;
	regex_t filter;

	(void)state;
	made[0].hidden = true;
	assert_int_equal(kvm_replay_events(&rows, &e, true, &err), 0);
	assert_true(e.v[0].hidden && !e.v[1].hidden);
	events_free(&e);
	assert_int_equal(kvm_regex("a", &filter, &err), 0);
	events_set_filter(&e, &filter);
	assert_int_equal(kvm_replay_events(&rows, &e, false, &err), 0);
	assert_true(!e.v[0].hidden && e.v[1].hidden);
	events_free(&e);
	regfree(&filter);
}

/* No recording of ours. */
static void test_nonsense(void **state)
{
	char name[2 * EVENT_NAME_SIZE];
	struct kvm_row row = counted(name, "not there", 0, 1);
	const struct kvm_rows rows = { &row, 1 };
	struct kvm_events e = { 0 };
	struct error err;
	int r = 0;

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	assert_int_equal(kvm_replay_events(&rows, &e, true, &err), -EINVAL);
	assert_non_null(strstr(err.what, "too long"));
	for (int i = 0; !r; i++) {
		snprintf(name, sizeof(name), "%d", i);
		r = kvm_replay_events(&rows, &e, true, &err);
	}
	assert_int_equal(r, -EINVAL);
	assert_non_null(strstr(err.what, "too many events"));
	assert_int_equal(e.v[0].parent, -1);
	events_free(&e);
}

/* ---- times ---- */

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

/* Only what has grown, and not what the programs add to now. */
static void test_growth(void **state)
{
	struct kvm_latency_row probe[3] = { { { 1, 30, 100, 0, 1, 0 } },
					    { { 1, 12, 200, 1, 2, 1 } } };
	struct latency l = { NULL };

	(void)state;
	count(&probe[0], 80, 10);
	count(&probe[1], 120, 5);
	assert_int_equal(latency_read(&l, probe, 3, 1, NULL), 0);
	assert_int_equal(l.n, 1);
	assert_int_equal(l.rows[0].key.tgid, 100);
	assert_int_equal(l.rows[0].exits, 10);
	assert_int_equal(l.rows[0].times.fine[80], 10);
	count(&probe[0], 90, 3);
	assert_int_equal(latency_read(&l, probe, 3, KVM_BANKS, NULL), 0);
	assert_int_equal(l.n, 2);
	assert_int_equal(l.rows[0].exits, 3);
	assert_int_equal(l.rows[0].times.count, 3);
	assert_int_equal(l.rows[0].times.fine[80], 0);
	assert_int_equal(l.rows[1].exits, 5);
	assert_int_equal(latency_read(&l, probe, 3, KVM_BANKS, NULL), 0);
	assert_int_equal(l.n, 0);
	latency_free(&l);
}

struct times_want {
	const char *event, *vcpu;
	uint32_t pid;
	uint64_t total, delta, count;
};

static void times_are(const struct pivot_rows *times, const struct kvm_events *e,
		      const struct times_want *want, size_t n)
{
	struct kvm_rows rows = { 0 };

	assert_int_equal(kvm_rows_of_times(&rows, e, times), 0);
	assert_int_equal(rows.n, n);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(rows.rows[i].event, want[i].event);
		assert_string_equal(rows.rows[i].vcpu, want[i].vcpu);
		assert_int_equal(rows.rows[i].pid, want[i].pid);
		assert_int_equal(rows.rows[i].total, want[i].total);
		assert_int_equal(rows.rows[i].delta, want[i].delta);
		assert_int_equal(rows.rows[i].count, want[i].count);
		assert_int_equal(hist_slots_total(rows.rows[i].slots), want[i].count);
	}
	free(rows.rows);
}

/* Rows by process, and with one process by vCPU; of an interval, or of the run. */
static void test_times(void **state)
{
	static const struct times_want first[] = { { "e(b)", "", 100, 7, 7, 7 },
						   { "e(a)", "", 100, 4, 4, 4 },
						   { "e(a)", "", 200, 3, 3, 3 } },
				       second[] = { { "e(b)", "", 100, 9, 2, 2 },
						    { "e(a)", "", 100, 4, 0, 0 },
						    { "e(a)", "", 200, 3, 0, 0 } },
				       of_run[] = { { "e(b)", "", 100, 9, 2, 9 },
						    { "e(a)", "", 100, 4, 0, 4 },
						    { "e(a)", "", 200, 3, 0, 3 } },
				       by_vcpu[] = { { "e(b)", "2", 100, 5, 5, 5 },
						     { "e(a)", "2", 100, 4, 4, 4 },
						     { "e(b)", "10", 100, 2, 2, 2 } };
	struct kvm_row made[] = { counted("e(a)", "e", 100, 4), counted("e(a)", "e", 200, 3),
				  counted("e(b)", "e", 100, 2), counted("e(b)", "e", 100, 5) };
	struct hist slots[N(made)] = { 0 };
	struct kvm_rows rows = { made, N(made) };
	struct kvm_events e = { 0 };
	struct error err;

	(void)state;
	for (size_t i = 0; i < N(made); i++) {
		slots[i].count = slots[i].fine[60 + 10 * i] = made[i].delta;
		slots[i].total = made[i].delta * 1000 * (i + 1);
		made[i].slots = &slots[i];
		made[i].vcpu = i == 2 ? "10" : "2";
	}
	assert_int_equal(kvm_replay_events(&rows, &e, true, &err), 0);
	for (int whole_run = 0; whole_run < 2; whole_run++) {
		struct pivot_rows times = { 0 };

		rows = (struct kvm_rows){ made, N(made) };
		assert_int_equal(kvm_add_times(&rows, &all, false, whole_run, &times), 0);
		times_are(&times, &e, first, N(first));
		rows = (struct kvm_rows){ &made[2], 1 };
		assert_int_equal(kvm_add_times(&rows, &all, false, whole_run, &times), 0);
		times_are(&times, &e, whole_run ? of_run : second, 3);
		pivot_free(&times);
		rows = (struct kvm_rows){ made, N(made) };
		assert_int_equal(kvm_add_times(&rows, &(struct kvm_selection){ 100, NULL }, true,
					       whole_run, &times),
				 0);
		times_are(&times, &e, by_vcpu, N(by_vcpu));
		pivot_free(&times);
	}
	events_free(&e);
}

/* A guest's name that is found in a later interval is also the name of its earlier times. */
static void test_late_name(void **state)
{
	static const struct times_want want[] = { { "e(a)", "", 100, 7, 3, 7 } };
	struct kvm_row unnamed = counted("e(a)", "e", 100, 4), named = counted("e(a)", "e", 100, 3);
	struct hist slots = { .count = 4, .fine[60] = 4 }, more = { .count = 3, .fine[60] = 3 };
	struct pivot_rows times = { 0 };
	struct kvm_events e = { 0 };
	struct error err;

	(void)state;
	unnamed.guest = "";
	unnamed.slots = &slots;
	named.slots = &more;
	assert_int_equal(kvm_replay_events(&(struct kvm_rows){ &named, 1 }, &e, true, &err), 0);
	assert_int_equal(
	    kvm_add_times(&(struct kvm_rows){ &unnamed, 1 }, &all, false, true, &times), 0);
	assert_int_equal(kvm_add_times(&(struct kvm_rows){ &named, 1 }, &all, false, true, &times),
			 0);
	times_are(&times, &e, want, 1);
	assert_string_equal(((struct kvm_row *)pivot_row(&times, 0))->guest, "web");
	pivot_free(&times);
	events_free(&e);
}

/* A recording with more processes than any machine has times: the longest sums stay. */
static void test_bounded_times(void **state)
{
	enum { MANY = 16384 + 100 };
	struct kvm_row *made = calloc(MANY, sizeof(*made));
	struct hist slots = { .count = 1, .fine[60] = 1 };
	const struct kvm_rows rows = { made, MANY };
	struct pivot_rows times = { 0 };
	uint64_t least = UINT64_MAX;

	(void)state;
	assert_non_null(made);
	for (uint32_t i = 0; i < MANY; i++) {
		made[i] = counted("e(a)", "e", 1000 + i, 1 + (i * 7919U) % MANY);
		made[i].slots = &slots;
	}
	for (uint64_t interval = 1; interval <= 2; interval++) {
		assert_int_equal(kvm_add_times(&rows, &all, false, true, &times), 0);
		assert_int_equal(times.n, 16384 / 2);
		least = UINT64_MAX;
		for (size_t i = 0; i < times.n; i++) {
			const struct kvm_row *row = pivot_row(&times, i);

			if (row->total < least)
				least = row->total;
		}
		assert_true(least >= interval * (MANY - 16384 / 2));
	}
	free(made);
	pivot_free(&times);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),	  cmocka_unit_test(test_past),
		cmocka_unit_test(test_filter),	  cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_growth),	  cmocka_unit_test(test_times),
		cmocka_unit_test(test_late_name), cmocka_unit_test(test_bounded_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
