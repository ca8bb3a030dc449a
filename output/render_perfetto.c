// SPDX-License-Identifier: GPL-2.0-or-later
/* A trace for ui.perfetto.dev, in the JSON format of chrome://tracing. */
#include "output/render_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/intern.h"
#include "output/pivot.h"

/* A disk is a process of the trace, and a lane a thread of it: slices of a lane do not overlap. */
#define LANES_MOST (1 << 14)

struct lane {
	uint32_t disk;
	uint64_t end_ns; /* of its last slice */
};

/* Rows that are no requests are sums of an interval: of each object and operation there is a
 * counter track for each figure, on a process of the object. */
#define TRACKS_MOST (1 << 14)
#define OBJECT_SIZE 8192 /* of its name: a path, and more */
#define OP_SIZE	    256
#define GAP_NS	    (NS_PER_SEC / 2) /* between intervals: nothing was recorded */

struct track {
	uint32_t object;
	bool on;   /* its last value is not 0 */
	bool seen; /* it is in this interval */
};

enum { TIME, TOTAL, ADMIT, QUEUE, DEVICE, NUMBERS };
#define PHASES ADMIT

struct trace {
	const struct column *disk, *op, *numbers[NUMBERS];
	const struct column *count, *p99; /* of sums */
	struct intern names;		  /* of tracks: "OBJECT", NUL, "OPERATION" */
	struct track *tracks;		  /* by number of the name */
	size_t n_tracks;
	uint64_t end_ns; /* of the last interval; 0: none yet */
	char **disks;	 /* by number; and objects */
	size_t n_disks;
	struct lane *lanes;
	size_t n_lanes;
	uint64_t origin_ns; /* of the trace's clock, since the epoch; 0: not known yet */
	bool any;	    /* an event was written */
};

static const char *const keys[NUMBERS] = { "time", "total_ns", "admit_ns", "queue_ns",
					   "device_ns" };

static void free_trace(struct renderer *r)
{
	struct trace *t = r->own;

	for (size_t i = 0; t && i < t->n_disks; i++)
		free(t->disks[i]);
	if (t) {
		free(t->disks);
		free(t->lanes);
		free(t->tracks);
		intern_free(&t->names);
	}
	free(t);
	r->own = NULL;
}

static uint64_t number_of(const struct trace *t, int number, const void *row)
{
	return column_integer(t->numbers[number], row);
}

/* ---- events ---- */

static void begin_event(struct sink *sink, struct trace *t, const char *kind)
{
	sink_puts(sink, t->any ? ",{" : "{");
	t->any = true;
	json_member(sink, "ph", kind, true);
}

static void put_place(struct sink *sink, const struct trace *t, size_t lane)
{
	sink_printf(sink, ",\"pid\":%u,\"tid\":%zu", t->lanes[lane].disk + 1, lane + 1);
}

/* The name of a disk, an object or a lane: @what is "process_name" or "thread_name". */
static void put_name(struct sink *sink, struct trace *t, uint32_t disk, size_t lane,
		     const char *what, const char *name)
{
	begin_event(sink, t, "M");
	json_member(sink, "name", what, false);
	sink_printf(sink, ",\"pid\":%u,\"tid\":%zu", disk + 1, lane + 1);
	json_key(sink, "args", false);
	sink_puts(sink, "{");
	json_member(sink, "name", name, true);
	sink_puts(sink, "}}\n");
}

/* Nanoseconds as microseconds, the unit of the format. */
static void put_us(struct sink *sink, const char *key, int64_t ns)
{
	const uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;

	json_key(sink, key, false);
	sink_printf(sink, "%s%" PRIu64 ".%03" PRIu64, ns < 0 ? "-" : "", size / 1000, size % 1000);
}

