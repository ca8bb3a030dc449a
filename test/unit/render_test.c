/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "output/hist.h"
#include "core/base/frames.h"
#include "output/render.h"
#include "test/unit/formats.h"
#include "core/base/array.h"
#include "test/unit/hist_add.h"

struct row {
	uint32_t pid;
	const char *comm;
	const char *op;
	bool cached;
	uint64_t bytes;
	const struct hist *slots;
};

static void op_letter(const void *row, char *buf, size_t size)
{
	snprintf(buf, size, "%c", ((const struct row *)row)->op[0] - 'a' + 'A');
}

static void kbytes(const void *row, char *buf, size_t size)
{
	snprintf(buf, size, "%" PRIu64, ((const struct row *)row)->bytes / 1024);
}

static const struct column columns[] = {
	{ "pid", "PID", COLUMN_U32, ROLE_LABEL, "", "process", offsetof(struct row, pid), 6, true,
	  NULL },
	{ "comm", "COMM", COLUMN_STR, ROLE_LABEL, "", "its name, as \"comm\" has it",
	  offsetof(struct row, comm), 8, true, NULL },
	{ "op", "D", COLUMN_STR, ROLE_LABEL, "", "operation", offsetof(struct row, op), 1, true,
	  op_letter },
	{ "cached", "CACHED", COLUMN_BOOL, ROLE_GAUGE, "", "cached", offsetof(struct row, cached),
	  6, false, NULL },
	{ "bytes", NULL, COLUMN_U64, ROLE_COUNTER, "bytes", "bytes moved",
	  offsetof(struct row, bytes), 0, false, NULL },
	{ NULL, "Kbytes", COLUMN_U64, ROLE_COUNTER, "KiB", "the same", offsetof(struct row, bytes),
	  7, false, kbytes },
	{ "slots", "Slots", COLUMN_HIST, ROLE_HISTOGRAM, "ns", "latency",
	  offsetof(struct row, slots), 0, false, NULL },
};
static const struct schema schema = { columns, ARRAY_SIZE(columns), sizeof(struct row) };

static const struct meta_hook hooks[] = {
	{ "issue", "tp_btf", "block_rq_issue", NULL },
	{ "submit", "fentry", "submit_bio_noacct", "not in \"vmlinux\"" },
	{ "submit", "kprobe", "submit_bio", NULL },
	{ "complete", "raw_tp", "block_rq_complete", "no BTF" },
};
static const struct meta meta = { "0.1.0", "6.1.0-49-amd64", "top", .hooks = hooks, .n_hooks = 4 };

static const struct loss losses[] = {
	{ "no_start", "completions without a start (100% \"lost\")", 3 },
	{ "map_full", "requests not followed", 0 },
	{ "clock", "clocks that went backwards", 18446744073709551615ull },
};
static const struct interval interval = { 1700000000000000001ull, 1700000001500000000ull, losses,
					  3 };
static const struct interval no_loss = { 999999999, 1000000000, losses + 1, 1 };

static struct hist some_slots;
static struct row rows[2] = {
	{ 4242, "fio", "read", true, 1048576, &some_slots },
	{ 7, "a \"q\", \\x\n\xff\xc3\xb6", "write", false, 18446744073709551615ull, NULL },
};

static int setup(void **state)
{
	(void)state;
	hist_add(&some_slots, 0, 1);
	hist_add(&some_slots, 700, 1);
	hist_add(&some_slots, 513, 1);
	return 0;
}

/* What a renderer wrote; an open_memstream() that ends in assert_wrote(). */
struct capture {
	char *text;
	size_t size;
	FILE *stream;
};

static FILE *capture(struct capture *c)
{
	c->stream = open_memstream(&c->text, &c->size);
	assert_non_null(c->stream);
	return c->stream;
}

static void assert_wrote(struct capture *c, const char *want)
{
	fclose(c->stream);
	assert_string_equal(c->text, want);
	free(c->text);
}

