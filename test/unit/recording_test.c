/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Recordings: a recording is read back and renders to the same bytes.  If it is cut off or changed,
 * wherever that is, the reader reports it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "output/framed_file.h"
#include "core/base/frames.h"
#include "output/hist.h"
#include "output/recording.h"
#include "output/recording_internal.h"
#include "test/unit/formats.h"
#include "test/unit/hist_add.h"

/* ---- what is recorded ---- */

struct row {
	uint64_t big;
	uint32_t small;
	bool flag;
	const char *text;
	const struct hist *hist;
	struct frames frames;
	uint32_t hidden;
};

static void cell_hidden(const void *row, char *buf, size_t size)
{
	snprintf(buf, size, "<%u>", ((const struct row *)row)->hidden);
}

#define AT(member) offsetof(struct row, member)
static const struct column columns[] = {
	{ "big", "BIG", COLUMN_U64, ROLE_COUNTER, "bytes", "a", AT(big), 4, false, NULL },
	{ "small", "SMALL", COLUMN_U32, ROLE_LABEL, "", "b", AT(small), 4, true, NULL },
	{ "flag", "FLAG", COLUMN_BOOL, ROLE_GAUGE, "", "c", AT(flag), 4, false, NULL },
	{ "text", "TEXT", COLUMN_STR, ROLE_LABEL, "", "d", AT(text), 4, true, NULL },
	{ "hist", NULL, COLUMN_HIST, ROLE_HISTOGRAM, "ns", "e", AT(hist), 0, false, NULL },
	{ "frames", NULL, COLUMN_FRAMES, ROLE_STACK, "", "f", AT(frames), 0, false, NULL },
	{ NULL, "HIDDEN", COLUMN_U32, ROLE_LABEL, "", "g", AT(hidden), 4, false, cell_hidden },
	{ "hidden", NULL, COLUMN_U32, ROLE_STATE, "", "h", AT(hidden), 4, false, NULL },
};
static const struct schema schema = { columns, ARRAY_SIZE(columns), sizeof(struct row) };

struct other_row {
	const char *name;
	uint64_t n;
};

static const struct column other_columns[] = {
	{ "name", "NAME", COLUMN_STR, ROLE_LABEL, "", "a", offsetof(struct other_row, name), 4,
	  true, NULL },
	{ "n", "N", COLUMN_U64, ROLE_COUNTER, "", "b", offsetof(struct other_row, n), 4, false,
	  NULL },
};
static const struct schema other_schema = { other_columns, ARRAY_SIZE(other_columns),
					    sizeof(struct other_row) };

static const struct recording_table tables[] = { { "rows", &schema }, { "others", &other_schema } };

static const char *next_in_list(const void *owner, uint32_t *at)
{
	const char *const *list = owner;

	return list[*at] ? list[(*at)++] : NULL;
}

static const char *const leafs[] = { "submit_bio", "a;b \"c\"", "main", NULL };
static const char *const others[] = { "other", "main", NULL };

static const struct meta_hook hooks[] = {
	{ "issue", "tp_btf", "block_rq_issue", NULL },
	{ "submit", "kprobe", "submit_bio", "no \"kprobes\"\n" },
};
static const char *const notes[] = { "one", "\xc3\xb6" };
static const struct recording_setting settings[] = { { "sort", 2 }, { "ns", UINT64_MAX } };
static const struct recording_head head = {
	{ "0.1.0", "6.1.0", "test", "here", "b-1", "iotrace test -x", hooks, ARRAY_SIZE(hooks),
	  notes, ARRAY_SIZE(notes) },
	settings,
	ARRAY_SIZE(settings),
};
static const struct loss losses[] = { { "no_start", "without a start", 3 },
				      { "none", "none", 0 },
				      { "full", "map full", UINT64_MAX } };

static struct hist hist;

