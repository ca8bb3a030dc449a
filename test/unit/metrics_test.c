/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows of intervals become metrics: names, sums, buckets, bounds, both formats. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "output/hist.h"
#include "output/metrics.h"
#include "output/renderer.h"
#include "test/unit/golden.h"
#include "core/base/array.h"
#include "test/unit/hist_add.h"

struct row {
	const char *disk, *op;
	uint32_t pid;
	uint64_t io, bytes, time_ns, p99_ns;
	const struct hist *slots;
	bool up;
};

#define AT(member) offsetof(struct row, member)

static const struct column columns[] = {
	{ "disk", "DISK", COLUMN_STR, ROLE_LABEL, "", "disk", AT(disk), 0, true, NULL },
	{ "op", "D", COLUMN_STR, ROLE_LABEL, "", "operation", AT(op), 0, true, NULL },
	{ "pid", "PID", COLUMN_U32, ROLE_LABEL, "", "process", AT(pid), 0, true, NULL },
	{ "io", "I/O", COLUMN_U64, ROLE_COUNTER, "requests",
	  "requests that are done in the interval; text shows it", AT(io), 0, false, NULL,
	  .help = "requests that are \"done\"" },
	{ "bytes", "B", COLUMN_U64, ROLE_COUNTER, "bytes",
	  "bytes read, written or discarded by them", AT(bytes), 0, false, NULL },
	{ "time_ns", "T", COLUMN_U64, ROLE_COUNTER, "ns", "sum of their times", AT(time_ns), 0,
	  false, NULL },
	{ "p99_ns", "P", COLUMN_U64, ROLE_GAUGE, "ns", "99 %", AT(p99_ns), 0, false, NULL },
	{ "slots", NULL, COLUMN_HIST, ROLE_HISTOGRAM, "ns", "their times", AT(slots), 0, false,
	  NULL },
	{ NULL, "K", COLUMN_U64, ROLE_COUNTER, "KiB", "text only", AT(bytes), 0, false, NULL },
	{ "start", NULL, COLUMN_U64, ROLE_STATE, "ns", "state", AT(io), 0, false, NULL },
	{ "hidden", NULL, COLUMN_U64, ROLE_COUNTER, "", "not a metric", AT(io), 0, false, NULL,
	  "" },
	{ "up", NULL, COLUMN_BOOL, ROLE_GAUGE, "", "it works", AT(up), 0, false, NULL, "works" },
};
static const struct schema schema = { columns, ARRAY_SIZE(columns), sizeof(struct row) };

static const char *const no_pid[] = { "pid", NULL };
static const char *const no_hist[] = { "pid", "slots", "time_ns", "up", NULL };

/* Leaves out these columns: one metric per row remains. */
static const char *const only_bytes[] = { "pid", "slots", "time_ns", "up", "io", NULL };

static char *written(struct metrics *m, enum metrics_format format, size_t *size)
{
	char *text = NULL;
	FILE *stream = open_memstream(&text, size);

	assert_non_null(stream);
	assert_int_equal(metrics_write(m, format, true, stream), 0);
	assert_int_equal(fclose(stream), 0);
	return text;
}

#define KEPT 300

/* Rows of METRICS_OTHER that have room in any case: four operations, and all others. */
#define OTHERS 5

/* Metrics with room for @most more series; each row is one series. */
static struct metrics *opened(size_t most, const char *const *without, struct metrics_source **s)
{
	struct metrics *m;

	assert_int_equal(metrics_open(most + OTHERS, KEPT, &m), 0);
	assert_int_equal(metrics_source(m, "iotrace_block_io", &schema, without, 1, s), 0);
	return m;
}

static void has(struct metrics *m, const char *line, bool there)
{
	size_t size;
	char *text = written(m, METRICS_CLASSIC, &size);

	if ((strstr(text, line) != NULL) != there)
		fail_msg("%s\nis%s in\n%s", line, there ? " not" : "", text);
	free(text);
}