static void put_slice(struct sink *sink, struct trace *t, size_t lane, const char *kind,
		      const char *name, uint64_t start_ns, uint64_t ns)
{
	begin_event(sink, t, "X");
	json_member(sink, "cat", kind, false);
	json_member(sink, "name", name, false);
	put_place(sink, t, lane);
	put_us(sink, "ts", (int64_t)(start_ns - t->origin_ns));
	put_us(sink, "dur", (int64_t)ns);
}

static void put_request(struct sink *sink, struct trace *t, size_t lane,
			const struct schema *schema, const void *row)
{
	static const char *const names[NUMBERS] = {
		[ADMIT] = "admit", [QUEUE] = "queue", [DEVICE] = "device"
	};
	uint64_t at = number_of(t, TIME, row);

	put_slice(sink, t, lane, "request", column_string(t->op, row), at,
		  number_of(t, TOTAL, row));
	json_key(sink, "args", false);
	json_row(sink, schema, row);
	sink_puts(sink, "}\n");
	for (int phase = PHASES; phase < NUMBERS; phase++) {
		const uint64_t ns = number_of(t, phase, row);

		if (ns) {
			put_slice(sink, t, lane, "phase", names[phase], at, ns);
			sink_puts(sink, "}\n");
		}
		at += ns;
	}
}

/* ---- lanes ---- */

/* The number of the disk @name; t->n_disks: out of memory. */
static size_t find_disk(struct trace *t, const char *name)
{
	size_t i = 0;
	char **added;

	while (i < t->n_disks && strcmp(t->disks[i], name) != 0)
		i++;
	if (i < t->n_disks)
		return i;
	added = ARRAY_ADD(t->disks, t->n_disks);
	if (!added)
		return t->n_disks;
	*added = strdup(name);
	if (!*added)
		t->n_disks--;
	return i;
}

/* The first lane of the row's disk that is free by then; a new one gets its names.  -errno with
 * @err: too many. */
static int find_lane(struct sink *sink, struct trace *t, const void *row, size_t *out,
		     struct error *err)
{
	const uint64_t start_ns = number_of(t, TIME, row);
	const size_t disk = find_disk(t, column_string(t->disk, row));
	size_t of_disk = 0;
	struct lane *added;
	char name[32];

	if (disk == t->n_disks)
		return error_no_memory(err);
	for (size_t i = 0; i < t->n_lanes; i++) {
		if (t->lanes[i].disk != disk)
			continue;
		of_disk++;
		if (t->lanes[i].end_ns <= start_ns) {
			*out = i;
			return 0;
		}
	}
	if (t->n_lanes == LANES_MOST)
		return error_set(err, STATUS_FAILED, -E2BIG,
				 "more than %d requests at the same time: no trace of so many",
				 LANES_MOST);
	*out = t->n_lanes;
	added = ARRAY_ADD(t->lanes, t->n_lanes);
	if (!added)
		return error_no_memory(err);
	added->disk = (uint32_t)disk;
	if (!of_disk)
		put_name(sink, t, added->disk, *out, "process_name", t->disks[disk]);
	snprintf(name, sizeof(name), "lane %zu", of_disk + 1);
	put_name(sink, t, added->disk, *out, "thread_name", name);
	return 0;
}

/* ---- counters ---- */

/* Adds @text to the @n characters of @name. */
static size_t add_text(char *name, size_t size, size_t n, const char *text)
{
	const int more = snprintf(name + n, size - n, "%s%s", n && *text ? " " : "", text);

	return more < 0 || n + (size_t)more >= size ? size - 1 : n + (size_t)more;
}

/* "sda blk", and "read" or "read cached": the values of its labels. */
static void name_row(const struct schema *schema, const void *row, char object[OBJECT_SIZE],
		     char op[OP_SIZE])
{
	size_t n = 0, n_op = 0;

	object[0] = op[0] = 0;
	for (size_t i = 0; i < schema->n; i++) {
		const struct column *c = &schema->columns[i];
		char number[24];

		if (!column_in_json(c) || c->role != ROLE_LABEL)
			continue;
		snprintf(number, sizeof(number), "%" PRIu64,
			 c->type == COLUMN_STR ? 0 : column_integer(c, row));
		if (c == schema_column(schema, "op") || c == schema_column(schema, "io") ||
		    c == schema_column(schema, "direction"))
			n_op = add_text(op, OP_SIZE, n_op, column_string(c, row));
		else
			n = add_text(object, OBJECT_SIZE, n,
				     c->type == COLUMN_STR ? column_string(c, row) : number);
	}
}

