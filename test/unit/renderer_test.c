/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The renderers' contract: what begin, interval, losses and end of each write, and where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "output/renderer.h"
#include "test/unit/capture.h"
#include "test/unit/pty.h"
#include "core/base/array.h"

struct row {
	const char *name;
	uint64_t count;
};

static const struct column columns[] = {
	{ "name", "NAME", COLUMN_STR, ROLE_LABEL, "", "who", offsetof(struct row, name), 6, true,
	  NULL },
	{ "count", "N", COLUMN_U64, ROLE_COUNTER, "", "how many", offsetof(struct row, count), 3,
	  false, NULL },
};
static const struct schema schema = { columns, ARRAY_SIZE(columns), sizeof(struct row) };
static const struct recording_table table = { "rows", &schema };
static const struct recording_head recorded = { .meta = { "1", "6.1", "top" } };
static const struct render_head head = { &recorded, &table, 1, &schema };
static const struct loss losses[] = { { "full", "rows", 2 }, { "late", "more", 0 } };
static const struct row rows[] = { { "a", 1 }, { "b", 2 }, { "c", 3 } };
static const struct recording_interval drained = {
	.interval = { 1000000000, 2000000000, losses, ARRAY_SIZE(losses) },
	.text = "said",
	.last = true,
	.tables = { { rows, ARRAY_SIZE(rows) } },
};
static const struct render_interval shown = {
	{ 1000000000, 2000000000, losses, ARRAY_SIZE(losses) }, &drained, &schema, rows, 2
};

/* All of a run, of one interval: what goes to the stream; standard error is in @c. */
static char *run(struct renderer *r, struct capture *c)
{
	struct error err = { .status = STATUS_OK };
	char *text = NULL;
	size_t size;

	r->stream = open_memstream(&text, &size);
	assert_non_null(r->stream);
	capture_begin(c, STDERR_FILENO);
	assert_int_equal(renderer_begin(r, &head, &err), 0);
	assert_int_equal(renderer_interval(r, &shown, &err), 0);
	assert_int_equal(renderer_losses(r, &shown.interval, &err), 0);
	assert_int_equal(renderer_end(r, &err), 0);
	capture_end(c);
	assert_int_equal(fclose(r->stream), 0);
	assert_int_equal(err.status, STATUS_OK);
	return text;
}

static void runs_as(struct renderer r, const char *want, const char *want_apart)
{
	struct capture c;
	char *text = run(&r, &c);

	assert_string_equal(text, want);
	assert_string_equal(c.text, want_apart);
	free(text);
}

#define LOST "iotrace: lost: 2 rows\n"

static void test_formats(void **state)
{
	struct renderer csv = renderer_of(FORMAT_CSV, NULL);

	(void)state;
	runs_as(renderer_of(FORMAT_TEXT, NULL),
		"NAME     N\n"
		"a        1\n"
		"b        2\n",
		LOST);
	runs_as(
	    renderer_of(FORMAT_JSON, NULL),
	    "{\"type\":\"meta\",\"schema\":1,\"version\":\"1\",\"kernel\":\"6.1\",\"subcommand\":\"top\","
	    "\"hooks\":[],\"passed_over\":[],\"columns\":["
	    "{\"key\":\"name\",\"unit\":\"\",\"role\":\"label\",\"meaning\":\"who\"},"
	    "{\"key\":\"count\",\"unit\":\"\",\"role\":\"counter\",\"meaning\":\"how many\"}]}\n"
	    "{\"type\":\"interval\",\"start\":1.000000000,\"end\":2.000000000,\"rows\":["
	    "{\"name\":\"a\",\"count\":1},{\"name\":\"b\",\"count\":2}],"
	    "\"losses\":{\"full\":2}}\n",
	    "");
	runs_as(csv,
		"start,end,name,count\n"
		"1.000000000,2.000000000,a,1\n"
		"1.000000000,2.000000000,b,2\n",
		LOST);
	/* to a file that has its heading */
	csv.appends = true;
	runs_as(csv,
		"1.000000000,2.000000000,a,1\n"
		"1.000000000,2.000000000,b,2\n",
		LOST);
}

/* ---- the recording ---- */