static void test_golden(void **state)
{
	static const uint64_t times[] = {
		0, 1023, 1024, 1025, 2047, 1000000, (1ULL << 34) - 1, 1ULL << 34, 1ULL << 40
	};
	struct hist hist = { 0 };
	const struct row rows[] = {
		{ "sda", "read", 1, 9, 4096, 1500000000, 7, &hist, true },
		{ "sda", "read", 2, 1, 512, 2500000001, 7, NULL, true },
		{ "dm-0", "write", 2, 0, 0, 1, 7, NULL, false },
		{ "dm-1", "write", 2, 0, 0, 0, 7, NULL, false }, /* nothing */
	};
	struct metrics_source *s;
	struct metrics *m = opened(1000, no_pid, &s);
	size_t size;
	char *text;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		hist_add(&hist, times[i], 1);
	assert_int_equal(metrics_add(s, rows, ARRAY_SIZE(rows)), 0);
	text = written(m, METRICS_CLASSIC, &size);
	assert_golden("metrics.classic", text, size);
	free(text);
	text = written(m, METRICS_OPENMETRICS, &size);
	assert_golden("metrics.openmetrics", text, size);
	free(text);
	metrics_close(m);
}

/* Whatever the interval holds: sums only grow, rows that are absent stay. */
static void test_adds_up(void **state)
{
	const struct row row = { "sda", "read", 1, 3, UINT64_MAX, UINT64_MAX, 0, NULL, true };
	const struct render_interval in = { .rows = &row, .n = 1 };
	struct error err = { .status = STATUS_OK };
	struct metrics_source *s;
	struct metrics *m = opened(1000, no_pid, &s);

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(renderer_interval(metrics_renderer(s), &in, &err), 0);
	assert_int_equal(metrics_add(s, NULL, 0), 0);
	has(m, "\niotrace_block_io_requests_total{device=\"sda\",operation=\"read\"} 9\n", true);
	/* three times 2^64 - 1 ns */
	has(m,
	    "\niotrace_block_io_time_seconds_total{device=\"sda\",operation=\"read\"} "
	    "55340232221.128654845\n",
	    true);
	has(m, "p99", false);
	has(m, "pid", false);
	has(m, "hidden", false);
	has(m, "KiB", false);
	has(m, "\niotrace_block_io_works{device=\"sda\",operation=\"read\"} 1\n", true);
	metrics_close(m);
}

/* Labels are names that others chose. */
static void test_labels(void **state)
{
	const struct row rows[] = {
		{ "a\"b\\c\xc3\xb6", "", 0, 1, 0, 0, 0, NULL, false },
		{ "\xff\xc3\xa4\x01\x1b[2J\xe2\x80\xae", "}", 0, 1, 0, 0, 0, NULL, false },
		{ "(other)", "read", 0, 1, 0, 0, 0, NULL, false },
	};
	char name[1000];
	const struct row longest = { name, "read", 0, 1, 0, 0, 0, NULL, false };
	struct metrics_source *s;
	struct metrics *m = opened(1000, no_hist, &s);

	(void)state;
	memset(name, 0xff, sizeof(name));
	name[sizeof(name) - 1] = 0;
	assert_int_equal(metrics_add(s, rows, ARRAY_SIZE(rows)), 0);
	assert_int_equal(metrics_add(s, &longest, 1), 0);
	has(m, "{device=\"a\\\"b\\\\c\xc3\xb6\",operation=\"\"} 1\n", true);
	has(m,
	    "{device=\"\\\\xff\xc3\xa4\\\\x01\\\\x1b[2J\\\\xe2\\\\x80\\\\xae\",operation=\"}\"} 1\n",
	    true);
	has(m, "{device=\"(other)\",operation=\"read\"} 1\n", true);
	has(m, "\\\\xff\\\\xff...\",operation=\"read\"} 1\n", true);
	metrics_close(m);
}

/* However many names there are: the sum is whole, the output bounded, an operation stays one. */
static void test_bound(void **state)
{
	struct metrics_source *s;
	struct metrics *m = opened(10, only_bytes, &s);
	uint64_t sum = 0, shown = 0;
	size_t size, lines = 0;
	char *text;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		char disk[32];
		struct row row = { disk, i & 1 ? "read" : "write", 0, 0, i, 0, 0, NULL, false };

		snprintf(disk, sizeof(disk), "sd%" PRIu64, i);
		sum += i;
		assert_int_equal(metrics_add(s, &row, 1), 0);
	}
	text = written(m, METRICS_CLASSIC, &size);
	for (char *line = text, *next; (next = strchr(line, '\n')); line = next + 1) {
		const char *value;

		if (*line == '#')
			continue;
		*next = 0;
		value = strrchr(line, ' ');
		assert_non_null(value);
		shown += strtoull(value, NULL, 10);
		lines++;
	}
	free(text);
	assert_int_equal(lines, 12); /* 10, and others that read and that write */
	assert_int_equal(metrics_series(m), 12);
	assert_int_equal(shown, sum);
	has(m, "{device=\"(other)\",operation=\"read\"}", true);
	has(m, "{device=\"(other)\",operation=\"write\"}", true);
	metrics_close(m);
}