static void json_meta_line(void **state)
{
	struct capture c;

	(void)state;
	assert_int_equal(render_meta(FORMAT_JSON, capture(&c), &meta, &schema), 0);
	assert_wrote(
	    &c,
	    "{\"type\":\"meta\",\"schema\":1,\"version\":\"0.1.0\",\"kernel\":\"6.1.0-49-amd64\",\"subcommand\":\"top\","
	    "\"hooks\":["
	    "{\"event\":\"issue\",\"kind\":\"tp_btf\",\"target\":\"block_rq_issue\"},"
	    "{\"event\":\"submit\",\"kind\":\"kprobe\",\"target\":\"submit_bio\"}],"
	    "\"passed_over\":["
	    "{\"event\":\"submit\",\"kind\":\"fentry\",\"target\":\"submit_bio_noacct\","
	    "\"reason\":\"not in \\\"vmlinux\\\"\"},"
	    "{\"event\":\"complete\",\"kind\":\"raw_tp\",\"target\":\"block_rq_complete\","
	    "\"reason\":\"no BTF\"}],"
	    "\"columns\":["
	    "{\"key\":\"pid\",\"unit\":\"\",\"role\":\"label\",\"meaning\":\"process\"},"
	    "{\"key\":\"comm\",\"unit\":\"\",\"role\":\"label\","
	    "\"meaning\":\"its name, as \\\"comm\\\" has it\"},"
	    "{\"key\":\"op\",\"unit\":\"\",\"role\":\"label\",\"meaning\":\"operation\"},"
	    "{\"key\":\"cached\",\"unit\":\"\",\"role\":\"gauge\",\"meaning\":\"cached\"},"
	    "{\"key\":\"bytes\",\"unit\":\"bytes\",\"role\":\"counter\",\"meaning\":\"bytes moved\"},"
	    "{\"key\":\"slots\",\"unit\":\"ns\",\"role\":\"histogram\",\"meaning\":\"latency\"}]}\n");
}

static void json_meta_without_hooks(void **state)
{
	static const struct meta bare = { "1", "2", "kvm", NULL, 0 };
	static const struct schema none = { columns, 0, sizeof(struct row) };
	struct capture c;

	(void)state;
	assert_int_equal(render_meta(FORMAT_JSON, capture(&c), &bare, &none), 0);
	assert_wrote(
	    &c,
	    "{\"type\":\"meta\",\"schema\":1,\"version\":\"1\",\"kernel\":\"2\",\"subcommand\":\"kvm\","
	    "\"hooks\":[],\"passed_over\":[],\"columns\":[]}\n");
}

static void json_rows(void **state)
{
	struct capture c;

	(void)state;
	assert_int_equal(render_interval(FORMAT_JSON, capture(&c), &interval, &schema, rows, 2), 0);
	assert_wrote(
	    &c,
	    "{\"type\":\"interval\",\"start\":1700000000.000000001,\"end\":1700000001.500000000,"
	    "\"rows\":["
	    "{\"pid\":4242,\"comm\":\"fio\",\"op\":\"read\",\"cached\":true,\"bytes\":1048576,"
	    "\"slots\":[{\"lo\":0,\"hi\":1,\"count\":1},{\"lo\":512,\"hi\":1023,\"count\":2}]},"
	    "{\"pid\":7,\"comm\":\"a \\\"q\\\", \\\\x5cx\\u000a\\\\xff\xc3\xb6\",\"op\":\"write\","
	    "\"cached\":false,\"bytes\":18446744073709551615,\"slots\":[],"
	    "\"escaped\":[\"comm\"]}],"
	    "\"losses\":{\"no_start\":3,\"clock\":18446744073709551615}}\n");
}

static void json_without_rows(void **state)
{
	struct capture c;

	(void)state;
	assert_int_equal(render_interval(FORMAT_JSON, capture(&c), &no_loss, &schema, NULL, 0), 0);
	assert_wrote(&c, "{\"type\":\"interval\",\"start\":0.999999999,\"end\":1.000000000,"
			 "\"rows\":[],\"losses\":{}}\n");
}