/* All that was drained, whatever is shown of it. */
static void test_recording(void **state)
{
	struct error err = { .status = STATUS_OK };
	struct recording_interval in;
	struct recorder *recorder;
	struct recording_reader *reader;
	const struct row *played;
	char *data = NULL;
	size_t size;
	FILE *stream = open_memstream(&data, &size);

	(void)state;
	assert_int_equal(recorder_open(stream, &recorder), 0);
	assert_int_equal(renderer_begin(recorder_renderer(recorder), &head, &err), 0);
	assert_int_equal(renderer_interval(recorder_renderer(recorder), &shown, &err), 0);
	assert_int_equal(renderer_losses(recorder_renderer(recorder), &shown.interval, &err), 0);
	assert_int_equal(renderer_end(recorder_renderer(recorder), &err), 0);
	recorder_close(recorder);
	fclose(stream);
	stream = fmemopen(data, size, "r");
	assert_int_equal(recording_reader_open(stream, "it", &reader, &err), 0);
	assert_string_equal(recording_reader_head(reader)->meta.subcommand, "top");
	assert_int_equal(recording_reader_bind(reader, &table, 1, &err), 0);
	assert_int_equal(recording_reader_next(reader, &in, &err), 1);
	assert_int_equal(in.tables[0].n, 3);
	played = in.tables[0].rows;
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(played[i].name, rows[i].name);
		assert_int_equal(played[i].count, rows[i].count);
	}
	assert_string_equal(in.text, "said");
	assert_int_equal(in.interval.n_losses, 1);
	assert_string_equal(in.interval.losses[0].key, "full");
	assert_int_equal(in.interval.losses[0].count, 2);
	assert_int_equal(recording_reader_next(reader, &in, &err), 0);
	recording_reader_close(reader);
	fclose(stream);
	free(data);
}

/* ---- a subcommand's text ---- */

static int text_begin(void *ctx, FILE *stream)
{
	return fprintf(stream, "begin %s\n", (const char *)ctx) < 0 ? -EIO : 0;
}

static int text_head(void *ctx, const struct recording_interval *in, FILE *stream)
{
	return fprintf(stream, "head %s %s\n", (const char *)ctx, in->text) < 0 ? -EIO : 0;
}

static int text_body(void *ctx, const struct render_interval *in, FILE *stream, struct error *err)
{
	(void)err;
	return fprintf(stream, "body %s %zu\n", (const char *)ctx, in->n) < 0 ? -EIO : 0;
}

static int text_tail(void *ctx, const struct render_interval *in, FILE *stream)
{
	return fprintf(stream, "tail %s %zu\n", (const char *)ctx, in->n) < 0 ? -EIO : 0;
}

static int text_end(void *ctx, FILE *stream)
{
	return fprintf(stream, "end %s\n", (const char *)ctx) < 0 ? -EIO : 0;
}

static const struct text_view view = { .ctx = (void *)"it",
				       .begin = text_begin,
				       .head = text_head,
				       .tail = text_tail,
				       .end = text_end };

static void test_text_view(void **state)
{
	struct renderer r = renderer_of(FORMAT_TEXT, NULL);
	struct text_view with_body = view;

	(void)state;
	r.text = &view;
	runs_as(r,
		"begin it\n"
		"head it said\n"
		"NAME     N\n"
		"a        1\n"
		"b        2\n"
		"tail it 2\n"
		"end it\n",
		LOST);
	with_body.body = text_body;
	r.text = &with_body;
	runs_as(r,
		"begin it\n"
		"head it said\n"
		"body it 2\n"
		"tail it 2\n"
		"end it\n",
		LOST);
	/* it is of text alone */
	r = renderer_of(FORMAT_CSV, NULL);
	r.text = &with_body;
	runs_as(r,
		"start,end,name,count\n"
		"1.000000000,2.000000000,a,1\n"
		"1.000000000,2.000000000,b,2\n",
		LOST);
}

/* ---- text that clears the terminal ---- */

static int refuse(void *ctx, const struct render_interval *in, FILE *stream, struct error *err)
{
	(void)ctx;
	(void)in;
	(void)stream;
	return error_set(err, STATUS_FAILED, -ENOMEM, "no");
}