static enum metrics_presence sda_gone(void *ctx, const char *key, const char *value, bool changed)
{
	(void)ctx;
	(void)changed;
	assert_string_equal(key, "disk");
	assert_string_not_equal(value, METRICS_OTHER);
	return strcmp(value, "sda") == 0 ? METRICS_GONE : METRICS_THERE;
}

/* A disk that goes ends its series, and makes room; if it comes back, it begins at 0. */
static void test_end(void **state)
{
	const struct row a = { "sda", "read", 0, 0, 5, 0, 0, NULL, false },
			 b = { "sdb", "read", 0, 0, 6, 0, 0, NULL, false },
			 c = { "sdc", "read", 0, 0, 7, 0, 0, NULL, false };
	struct metrics_source *s;
	struct metrics *m = opened(2, only_bytes, &s);

	(void)state;
	assert_int_equal(metrics_add(s, &a, 1), 0);
	assert_int_equal(metrics_add(s, &b, 1), 0);
	assert_int_equal(metrics_add(s, &c, 1), 0);
	has(m, "{device=\"(other)\",operation=\"read\"} 7\n", true);
	assert_int_equal(metrics_end(m, 1000, sda_gone, NULL), 0);
	assert_int_equal(metrics_end(m, 1000 + KEPT, sda_gone, NULL), 1);
	has(m, "\"sda\"", false);
	has(m, "{device=\"(other)\",operation=\"read\"} 7\n", true);
	assert_int_equal(metrics_series(m), 2);
	assert_int_equal(metrics_limited(s), 1);
	assert_int_equal(metrics_add(s, &a, 1), 0);
	has(m, "{device=\"sda\",operation=\"read\"} 5\n", true);
	has(m, "{device=\"(other)\",operation=\"read\"} 7\n", true);
	assert_int_equal(metrics_limited(s), 1);
	metrics_close(m);
}

/* Whoever read it first: it stays as long after its last row. */
static void test_end_late(void **state)
{
	const struct row a = { "sda", "read", 0, 0, 5, 0, 0, NULL, false },
			 none = { "sda", "read", 0, 0, 0, 0, 0, NULL, false };
	struct metrics_source *s;
	struct metrics *m = opened(2, only_bytes, &s);
	uint64_t now = 1;

	(void)state;
	for (int i = 1; i < 4; i++) {
		char line[40];

		snprintf(line, sizeof(line), "operation=\"read\"} %d\n", 5 * i);
		assert_int_equal(metrics_add(s, &a, 1), 0);
		has(m, line, true);
		assert_int_equal(metrics_end(m, now, sda_gone, NULL), 0);
		now += KEPT - 1;
		assert_int_equal(metrics_end(m, now, sda_gone, NULL), 0);
		has(m, line, true);
		now++;
	}
	/* Nothing was done. */
	assert_int_equal(metrics_add(s, &none, 1), 0);
	assert_int_equal(metrics_end(m, now, sda_gone, NULL), 1);
	has(m, "sda", false);
	metrics_close(m);
}

struct guest_row {
	const char *event, *guest;
	uint64_t events;
};

static const struct column events[] = {
	{ "event", NULL, COLUMN_STR, ROLE_LABEL, "", "event", offsetof(struct guest_row, event), 0,
	  true, NULL },
	{ "guest", NULL, COLUMN_STR, ROLE_LABEL, "", "guest", offsetof(struct guest_row, guest), 0,
	  true, NULL },
	{ "events", NULL, COLUMN_U64, ROLE_COUNTER, "events", "events",
	  offsetof(struct guest_row, events), 0, false, NULL },
};
static const struct schema of_guests = { events, ARRAY_SIZE(events), sizeof(struct guest_row) };

static enum metrics_presence guest_gone(void *ctx, const char *key, const char *value, bool changed)
{
	(void)ctx;
	(void)changed;
	assert_string_equal(key, "guest");
	return *value ? METRICS_GONE : METRICS_THERE;
}

