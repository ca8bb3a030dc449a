// SPDX-License-Identifier: GPL-2.0-or-later
/* The arithmetic of blame: closed forms, and random loads against a sum over every pair of requests
 * and every moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/blame/sweep.h"

#define EXACT  720720 /* every number up to 16 divides it */
#define OWNERS 5
#define IOS    60

static struct blame_room room;

static struct blame_sweep *opened(void)
{
	struct blame_sweep *s;

	assert_int_equal(blame_sweep_open(&room, &s), 0);
	return s;
}

static void add(struct blame_sweep *s, const struct blame_io *ios, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(blame_sweep_add(s, &ios[i]), 0);
}

static struct blame_sweep *swept(const struct blame_io *ios, size_t n)
{
	struct blame_sweep *s = opened();

	add(s, ios, n);
	assert_int_equal(blame_sweep_to(s, UINT64_MAX), 0);
	return s;
}

static uint64_t total_of(const struct blame_victim *v)
{
	uint64_t ns = v->alone_ns + v->idle_ns + v->unknown_ns;

	for (size_t i = 0; i < BLAME_OWNERS; i++)
		ns += v->by[i].behind_ns + v->by[i].beside_ns;
	return ns;
}

/* The rows of @v add up to its time. */
static void assert_adds_up(struct blame_victim *v)
{
	blame_settle(v);
	assert_int_equal(total_of(v), v->admit_ns + v->queue_ns + v->device_ns);
}

/* ---- closed forms ---- */

static void alone(void **state)
{
	const struct blame_io io = { 1000, 10, 20, 300, 0, 1 };
	struct blame_sweep *s = swept(&io, 1);
	struct blame_victim *v = blame_victim(s, 0);

	(void)state;
	assert_int_equal(v->ios, 1);
	assert_int_equal(v->idle_ns, 30);
	assert_int_equal(v->alone_ns, 300);
	assert_adds_up(v);
	assert_null(blame_victim(s, 1));
	blame_sweep_free(s);
}

/* A disk that serves one request at a time, in 700 ns; two submitters send one each at the same
 * moment, every 2000 ns. */
static void two_at_depth_1(void **state)
{
	struct blame_io ios[200];
	struct blame_sweep *s;
	struct blame_victim *a, *b;

	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		ios[2 * i] = (struct blame_io){ 5000 + 2000 * i, 0, 0, 700, 0, 1 };
		ios[2 * i + 1] = (struct blame_io){ 5000 + 2000 * i, 300, 400, 700, 1, 1 };
	}
	s = swept(ios, 200);
	a = blame_victim(s, 0);
	b = blame_victim(s, 1);
	assert_adds_up(a);
	assert_adds_up(b);
	assert_int_equal(a->alone_ns, 100 * 700);
	assert_int_equal(total_of(a), 100 * 700);
	assert_int_equal(b->by[0].behind_ns, 100 * 700);
	assert_int_equal(b->by[0].beside_ns, 0);
	assert_int_equal(b->alone_ns, 100 * 700);
	assert_int_equal(b->idle_ns, 0);
	blame_sweep_free(s);
}

/* One waits while three of another and one of a third are at the disk; these are beside each
 * other. */
static void shares(void **state)
{
	const struct blame_io ios[] = {
		{ 100, 0, 0, 1000, 1, 1 }, { 100, 0, 0, 1000, 1, 1 }, { 100, 0, 0, 1000, 1, 1 },
		{ 100, 0, 0, 1000, 2, 1 }, { 200, 0, 900, 50, 0, 1 },
	};
	struct blame_sweep *s = swept(ios, 5);
	struct blame_victim *v = blame_victim(s, 0);

	(void)state;
	assert_adds_up(v);
	assert_int_equal(v->by[1].behind_ns, 900 * 3 / 4);
	assert_int_equal(v->by[2].behind_ns, 900 / 4);
	assert_int_equal(v->alone_ns, 50);
	v = blame_victim(s, 1);
	assert_adds_up(v);
	assert_int_equal(v->by[1].beside_ns, 3 * 1000 * 2 / 3);
	assert_int_equal(v->by[2].beside_ns, 3 * 1000 / 3);
	v = blame_victim(s, 2);
	assert_adds_up(v);
	assert_int_equal(v->by[1].beside_ns, 1000);
	blame_sweep_free(s);
}

