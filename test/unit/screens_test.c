/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The intervals that a replay on the full screen keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cmd/engine/screens.h"

/* An interval is its number, and weighs 10. */
static size_t freed;

static void free_item(void *item)
{
	(void)item;
	freed++;
}

static uint64_t ten(const void *item)
{
	(void)item;
	return 10;
}

static struct steps begin(uint64_t most)
{
	freed = 0;
	return (struct steps){ sizeof(int), free_item, ten, most };
}

static void add(struct steps *s, int from, int to)
{
	for (int i = from; i <= to; i++)
		assert_int_equal(steps_add(s, &i), 0);
}

static void assert_at(const struct steps *s, int item, const char *text)
{
	char buf[64];

	assert_int_equal(*(int *)steps_item(s, s->at), item);
	assert_string_equal(steps_text(s, buf, sizeof(buf)), text);
}

static void press(struct steps *s, const char *keys)
{
	for (; *keys; keys++)
		steps_key(s, *keys);
}

static void test_keys(void **state)
{
	struct steps s = begin(1000);

	(void)state;
	add(&s, 1, 3);
	assert_at(&s, 3, "interval 3 of 3 so far");
	press(&s, "kkkk");
	assert_at(&s, 1, "interval 1 of 3 so far");
	press(&s, "jj");
	assert_false(s.wanted);
	press(&s, "j");
	assert_true(s.wanted);
	assert_at(&s, 3, "interval 3 of 3 so far");
	s.wanted = false;
	s.end = "";
	press(&s, "j");
	assert_false(s.wanted);
	assert_at(&s, 3, "interval 3 of 3");
	s.end = ", broken";
	assert_at(&s, 3, "interval 3 of 3, broken");
	steps_free(&s);
	assert_int_equal(freed, 3);
}

/* Numbers stay; the oldest one left is there for the next one to have grown from. */
static void assert_dropped(struct steps *s, size_t n, size_t dropped)
{
	char text[64];

	assert_int_equal(s->n, n);
	assert_int_equal(freed, dropped);
	for (size_t i = 0; i < n + 2; i++)
		press(s, "k");
	snprintf(text, sizeof(text), "interval %zu of %zu so far", dropped + 2, dropped + n);
	assert_at(s, (int)dropped + 2, text);
	steps_free(s);
}

static void test_weight(void **state)
{
	struct steps s = begin(50);

	(void)state;
	add(&s, 1, 6);
	assert_int_equal(freed, 0);
	add(&s, 7, 20);
	assert_dropped(&s, 6, 14);
}

static void test_number(void **state)
{
	struct steps s = begin(UINT64_MAX);

	(void)state;
	add(&s, 1, 3600);
	assert_int_equal(freed, 0);
	add(&s, 3601, 3700);
	assert_dropped(&s, 3600, 100);
}

static void test_seconds(void **state)
{
	char text[32];

	(void)state;
	assert_string_equal(screens_seconds(3000000000, text, sizeof(text)), "3.0");
	assert_string_equal(screens_seconds(250000000, text, sizeof(text)), "0.25");
	assert_string_equal(screens_seconds(1005000000, text, sizeof(text)), "1.005");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_weight),
		cmocka_unit_test(test_number),
		cmocka_unit_test(test_seconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
