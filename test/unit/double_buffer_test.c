/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Needs bpf(2); without it every test here is skipped. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/bpf/double_buffer.h"

#define MAX_KEYS 5000

static void need_bpf(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "flip_test", 4, 4, 1, NULL);

	if (fd < 0)
		skip();
	close(fd);
}

static void test_turns(void **state)
{
	uint32_t epoch = 0;
	struct double_buffer *f = NULL;
	uint64_t before, end, after;

	(void)state;
	need_bpf();
	assert_int_equal(double_buffer_open(&epoch, true, &f, NULL), 0);
	assert_int_equal(epoch, 0);
	for (uint32_t i = 0; i < 12; i++) {
		before = clock_mono_ns();
		assert_int_equal(double_buffer_swap(f, i % 3 ? &end : NULL), i & 1);
		after = clock_mono_ns();
		assert_int_equal(epoch, i + 1);
		if (i % 3)
			assert_true(before <= end && end <= after);
	}
	epoch = UINT32_MAX;
	assert_int_equal(double_buffer_swap(f, NULL), 1);
	assert_int_equal(epoch, 0);
	assert_int_equal(double_buffer_swap(f, NULL), 0);
	assert_int_equal(epoch, 1);
	double_buffer_close(f);
	double_buffer_close(NULL);
}

/* Two at once do not disturb each other. */
static void test_two(void **state)
{
	uint32_t a = 0, b = 1;
	struct double_buffer *f, *g;

	(void)state;
	need_bpf();
	assert_int_equal(double_buffer_open(&a, true, &f, NULL), 0);
	assert_int_equal(double_buffer_open(&b, true, &g, NULL), 0);
	assert_int_equal(double_buffer_swap(f, NULL), 0);
	assert_int_equal(double_buffer_swap(g, NULL), 1);
	assert_int_equal(double_buffer_swap(f, NULL), 1);
	assert_int_equal(a, 2);
	assert_int_equal(b, 2);
	double_buffer_close(f);
	assert_int_equal(double_buffer_swap(g, NULL), 0);
	double_buffer_close(g);
}

/* ---- draining ---- */

/* The value of entry @i: never 0, and different for each. */
static uint64_t value_of(uint32_t i)
{
	return (uint64_t)i * 1000 + 1;
}

/* The keys' size is 24 as top's; the number stands at its begin and at its end. */
struct key {
	uint32_t i;
	uint32_t zero[4];
	uint32_t again;
};

struct seen {
	unsigned char times[MAX_KEYS];
	uint32_t values; /* that a key has */
	uint64_t calls;
	int stop_with;
};

static int see(void *ctx, const void *key, const void *value)
{
	struct seen *seen = ctx;
	const struct key *k = key;

	seen->calls++;
	if (seen->stop_with)
		return seen->stop_with;
	assert_true(k->i < MAX_KEYS);
	assert_int_equal(k->i, k->again);
	seen->times[k->i]++;
	for (uint32_t v = 0; v < seen->values; v++)
		assert_int_equal(((const uint64_t *)value)[v], value_of(k->i) + v);
	return 0;
}

static int make_map(uint32_t key_size, uint32_t value_size, uint32_t entries, uint32_t flags)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags);
	int fd =
	    bpf_map_create(BPF_MAP_TYPE_HASH, "flip_rows", key_size, value_size, entries, &opts);

	assert_true(fd >= 0);
	return fd;
}

static void fill(int fd, uint32_t from, uint32_t to, uint32_t n_values)
{
	uint64_t values[8];

	assert_true(n_values <= 8);
	for (uint32_t i = from; i < to; i++) {
		struct key key = { .i = i, .again = i };

		for (uint32_t v = 0; v < n_values; v++)
			values[v] = value_of(i) + v;
		assert_int_equal(bpf_map_update_elem(fd, &key, values, BPF_NOEXIST), 0);
	}
}

static void is_empty(int fd)
{
	struct key next;

	assert_int_equal(bpf_map_get_next_key(fd, NULL, &next), -ENOENT);
}

static void drains(int fd, uint32_t from, uint32_t to, uint32_t n_values)
{
	struct seen *seen = calloc(1, sizeof(*seen));

	assert_non_null(seen);
	seen->values = n_values;
	fill(fd, from, to, n_values);
	assert_int_equal(double_buffer_drain_hash(fd, sizeof(struct key),
						  n_values * (uint32_t)sizeof(uint64_t), see, seen),
			 0);
	assert_int_equal(seen->calls, to - from);
	for (uint32_t i = 0; i < MAX_KEYS; i++)
		assert_int_equal(seen->times[i], i >= from && i < to);
	is_empty(fd);
	free(seen);
}

static void test_drain(void **state)
{
	static const uint32_t counts[] = { 0, 1, 2, 255, 256, 257, 300, 512, 1000, MAX_KEYS };
	int fd;

	(void)state;
	need_bpf();
	fd = make_map(sizeof(struct key), 24, MAX_KEYS, 0);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		drains(fd, 0, counts[i], 3);
	/* the same map again and again, as at each interval */
	for (uint32_t i = 0; i < 20; i++)
		drains(fd, i * 100, i * 150 + 50, 3);
	close(fd);
}

static void test_drain_small(void **state)
{
	int fd;

	(void)state;
	need_bpf();
	fd = make_map(sizeof(struct key), 8, 1, 0);
	drains(fd, 0, 0, 1);
	drains(fd, 7, 8, 1);
	close(fd);
}

