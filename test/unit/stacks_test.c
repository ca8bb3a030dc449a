/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The forms of stacks: text, folded lines, flame graph, JSON, CSV. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "output/render.h"
#include "output/stacks.h"
#include "test/unit/formats.h"
#include "core/base/array.h"

/* A stack as a list of names, leaf first, that ends with NULL. */
static const char *next_name(const void *owner, uint32_t *at)
{
	const char *name = ((const char *const *)owner)[*at];

	if (name)
		++*at;
	return name;
}

static struct frames list(const char *const *names)
{
	return (struct frames){ next_name, names, 0 };
}

static const char *const kernel[] = { "submit_bio", "vfs_write", "entry", NULL };
static const char *const user[] = { "put<a; b>", "main\n", NULL };
static const char *const odd[] = { "<&\"'>", "\xef\xbf\xbe", "x\x01y", NULL };

static void rows_of(struct stack_row rows[3])
{
	rows[0] = (struct stack_row){ .disk = "sda", .comm = "cat", .read_bytes = 4096 };
	rows[1] = (struct stack_row){
		.disk = "sda", .comm = "a;b", .pid = 12, .user = list(odd), .read_bytes = 1000
	};
	rows[2] = (struct stack_row){ .disk = "dm-0",
				      .comm = "dd",
				      .pid = 7,
				      .kernel = list(kernel),
				      .user = list(user),
				      .read_bytes = 1,
				      .write_bytes = 8192 };
}

/* What @print writes of the three rows; to be freed. */
static char *printed(int (*print)(FILE *, const struct stack_row *, size_t))
{
	struct stack_row rows[3];
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	rows_of(rows);
	assert_int_equal(print(stream, rows, 3), 0);
	fclose(stream);
	return text;
}

static int in_bytes(FILE *stream, const struct stack_row *rows, size_t n)
{
	return stacks_text(stream, STACK_BYTES, rows, n);
}

static void test_text(void **state)
{
	char *text = printed(in_bytes);

	(void)state;
	assert_string_equal(text, "\ndisk sda\n"
				  "        cat\n"
				  "        R: 4096, W: 0\n"
				  "\ndisk sda\n"
				  "    <&\"'>\n"
				  "    \xef\xbf\xbe\n"
				  "    x\\x01y\n"
				  "        a;b [12]\n"
				  "        R: 1000, W: 0\n"
				  "\ndisk dm-0\n"
				  "    submit_bio\n"
				  "    vfs_write\n"
				  "    entry\n"
				  "    --\n"
				  "    put<a; b>\n"
				  "    main\\x0a\n"
				  "        dd [7]\n"
				  "        R: 1, W: 8192\n");
	free(text);
}

static int by_process(FILE *stream, const struct stack_row *rows, size_t n)
{
	return stacks_folded(stream, STACK_ORDER_PROCESS, STACK_BYTES, rows, n);
}

static int by_disk(FILE *stream, const struct stack_row *rows, size_t n)
{
	return stacks_folded(stream, STACK_ORDER_DISK, STACK_BYTES, rows, n);
}

static void test_folded(void **state)
{
	char *text = printed(by_process);

	(void)state;
	assert_string_equal(text, "cat;sda 4096\n"
				  "a\\x3bb [12];x\\x01y;\xef\xbf\xbe;<&\"'>;sda 1000\n"
				  "dd [7];main\\x0a;put<a\\x3b b>;-;entry_[k];vfs_write_[k];"
				  "submit_bio_[k];dm-0 8193\n");
	free(text);
	text = printed(by_disk);
	assert_string_equal(
	    text, "sda;cat 4096\n"
		  "sda;a\\x3bb [12];x\\x01y;\xef\xbf\xbe;<&\"'> 1000\n"
		  "dm-0;dd [7];main\\x0a;put<a\\x3b b>;entry_[k];vfs_write_[k];submit_bio_[k] "
		  "8193\n");
	free(text);
}