static const struct row rows[] = {
	{ UINT64_MAX, UINT32_MAX, true, "a \"q\"\n\xff,", &hist, { next_in_list, leafs, 0 }, 7 },
	{ 0, 0, false, "", NULL, { 0 }, 0 },
	{ 127, 128, true, "a", &hist, { next_in_list, others, 0 }, UINT32_MAX },
};
static const struct other_row other_rows[] = { { "main", 300 } };

static const struct recording_interval intervals[] = {
	{ { 1700000000000000001ull, 1700000001000000000ull, losses, ARRAY_SIZE(losses) },
	  -12600,
	  false,
	  "0.01 0.02",
	  { { rows, 3 }, { other_rows, 1 } } },
	{ { 1700000001000000000ull, 1700000002000000000ull, NULL, 0 },
	  50400,
	  false,
	  "",
	  { { 0 } } },
	{ { 1700000002000000000ull, UINT64_MAX, losses, 1 },
	  0,
	  true,
	  "",
	  { { rows + 2, 1 }, { 0 } } },
};

static int setup(void **state)
{
	(void)state;
	hist_add(&hist, 0, 1);
	hist_add(&hist, 5000, 1);
	hist_add(&hist, UINT64_MAX, 1);
	return 0;
}

struct bytes {
	char *data;
	size_t size;
};

/* Records the first @n intervals; whole: with its end. */
static struct bytes record(size_t n, bool whole)
{
	struct bytes out;
	struct recorder *r;
	FILE *file = open_memstream(&out.data, &out.size);

	assert_int_equal(recorder_open(file, &r), 0);
	assert_int_equal(recorder_head(r, &head, tables, ARRAY_SIZE(tables)), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(recorder_interval(r, &intervals[i]), 0);
	if (whole)
		assert_int_equal(recorder_end(r), 0);
	recorder_close(r);
	fclose(file);
	return out;
}

/* All formats of an interval. */
static void render(FILE *to, const struct recording_interval *in)
{
	for (int format = FORMAT_TEXT; format <= FORMAT_CSV; format++)
		for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
			render_interval((enum format)format, to, &in->interval, tables[i].schema,
					in->tables[i].rows, in->tables[i].n);
	render_losses(to, &in->interval);
	fprintf(to, "%d %d %s\n", in->last, in->utc_offset, in->text);
}

/* Replays @data; what was rendered, and the result: 0, or -errno with @err. */
static struct bytes replay(const char *data, size_t size, int *result, struct error *err)
{
	struct recording_interval in;
	struct recording_reader *p = NULL;
	struct bytes out;
	FILE *from = size ? fmemopen((void *)data, size, "r") : fopen("/dev/null", "r");
	FILE *to = open_memstream(&out.data, &out.size);
	int r;

	memset(err, 0, sizeof(*err));
	r = recording_reader_open(from, "FILE", &p, err);
	if (!r) {
		for (int format = FORMAT_TEXT; format <= FORMAT_CSV; format++)
			render_meta((enum format)format, to, &recording_reader_head(p)->meta,
				    &schema);
		r = recording_reader_bind(p, tables, ARRAY_SIZE(tables), err);
	}
	while (!r && (r = recording_reader_next(p, &in, err)) > 0) {
		render(to, &in);
		r = 0;
	}
	recording_reader_close(p);
	fclose(from);
	fclose(to);
	*result = r;
	return out;
}

static struct bytes expected(size_t n)
{
	struct bytes out;
	FILE *to = open_memstream(&out.data, &out.size);