/* 1 KB and 7 KB: who waits for both waits for one of them seven times as long. */
static void weights(void **state)
{
	const struct blame_io ios[] = { { 100, 0, 0, 1000, 1, 2 },
					{ 100, 0, 0, 1000, 2, 14 },
					{ 100, 0, 1000, 0, 0, 8 } };
	struct blame_sweep *s = swept(ios, 3);
	struct blame_victim *v = blame_victim(s, 0);

	(void)state;
	assert_adds_up(v);
	assert_int_equal(v->by[1].behind_ns, 125);
	assert_int_equal(v->by[2].behind_ns, 875);
	blame_sweep_free(s);
}

/* What waits for a flush command is not at the disk itself. */
static void sync_waits(void **state)
{
	const struct blame_io ios[] = { { 100, 0, 50, 800, 0, 0 }, { 150, 0, 0, 800, 1, 1 } };
	struct blame_sweep *s = swept(ios, 2);
	struct blame_victim *v = blame_victim(s, 0);

	(void)state;
	assert_adds_up(v);
	assert_int_equal(v->idle_ns, 50);
	assert_int_equal(v->by[1].behind_ns, 800);
	v = blame_victim(s, 1);
	assert_int_equal(v->alone_ns, 800);
	blame_sweep_free(s);
}

/* What was at the disk before the run is waited for, ended or not, and is no victim. */
static void uncounted(void **state)
{
	const struct blame_io ios[] = {
		{ 100, 0, 10, 990, 1, 1, true },
		{ 100, 0, 0, UINT64_MAX - 100, 2, 1, true },
		{ 600, 0, 500, 100, 0, 1, false },
	};
	struct blame_sweep *s = swept(ios, 3);
	struct blame_victim *v = blame_victim(s, 0);

	(void)state;
	assert_adds_up(v);
	assert_int_equal(v->by[1].behind_ns, 500 / 2);
	assert_int_equal(v->by[2].behind_ns, 500 / 2);
	assert_int_equal(v->by[2].beside_ns, 100);
	assert_null(blame_victim(s, 1));
	assert_null(blame_victim(s, 2));
	blame_sweep_free(s);
}

/* Thirds of a nanosecond: the rows add up all the same. */
static void rounding(void **state)
{
	const struct blame_io ios[] = {
		{ 100, 0, 0, 100, 1, 1 },
		{ 100, 0, 0, 100, 2, 1 },
		{ 100, 0, 0, 100, 3, 1 },
		{ 100, 0, 100, 0, 0, 1 },
	};
	struct blame_sweep *s = swept(ios, 4);
	struct blame_victim *v = blame_victim(s, 0);

	(void)state;
	assert_adds_up(v);
	for (size_t i = 1; i < 4; i++)
		assert_in_range(v->by[i].behind_ns, 33, 34);
	blame_sweep_free(s);
}

/* ---- random loads ---- */

static uint64_t seed;

static uint64_t random_below(uint64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % n;
}

static void make(struct blame_io *ios, size_t n, uint32_t owners, uint64_t span, uint32_t weight)
{
	for (size_t i = 0; i < n; i++)
		ios[i] =
		    (struct blame_io){ 1000 + random_below(span),
				       random_below(span / 20),
				       random_below(span / 10),
				       random_below(span / 10),
				       (uint32_t)random_below(owners),
				       random_below(10) ? 1 + (uint32_t)random_below(weight) : 0 };
}

