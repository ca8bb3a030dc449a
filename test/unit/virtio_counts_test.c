/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the counters of virtio's programs are read while they count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/virtio/counts.h"

#define ROWS 3

struct programs {
	uint32_t active, taken;
	struct virtio_known known[ROWS];
	struct virtio_value values[ROWS * VIRTIO_BANKS];
	struct virtio_lat lats[ROWS * VIRTIO_BANKS];
};

static struct virtio_counts *open_counts(struct programs *p)
{
	struct virtio_arrays arrays = { &p->active, &p->taken, ROWS, p->known, p->values, p->lats };
	struct virtio_counts *c;

	memset(p, 0, sizeof(*p));
	for (uint32_t i = 0; i < ROWS; i++)
		p->known[i] = (struct virtio_known){ { "driver", "queue" }, { i, 0, 1 }, 0 };
	assert_int_equal(virtio_counts_open(&arrays, &c), 0);
	return c;
}

/* Counts like a program that found bank @bank active. */
static void count(struct programs *p, uint32_t bank, size_t row, uint64_t ns)
{
	size_t at = row * VIRTIO_BANKS + bank;

	p->values[at].buffers++;
	p->lats[at].log2[5]++;
	if (ns > p->lats[at].max_ns)
		p->lats[at].max_ns = ns;
}

/* One interval: its only row is queue @row, with @buffers. */
static void check(struct virtio_counts *c, bool last, uint32_t row, uint64_t buffers, uint64_t max)
{
	struct virtio_rows rows = { 0 };
	uint64_t end = 0;

	assert_int_equal(virtio_counts_take(c, last, &rows, &end), 0);
	assert_true(end > 0);
	virtio_rows_finish(&rows, true);
	assert_int_equal(rows.n, 1);
	assert_int_equal(rows.rows[0].id.device, row);
	assert_string_equal(rows.rows[0].vq, "queue");
	assert_int_equal(rows.rows[0].buffers, buffers);
	assert_int_equal(rows.rows[0].latency->count, buffers);
	assert_int_equal(rows.rows[0].latency->max, max);
	virtio_rows_free(&rows);
}

static void check_none(struct virtio_counts *c)
{
	struct virtio_rows rows = { 0 };
	uint64_t end;

	assert_int_equal(virtio_counts_take(c, false, &rows, &end), 0);
	assert_int_equal(rows.n, 0);
	virtio_rows_free(&rows);
}

static void test_intervals(void **state)
{
	struct programs p;
	struct virtio_counts *c = open_counts(&p);

	(void)state;
	check_none(c);
	p.taken = 2;
	count(&p, p.active, 1, 60);
	count(&p, p.active, 1, 40);
	check(c, false, 1, 2, 60);
	/* a largest one is of its interval */
	count(&p, p.active, 1, 50);
	check(c, false, 1, 1, 50);
	count(&p, p.active, 0, 33);
	check(c, false, 0, 1, 33);
	check_none(c);
	virtio_counts_close(c);
}

/* A program that is held up for longer than anybody waits for it. */
static void test_late(void **state)
{
	struct programs p;
	struct virtio_counts *c = open_counts(&p);
	uint32_t before = p.active;

	(void)state;
	p.taken = 1;
	count(&p, p.active, 0, 40);
	check(c, false, 0, 1, 40);
	assert_int_not_equal(p.active, before);
	count(&p, before, 0, 70);
	check_none(c); /* the other bank's turn */
	check(c, false, 0, 1, 70);
	/* at the end both are taken */
	count(&p, p.active, 0, 40);
	count(&p, !p.active, 0, 45);
	check(c, true, 0, 2, 45);
	virtio_counts_close(c);
}

/* Rows that were taken twice count as often. */
static void test_all_taken(void **state)
{
	struct programs p;
	struct virtio_counts *c = open_counts(&p);

	(void)state;
	p.taken = ROWS + 4;
	count(&p, p.active, ROWS - 1, 40);
	check(c, true, ROWS - 1, 1, 40);
	virtio_counts_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_intervals),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_all_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