/* A number at the end of a line is its count: one before it is no number any more. */
static void test_folded_number(void **state)
{
	static const char *const frames[] = { "clone 2", "run 3.5", NULL };
	const struct stack_row rows[] = {
		{ .disk = "sda", .comm = "worker 1", .read_bytes = 7 },
		{ .disk = "sda", .comm = "worker 1", .pid = 5, .read_bytes = 8 },
		{ .disk = "sda", .comm = "worker 1", .user = list(frames), .read_bytes = 9 },
		{ .disk = "sda", .comm = "worker 1", .kernel = list(frames), .read_bytes = 10 },
		{ .disk = "sda", .comm = "worker 1a", .read_bytes = 11 },
	};
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(by_disk(stream, rows, 5), 0);
	fclose(stream);
	assert_string_equal(text, "sda;worker\\x201 7\n"
				  "sda;worker 1 [5] 8\n"
				  "sda;worker 1;run 3.5;clone\\x202 9\n"
				  "sda;worker 1;run 3.5_[k];clone 2_[k] 10\n"
				  "sda;worker 1a 11\n");
	free(text);
}

static int svg(FILE *stream, const struct stack_row *rows, size_t n)
{
	return stacks_svg(stream, "a <title>", "a <caption>", STACK_BYTES, rows, n);
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in\n%s", part, text);
}

static void test_svg(void **state)
{
	char *text = printed(svg);

	(void)state;
	assert_has(text, "<title>all (13,289 bytes, 100.00 %, R: 5,097 bytes, W: 8,192 bytes)"
			 "</title>");
	assert_has(text, "<title>sda (5,096 bytes, 38.35 %)</title>");
	assert_has(text, "<title>cat (4,096 bytes, ");
	assert_has(text, "<title>a;b [12] (1,000 bytes, ");
	assert_has(text, "<title>&lt;&amp;&quot;&#39;&gt; (1,000 bytes, ");
	assert_has(text, "<title>? (1,000 bytes, ");
	assert_has(text, "<title>submit_bio (8,193 bytes, ");
	assert_has(text, ">a &lt;title&gt;</text>");
	/* nothing from elsewhere: the name space is a name, no address */
	assert_null(strstr(text, "href"));
	assert_null(strstr(text, "src="));
	assert_null(strstr(text, "url("));
	assert_null(strstr(text, "@import"));
	free(text);
}

/* A frame that only reads has one hue, one that only writes the other, and one with both has both,
 * each as wide as its part. */
static void test_svg_hues(void **state)
{
	const struct stack_row rows[] = {
		{ .disk = "sda", .comm = "cat", .read_wait_ns = 1500000 },
		{ .disk = "sda", .comm = "dd", .write_wait_ns = 500000 },
	};
	char *text = NULL, *all, *cat, *dd;
	double x, width;
	unsigned int hue;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(stacks_svg(stream, "waits", "a <caption>", STACK_WAIT, rows, 2), 0);
	fclose(stream);
	all = strstr(text, "<title>all (2.00 ms, 100.00 %, R: 1.50 ms, W: 500.00 us)</title>");
	cat = strstr(text, "<title>cat (1.50 ms, 75.00 %)</title>");
	dd = strstr(text, "<title>dd (500.00 us, 25.00 %)</title>");
	assert_true(all && cat && dd);
	assert_int_equal(sscanf(strstr(cat, "fill="), "fill=\"hsl(%u", &hue), 1);
	assert_in_range(hue, 205, 224);
	assert_int_equal(sscanf(strstr(dd, "fill="), "fill=\"hsl(%u", &hue), 1);
	assert_in_range(hue, 20, 39);
	assert_int_equal(sscanf(strstr(all, "class=\"w\""),
				"class=\"w\" x=\"%lf\" y=\"%*f\" width=\"%lf\"", &x, &width),
			 2);
	assert_float_equal(x, 10 + 1180 * 0.75, 0.01);
	assert_float_equal(width, 1180 * 0.25, 0.01);
	assert_null(strstr(cat, "class=\"w\""));
	assert_has(text, ">reads, page faults</text>");
	assert_has(text, ">writes, syncs</text>");
	free(text);
}