static struct metrics *opened_guests(size_t most, struct metrics_source **s)
{
	struct metrics *m;

	assert_int_equal(metrics_open(most + 1, KEPT, &m), 0);
	assert_int_equal(metrics_source(m, "vm", &of_guests, NULL, 1, s), 0);
	return m;
}

/* A guest's events end together, after the last of them, however rare one of them is. */
static void test_end_together(void **state)
{
	static const struct guest_row rows[] = { { "rare", "vm", 1 },
						 { "often", "vm", 2 },
						 { "often", "other", 4 },
						 { "often", "", 8 } };
	struct metrics_source *s;
	struct metrics *m = opened_guests(10, &s);
	uint64_t now = 1;

	(void)state;
	assert_int_equal(metrics_add(s, rows, ARRAY_SIZE(rows)), 0);
	assert_int_equal(metrics_end(m, now, guest_gone, NULL), 0);
	now += KEPT - 1;
	assert_int_equal(metrics_add(s, &rows[1], 1), 0);
	assert_int_equal(metrics_end(m, now, guest_gone, NULL), 0);
	now++;
	assert_int_equal(metrics_end(m, now, guest_gone, NULL), 1);
	has(m, "\nvm_events_total{guest=\"vm\",event=\"rare\"} 1\n", true);
	has(m, "\nvm_events_total{guest=\"vm\",event=\"often\"} 4\n", true);
	has(m, "guest=\"other\"", false);
	now += KEPT - 1;
	assert_int_equal(metrics_end(m, now, guest_gone, NULL), 2);
	has(m, "guest=\"\",event=\"often\"} 8\n", true);
	assert_int_equal(metrics_series(m), 1);
	metrics_close(m);
}

/* A series whose disk is gone makes room for others once it was scraped, not before. */
static void test_end_for_room(void **state)
{
	const struct row a = { "sda", "read", 0, 0, 5, 0, 0, NULL, false },
			 b = { "sdb", "read", 0, 0, 6, 0, 0, NULL, false };
	struct metrics_source *s;
	struct metrics *m = opened(1, only_bytes, &s);

	(void)state;
	assert_int_equal(metrics_add(s, &a, 1), 0);
	assert_int_equal(metrics_end(m, 1, sda_gone, NULL), 0);
	assert_int_equal(metrics_add(s, &b, 1), 0);
	has(m, "{device=\"sda\",operation=\"read\"} 5\n", true);
	has(m, "{device=\"(other)\",operation=\"read\"} 6\n", true);
	metrics_close(m);

	m = opened(1, only_bytes, &s);
	assert_int_equal(metrics_add(s, &a, 1), 0);
	has(m, "{device=\"sda\",operation=\"read\"} 5\n", true);
	assert_int_equal(metrics_end(m, 1, sda_gone, NULL), 0);
	assert_int_equal(metrics_add(s, &b, 1), 0);
	has(m, "sda", false);
	has(m, "{device=\"sdb\",operation=\"read\"} 6\n", true);
	assert_int_equal(metrics_series(m), 1);
	metrics_close(m);
}

/* A guest with events keeps all its series, wherever in a drain its row is.  The series of a guest
 * that has ended are dropped together. */
static void test_room_of_guests(void **state)
{
	static const struct guest_row before[] = { { "often", "vm", 1 }, { "rare", "vm", 2 } },
				      rows[] = { { "often", "new", 1 }, { "often", "vm", 8 } };
	struct metrics_source *s;
	struct metrics *m = opened_guests(2, &s);

	(void)state;
	assert_int_equal(metrics_add(s, before, ARRAY_SIZE(before)), 0);
	has(m, "\nvm_events_total{guest=\"vm\",event=\"rare\"} 2\n", true);
	assert_int_equal(metrics_end(m, 1, guest_gone, NULL), 0);
	assert_int_equal(metrics_add(s, rows, ARRAY_SIZE(rows)), 0);
	has(m, "\nvm_events_total{guest=\"vm\",event=\"rare\"} 2\n", true);
	has(m, "\nvm_events_total{guest=\"vm\",event=\"often\"} 9\n", true);
	has(m, "{guest=\"(other)\",event=\"(other)\"} 1\n", true);
	assert_int_equal(metrics_end(m, 2, guest_gone, NULL), 0);
	assert_int_equal(metrics_add(s, rows, 1), 0);
	has(m, "guest=\"vm\"", false);
	has(m, "\nvm_events_total{guest=\"new\",event=\"often\"} 1\n", true);
	metrics_close(m);
}

