// SPDX-License-Identifier: GPL-2.0-or-later
/* Latency over time: what is drawn, and that no count is lost on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "output/heatmap_internal.h"

#define SECOND	1000000000ull
#define MS	1000000ull
#define SVG_MAX 300000u

static struct hist times;

static const struct hist *of(uint64_t ns, uint64_t count)
{
	memset(&times, 0, sizeof(times));
	times.fine[hist_fine_slot(ns)] = count;
	times.max = ns;
	return &times;
}

static struct heatmap *make(size_t most)
{
	struct heatmap *h = heatmap_new(most);

	assert_non_null(h);
	return h;
}

/* 1, 10, 100 ms for five intervals each, one a second. */
static struct heatmap *steps(void)
{
	struct heatmap *h = make(5);

	for (uint64_t i = 0, ns = MS; i < 15; i++) {
		heatmap_interval(h, i * SECOND, (i + 1) * SECOND, 0);
		assert_int_equal(heatmap_add(h, "", of(ns, 90)), 0);
		assert_int_equal(heatmap_add(h, "", of(ns * 2, 10)), 0);
		if (i % 5 == 4)
			ns *= 10;
	}
	return h;
}

static char *text_of(const struct heatmap *h, size_t lines, size_t columns, bool colours)
{
	const struct heatmap_space space = { lines, columns, colours };
	size_t size = 0;
	char *text = NULL;
	FILE *stream = open_memstream(&text, &size);

	assert_int_equal(heatmap_print(h, "a title", &space, stream), 0);
	fclose(stream);
	return text;
}

static char *svg_of(const struct heatmap *h, const char *keep)
{
	size_t size = 0;
	char *text = NULL, path[4096];
	FILE *stream = open_memstream(&text, &size);

	assert_int_equal(heatmap_svg(h, "a <title>", "a <caption>", stream), 0);
	fclose(stream);
	/* to be looked at */
	if (getenv("HEATMAP_KEEP")) {
		snprintf(path, sizeof(path), "%s/%s.svg", getenv("HEATMAP_KEEP"), keep);
		stream = fopen(path, "we");
		assert_non_null(stream);
		fputs(text, stream);
		fclose(stream);
	}
	return text;
}

static void test_steps(void **state)
{
	struct heatmap *h = steps();
	char *text = text_of(h, 18, 40, false);

	(void)state;
	assert_string_equal(text, "a title\n"
				  "  134ms                     ==========\n"
				  " 67.1ms                     ----------\n"
				  " 33.6ms                               \n"
				  " 16.8ms           ==========          \n"
				  " 8.39ms           ----------          \n"
				  " 4.19ms                               \n"
				  " 2.10ms                               \n"
				  " 1.05ms ==========                    \n"
				  "  524us ----------                    \n"
				  "        00:00:00              00:00:15\n"
				  "        .1 :2 *4 o7 O14 #26 %48 @88  -p50 =p99\n");
	free(text);
	heatmap_free(h);
}

static void test_levels(void **state)
{
	struct heatmap *h = make(5);
	char *text;

	(void)state;
	heatmap_interval(h, 0, SECOND, 0);
	assert_int_equal(heatmap_add(h, "", of(100, 1)), 0);
	assert_int_equal(heatmap_add(h, "", of(300, 10)), 0);
	assert_int_equal(heatmap_add(h, "", of(700, 1000)), 0);
	text = text_of(h, 24, 80, true);
	/* a cell with one I/O has the lowest level, the fullest cell the highest */
	assert_non_null(strstr(text, "   96ns \033[48;5;17;38;5;231m        \033[0m"));
	assert_non_null(strstr(text, "\033[48;5;230;38;5;16m========\033[0m"));
	free(text);
	heatmap_free(h);
}

/* Maps are side by side; further names are (other); unsafe characters of names are escaped. */
static void test_names(void **state)
{
	struct heatmap *h = make(2);
	char *text, *svg;

	(void)state;
	heatmap_interval(h, 0, SECOND, 0);
	assert_int_equal(heatmap_add(h, "a\033[31m<b>&", of(MS, 1)), 0);
	assert_int_equal(heatmap_add(h, "sdb", of(MS, 2)), 0);
	assert_int_equal(heatmap_add(h, "sdc", of(MS, 3)), 0);
	assert_int_equal(heatmap_add(h, "sdd", of(MS, 4)), 0);
	text = text_of(h, 24, 80, false);
	assert_string_equal(
	    text, "a title\n"
		  "        a\\x1b[31m<b>&        sdb                  (other)             \n"
		  "  983us ========             ========             ========            \n"
		  "        00:00:00    00:00:01 00:00:00    00:00:01 00:00:00    00:00:01\n"
		  "        .1 *2 o3 #4 %6 @7  -p50 =p99\n");
	svg = svg_of(h, "names");
	assert_null(strchr(svg, '\033'));
	assert_null(strstr(svg, "<b>"));
	assert_null(strstr(svg, "<title>\n"));
	assert_non_null(strstr(svg, "a\\x1b[31m&lt;b&gt;&amp;"));
	assert_non_null(strstr(svg, "a &lt;title&gt;"));
	free(text);
	free(svg);
	heatmap_free(h);
}