/* Sizes that are no multiple of 8 lie close together. */
static int see_bytes(void *ctx, const void *key, const void *value)
{
	uint32_t *seen = ctx;
	char text[16];
	uint32_t i;

	memcpy(&i, key, sizeof(i));
	assert_true(i < 10);
	snprintf(text, sizeof(text), "twelve byte%u", i);
	assert_memory_equal(value, text, 12);
	*seen |= 1u << i;
	return 0;
}

static void test_drain_odd_size(void **state)
{
	uint32_t seen = 0;
	char text[16];
	int fd;

	(void)state;
	need_bpf();
	fd = make_map(4, 12, 10, 0);
	for (uint32_t i = 0; i < 10; i++) {
		snprintf(text, sizeof(text), "twelve byte%u", i);
		assert_int_equal(bpf_map_update_elem(fd, &i, text, BPF_ANY), 0);
	}
	assert_int_equal(double_buffer_drain_hash(fd, 4, 12, see_bytes, &seen), 0);
	assert_int_equal(seen, 0x3ff);
	close(fd);
}

static void test_drain_stops(void **state)
{
	struct seen seen = { .values = 1, .stop_with = -ENOMEM };
	int fd;

	(void)state;
	need_bpf();
	fd = make_map(sizeof(struct key), 8, 1000, 0);
	fill(fd, 0, 1000, 1);
	assert_int_equal(double_buffer_drain_hash(fd, sizeof(struct key), 8, see, &seen), -ENOMEM);
	assert_int_equal(seen.calls, 1);
	close(fd);
}

static void test_drain_fails(void **state)
{
	struct seen seen = { .values = 1 };

	(void)state;
	need_bpf();
	assert_int_equal(double_buffer_drain_hash(-1, sizeof(struct key), 8, see, &seen), -EBADF);
	assert_int_equal(seen.calls, 0);
}

/* ---- a bucket that holds more than a batch ---- */

static uint32_t rol(uint32_t v, int by)
{
	return v << by | v >> (32 - by);
}

/* The kernel's jhash2() of one word, with the seed 0 that BPF_F_ZERO_SEED asks for. */
static uint32_t hash_of(uint32_t key)
{
	uint32_t a = 0xdeadbeef + 4, b = a, c = a;

	a += key;
	c = (c ^ b) - rol(b, 14);
	a = (a ^ c) - rol(c, 11);
	b = (b ^ a) - rol(a, 25);
	c = (c ^ b) - rol(b, 16);
	a = (a ^ c) - rol(c, 4);
	b = (b ^ a) - rol(a, 14);
	c = (c ^ b) - rol(b, 24);
	return c;
}

struct sums {
	uint64_t n, keys, values;
};

static int sum_up(void *ctx, const void *key, const void *value)
{
	struct sums *sums = ctx;

	sums->n++;
	sums->keys += *(const uint32_t *)key;
	sums->values += *(const uint64_t *)value;
	return 0;
}

#define CROWD 600

/* Puts @count keys of bucket @bucket (of 1024), or of all where that is -1. */
static void crowd(int fd, int bucket, unsigned int count, struct sums *put)
{
	for (uint32_t key = 0; count; key++) {
		uint64_t value = value_of(key);

		if (bucket >= 0 && (hash_of(key) & 1023) != (uint32_t)bucket)
			continue;
		if (bucket < 0 && (hash_of(key) & 1023) == 700)
			continue;
		assert_int_equal(bpf_map_update_elem(fd, &key, &value, BPF_NOEXIST), 0);
		sum_up(put, &key, &value);
		count--;
	}
}

static bool one_bucket_has(int fd, uint32_t count)
{
	uint32_t n = count - 1, next = 0;
	uint32_t *keys = calloc(count, sizeof(*keys));
	uint64_t *values = calloc(count, sizeof(*values));
	bool full;

	assert_non_null(keys);
	assert_non_null(values);
	full = bpf_map_lookup_batch(fd, NULL, &next, keys, values, &n, NULL) && errno == ENOSPC;
	free(keys);
	free(values);
	return full;
}

static void test_drain_crowded_bucket(void **state)
{
	struct sums put = { 0 }, got = { 0 };
	int fd;

	(void)state;
	need_bpf();
	fd = make_map(4, 8, 1024, BPF_F_ZERO_SEED);
	crowd(fd, 700, CROWD, &put);
	if (!one_bucket_has(fd, CROWD)) {
		close(fd);
		print_message("this kernel hashes otherwise\n");
		skip();
	}
	crowd(fd, -1, 1024 - CROWD, &put); /* and others before and behind */
	assert_int_equal(put.n, 1024);
	assert_int_equal(double_buffer_drain_hash(fd, 4, 8, sum_up, &got), 0);
	assert_int_equal(got.n, put.n);
	assert_int_equal(got.keys, put.keys);
	assert_int_equal(got.values, put.values);
	is_empty(fd);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),	       cmocka_unit_test(test_two),
		cmocka_unit_test(test_drain),	       cmocka_unit_test(test_drain_small),
		cmocka_unit_test(test_drain_odd_size), cmocka_unit_test(test_drain_stops),
		cmocka_unit_test(test_drain_fails),    cmocka_unit_test(test_drain_crowded_bucket),
	};

	libbpf_set_print(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