/* The track of @row; NULL with @err. */
static struct track *find_track(struct sink *sink, struct trace *t, const struct schema *schema,
				const void *row, struct error *err)
{
	char key[OBJECT_SIZE + OP_SIZE], op[OP_SIZE];
	struct track *track = NULL;
	size_t n_objects = t->n_disks, object, n;
	uint32_t number;
	int is_new = 0;

	name_row(schema, row, key, op);
	n = strlen(key) + 1;
	memcpy(key + n, op, strlen(op) + 1);
	if (t->n_tracks == TRACKS_MOST &&
	    intern_find(&t->names, key, n + strlen(op) + 1) == INTERN_NONE) {
		error_set(err, STATUS_FAILED, -E2BIG, "more than %d rows: no trace of so many",
			  TRACKS_MOST);
		return NULL;
	}
	number = intern_bytes(&t->names, key, n + strlen(op) + 1, &is_new);
	if (number != INTERN_NONE && !is_new)
		return &t->tracks[number];
	object = find_disk(t, key);
	if (number != INTERN_NONE && object < t->n_disks)
		track = ARRAY_ADD(t->tracks, t->n_tracks);
	if (!track) {
		error_no_memory(err);
		return NULL;
	}
	track->object = (uint32_t)object;
	if (t->n_disks > n_objects)
		put_name(sink, t, track->object, 0, "process_name", key);
	return track;
}

/* @row NULL: nothing happened from then on. */
static void put_counters(struct sink *sink, struct trace *t, const struct track *track,
			 const void *row, uint64_t start_ns, uint64_t ns)
{
	const char *name = intern_key(&t->names, (uint32_t)(track - t->tracks));
	const uint64_t count = row ? column_integer(t->count, row) : 0;
	/* Times in milliseconds; other values as they are. */
	const bool times = strcmp(t->p99->unit, "ns") == 0;
	const double unit = times ? 1e6 : 1;
	const double total = row ? (double)number_of(t, TOTAL, row) : 0;

	begin_event(sink, t, "C");
	json_member(sink, "name", name + strlen(name) + 1, false);
	sink_printf(sink, ",\"pid\":%u", track->object + 1);
	put_us(sink, "ts", (int64_t)(start_ns - t->origin_ns));
	sink_printf(sink, ",\"args\":{\"per second\":%.3f,\"average%s\":%.6f,\"p99%s\":%.6f}}\n",
		    ns ? (double)count * NS_PER_SEC / (double)ns : 0, times ? " ms" : "",
		    count ? total / (double)count / unit : 0, times ? " ms" : "",
		    row ? (double)column_integer(t->p99, row) / unit : 0);
}

/* Tracks that are not in the present interval are 0 from @at_ns on. */
static void end_tracks(struct sink *sink, struct trace *t, uint64_t at_ns)
{
	for (size_t i = 0; i < t->n_tracks; i++) {
		struct track *track = &t->tracks[i];

		if (track->on && !track->seen)
			put_counters(sink, t, track, NULL, at_ns, 0);
		track->on = track->seen;
		track->seen = false;
	}
}

static int put_sums(struct sink *sink, struct trace *t, const struct render_interval *in,
		    struct error *err)
{
	const uint64_t start_ns = in->interval.start_ns, ns = in->interval.end_ns - start_ns;