#define TIMES "1700000000.000000001,1700000001.500000000,"

static void csv_lines(void **state)
{
	struct capture c;
	FILE *f = capture(&c);

	(void)state;
	assert_int_equal(render_meta(FORMAT_CSV, f, &meta, &schema), 0);
	assert_int_equal(render_interval(FORMAT_CSV, f, &interval, &schema, rows, 2), 0);
	assert_int_equal(render_interval(FORMAT_CSV, f, &interval, &schema, NULL, 0), 0);
	assert_wrote(
	    &c, "start,end,pid,comm,op,cached,bytes\n" TIMES "4242,fio,read,true,1048576\n" TIMES
		"7,\"a \"\"q\"\", \\x\n\\xff\xc3\xb6\",write,false,18446744073709551615\n");
}

static void csv_quotes_only_where_needed(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "plain name", "plain name" },
		{ "", "" },
		{ "a,b", "\"a,b\"" },
		{ ",", "\",\"" },
		{ "\"", "\"\"\"\"" },
		{ "a\nb", "\"a\nb\"" },
		{ "a\rb", "\"a\rb\"" },
		{ "a;b\tc\\x2d", "a;b\tc\\x2d" },
		/* A spreadsheet would compute them. */
		{ "=1+1", "\\x3d1+1" },
		{ "+1", "\\x2b1" },
		{ "-1", "\\x2d1" },
		{ "@SUM(A1)", "\\x40SUM(A1)" },
		{ "\t=1", "\\x09=1" },
		{ "\r=1", "\"\\x0d=1\"" },
		{ "\n=1", "\"\\x0a=1\"" },
		{ "\xef\xbc\x9dz", "\\xef\\xbc\\x9dz" }, /* wide = + - @; A is none */
		{ "\xef\xbc\x8bz", "\\xef\\xbc\\x8bz" },
		{ "\xef\xbc\x8dz", "\\xef\\xbc\\x8dz" },
		{ "\xef\xbc\xa0z", "\\xef\\xbc\\xa0z" },
		{ "\xef\xbc\xa1z", "\xef\xbc\xa1z" },
		{ "=A(\"x\",1)", "\"\\x3dA(\"\"x\"\",1)\"" },
		{ "-", "-" }, /* none */
		{ "a=1", "a=1" },
		{ "\x1b[2J\xe2\x80\xae\xe2\x80", "\x1b[2J\xe2\x80\xae\\xe2\\x80" },
	};
	static const struct schema one = { columns + 1, 1, sizeof(struct row) };
	struct capture c;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct row row = { .comm = cases[i].text };
		char want[128];

		snprintf(want, sizeof(want), "0.999999999,1.000000000,%s\n", cases[i].want);
		assert_int_equal(render_interval(FORMAT_CSV, capture(&c), &no_loss, &one, &row, 1),
				 0);
		assert_wrote(&c, want);
	}
}

/* Control characters do not reach a terminal, nor does a newline in a name, which would make
 * another row. */