	for (int format = FORMAT_TEXT; format <= FORMAT_CSV; format++)
		render_meta((enum format)format, to, &head.meta, &schema);
	for (size_t i = 0; i < n; i++)
		render(to, &intervals[i]);
	fclose(to);
	return out;
}

/* ---- tests ---- */

static void test_round_trip(void **state)
{
	struct bytes file = record(3, true), want = expected(3), got;
	struct error err;
	int r;

	(void)state;
	got = replay(file.data, file.size, &r, &err);
	assert_int_equal(r, 0);
	assert_string_equal(got.data, want.data);
	assert_non_null(strstr(got.data, "<4294967295>"));
	assert_null(strstr(got.data, "\"hidden\""));
	free(got.data);
	free(want.data);
	free(file.data);
}

static void test_settings(void **state)
{
	struct bytes file = record(0, true);
	FILE *from = fmemopen(file.data, file.size, "r");
	struct recording_reader *p;
	struct error err;

	(void)state;
	assert_int_equal(recording_reader_open(from, "FILE", &p, &err), 0);
	assert_int_equal(recording_reader_setting(p, "sort", 9), 2);
	assert_int_equal(recording_reader_setting(p, "ns", 9), UINT64_MAX);
	assert_int_equal(recording_reader_setting(p, "other", 9), 9);
	assert_string_equal(recording_reader_head(p)->meta.host, "here");
	assert_string_equal(recording_reader_head(p)->meta.boot, "b-1");
	assert_string_equal(recording_reader_head(p)->meta.command, "iotrace test -x");
	assert_int_equal(recording_reader_head(p)->meta.n_notes, 2);
	assert_string_equal(recording_reader_head(p)->meta.hooks[1].reason, "no \"kprobes\"\n");
	recording_reader_close(p);
	fclose(from);
	free(file.data);
}

/* The same histogram, name by name and slot by slot. */
static void test_values(void **state)
{
	struct bytes file = record(1, true);
	FILE *from = fmemopen(file.data, file.size, "r");
	struct recording_interval in;
	const struct row *got;
	struct frames a, b;
	struct recording_reader *p;
	struct error err;
	const char *last_a = NULL, *last_b = NULL, *name;

	(void)state;
	assert_int_equal(recording_reader_open(from, "FILE", &p, &err), 0);
	assert_int_equal(recording_reader_bind(p, tables, ARRAY_SIZE(tables), &err), 0);
	assert_int_equal(recording_reader_next(p, &in, &err), 1);
	got = in.tables[0].rows;
	assert_memory_equal(got[0].hist, &hist, sizeof(hist));
	assert_null(got[1].hist);
	a = got[0].frames;
	b = got[2].frames;
	while ((name = frames_next(&a)))
		last_a = name;
	while ((name = frames_next(&b)))
		last_b = name;
	/* core/base/frames.h: the same name is the same pointer */
	assert_string_equal(last_a, "main");
	assert_ptr_equal(last_a, last_b);
	assert_int_equal(recording_reader_next(p, &in, &err), 0);
	recording_reader_close(p);
	fclose(from);
	free(file.data);
}

/* Wherever it is truncated, that is reported, and the intervals before are complete. */
static void test_truncation(void **state)
{
	struct bytes file = record(3, true), got, want;
	struct error err;
	int r;

	(void)state;
	for (size_t size = 0; size < file.size; size++) {
		got = replay(file.data, size, &r, &err);
		if (r >= 0)
			fail_msg("%zu of %zu bytes are taken", size, file.size);
		assert_int_equal(err.status, STATUS_FAILED);
		if (got.size) {
			size_t n = 0;

			for (const char *at = got.data; (at = strstr(at, "\"start\"")); at++)
				n++;
			want = expected(n / ARRAY_SIZE(tables));
			assert_string_equal(got.data, want.data);
			free(want.data);
		}
		free(got.data);
	}
	free(file.data);
}

static void test_killed(void **state)
{
	struct bytes file = record(2, false), got, want = expected(2);
	struct error err;
	int r;

	(void)state;
	got = replay(file.data, file.size, &r, &err);
	assert_true(r < 0);
	assert_non_null(strstr(err.what, "is cut off after"));
	assert_string_equal(got.data, want.data);
	free(got.data);
	free(want.data);
	free(file.data);
}

static void test_flipped_bits(void **state)
{
	struct bytes file = record(3, true), got;
	struct error err;
	int r;

	(void)state;
	for (size_t i = 0; i < file.size * 8; i++) {
		file.data[i / 8] = (char)(file.data[i / 8] ^ (1 << i % 8));
		got = replay(file.data, file.size, &r, &err);
		if (r >= 0)
			fail_msg("bit %zu of byte %zu is not missed", i % 8, i / 8);
		assert_int_equal(err.status, STATUS_FAILED);
		assert_int_not_equal(err.what[0], 0);
		free(got.data);
		file.data[i / 8] = (char)(file.data[i / 8] ^ (1 << i % 8));
	}
	free(file.data);
}

static void assert_refused(const char *data, size_t size, const char *why)
{
	struct error err;
	int r;

	free(replay(data, size, &r, &err).data);
	assert_true(r < 0);
	if (!strstr(err.what, why))
		fail_msg("\"%s\" does not say \"%s\"", err.what, why);
}

static void test_foreign(void **state)
{
	struct bytes file = record(1, true);
	char *more = calloc(1, file.size + 1);

	(void)state;
	assert_refused("", 0, "is empty");
	assert_refused("\x89", 1, "is cut off");
	assert_refused("{}", 2, "is not an iotrace recording");
	assert_refused("#!/bin/sh\nsome script that is longer", 36, "is not an iotrace recording");
	for (size_t i = 0; i < file.size; i++)
		more[i] = file.data[i];
	assert_refused(more, file.size + 1, "is cut off");
	free(more);
	free(file.data);
}

/* ---- what no writer of ours writes ---- */

struct forge {
	struct bytes bytes;
	struct framed_out out;
};

/* A file whose head declares one table with one column "name" of type RECORDED_STR. */
static void forge_begin(struct forge *f)
{
	static const char head_block[] = "\0\0\4test\0\0\0\1"; /* the array's NUL is left off */
	static const char table_block[] = "\6others\1\4name\4\0\0"; /* and here a text's length */
	FILE *file = open_memstream(&f->bytes.data, &f->bytes.size);

	assert_int_equal(framed_begin(&f->out, file), 0);
	assert_int_equal(framed_put(&f->out, RECORDING_HEAD, head_block, sizeof(head_block) - 1),
			 0);
	assert_int_equal(framed_put(&f->out, RECORDING_TABLE, table_block, sizeof(table_block)), 0);
}

static void forge_end(struct forge *f, const char *why)
{
	assert_int_equal(framed_put(&f->out, RECORDING_END, "", 0), 0);
	fclose(f->out.stream);
	if (why) {
		assert_refused(f->bytes.data, f->bytes.size, why);
	} else {
		struct error err;
		int r;

		free(replay(f->bytes.data, f->bytes.size, &r, &err).data);
		if (r)
			fail_msg("%s", err.what);
	}
	free(f->bytes.data);
}

/* Blocks of rows that say what cannot be, each with a checksum that is right. */
static void test_nonsense(void **state)
{
	static const struct {
		const char *data;
		size_t size;
	} bad[] = {
#define BAD(text) { text, sizeof(text) - 1 }
		BAD(""),
		BAD("\1\0\0\0"),				   /* a table that is not there */
		BAD("\0\1\1a\0\1\1"),				   /* a string that is not there */
		BAD("\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"),   /* 2^64-1 strings */
		BAD("\0\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02"), /* more than 64 bits */
		BAD("\0\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\0"), /* and more bytes */
		BAD("\0\1\x7f"
		    "a\0\0"),		/* a string beyond the end */
		BAD("\0\1\1\0\0\0"),	/* a NUL in a string */
		BAD("\0\1\1a\1\1\0\0"), /* a node that calls itself */
		BAD("\0\1\1a\0\x7f\0"), /* more rows than bytes */
		BAD("\0\1\1a\0\1\0\0"), /* bytes behind the rows */
	};
	struct forge f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		forge_begin(&f);
		assert_int_equal(framed_put(&f.out, RECORDING_ROWS, bad[i].data, bad[i].size), 0);
		forge_end(&f, "is damaged");
	}
	forge_begin(&f);
	forge_end(&f, NULL);
	forge_begin(&f);
	framed_put(&f.out, RECORDING_ROWS, "\0\1\1a\0\1\0", 7);
	forge_end(&f, "within an interval");
	forge_begin(&f);
	framed_put(&f.out, RECORDING_ROWS, "\0\1\1a\0\1\0", 7);
	framed_put(&f.out, RECORDING_INTERVAL, "\1\2\0\0\0\0\1\1", 8);
	forge_end(&f, NULL);
	forge_begin(&f);
	framed_put(&f.out, RECORDING_INTERVAL, "\1\2\0\0\0\0\1\1", 8); /* a row that is not there */
	forge_end(&f, "has invalid contents");
	forge_begin(&f);
	framed_put(&f.out, RECORDING_END, "", 0);
	forge_end(&f, "comes after the end");
	forge_begin(&f);
	framed_put(&f.out, 99, "", 0);
	forge_end(&f, "is out of sequence");
	forge_begin(&f);
	framed_put(&f.out, RECORDING_INTERVAL, "\1\2\0\1\0\0\1\0", 8); /* the last one */
	framed_put(&f.out, RECORDING_INTERVAL, "\1\2\0\1\0\0\1\0", 8);
	forge_end(&f, "comes after the last interval");
}