	if (t->end_ns && start_ns > t->end_ns + GAP_NS)
		end_tracks(sink, t, t->end_ns);
	for (size_t i = 0; i < in->n; i++) {
		const void *row = schema_row(in->schema, in->rows, i);
		struct track *track = find_track(sink, t, in->schema, row, err);

		if (!track)
			return -ENOMEM;
		track->seen = true;
		put_counters(sink, t, track, row, start_ns, ns);
	}
	end_tracks(sink, t, start_ns);
	t->end_ns = in->interval.end_ns;
	return 0;
}

/* ---- the format ---- */

static int perfetto_begin(struct renderer *r, const struct render_head *head, struct error *err)
{
	struct sink sink = sink_of(r->stream);
	struct trace *t = calloc(1, sizeof(*t));

	r->own = t;
	if (!t)
		return error_no_memory(err);
	t->disk = schema_column(head->schema, "disk");
	t->op = schema_column(head->schema, "op");
	for (int i = 0; i < NUMBERS; i++)
		t->numbers[i] = schema_column(head->schema, keys[i]);
	t->count = schema_column(head->schema, "count");
	t->p99 = schema_column(head->schema, "p99_ns") ?: schema_column(head->schema, "p99");
	if (!t->numbers[TOTAL])
		t->numbers[TOTAL] = schema_column(head->schema, "total");
	sink_puts(&sink, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
	return sink_flush(&sink);
}

static int by_time(const void *a, const void *b, void *trace)
{
	const uint64_t x = number_of(trace, TIME, *(const void *const *)a);
	const uint64_t y = number_of(trace, TIME, *(const void *const *)b);

	return (x > y) - (x < y);
}

static int put_rows(struct sink *sink, struct trace *t, const struct render_interval *in,
		    struct error *err)
{
	const void **rows = calloc(in->n ?: 1, sizeof(*rows));
	size_t lane = 0;
	int r = 0;

	if (!rows)
		return error_no_memory(err);
	for (size_t i = 0; i < in->n; i++)
		rows[i] = schema_row(in->schema, in->rows, i);
	if (in->n)
		qsort_r(rows, in->n, sizeof(*rows), by_time, t);
	for (size_t i = 0; !r && i < in->n; i++) {
		r = find_lane(sink, t, rows[i], &lane, err);
		if (r)
			break;
		t->lanes[lane].end_ns = number_of(t, TIME, rows[i]) + number_of(t, TOTAL, rows[i]);
		put_request(sink, t, lane, in->schema, rows[i]);
	}
	free(rows);
	return r;
}

static int perfetto_end(struct renderer *r, struct error *err)
{
	struct sink sink = sink_of(r->stream);
	struct trace *t = r->own;

	(void)err;
	if (!t)
		return 0;
	end_tracks(&sink, t, t->end_ns);
	sink_puts(&sink, "],\"otherData\":{\"iotrace\":\"" IOTRACE_VERSION "\",\"origin\":\"");
	put_seconds(&sink, t->origin_ns);
	sink_puts(&sink, "\"}}\n");
	free_trace(r);
	return sink_flush(&sink);
}

static int perfetto_interval(struct renderer *r, const struct render_interval *in,
			     struct error *err)
{
	struct sink sink = sink_of(r->stream);
	struct trace *t = r->own;
	int code;

	/* A double, which readers may use, has all digits of a number of nanoseconds up to 100
	 * days. Requests may have begun a day before. */
	if (!t->origin_ns)
		t->origin_ns = in->interval.start_ns / NS_PER_SEC * NS_PER_SEC - 86400 * NS_PER_SEC;
	code = t->numbers[TIME] ? put_rows(&sink, t, in, err) : put_sums(&sink, t, in, err);
	if (!code)
		code = sink_flush(&sink);
	if (code)
		perfetto_end(r, err); /* what there is can be read */
	return code;
}

const struct renderer_ops perfetto_renderer = {
	.begin = perfetto_begin,
	.interval = perfetto_interval,
	.losses = render_losses_apart,
	.end = perfetto_end,
	.must_end = true,
};