static uint64_t issue_of(const struct blame_io *io)
{
	return io->arrival + io->admit + io->queue;
}

static uint64_t end_of(const struct blame_io *io)
{
	return issue_of(io) + io->device;
}

struct expected {
	uint64_t idle, alone, behind[OWNERS], beside[OWNERS], with[OWNERS]; /* in 1/EXACT ns */
};

static int compare_times(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* One request in one segment without events. */
static void expect_segment(const struct blame_io *ios, size_t n, size_t who, uint64_t from,
			   uint64_t to, struct expected *out)
{
	const bool at_disk = ios[who].weight && issue_of(&ios[who]) <= from;
	uint64_t others = 0;

	for (size_t i = 0; i < n; i++)
		if (i != who && issue_of(&ios[i]) <= from && end_of(&ios[i]) >= to)
			others += ios[i].weight;
	assert_true(others <= 16);
	if (!others) {
		*(at_disk ? &out->alone : &out->idle) += to - from;
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (i != who && issue_of(&ios[i]) <= from && end_of(&ios[i]) >= to)
			(at_disk ? out->beside : out->behind)[ios[i].owner] +=
			    (to - from) * EXACT / others * ios[i].weight;
}

static void expect(const struct blame_io ios[IOS], struct expected out[OWNERS])
{
	uint64_t times[3 * IOS] = { 0 };

	memset(out, 0, OWNERS * sizeof(*out));
	for (size_t i = 0; i < IOS; i++) {
		times[3 * i] = ios[i].arrival;
		times[3 * i + 1] = issue_of(&ios[i]);
		times[3 * i + 2] = end_of(&ios[i]);
	}
	qsort(times, 3 * IOS, sizeof(*times), compare_times);
	for (size_t who = 0; who < IOS; who++) {
		struct expected *e = &out[ios[who].owner];
		bool with[OWNERS] = { false };

		for (size_t i = 1; i < 3 * IOS; i++)
			if (times[i] > times[i - 1] && times[i - 1] >= ios[who].arrival &&
			    times[i] <= end_of(&ios[who]))
				expect_segment(ios, IOS, who, times[i - 1], times[i], e);
		for (size_t i = 0; i < IOS; i++)
			with[ios[i].owner] |= end_of(&ios[i]) >= ios[who].arrival &&
					      (ios[i].arrival < ios[who].arrival ||
					       (i < who && ios[i].arrival == ios[who].arrival));
		for (size_t i = 0; i < OWNERS; i++)
			e->with[i] += with[i];
	}
}

static uint64_t count_of(const struct blame_times *times)
{
	uint64_t count;

	blame_percentile(times, NULL, 500, &count);
	return count;
}

static void assert_expected(struct blame_sweep *s, const struct expected e[OWNERS])
{
	for (uint32_t owner = 0; owner < OWNERS; owner++) {
		struct blame_victim *v = blame_victim(s, owner);

		if (!v)
			continue;
		assert_int_equal(v->idle_ns, e[owner].idle);
		assert_int_equal(v->alone_ns, e[owner].alone);
		assert_int_equal(v->unknown_ns, 0);
		for (size_t i = 0; i < OWNERS; i++) {
			assert_true(v->by[i].behind == (blame_parts)e[owner].behind[i] << 20);
			assert_true(v->by[i].beside == (blame_parts)e[owner].beside[i] << 20);
			assert_int_equal(count_of(v->by[i].with), e[owner].with[i]);
		}
		assert_adds_up(v);
	}
}

static void random_loads(void **state)
{
	struct blame_io ios[IOS];
	struct expected e[OWNERS];

	(void)state;
	for (seed = 1; seed < 300;) {
		const uint64_t next = seed + 1;
		struct blame_sweep *s;

		make(ios, IOS, OWNERS, 20000, 1);
		for (size_t i = 0; next % 2 && i < IOS; i += 4)
			ios[i].weight *= 2;
		expect(ios, e);
		s = swept(ios, IOS);
		assert_expected(s, e);
		assert_int_equal(room.kept, 0);
		blame_sweep_free(s);
		seed = next;
	}
}

/* The lowest arrival of the requests that are still to come: the watermark of a run. */
static uint64_t watermark(const struct blame_io *ios, const bool *is_there)
{
	uint64_t lowest = UINT64_MAX;

	for (size_t i = 0; i < IOS; i++)
		if (!is_there[i] && ios[i].arrival < lowest)
			lowest = ios[i].arrival;
	return lowest;
}

/* Requests become known in any order, as long as all that began before the end of a window are: the
 * same sums, and none is counted in two windows. */
static void windows(void **state)
{
	struct blame_io ios[IOS];
	struct expected e[OWNERS];

	(void)state;
	for (seed = 1000; seed < 1300;) {
		const uint64_t next = seed + 1;
		struct blame_sweep *s = opened();
		bool is_there[IOS] = { false };
		size_t left = IOS;

		make(ios, IOS, OWNERS, 20000, 1);
		expect(ios, e);
		while (left) {
			size_t i = random_below(IOS);

			if (!is_there[i]) {
				is_there[i] = true;
				left--;
				add(s, &ios[i], 1);
			}
			if (!random_below(3) || !left)
				assert_int_equal(blame_sweep_to(s, watermark(ios, is_there)), 0);
		}
		/* Which of two that arrive at the same moment is first is not defined here. */
		for (size_t a = 0; a < OWNERS; a++)
			for (size_t i = 0; blame_victim(s, (uint32_t)a) && i < OWNERS; i++)
				e[a].with[i] = count_of(blame_victim(s, (uint32_t)a)->by[i].with);
		assert_expected(s, e);
		blame_sweep_free(s);
		seed = next;
	}
}

/* Any depth, any weights, more of them than there are clocks, and requests that come late. */
static void sums(void **state)
{
	static struct blame_io ios[3000];
	uint64_t total = 0, late = 0;

	(void)state;
	for (seed = 5000; seed < 5006;) {
		const uint64_t next = seed + 1;
		struct blame_sweep *s = opened();

		make(ios, 3000, BLAME_OWNERS, 3000, next % 2 ? 1 : 5000);
		for (size_t i = 0; i < 3000; i++) {
			add(s, &ios[i], 1);
			total += end_of(&ios[i]) - ios[i].arrival;
			if (i % 500 == 499)
				assert_int_equal(blame_sweep_to(s, 3 * i / 4), 0);
		}
		assert_int_equal(blame_sweep_to(s, UINT64_MAX), 0);
		assert_true(blame_sweep_losses(s).unknown > 0);
		for (uint32_t i = 0; i < BLAME_OWNERS; i++) {
			struct blame_victim *v = blame_victim(s, i);

			if (!v)
				continue;
			assert_adds_up(v);
			total -= total_of(v);
			late += v->unknown_ns;
		}
		blame_sweep_free(s);
		seed = next;
	}
	assert_int_equal(total, 0);
	assert_true(late > 0);
}

/* ---- late, never, and again ---- */

static void late(void **state)
{
	const struct blame_io busy = { 1000, 0, 0, 1000, 1, 1 },
			      waited = { 1200, 0, 800, 100, 0, 1 },
			      at_disk = { 1400, 0, 0, 700, 2, 1 };
	struct blame_sweep *s = opened();
	struct blame_losses losses;
	struct blame_victim *v;

	(void)state;
	add(s, &busy, 1);
	assert_int_equal(blame_sweep_to(s, 1500), 0);
	assert_int_equal(blame_swept(s), 1500);
	add(s, &waited, 1);
	losses = blame_sweep_losses(s);
	assert_int_equal(losses.missed, 0);
	assert_int_equal(blame_sweep_to(s, 1600), 0);
	add(s, &at_disk, 1);
	assert_int_equal(blame_sweep_to(s, UINT64_MAX), 0);
	losses = blame_sweep_losses(s);
	assert_int_equal(losses.missed, 1);
	assert_int_equal(losses.unknown, 2);
	v = blame_victim(s, 0);
	assert_adds_up(v);
	assert_int_equal(v->unknown_ns, 300);
	assert_int_equal(v->by[1].behind_ns, 100 + 400 / 2);
	assert_int_equal(v->by[2].behind_ns, 400 / 2);
	blame_sweep_free(s);
}

/* A request that does not end in the run is a culprit, and no victim. */
static void never_ends(void **state)
{
	const struct blame_io ios[] = { { 1000, 0, 0, UINT64_MAX - 1000, 1, 1 },
					{ 1500, 0, 0, 500, 0, 1 } };
	struct blame_sweep *s = opened();

	(void)state;
	add(s, ios, 2);
	assert_int_equal(blame_sweep_to(s, 10000), 0);
	assert_null(blame_victim(s, 1));
	assert_adds_up(blame_victim(s, 0));
	assert_int_equal(blame_victim(s, 0)->by[1].beside_ns, 500);
	assert_int_equal(room.kept, 1);
	blame_sweep_free(s);
}

static void owner_numbers(void **state)
{
	const struct blame_io ios[] = { { 1000, 0, 0, 100, 1, 1 }, { 1050, 0, 0, 500, 0, 1 } };
	struct blame_sweep *s = opened();

	(void)state;
	add(s, ios, 2);
	assert_false(blame_owner_unused(s, 1));
	assert_int_equal(blame_sweep_to(s, 1400), 0);
	assert_false(blame_owner_unused(s, 1)); /* the other was beside it */
	assert_int_equal(blame_sweep_to(s, 1600), 0);
	assert_true(blame_owner_unused(s, 1));
	blame_sweep_clear(s);
	assert_null(blame_victim(s, 0));
	blame_sweep_free(s);
}

static void percentiles(void **state)
{
	struct blame_sweep *s = opened();
	const struct blame_victim *v;
	uint64_t count;

	(void)state;
	/* Each tenth arrives while another is in flight, and takes ten times as long. */
	for (uint64_t i = 0; i < 100; i++) {
		const bool slow = i % 10 == 0;
		const struct blame_io other = { 1000 + 100000 * i, 0, 0, 20000, 1, 1 },
				      mine = { 2000 + 100000 * i, 0, 0, slow ? 10000 : 1000, 0, 1 };

		if (slow)
			add(s, &other, 1);
		add(s, &mine, 1);
	}
	assert_int_equal(blame_sweep_to(s, UINT64_MAX), 0);
	v = blame_victim(s, 0);
	assert_in_range(blame_percentile(v->by[1].with, NULL, 990, &count), 9400, 10000);
	assert_int_equal(count, 10);
	assert_in_range(blame_percentile(v->times, v->by[1].with, 990, &count), 940, 1063);
	assert_int_equal(count, 90);
	assert_int_equal(blame_percentile(NULL, NULL, 990, &count), 0);
	assert_int_equal(count, 0);
	blame_sweep_free(s);
}

/* After all tests. */
static int room_is_empty(void **state)
{
	(void)state;
	return room.kept || room.slots || room.times || room.clocks;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone),	 cmocka_unit_test(two_at_depth_1),
		cmocka_unit_test(shares),	 cmocka_unit_test(weights),
		cmocka_unit_test(sync_waits),	 cmocka_unit_test(uncounted),
		cmocka_unit_test(rounding),	 cmocka_unit_test(random_loads),
		cmocka_unit_test(windows),	 cmocka_unit_test(sums),
		cmocka_unit_test(late),		 cmocka_unit_test(never_ends),
		cmocka_unit_test(owner_numbers), cmocka_unit_test(percentiles),
	};

	return cmocka_run_group_tests(tests, NULL, room_is_empty);
}