/* A small file that asks for much memory: rows of 100 bytes by the million. */
static void test_memory(void **state)
{
	static const unsigned char begin[] = {
		0, 1, 1, 'a', 0, 0x80, 0x80, 0x80, 8
	}; /* 2^24 rows */
	size_t size = 24U << 20;
	char *data = calloc(1, size);
	struct forge f;

	(void)state;
	memcpy(data, begin, sizeof(begin));
	forge_begin(&f);
	framed_put(&f.out, RECORDING_ROWS, data, sizeof(begin) + (1 << 24));
	framed_put(&f.out, RECORDING_ROWS, data, sizeof(begin) + (1 << 24));
	forge_end(&f, "exceeds the memory limit of an interval");
	free(data);
}

/* A column that became another type. */
static void test_other_type(void **state)
{
	struct column changed[ARRAY_SIZE(columns)];
	const struct schema other = { changed, ARRAY_SIZE(columns), sizeof(struct row) };
	const struct recording_table bound = { "rows", &other };
	struct bytes file = record(1, true);
	FILE *from = fmemopen(file.data, file.size, "r");
	struct recording_interval in;
	const struct row *got;
	struct recording_reader *p;
	struct error err;

	(void)state;
	memcpy(changed, columns, sizeof(columns));
	changed[0].type = COLUMN_U32;
	assert_int_equal(recording_reader_open(from, "FILE", &p, &err), 0);
	assert_true(recording_reader_bind(p, &bound, 1, &err) < 0);
	assert_non_null(strstr(err.what, "another version of iotrace (0.1.0): its column 'big'"));
	recording_reader_close(p);
	/* One that is gone, and one that is new. */
	changed[0] = columns[0];
	changed[3].key = "new";
	rewind(from);
	assert_int_equal(recording_reader_open(from, "FILE", &p, &err), 0);
	assert_int_equal(recording_reader_bind(p, &bound, 1, &err), 0);
	assert_int_equal(recording_reader_next(p, &in, &err), 1);
	got = in.tables[0].rows;
	assert_int_equal(in.tables[0].n, 3);
	assert_int_equal(got[2].big, 127);
	assert_string_equal(got[0].text, "");
	assert_int_equal(recording_reader_next(p, &in, &err), 0);
	recording_reader_close(p);
	fclose(from);
	free(file.data);
}