static void assert_on_a_terminal(enum format format, const char *want)
{
	static const struct schema one = { columns + 1, 1, sizeof(struct row) };
	struct row row = { .comm = "a\nb\x1b[2J\xc2\x9b\xe2\x80\xae\\,\xc3\xb6" };
	char got[256];
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	ssize_t len;
	FILE *f;

	if (master < 0)
		skip(); /* no pseudo-terminals here */
	assert_int_equal(grantpt(master), 0);
	assert_int_equal(unlockpt(master), 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	assert_true(slave >= 0);
	f = fdopen(slave, "w");
	assert_int_equal(render_interval(format, f, &no_loss, &one, &row, 1), 0);
	len = read(master, got, sizeof(got) - 1);
	assert_true(len > 0);
	got[len] = '\0';
	assert_string_equal(got, want);
	fclose(f);
	close(master);
}

static void csv_on_a_terminal(void **state)
{
	(void)state;
	assert_on_a_terminal(FORMAT_CSV, "0.999999999,1.000000000,\"a\\x0ab\\x1b[2J\\xc2\\x9b"
					 "\\xe2\\x80\\xae\\,\xc3\xb6\"\r\n");
}

/* Whoever parses it gets the same string. */
static void json_on_a_terminal(void **state)
{
	(void)state;
	assert_on_a_terminal(FORMAT_JSON,
			     "{\"type\":\"interval\",\"start\":0.999999999,\"end\":1.000000000,"
			     "\"rows\":[{\"comm\":\"a\\u000ab\\u001b[2J\\u009b\\u202e\\\\,"
			     "\xc3\xb6\"}],\"losses\":{}}\r\n");
}

static void text_table(void **state)
{
	struct capture c;
	FILE *f = capture(&c);

	(void)state;
	assert_int_equal(render_meta(FORMAT_TEXT, f, &meta, &schema), 0);
	assert_int_equal(render_interval(FORMAT_TEXT, f, &interval, &schema, rows, 2), 0);
	assert_wrote(&c, "PID    COMM                D CACHED  Kbytes\n"
			 "4242   fio                 R    yes    1024\n"
			 "7      a \"q\", \\\\x\\x0a\\xff\xc3\xb6 W     no 18014398509481983\n");
}

static void text_pieces(void **state)
{
	struct capture c;
	FILE *f = capture(&c);

	(void)state;
	assert_int_equal(render_table_rows(f, &schema, rows, 1), 0);
	assert_int_equal(render_table_heading(f, &schema), 0);
	assert_wrote(&c, "4242   fio      R    yes    1024\n"
			 "PID    COMM     D CACHED  Kbytes\n");
}

/* Widths count characters, not bytes; columns of labels are as wide as their widest cell, nothing
 * is cut; no line ends in blanks. */
static void text_widths(void **state)
{
	static const struct schema names = { columns + 1, 1, sizeof(struct row) };
	static const struct schema two = { columns, 2, sizeof(struct row) };
	static const struct row some[] = {
		{ .pid = 1, .comm = "\xc3\xb6" },
		{ .pid = 123456789, .comm = "longer than eight" },
		{ .pid = 2, .comm = "" },
	};
	/* two columns each, whatever the locale; the width is at least eight */
	static const struct row wide[] = {
		{ .pid = 1, .comm = "\xe6\x97\xa5\xe6\x9c\xac" },
		{ .pid = 2, .comm = "ab" },
	};
	struct column right[2] = { columns[1], columns[0] };
	struct schema aligned = { right, 2, sizeof(struct row) };
	struct capture c;

	(void)state;
	assert_int_equal(render_table_rows(capture(&c), &names, some, 3), 0);
	assert_wrote(&c, "\xc3\xb6\nlonger than eight\n\n");
	assert_int_equal(render_table_rows(capture(&c), &two, some, 3), 0);
	assert_wrote(&c, "1         \xc3\xb6\n123456789 longer than eight\n2\n");

	right[0].left = false;
	assert_int_equal(render_table_rows(capture(&c), &aligned, wide, 2), 0);
	assert_wrote(&c, "    \xe6\x97\xa5\xe6\x9c\xac 1\n      ab 2\n");
	assert_int_equal(render_table_rows(capture(&c), &aligned, some, 3), 0);
	assert_wrote(
	    &c, "                \xc3\xb6 1\nlonger than eight 123456789\n                  2\n");
}

static void assert_name(char name[], size_t length, size_t shown, enum format format)
{
	static const struct schema one = { columns + 1, 1, sizeof(struct row) };
	struct row row = { .comm = name };
	const char *before = format == FORMAT_CSV ? "0.999999999,1.000000000," : "";
	char *want;
	struct capture c;

	memset(name, 'n', length);
	name[length] = '\0';
	assert_true(asprintf(&want, "%s%.*s%s\n", before, (int)shown, name,
			     shown < length ? "..." : "") > 0);
	if (format == FORMAT_CSV)
		assert_int_equal(render_interval(format, capture(&c), &no_loss, &one, &row, 1), 0);
	else
		assert_int_equal(render_table_rows(capture(&c), &one, &row, 1), 0);
	assert_wrote(&c, want);
	free(want);
}

/* Names are cut: to the length of a path in output for programs, to less in output for people. */
static void long_strings_are_cut(void **state)
{
	char name[5001];

	(void)state;
	assert_name(name, 512, 512, FORMAT_TEXT);
	assert_name(name, 513, 512, FORMAT_TEXT);
	assert_name(name, 5000, 512, FORMAT_TEXT);
	assert_name(name, 4096, 4096, FORMAT_CSV);
	assert_name(name, 4097, 4096, FORMAT_CSV);
	assert_name(name, 5000, 4096, FORMAT_CSV);
}

static void long_strings_are_cut_in_json(void **state)
{
	static const struct schema one = { columns + 1, 1, sizeof(struct row) };
	char name[4098], want[4300];
	struct row row = { .comm = name };
	struct capture c;

	(void)state;
	memset(name, 'n', 4097);
	name[4097] = '\0';
	snprintf(want, sizeof(want),
		 "{\"type\":\"interval\",\"start\":0.999999999,\"end\":1.000000000,\"rows\":"
		 "[{\"comm\":\"%.4096s...\"}],\"losses\":{}}\n",
		 name);
	assert_int_equal(render_interval(FORMAT_JSON, capture(&c), &no_loss, &one, &row, 1), 0);
	assert_wrote(&c, want);
}

static void what_a_cell_says_is_escaped(void **state)
{
	static const struct schema one = { columns + 2, 1, sizeof(struct row) };
	struct row row = { .op = "\x0bx" }; /* the letter is then a control character's */
	struct capture c;

	(void)state;
	assert_int_equal(render_table_rows(capture(&c), &one, &row, 1), 0);
	assert_wrote(&c, "\\xeb\n");
}

/* @value: of the string; it is @escaped where @text is not UTF-8. */
static void assert_json_cell(const char *text, const char *value, bool escaped)
{
	static const struct schema one = { columns + 1, 1, sizeof(struct row) };
	struct row row = { .comm = text };
	struct capture c;
	char want[160];

	snprintf(want, sizeof(want),
		 "{\"type\":\"interval\",\"start\":0.999999999,\"end\":1.000000000,"
		 "\"rows\":[{\"comm\":\"%s\"%s}],\"losses\":{}}\n",
		 value, escaped ? ",\"escaped\":[\"comm\"]" : "");
	assert_int_equal(render_interval(FORMAT_JSON, capture(&c), &no_loss, &one, &row, 1), 0);
	assert_wrote(&c, want);
}

static void assert_json_string(const char *text, const char *value)
{
	assert_json_cell(text, value, false);
}

/* JSON that every parser takes, whatever the bytes: nothing below a blank, no half sequences, and
 * every quote and backslash in its place.  Nothing else is escaped. */
static void json_of_every_byte(void **state)
{
	char text[2] = "", value[16];

	(void)state;
	for (int b = 1; b < 256; b++) {
		text[0] = (char)b;
		if (b == '"' || b == '\\')
			snprintf(value, sizeof(value), "\\%c", b);
		else if (b < 0x20)
			snprintf(value, sizeof(value), "\\u%04x", b);
		else if (b < 0x80)
			snprintf(value, sizeof(value), "%c", b);
		else
			snprintf(value, sizeof(value), "\\\\x%02x", b);
		assert_json_cell(text, value, b >= 0x80);
	}
}

/* Once parsed it is the string itself. */
static void json_strings(void **state)
{
	(void)state;
	assert_json_string("system-systemd\\x2dfsck.slice", "system-systemd\\\\x2dfsck.slice");
	assert_json_string("K\xc3\xb6ln \xf0\x9f\x90\xa7", "K\xc3\xb6ln \xf0\x9f\x90\xa7");
	assert_json_string("a\xe2\x80\xae\xc2\x9b\xe2\x80\xa8",
			   "a\xe2\x80\xae\xc2\x9b\xe2\x80\xa8");
	assert_json_string("\xf3\xa0\x81\x81", "\xf3\xa0\x81\x81"); /* U+E0041 */
	assert_json_string("\x1b[2J\x7f", "\\u001b[2J\x7f");
	assert_json_string("\\xff", "\\\\xff");
}

/* A byte that is not UTF-8 and the literal text of its escape give different strings. */
static void json_strings_that_are_not_utf8(void **state)
{
	(void)state;
	assert_json_cell("\xff", "\\\\xff", true);
	assert_json_cell("\\xff\xff", "\\\\x5cxff\\\\xff", true);
	assert_json_cell("\xe2\x80", "\\\\xe2\\\\x80", true);		 /* cut off */
	assert_json_cell("\xc0\x80", "\\\\xc0\\\\x80", true);		 /* overlong */
	assert_json_cell("\xed\xa0\x80", "\\\\xed\\\\xa0\\\\x80", true); /* surrogate */
	assert_json_cell("\xf4\x90\x80\x80", "\\\\xf4\\\\x90\\\\x80\\\\x80", true);
	assert_json_cell("\xff\xc3\xb6\"\n", "\\\\xff\xc3\xb6\\\"\\u000a", true);
}

/* A stack is a list of names: if one of them is not UTF-8 all are escaped. */
static const char *next_of(const void *owner, uint32_t *at)
{
	return ((const char *const *)owner)[(*at)++];
}

static void json_frames_that_are_not_utf8(void **state)
{
	static const struct column column = { "user", NULL, COLUMN_FRAMES, ROLE_STACK, "", "",
					      0,      0,    false,	   NULL };
	static const struct schema one = { &column, 1, sizeof(struct frames) };
	static const char *const good[] = { "a\\b", "c", NULL };
	static const char *const bad[] = { "a\\b", "\xff", NULL };
	const struct frames stacks[] = { { next_of, good, 0 }, { next_of, bad, 0 } };
	struct capture c;

	(void)state;
	assert_int_equal(render_interval(FORMAT_JSON, capture(&c), &no_loss, &one, stacks, 2), 0);
	assert_wrote(&c, "{\"type\":\"interval\",\"start\":0.999999999,\"end\":1.000000000,"
			 "\"rows\":[{\"user\":[\"a\\\\b\",\"c\"]},{\"user\":[\"a\\\\x5cb\","
			 "\"\\\\xff\"],\"escaped\":[\"user\"]}],\"losses\":{}}\n");
}

static void worries(void **state)
{
	char text[RENDER_WORRY_SIZE];

	(void)state;
	assert_string_equal(render_worry(1, 1000000000, text),
			    "1 of 1,000,000,000 events (less than 0.01%): too few to matter");
	assert_string_equal(render_worry(422, 1234567, text),
			    "422 of 1,234,567 events (0.03%): too few to matter");
	assert_string_equal(render_worry(1, 999, text),
			    "1 of 999 events (0.10%): figures may be off by as much");
	assert_string_equal(render_worry(1, 100, text),
			    "1 of 100 events (1.00%): do not trust the figures");
	assert_string_equal(
	    render_worry(UINT64_MAX, 1, text),
	    "18,446,744,073,709,551,615 of 1 events (100.00%): do not trust the figures");
}

static void losses_footer(void **state)
{
	struct capture c;

	(void)state;
	assert_int_equal(render_losses(capture(&c), &interval), 0);
	assert_wrote(&c, "iotrace: lost: 3 completions without a start (100% \"lost\")\n"
			 "iotrace: lost: 18446744073709551615 clocks that went backwards\n");
	assert_int_equal(render_losses(capture(&c), &no_loss), 0);
	assert_wrote(&c, "");
}

/* Rows enough to overflow stdio's buffer, so that the write fails in the middle. */
#define MANY 1000

static struct row *many_rows(void)
{
	struct row *many = calloc(MANY, sizeof(*many));
	size_t i;

	assert_non_null(many);
	for (i = 0; i < MANY; i++)
		many[i] = rows[0];
	return many;
}

static const enum format formats[] = { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV };

static void a_full_disk_is_reported(void **state)
{
	struct row *many = many_rows();
	size_t i, n;
	FILE *f;

	(void)state;
	for (i = 0; i < 3; i++) {
		for (n = 1; n <= MANY; n += MANY - 1) {
			f = fopen("/dev/full", "w");
			assert_non_null(f);
			assert_int_equal(
			    render_interval(formats[i], f, &interval, &schema, many, n), -ENOSPC);
			/* and it does not become good again */
			assert_int_not_equal(render_flush(f), 0);
			fclose(f);
		}
	}
	f = fopen("/dev/full", "w");
	assert_int_equal(render_meta(FORMAT_JSON, f, &meta, &schema), -ENOSPC);
	fclose(f);
	f = fopen("/dev/full", "w");
	assert_int_equal(render_losses(f, &interval), -ENOSPC);
	fclose(f);
	f = fopen("/dev/full", "w");
	assert_int_equal(render_table_rows(f, &schema, many, MANY), -ENOSPC);
	fclose(f);
	free(many);
}

static void a_closed_pipe_is_reported(void **state)
{
	struct row *many = many_rows();
	size_t i, n;
	int fds[2];
	FILE *f;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < 3; i++) {
		for (n = 1; n <= MANY; n += MANY - 1) {
			assert_int_equal(pipe(fds), 0);
			close(fds[0]);
			f = fdopen(fds[1], "w");
			assert_non_null(f);
			assert_int_equal(
			    render_interval(formats[i], f, &interval, &schema, many, n), -EPIPE);
			assert_int_equal(render_flush(f), -EPIPE);
			assert_int_equal(render_meta(formats[i], f, &meta, &schema), -EPIPE);
			fclose(f);
		}
	}
	free(many);
}