static size_t lines_of(const struct heatmap *h, size_t lines, size_t columns)
{
	char *text = text_of(h, lines, columns, false);
	size_t n = 0;

	for (const char *at = text; *at; at++)
		n += *at == '\n';
	free(text);
	return n;
}

/* More maps than stand side by side: all are on the terminal at once, and the cursor. */
static void test_rows_of_maps(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d", "e" };
	struct heatmap *h = make(5);

	(void)state;
	heatmap_interval(h, 0, SECOND, 0);
	for (size_t i = 0; i < 5; i++)
		for (uint64_t ns = 1000; ns < 100 * MS; ns += ns / 8)
			assert_int_equal(heatmap_add(h, names[i], of(ns, 1)), 0);
	assert_in_range(lines_of(h, 24, 80), 16, 23);
	assert_in_range(lines_of(h, 24, 120), 16, 23);
	assert_in_range(lines_of(h, 50, 80), 30, 49);
	heatmap_free(h);
}

static uint64_t sum_of_counts(const char *svg)
{
	uint64_t sum = 0;

	for (const char *at = svg; (at = strstr(at, "data-c=\""));) {
		at += strlen("data-c=\"");
		while (*at != '"') {
			char *end;

			sum += strtoull(at, &end, 10);
			at = *end == ',' ? end + 1 : end;
		}
	}
	return sum;
}

/* Columns are merged, and counts kept; the picture stays small. */
static void test_many(void **state)
{
	struct heatmap *h = make(5);
	uint64_t sum = 0;
	char *svg;

	(void)state;
	srand(1);
	for (uint64_t i = 0; i < 10000; i++) {
		heatmap_interval(h, i * SECOND, (i + 1) * SECOND, 0);
		for (int k = 0; k < 50; k++) {
			uint64_t count = (uint64_t)rand() % 100000 + 1;

			assert_int_equal(
			    heatmap_add(h, "", of(10000ull << rand() % 14 | rand() % 9999, count)),
			    0);
			sum += count;
		}
	}
	assert_true(h->n <= HEATMAP_COLUMNS && h->n > HEATMAP_COLUMNS / 2 - 1);
	assert_int_equal(h->ends[h->n - 1], 10000 * SECOND);
	for (size_t i = 1; i < h->n; i++)
		assert_int_equal(h->starts[i], h->ends[i - 1]);
	svg = svg_of(h, "many");
	assert_int_equal(sum_of_counts(svg), sum);
	assert_true(strlen(svg) < SVG_MAX);
	free(svg);
	heatmap_free(h);
}

/* The largest possible picture: every cell has a count of its own. */
static void test_size(void **state)
{
	struct heatmap *h = make(5);
	char *svg;

	(void)state;
	for (uint64_t i = 0; i < 240; i++) {
		heatmap_interval(h, i * SECOND, (i + 1) * SECOND, 0);
		for (unsigned int slot = 100; slot < 200; slot++) {
			uint64_t lo, hi;

			hist_fine_bounds(slot, &lo, &hi);
			assert_int_equal(
			    heatmap_add(h, "", of(lo, 1ull << rand() % 20 | (uint64_t)rand() % 9)),
			    0);
		}
	}
	svg = svg_of(h, "full");
	assert_true(strlen(svg) < SVG_MAX);
	free(svg);
	heatmap_free(h);
}

static void test_svg(void **state)
{
	struct heatmap *h = steps();
	char *svg = svg_of(h, "steps");

	(void)state;
	assert_int_equal(sum_of_counts(svg), 1500);
	assert_non_null(strstr(svg, "<title>00:00:04 to 00:00:05, 100 in all, p50 1.02ms, "
				    "p99 1.98ms</title>"));
	assert_null(strstr(svg, "href"));
	assert_null(strstr(strstr(svg, "xmlns=") + 40, "http"));
	free(svg);
	heatmap_free(h);
}

static void test_nothing(void **state)
{
	struct heatmap *h = make(5);
	char *text = text_of(h, 24, 80, false), *svg;

	(void)state;
	assert_string_equal(text, "");
	heatmap_interval(h, 0, SECOND, 0);
	svg = svg_of(h, "nothing");
	assert_non_null(strstr(svg, "no I/O seen"));
	free(text);
	free(svg);
	heatmap_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),	     cmocka_unit_test(test_levels),
		cmocka_unit_test(test_rows_of_maps), cmocka_unit_test(test_names),
		cmocka_unit_test(test_many),	     cmocka_unit_test(test_size),
		cmocka_unit_test(test_svg),	     cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