struct written {
	struct bytes file;
	FILE *stream;
	struct recording_reader *reader;
};

/* A recording of one interval, opened to be read. */
static struct written write_and_open(const struct recording_interval *in)
{
	struct written w;
	struct recorder *r;
	struct error err;

	w.stream = open_memstream(&w.file.data, &w.file.size);
	assert_int_equal(recorder_open(w.stream, &r), 0);
	assert_int_equal(recorder_head(r, &head, tables, ARRAY_SIZE(tables)), 0);
	assert_int_equal(recorder_interval(r, in), 0);
	assert_int_equal(recorder_end(r), 0);
	recorder_close(r);
	fclose(w.stream);
	w.stream = fmemopen(w.file.data, w.file.size, "r");
	assert_int_equal(recording_reader_open(w.stream, "FILE", &w.reader, &err), 0);
	assert_int_equal(recording_reader_bind(w.reader, tables, ARRAY_SIZE(tables), &err), 0);
	return w;
}

static void close_written(struct written *w)
{
	recording_reader_close(w->reader);
	fclose(w->stream);
	free(w->file.data);
}

/* Many rows go into many blocks; their strings stay the same pointers. */
static void test_many_rows(void **state)
{
	enum { ROWS = 40000 };
	struct other_row *many = calloc(ROWS, sizeof(*many));
	char(*names)[64] = calloc(ROWS, sizeof(*names));
	struct recording_interval in = { .text = "" };
	struct written written;
	struct error err;
	const struct other_row *got;

	(void)state;
	for (size_t i = 0; i < ROWS; i++) {
		snprintf(names[i], sizeof(names[i]), "a name that takes some room %zu", i / 2);
		many[i] = (struct other_row){ names[i], i };
	}
	in.tables[1] = (struct recording_rows){ many, ROWS };
	written = write_and_open(&in);
	assert_int_equal(recording_reader_next(written.reader, &in, &err), 1);
	assert_int_equal(in.tables[1].n, ROWS);
	got = in.tables[1].rows;
	for (size_t i = 0; i < ROWS; i++) {
		assert_int_equal(got[i].n, i);
		assert_string_equal(got[i].name, names[i]);
		if (i % 2)
			assert_ptr_equal(got[i].name, got[i - 1].name);
	}
	assert_int_equal(recording_reader_next(written.reader, &in, &err), 0);
	close_written(&written);
	free(names);
	free(many);
}

