// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The heat map's colours, as people see them who lack one kind of cone: each level is lighter, or
 * darker, than the one before, and neighbours are far enough from each other.  Both are taken from
 * what is drawn, in CIE 1976 L*a*b* (D65).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "output/heatmap_internal.h"
#include "core/base/array.h"

/* Just seen is 2.3 (Mahy, Van Eycken, Oosterlinck 1994); cells are small and lie apart. */
#define LEAST_DISTANCE 10.0
#define LEAST_STEP     6.0 /* of L*, for who sees no colour at all */

struct colour {
	double v[3];
};

/* Matrices for linear RGB: Machado, Oliveira, Fernandes 2009, severity 1.0. */
static const struct vision {
	const char *name;
	double m[3][3];
} visions[] = {
	{ "all cones", { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } } },
	{ "protanopia",
	  { { 0.152286, 1.052583, -0.204868 },
	    { 0.114503, 0.786281, 0.099216 },
	    { -0.003882, -0.048116, 1.051998 } } },
	{ "deuteranopia",
	  { { 0.367322, 0.860646, -0.227968 },
	    { 0.280085, 0.672501, 0.047413 },
	    { -0.011820, 0.042940, 0.968881 } } },
	{ "tritanopia",
	  { { 1.255528, -0.076749, -0.178779 },
	    { -0.078411, 0.930809, 0.147602 },
	    { 0.004733, 0.691367, 0.303900 } } },
};
#define N_VISIONS ARRAY_SIZE(visions)

static struct colour times(const double m[3][3], struct colour c)
{
	struct colour out;

	for (int i = 0; i < 3; i++)
		out.v[i] = m[i][0] * c.v[0] + m[i][1] * c.v[1] + m[i][2] * c.v[2];
	return out;
}

/* 0xrrggbb as linear light (IEC 61966-2-1). */
static struct colour linear(unsigned int rgb)
{
	struct colour c;

	for (int i = 0; i < 3; i++) {
		double v = (rgb >> (16 - 8 * i) & 255) / 255.0;

		c.v[i] = v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
	}
	return c;
}

static double root(double t)
{
	return t > 216.0 / 24389 ? cbrt(t) : (24389.0 / 27 * t + 16) / 116;
}

static struct colour lab(unsigned int rgb, const struct vision *vision)
{
	static const double to_xyz[3][3] = { { 0.4124564, 0.3575761, 0.1804375 },
					     { 0.2126729, 0.7151522, 0.0721750 },
					     { 0.0193339, 0.1191920, 0.9503041 } };
	struct colour c = times(vision->m, linear(rgb));
	double x, y, z;

	for (int i = 0; i < 3; i++)
		c.v[i] = fmin(fmax(c.v[i], 0), 1);
	c = times(to_xyz, c);
	x = root(c.v[0] / 0.95047);
	y = root(c.v[1]);
	z = root(c.v[2] / 1.08883);
	return (struct colour){ { 116 * y - 16, 500 * (x - y), 200 * (y - z) } };
}

static double distance(struct colour a, struct colour b)
{
	return hypot(hypot(a.v[0] - b.v[0], a.v[1] - b.v[1]), a.v[2] - b.v[2]);
}

/* Whether all @n can be told apart in their order, the first from the second, and so on. */
static bool told_apart(const unsigned int *colours, size_t n, const struct vision *vision)
{
	double before = 0;

	for (size_t i = 1; i < n; i++) {
		struct colour a = lab(colours[i - 1], vision), b = lab(colours[i], vision);
		double step = b.v[0] - a.v[0];

		if (getenv("PALETTE_SHOW"))
			printf("%s %06x %06x: %.1f apart, lighter by %.1f\n", vision->name,
			       colours[i - 1], colours[i], distance(a, b), step);
		if (fabs(step) < LEAST_STEP || step * before < 0 || distance(a, b) < LEAST_DISTANCE)
			return false;
		before = step;
	}
	return true;
}

