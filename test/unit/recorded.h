/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_UNIT_RECORDED_H
#define IOTRACE_TEST_UNIT_RECORDED_H

/* Recordings in memory, for the tests of subcommands.  After cmocka.h. */

#include "output/recording.h"

struct recorded {
	char *data;
	size_t size;
	FILE *stream;
	struct recording_reader *reader;
};

/* Begins a recording in @r; recorded_add() adds to it, recorded_finish() ends it. */
static inline struct recorder *recorded_begin(struct recorded *r, const struct recording_head *head,
					      const struct recording_table *tables, size_t n_tables)
{
	struct recorder *recorder;

	r->stream = open_memstream(&r->data, &r->size);
	assert_non_null(r->stream);
	assert_int_equal(recorder_open(r->stream, &recorder), 0);
	assert_int_equal(recorder_head(recorder, head, tables, n_tables), 0);
	return recorder;
}

static inline void recorded_add(struct recorder *recorder,
				const struct recording_interval *interval)
{
	assert_int_equal(recorder_interval(recorder, interval), 0);
}

static inline void recorded_finish(struct recorded *r, struct recorder *recorder)
{
	assert_int_equal(recorder_end(recorder), 0);
	recorder_close(recorder);
	assert_int_equal(fclose(r->stream), 0);
}

static inline void recorded_play(struct recorded *r, const struct recording_table *tables,
				 size_t n_tables)
{
	struct error err;

	r->stream = fmemopen(r->data, r->size, "r");
	assert_non_null(r->stream);
	assert_int_equal(recording_reader_open(r->stream, "it", &r->reader, &err), 0);
	assert_int_equal(recording_reader_bind(r->reader, tables, n_tables, &err), 0);
}

static inline void recorded_next(struct recorded *r, struct recording_interval *out)
{
	struct error err;

	assert_int_equal(recording_reader_next(r->reader, out, &err), 1);
}

/* With GOLDEN_UPDATE it becomes test/data/recordings/@name, for test/replay. */
static inline void recorded_keep(const struct recorded *r, const char *name)
{
	char path[512];
	FILE *file;

	if (!getenv("GOLDEN_UPDATE"))
		return;
	snprintf(path, sizeof(path), "%s/../data/recordings/%s", TEST_SOURCE_DIR, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(r->data, 1, r->size, file), r->size);
	assert_int_equal(fclose(file), 0);
}

static inline void recorded_end(struct recorded *r)
{
	struct recording_interval none;
	struct error err;

	assert_int_equal(recording_reader_next(r->reader, &none, &err), 0);
	recording_reader_close(r->reader);
	fclose(r->stream);
	free(r->data);
}

#endif