/* A long name is read only up to the length that outputs show; then the next name is read. */
static void test_long_name(void **state)
{
	enum { LONG = 100000, READ = 16400 };
	char *name = malloc(LONG + 1);
	const struct other_row one[] = { { name, 1 }, { "main", 2 } }, *got;
	struct recording_interval in = { .text = "", .tables = { { 0 }, { one, 2 } } };
	struct written written;
	struct error err;

	(void)state;
	memset(name, 'x', LONG);
	name[LONG] = 0;
	written = write_and_open(&in);
	assert_int_equal(recording_reader_next(written.reader, &in, &err), 1);
	got = in.tables[1].rows;
	assert_int_equal(strlen(got[0].name), READ);
	assert_string_equal(got[1].name, "main");
	assert_int_equal(recording_reader_next(written.reader, &in, &err), 0);
	close_written(&written);
	free(name);
}

static void test_full_disk(void **state)
{
	FILE *full = fopen("/dev/full", "w");
	struct recorder *r;

	(void)state;
	if (!full)
		skip();
	assert_int_equal(recorder_open(full, &r), 0);
	assert_int_equal(recorder_head(r, &head, tables, ARRAY_SIZE(tables)), -ENOSPC);
	recorder_close(r);
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_settings),
		cmocka_unit_test(test_values),	   cmocka_unit_test(test_truncation),
		cmocka_unit_test(test_killed),	   cmocka_unit_test(test_flipped_bits),
		cmocka_unit_test(test_foreign),	   cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_memory),	   cmocka_unit_test(test_other_type),
		cmocka_unit_test(test_many_rows),  cmocka_unit_test(test_long_name),
		cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