/* A stream that is flushed after every interval has it all when the call returns. */
static void intervals_are_flushed(void **state)
{
	char got[256];
	int fds[2];
	ssize_t len;
	FILE *f;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	f = fdopen(fds[1], "w");
	assert_non_null(f);
	assert_int_equal(render_meta(FORMAT_CSV, f, &meta, &schema), 0);
	assert_int_equal(render_interval(FORMAT_CSV, f, &interval, &schema, rows, 1), 0);
	len = read(fds[0], got, sizeof(got) - 1);
	assert_true(len > 0);
	got[len] = '\0';
	assert_string_equal(got, "start,end,pid,comm,op,cached,bytes\n" TIMES
				 "4242,fio,read,true,1048576\n");
	fclose(f);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_meta_line),
		cmocka_unit_test(json_meta_without_hooks),
		cmocka_unit_test(json_rows),
		cmocka_unit_test(json_without_rows),
		cmocka_unit_test(json_of_every_byte),
		cmocka_unit_test(json_strings),
		cmocka_unit_test(json_strings_that_are_not_utf8),
		cmocka_unit_test(json_frames_that_are_not_utf8),
		cmocka_unit_test(json_on_a_terminal),
		cmocka_unit_test(csv_lines),
		cmocka_unit_test(csv_quotes_only_where_needed),
		cmocka_unit_test(csv_on_a_terminal),
		cmocka_unit_test(text_table),
		cmocka_unit_test(text_pieces),
		cmocka_unit_test(text_widths),
		cmocka_unit_test(long_strings_are_cut),
		cmocka_unit_test(long_strings_are_cut_in_json),
		cmocka_unit_test(what_a_cell_says_is_escaped),
		cmocka_unit_test(losses_footer),
		cmocka_unit_test(worries),
		cmocka_unit_test(a_full_disk_is_reported),
		cmocka_unit_test(a_closed_pipe_is_reported),
		cmocka_unit_test(intervals_are_flushed),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