static enum metrics_presence quiet_gone(void *ctx, const char *key, const char *value, bool changed)
{
	(void)ctx;
	(void)key;
	(void)value;
	return changed ? METRICS_THERE : METRICS_GONE;
}

/* A series that still changes counts as present, and stays. */
static void test_changing(void **state)
{
	const struct row a = { "sda", "read", 0, 0, 5, 0, 0, NULL, false },
			 b = { "sdb", "read", 0, 0, 5, 0, 0, NULL, false };
	struct metrics_source *s;
	struct metrics *m = opened(1, only_bytes, &s);

	(void)state;
	assert_int_equal(metrics_add(s, &a, 1), 0);
	has(m, "{device=\"sda\",operation=\"read\"} 5\n", true);
	assert_int_equal(metrics_end(m, 1, quiet_gone, NULL), 0);
	assert_int_equal(metrics_add(s, &b, 1), 0);
	has(m, "{device=\"sda\",operation=\"read\"} 5\n", true);
	has(m, "{device=\"(other)\",operation=\"read\"} 5\n", true);
	assert_int_equal(metrics_end(m, 2, quiet_gone, NULL), 0);
	assert_int_equal(metrics_add(s, &b, 1), 0);
	has(m, "sda", false);
	metrics_close(m);
}

static enum metrics_presence all_there(void *ctx, const char *key, const char *value, bool changed)
{
	(void)ctx;
	(void)key;
	(void)value;
	(void)changed;
	return METRICS_THERE;
}

static void add_disk(struct metrics_source *s, const char *disk, uint64_t bytes)
{
	const struct row row = { disk, "read", 0, 0, bytes, 0, 0, NULL, false };

	assert_int_equal(metrics_add(s, &row, 1), 0);
}

static void disk_is(struct metrics *m, const char *disk, uint64_t bytes)
{
	char line[64];

	snprintf(line, sizeof(line), "{device=\"%s\",operation=\"read\"} %" PRIu64 "\n", disk,
		 bytes);
	has(m, line, true);
}

/* Without room the one that did least lately, and was read, gives way; not to one that does less,
 * and what was not read does not.  It is back when every reader has seen that it was gone. */
static void test_smallest_gives_way(void **state)
{
	struct metrics_source *s;
	struct metrics *m = opened(2, only_bytes, &s);

	(void)state;
	assert_int_equal(metrics_end(m, 1, all_there, NULL), 0);
	add_disk(s, "sda", 5);
	add_disk(s, "sdb", 6);
	add_disk(s, "sdc", 7);
	disk_is(m, "(other)", 7);
	add_disk(s, "sdc", 4);
	disk_is(m, "(other)", 11);
	add_disk(s, "sdc", 7);
	disk_is(m, "sdc", 7);
	disk_is(m, "sdb", 6);
	disk_is(m, "(other)", 11);
	has(m, "sda", false);
	assert_int_equal(metrics_series(m), 3);
	add_disk(s, "sda", 100);
	disk_is(m, "(other)", 111);
	assert_int_equal(metrics_limited(s), 3);
	assert_int_equal(metrics_end(m, KEPT, all_there, NULL), 0);
	add_disk(s, "sda", 100);
	disk_is(m, "(other)", 211);
	assert_int_equal(metrics_end(m, 1 + KEPT, all_there, NULL), 0);
	add_disk(s, "sda", 100);
	disk_is(m, "sda", 100);
	has(m, "sdb", false);
	metrics_close(m);
}

/* A row that is in the same drain does not, wherever in it. */
static void test_same_drain(void **state)
{
	const struct row rows[] = { { "sdb", "read", 0, 0, 9, 0, 0, NULL, false },
				    { "sda", "read", 0, 0, 1, 0, 0, NULL, false } };
	struct metrics_source *s;
	struct metrics *m = opened(1, only_bytes, &s);

	(void)state;
	add_disk(s, "sda", 5);
	disk_is(m, "sda", 5);
	assert_int_equal(metrics_add(s, rows, ARRAY_SIZE(rows)), 0);
	disk_is(m, "sda", 6);
	disk_is(m, "(other)", 9);
	metrics_close(m);
}

