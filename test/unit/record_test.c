/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iotrace record: intervals without room, and which triggers are one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/record/record.c" /* NOLINT(bugprone-suspicious-include) */
#include "output/columns.h"
#include "capture.h"
#include "remove_tree.h"

static char folder[64];

static struct ring *opened(void)
{
	struct ring *ring;
	struct error err;

	snprintf(folder, sizeof(folder), "/tmp/iotrace-record-XXXXXX");
	assert_non_null(mkdtemp(folder));
	assert_int_equal(ring_open(folder, 1ULL << 30, NS_PER_SEC * 86400, &ring, &err), 0);
	return ring;
}

static void closed(struct ring *ring)
{
	assert_true(ring_close(ring));
	assert_int_equal(remove_tree(folder), 0);
}

/* What a look at the ring reports. */
static const char *said(struct record *r, struct capture *c)
{
	struct error err;

	capture_begin(c, STDERR_FILENO);
	assert_int_equal(look_at_ring(r, 0, &err), 0);
	return capture_end(c);
}

/* Without a thread nothing is taken out of the memory for writing. */
static void too_large(void **state)
{
	static struct capture c;
	struct ring *ring = opened();
	struct record r = { .ring = ring, .started = true, .o = { .dir = folder } };
	const size_t stream = ring_stream(ring, "top");
	const size_t detail = ring_stream_detail(ring, TRIGGER_DETAIL, 1, 1);
	char *bytes = calloc(1, RING_MEMORY), expected[256];

	(void)state;
	assert_non_null(bytes);
	assert_string_equal(said(&r, &c), "");
	/* As much as there is, less its own head. */
	assert_false(ring_begin(ring, detail, 1, bytes, RING_MEMORY));
	assert_string_equal(
	    said(&r, &c),
	    "iotrace: an interval of more than 12 MiB is not recorded: give a shorter "
	    "--interval, or details of fewer disks (detail='slow -m 0 -d DISK')\n");
	assert_false(ring_begin(ring, detail, 1, bytes, RING_MEMORY));
	assert_string_equal(said(&r, &c), ""); /* once */
	/* Details alone may fill it; then other streams have no room, which is the disk's fault. */
	assert_true(ring_begin(ring, detail, 1, bytes, RING_MEMORY - 64));
	assert_false(ring_put(ring, stream, bytes, 1000));
	snprintf(expected, sizeof(expected),
		 "iotrace: the disk of %s is too slow: intervals are not recorded\n", folder);
	assert_string_equal(said(&r, &c), expected);
	free(bytes);
	closed(ring);
}

struct hung {
	const char *kind, *op, *disk;
	uint64_t age_ns;
};

#define ROW struct hung
static const struct column columns[] = {
	LABEL(kind, NULL, 0, ""),
	LABEL(op, NULL, 0, ""),
	LABEL(disk, NULL, 0, ""),
	COUNTER(age_ns, NULL, 0, "ns", ""),
};

/* How many triggers there are of intervals of @interval_ns that all meet the condition but @but. */
static size_t triggers_of(uint64_t interval_ns, uint64_t after_ns, size_t n, size_t but)
{
	static const struct schema schema = SCHEMA(columns, struct hung);
	static const struct tool tool = { .name = "stuck" };
	static struct tool_run run;
	const struct hung row = { "request", "read", "sda", 9 * NS_PER_SEC };
	struct ring *ring = opened();
	struct triggers t = { .psi_fd = -1 };
	char path[128], line[256];
	struct error err;
	size_t found = 0;
	FILE *file;

	run.tool = &tool;
	run.show.tables[0] = (struct recording_table){ "rows", &schema };
	assert_int_equal(triggers_add(&t, "stuck>5s", &err), 0);
	assert_int_equal(ring_start(ring, &err), 0);
	triggers_open(&t, ring, after_ns, interval_ns);
	for (size_t i = 1; i <= n; i++) {
		struct recording_interval in = { .interval = { .end_ns = i * interval_ns } };

		in.tables[0] = (struct recording_rows){ &row, i != but };
		triggers_interval(&t, &run, &in);
	}
	triggers_close(&t);
	assert_true(ring_close(ring));
	snprintf(path, sizeof(path), "%s/triggers", folder);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		found += strstr(line, "stuck>5s: 9.0 s, read of sda") != NULL;
	fclose(file);
	assert_int_equal(remove_tree(folder), 0);
	return found;
}

/* What goes on is one trigger, also if an interval is longer than --after. */
static void one_trigger(void **state)
{
	(void)state;
	assert_int_equal(triggers_of(NS_PER_SEC, 30 * NS_PER_SEC, 100, 0), 1);
	assert_int_equal(triggers_of(NS_PER_SEC, NS_PER_SEC / 10, 100, 0), 1);
	assert_int_equal(triggers_of(60 * NS_PER_SEC, 30 * NS_PER_SEC, 10, 0), 1);
	assert_int_equal(triggers_of(60 * NS_PER_SEC, 30 * NS_PER_SEC, 10, 5), 2);
	assert_int_equal(triggers_of(NS_PER_SEC, 30 * NS_PER_SEC, 100, 50), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(too_large),
		cmocka_unit_test(one_trigger),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