/* A table is not narrower than the one before. */
static void test_widths(void **state)
{
	static const struct row wide[] = { { "a long name", 1 } };
	size_t widths[ARRAY_SIZE(columns)] = { 0 };
	const struct text_view kept = { .widths = widths };
	struct render_interval in = shown;
	struct renderer r = renderer_of(FORMAT_TEXT, NULL);
	struct error err;
	char *text = NULL;
	size_t size;

	(void)state;
	r.text = &kept;
	r.stream = open_memstream(&text, &size);
	in.n = 1;
	assert_int_equal(renderer_interval(&r, &in, &err), 0);
	in.rows = wide;
	assert_int_equal(renderer_interval(&r, &in, &err), 0);
	in.rows = rows;
	assert_int_equal(renderer_interval(&r, &in, &err), 0);
	fclose(r.stream);
	assert_string_equal(text, "NAME     N\na        1\n"
				  "NAME          N\na long name   1\n"
				  "NAME          N\na             1\n");
	free(text);
}

static int interval_on(struct pty *p, const struct text_view *text, size_t n, struct capture *c)
{
	struct render_interval in = shown;
	struct renderer r = { &text_renderer, p->out, false, text };
	struct error err = { .status = STATUS_OK };
	int code;

	in.n = n;
	capture_begin(c, STDERR_FILENO);
	code = renderer_interval(&r, &in, &err);
	assert_int_equal(renderer_losses(&r, &in.interval, &err), 0);
	capture_end(c);
	fflush(p->out);
	return code;
}

#define CLEAR  "\033[H\033[2J"
#define NOWRAP "\033[?7l"
#define WRAP   "\033[?7h"

/* Losses stand at the top, as many rows below as fit, and lines end as a terminal has it. */
static void test_clearing(void **state)
{
	struct text_view clears = {
		.ctx = (void *)"it", .head = text_head, .head_lines = 1, .clears = true
	};
	struct capture c;
	struct pty p;

	(void)state;
	pty_open(&p, 24, 80);
	assert_int_equal(interval_on(&p, &clears, 3, &c), 0);
	assert_string_equal(c.text, LOST);
	assert_string_equal(pty_read(&p), CLEAR NOWRAP "head it said\r\n"
						       "NAME     N\r\n"
						       "a        1\r\n"
						       "b        2\r\n"
						       "c        3\r\n" WRAP);
	/* the loss, head, heading, two rows and the cursor's line */
	pty_resize(&p, 6, 80);
	assert_int_equal(interval_on(&p, &clears, 3, &c), 0);
	assert_string_equal(pty_read(&p), CLEAR NOWRAP "head it said\r\n"
						       "NAME     N\r\n"
						       "a        1\r\n"
						       "b        2\r\n" WRAP);
	/* a loss of 21 characters takes two lines of 20 */
	pty_resize(&p, 6, 20);
	assert_int_equal(interval_on(&p, &clears, 3, &c), 0);
	assert_string_equal(pty_read(&p), CLEAR NOWRAP "head it said\r\n"
						       "NAME     N\r\n"
						       "a        1\r\n" WRAP);
	/* one in any case */
	pty_resize(&p, 2, 80);
	assert_int_equal(interval_on(&p, &clears, 3, &c), 0);
	assert_string_equal(pty_read(&p), CLEAR NOWRAP "head it said\r\n"
						       "NAME     N\r\n"
						       "a        1\r\n" WRAP);
	/* a terminal without a size has them all */
	pty_resize(&p, 0, 0);
	assert_int_equal(interval_on(&p, &clears, 3, &c), 0);
	assert_string_equal(pty_read(&p), CLEAR NOWRAP "head it said\r\n"
						       "NAME     N\r\n"
						       "a        1\r\n"
						       "b        2\r\n"
						       "c        3\r\n" WRAP);
	/* the terminal wraps again, whatever happens */
	clears.body = refuse;
	assert_int_equal(interval_on(&p, &clears, 3, &c), -ENOMEM);
	assert_string_equal(pty_read(&p), CLEAR NOWRAP "head it said\r\n" WRAP);
	pty_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats),	  cmocka_unit_test(test_recording),
		cmocka_unit_test(test_text_view), cmocka_unit_test(test_widths),
		cmocka_unit_test(test_clearing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