/* Which series get room depends on recent values; old values have little weight. */
static void test_age(void **state)
{
	const uint64_t minute = 60000000000;
	struct metrics_source *s;
	struct metrics *m = opened(1, only_bytes, &s);

	(void)state;
	add_disk(s, "sda", 32);
	disk_is(m, "sda", 32);
	for (uint64_t i = 1; i < 4; i++)
		assert_int_equal(metrics_end(m, i * minute, all_there, NULL), 0);
	add_disk(s, "sdb", 4);
	disk_is(m, "(other)", 4);
	assert_int_equal(metrics_end(m, 4 * minute, all_there, NULL), 0);
	add_disk(s, "sdb", 4);
	disk_is(m, "sdb", 4);
	metrics_close(m);
}

/* A source with many names does not push out another's series: each source gets its share back. */
static void test_shares(void **state)
{
	struct metrics_source *s, *t;
	struct metrics *m;
	char name[32];

	(void)state;
	assert_int_equal(metrics_open(8 + 2 * OTHERS, KEPT, &m), 0);
	assert_int_equal(metrics_source(m, "few", &schema, only_bytes, 3, &s), 0);
	assert_int_equal(metrics_source(m, "many", &schema, only_bytes, 1, &t), 0);
	for (int i = 0; i < 180; i++) {
		snprintf(name, sizeof(name), "idle%d", i);
		add_disk(t, name, 1000);
	}
	has(m, "\nmany_bytes_total{device=\"idle7\",operation=\"read\"} 1000\n", true);
	has(m, "\nmany_bytes_total{device=\"idle8\"", false);
	for (int i = 0; i < 7; i++) {
		snprintf(name, sizeof(name), "sd%d", i);
		add_disk(s, name, 1);
	}
	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "sd%d", i);
		disk_is(m, name, 1);
	}
	has(m, "\nfew_bytes_total{device=\"(other)\",operation=\"read\"} 1\n", true);
	has(m, "\nmany_bytes_total{device=\"(other)\",operation=\"read\"} 172000\n", true);
	assert_int_equal(metrics_limited(s), 1);
	assert_int_equal(metrics_limited(t), 172);
	assert_int_equal(metrics_series(m), 10); /* of which two are of others */
	metrics_close(m);
}

/* However many sources, operations and names, with labels of few values only among them: never more
 * than the bound. */
static void test_hard_bound(void **state)
{
	static const char *const only_op[] = { "pid", "disk", "time_ns", "up", "io", NULL };
	const size_t most = 200;
	struct metrics_source *sources[4];
	struct hist hist = { 0 };
	struct metrics *m;
	char disk[32], op[32];
	size_t size;
	uint64_t lines = 0;
	char *text;

	(void)state;
	hist_add(&hist, 5, 1);
	assert_int_equal(metrics_open(most, KEPT, &m), 0);
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		assert_int_equal(
		    metrics_source(m, "x", &schema, i & 1 ? only_op : only_bytes, 1, &sources[i]),
		    0);
	assert_true(metrics_least(m) <= most);
	for (uint64_t i = 0; i < 4000; i++) {
		struct row row = { disk, op, 0, 1, 1 + i % 7, 0, 0, &hist, false };

		snprintf(disk, sizeof(disk), "d%" PRIu64, i % 100);
		snprintf(op, sizeof(op), "o%" PRIu64, i % 11);
		assert_int_equal(metrics_add(sources[i % ARRAY_SIZE(sources)], &row, 1), 0);
		assert_true(metrics_series(m) <= most);
		if (i % 50 == 0)
			has(m, "no such text", false);
		if (i % 500 == 0)
			metrics_end(m, i, all_there, NULL);
	}
	text = written(m, METRICS_CLASSIC, &size);
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		lines += *line != '#';
	assert_int_equal(lines, metrics_series(m));
	assert_true(lines > most / 2);
	free(text);
	metrics_close(m);
}

static enum metrics_presence as_said(void *ctx, const char *key, const char *value, bool changed)
{
	(void)key;
	(void)value;
	(void)changed;
	return *(enum metrics_presence *)ctx;
}