static void test_amounts(void **state)
{
	static const struct {
		uint64_t n;
		enum stack_unit unit;
		const char *text;
	} want[] = {
		{ 0, STACK_BYTES, "0 bytes" },
		{ 999, STACK_IOS, "999 I/Os" },
		{ 1000, STACK_IOS, "1,000 I/Os" },
		{ 123456, STACK_BYTES, "123,456 bytes" },
		{ UINT64_MAX, STACK_BYTES, "18,446,744,073,709,551,615 bytes" },
		{ 999, STACK_TIME, "999 ns" },
		{ 1000, STACK_WAIT, "1.00 us" },
		{ 12345678, STACK_TIME, "12.35 ms" },
		{ 999999999, STACK_TIME, "1.00 s" },
		{ 3600000000000, STACK_WAIT, "3600.00 s" },
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_string_equal(stacks_amount(want[i].n, want[i].unit, text, sizeof(text)),
				    want[i].text);
}

/* 100,000 stacks that differ at the leaf: what they share is drawn, they are too narrow. */
static const char *next_many(const void *owner, uint32_t *at)
{
	static const char *const shared[] = { "b", "a", NULL };
	uint32_t level = *at >> 24;

	*at += 1 << 24;
	return level ? shared[level - 1] : owner;
}

static void test_svg_of_many(void **state)
{
	enum { N = 100000 };
	struct stack_row *rows = calloc(N + 1, sizeof(*rows));
	char *names = calloc(N, 16), *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	(void)state;
	for (size_t i = 0; i < N; i++) {
		snprintf(names + i * 16, 16, "leaf%zu", i);
		rows[i] = (struct stack_row){ .disk = "sda",
					      .comm = "many",
					      .kernel = { next_many, names + i * 16, 0 },
					      .read_bytes = 4096 };
	}
	rows[N] = (struct stack_row){ .disk = "sda", .comm = "one", .read_bytes = N * 4096ULL };
	assert_int_equal(stacks_svg(stream, "many", "a <caption>", STACK_BYTES, rows, N + 1), 0);
	fclose(stream);
	assert_has(text, "<title>b (409,600,000 bytes, 50.00 %)</title>");
	assert_has(text, "<title>one (409,600,000 bytes, 50.00 %)</title>");
	assert_has(text, "<title>[rest] 100000 frames (409,600,000 bytes, 50.00 %)</title>");
	assert_null(strstr(text, "leaf1"));
	assert_true(size < 20000);
	free(text);
	free(names);
	free(rows);
}

/* The frames drawn on one level of the flame graph; level 0 has "all". */
struct level {
	uint64_t bytes;
	size_t frames;
	double left, right, width;
};

/* "1,234" */
static unsigned long long number_at(const char *text)
{
	unsigned long long n = 0;

	for (; (*text >= '0' && *text <= '9') || *text == ','; text++)
		n = *text == ',' ? n : n * 10 + (unsigned long long)(*text - '0');
	return n;
}

static struct level level_of(const char *text, unsigned int number)
{
	struct level level = { .left = 1e9 };
	double bottom = 0;

	for (const char *g = text; (g = strstr(g, "<g class=\"f\"><title>")); g++) {
		double x, y, width;
		unsigned long long bytes = number_at(strstr(g, " (") + 2);

		assert_int_equal(sscanf(strstr(g, "<rect"),
					"<rect x=\"%lf\" y=\"%lf\" width=\"%lf\"", &x, &y, &width),
				 3);
		if (!bottom)
			bottom = y;
		if (y != bottom - 17.0 * number)
			continue;
		level.bytes += bytes;
		level.frames++;
		level.width += width;
		level.left = x < level.left ? x : level.left;
		level.right = x + width > level.right ? x + width : level.right;
	}
	return level;
}

/* Rows that are each too narrow are not nothing: together they take their place. */
static void test_svg_of_equal_rows(void **state)
{
	enum { N = 20000, LARGE = 10 };
	struct stack_row *rows = calloc(N + LARGE, sizeof(*rows));

	(void)state;
	for (uint32_t i = 0; i < N + LARGE; i++)
		rows[i] = (struct stack_row){ .disk = "sda",
					      .comm = "many",
					      .pid = i + 1,
					      .kernel = list(kernel),
					      .write_bytes = i < N ? 4096 : N / LARGE * 4096 };
	for (size_t large = 0; large <= LARGE; large += LARGE) {
		uint64_t bytes = (large ? 2 : 1) * N * 4096ULL;
		char *text = NULL;
		size_t size;
		FILE *stream = open_memstream(&text, &size);

		assert_int_equal(
		    stacks_svg(stream, "equal", "a <caption>", STACK_BYTES, rows, N + large), 0);
		fclose(stream);
		for (unsigned int i = 0; i < 3; i++) {
			struct level level = level_of(text, i);

			assert_true(level.bytes == bytes);
			assert_int_equal(level.frames, i < 2 ? 1 : large + 1);
			assert_float_equal(level.left, 10, 0.01);
			assert_float_equal(level.right, 1190, 0.01);
			assert_float_equal(level.width, 1180, 0.01);
		}
		assert_int_equal(level_of(text, 3).frames, large);
		assert_has(text,
			   large
			       ? "<title>[rest] 20000 frames (81,920,000 bytes, 50.00 %)</title>"
			       : "<title>[rest] 20000 frames (81,920,000 bytes, 100.00 %)</title>");
		free(text);
	}
	free(rows);
}

static const struct column columns[] = {
	{ .key = "disk",
	  .type = COLUMN_STR,
	  .unit = "",
	  .meaning = "disk",
	  .offset = offsetof(struct stack_row, disk) },
	{ .key = "user",
	  .type = COLUMN_FRAMES,
	  .role = ROLE_STACK,
	  .unit = "",
	  .meaning = "frames",
	  .offset = offsetof(struct stack_row, user) },
};
static const struct schema schema = { columns, 2, sizeof(struct stack_row) };

static char *rendered(enum format format)
{
	struct interval interval = { 0, 0, NULL, 0 };
	struct stack_row rows[3];
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	rows_of(rows);
	assert_int_equal(render_interval(format, stream, &interval, &schema, rows, 3), 0);
	fclose(stream);
	return text;
}

static void test_json(void **state)
{
	char *text = rendered(FORMAT_JSON);

	(void)state;
	assert_has(text, "{\"disk\":\"sda\",\"user\":[]}");
	assert_has(text, "\"user\":[\"<&\\\"'>\",\"\xef\xbf\xbe\",\"x\\u0001y\"]");
	assert_has(text, "{\"disk\":\"dm-0\",\"user\":[\"put<a; b>\",\"main\\u000a\"]}");
	free(text);
}

#define TIMES "0.000000000,0.000000000,"

static void test_csv(void **state)
{
	char *text = rendered(FORMAT_CSV);

	(void)state;
	assert_string_equal(text,
			    TIMES "sda,\"\"\n" TIMES "sda,\"<&\"\"'>;\xef\xbf\xbe;x\x01y\"\n" TIMES
				  "dm-0,\"put<a\\x3b b>;main\n\"\n");
	free(text);
}

static void test_reader_gone(void **state)
{
	struct stack_row rows[3];
	FILE *full = fopen("/dev/full", "w");

	(void)state;
	if (!full)
		skip();
	rows_of(rows);
	assert_int_not_equal(by_process(full, rows, 3), 0);
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),	      cmocka_unit_test(test_folded),
		cmocka_unit_test(test_folded_number), cmocka_unit_test(test_svg),
		cmocka_unit_test(test_svg_hues),      cmocka_unit_test(test_amounts),
		cmocka_unit_test(test_svg_of_many),   cmocka_unit_test(test_svg_of_equal_rows),
		cmocka_unit_test(test_json),	      cmocka_unit_test(test_csv),
		cmocka_unit_test(test_reader_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