static void assert_told_apart(const unsigned int *colours, size_t n)
{
	for (size_t i = 0; i < N_VISIONS; i++)
		if (!told_apart(colours, n, &visions[i]))
			fail_msg("%s", visions[i].name);
}

/* One cell of each level, from the lowest. */
static struct heatmap *all_levels(void)
{
	struct heatmap *h = heatmap_new(1);
	struct hist times_of = { .count = 0 };

	assert_non_null(h);
	heatmap_interval(h, 0, 1000000000, 0);
	for (unsigned int i = 0; i <= 2 * HEATMAP_LEVELS; i++)
		times_of.fine[160 + i] = 1ull << i;
	assert_int_equal(heatmap_add(h, "", &times_of), 0);
	return h;
}

/* Reads the number, in @base, after each @mark in @text; there must be exactly @n. */
static void find_colours(const char *text, const char *mark, int base, unsigned int *found,
			 size_t n)
{
	size_t i = 0;

	for (const char *at = text; (at = strstr(at, mark)); i++) {
		at += strlen(mark);
		assert_true(i < n);
		found[i] = (unsigned int)strtoul(at, NULL, base);
	}
	assert_int_equal(i, n);
}

static void test_svg(void **state)
{
	struct heatmap *h = all_levels();
	unsigned int drawn[HEATMAP_LEVELS + 1] = { 0 }, legend[HEATMAP_LEVELS] = { 0 };
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(heatmap_svg(h, "it", "a <caption>", stream), 0);
	fclose(stream);
	find_colours(text, "\" stroke=\"#", 16, drawn + 1, HEATMAP_LEVELS);
	find_colours(text, "height=\"12\" fill=\"#", 16, legend, HEATMAP_LEVELS);
	assert_memory_equal(drawn + 1, legend, sizeof(legend));
	drawn[0] = 0xffffff; /* an empty cell */
	assert_non_null(strstr(text, ".frame { fill: #fff;"));
	assert_told_apart(drawn, HEATMAP_LEVELS + 1);
	free(text);
	heatmap_free(h);
}

/* Colours 16 to 231 are a cube of six steps; terminals agree on them, unlike on the first 16. */
static unsigned int of_cube(unsigned int code)
{
	static const unsigned int steps[] = { 0, 0x5f, 0x87, 0xaf, 0xd7, 0xff };

	assert_in_range(code, 16, 231);
	code -= 16;
	return steps[code / 36 % 6] << 16 | steps[code / 6 % 6] << 8 | steps[code % 6];
}

static void test_terminal(void **state)
{
	const struct heatmap_space space = { 60, 80, true };
	struct heatmap *h = all_levels();
	unsigned int legend[HEATMAP_LEVELS] = { 0 };
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(heatmap_print(h, "it", &space, stream), 0);
	fclose(stream);
	find_colours(strstr(text, "00:00:01\n"), "\033[48;5;", 10, legend, HEATMAP_LEVELS);
	for (size_t i = 0; i < HEATMAP_LEVELS; i++)
		legend[i] = of_cube(legend[i]);
	assert_told_apart(legend, HEATMAP_LEVELS);
	free(text);
	heatmap_free(h);
}

/* Colours that only some see are found. */
static void test_wrong(void **state)
{
	static const unsigned int rainbow[] = { 0x0000ff, 0x00ffff, 0x00ff00, 0xffff00, 0xff0000 };
	static const unsigned int red_green[] = { 0xbb5b5b, 0x30a030 },
				  near[] = { 0x777777, 0x787878 };

	(void)state;
	for (size_t i = 0; i < N_VISIONS; i++) {
		assert_false(told_apart(rainbow, 5, &visions[i]));
		assert_false(told_apart(near, 2, &visions[i]));
	}
	assert_true(told_apart(red_green, 2, &visions[0]));
	assert_false(told_apart(red_green, 2, &visions[2]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_svg),
		cmocka_unit_test(test_terminal),
		cmocka_unit_test(test_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