/* A disk that is back keeps its series, even if idle; if it goes again, the time starts anew. */
static void test_back(void **state)
{
	const struct row a = { "sda", "flush", 0, 0, 5, 0, 0, NULL, false },
			 b = { "sdb", "read", 0, 0, 5, 0, 0, NULL, false };
	enum metrics_presence is = METRICS_GONE;
	struct metrics_source *s;
	struct metrics *m = opened(1, only_bytes, &s);
	uint64_t now = 1;

	(void)state;
	assert_int_equal(metrics_add(s, &a, 1), 0);
	has(m, "{device=\"sda\",operation=\"flush\"} 5\n", true);
	assert_int_equal(metrics_end(m, now, as_said, &is), 0);
	now += KEPT;
	is = METRICS_THERE;
	assert_int_equal(metrics_end(m, now, as_said, &is), 0);
	assert_int_equal(metrics_add(s, &b, 1), 0);
	has(m, "{device=\"sda\",operation=\"flush\"} 5\n", true);
	has(m, "{device=\"(other)\",operation=\"read\"} 5\n", true);

	is = METRICS_GONE;
	assert_int_equal(metrics_end(m, now, as_said, &is), 0);
	now += KEPT;
	is = METRICS_NOT_LOOKED; /* it may be there */
	assert_int_equal(metrics_end(m, now, as_said, &is), 0);
	is = METRICS_GONE; /* and was not */
	assert_int_equal(metrics_end(m, now, as_said, &is), 1);
	metrics_close(m);
}

/* A disk could be called so. */
static void test_called_other(void **state)
{
	const struct row rows[] = { { "other", "read", 0, 0, 5, 0, 0, NULL, false },
				    { "sdb", "read", 0, 0, 6, 0, 0, NULL, false } };
	struct metrics_source *s;
	struct metrics *m = opened(1, only_bytes, &s);

	(void)state;
	assert_int_equal(metrics_add(s, rows, 2), 0);
	has(m, "{device=\"other\",operation=\"read\"} 5\n", true);
	has(m, "{device=\"(other)\",operation=\"read\"} 6\n", true);
	metrics_close(m);
}

/* A guest is called as its owner likes: the others are not among it. */
static void test_guest_called_other(void **state)
{
	static const struct guest_row rows[] = { { "often", "(other)", 1 }, { "often", "vm", 2 } };
	struct metrics_source *s;
	struct metrics *m;

	(void)state;
	assert_int_equal(metrics_open(2, KEPT, &m), 0);
	assert_int_equal(metrics_source(m, "vm", &of_guests, NULL, 1, &s), 0);
	assert_int_equal(metrics_add(s, rows, ARRAY_SIZE(rows)), 0);
	has(m, "{guest=\"\\\\x28other)\",event=\"often\"} 1\n", true);
	has(m, "{guest=\"(other)\",event=\"(other)\"} 2\n", true);
	metrics_close(m);
}

static void test_label(void **state)
{
	char text[METRICS_LABEL_SIZE], many[400];

	(void)state;
	assert_int_equal(metrics_label(text, "a\"b"), 4);
	assert_string_equal(text, "a\"b");
	memset(many, 'x', sizeof(many) - 1);
	many[sizeof(many) - 1] = 0;
	assert_int_equal(metrics_label(text, many), 256 + 3 + 1);
	assert_string_equal(text + 256, "...");
}

/* A table without labels, and two of one process. */
static void test_no_labels(void **state)
{
	static const struct column plain[] = {
		{ "cpu_ns", NULL, COLUMN_U64, ROLE_COUNTER, "ns", "time", 0, 0, false, NULL },
	};
	static const struct schema one = { plain, 1, sizeof(uint64_t) };
	const uint64_t ns = 1250000000;
	struct metrics_source *s, *t;
	struct metrics *m = opened(1, only_bytes, &t);

	(void)state;
	assert_int_equal(metrics_source(m, "process", &one, NULL, 0, &s), 0);
	has(m, "process", false); /* nothing was counted yet */
	assert_int_equal(metrics_add(s, &ns, 1), 0);
	has(m, "\nprocess_cpu_seconds_total 1.25\n", true);
	metrics_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_adds_up),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_end_late),
		cmocka_unit_test(test_end_together),
		cmocka_unit_test(test_end_for_room),
		cmocka_unit_test(test_room_of_guests),
		cmocka_unit_test(test_changing),
		cmocka_unit_test(test_back),
		cmocka_unit_test(test_smallest_gives_way),
		cmocka_unit_test(test_same_drain),
		cmocka_unit_test(test_age),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_hard_bound),
		cmocka_unit_test(test_called_other),
		cmocka_unit_test(test_guest_called_other),
		cmocka_unit_test(test_label),
		cmocka_unit_test(test_no_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
