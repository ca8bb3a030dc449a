// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/compare/picture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/engine/show.h"
#include "core/base/array.h"
#include "core/isolation/outfile.h"
#include "output/render.h"
#include "output/stacks.h"

#define FRAMES_MOST 1024	/* of a stack: docs/RECORDING.md */
#define MEMORY_MOST (256 << 20) /* of all names and paths */

/* The names of a path: numbers of picture.names.  Then two lists of frames, leaf first, each ended
 * by INTERN_NONE: of the kernel, and of user space. */
enum { DISK, COMM, LABELS, HEAD = LABELS + STACK_LABELS };

struct picture {
	struct intern names, paths;
	struct stack_pair *pairs; /* by path; their rows are set last */
	size_t n;
	enum stack_unit unit;
	/* While A or B is read: */
	int side;
	struct csv csv;
	char *heading;
	char start[32], end[32]; /* of the present interval */
	double secs[2];
	bool no_memory, too_large;
};

/* ---- reading ---- */

static uint32_t add_name(struct picture *p, const char *name, size_t len)
{
	char text[8192];
	uint32_t number;

	snprintf(text, sizeof(text), "%.*s", (int)len, name);
	compare_decode(text);
	number = intern_text(&p->names, text);
	p->no_memory |= number == INTERN_NONE;
	return number;
}

/* Adds the frames of @column, and the end, to the @n numbers of @path; returns how many it has. */
static size_t add_frames(struct picture *p, const char *column, uint32_t *path, size_t n)
{
	const char *next = csv_text(&p->csv, column);

	for (size_t frames = 0; *next && frames < FRAMES_MOST; frames++) {
		const size_t len = strcspn(next, ";");

		path[n++] = add_name(p, next, len);
		next += len + (next[len] == ';');
	}
	path[n++] = INTERN_NONE;
	return n;
}

static uint64_t value_of(const struct picture *p)
{
	static const char *const columns[][2] = {
		[STACK_BYTES] = { "read_bytes", "write_bytes" },
		[STACK_IOS] = { "read_ios", "write_ios" },
		[STACK_TIME] = { "read_time_ns", "write_time_ns" },
		[STACK_WAIT] = { "read_wait_ns", "write_wait_ns" }
	};

	return strtoull(csv_text(&p->csv, columns[p->unit][0]), NULL, 10) +
	       strtoull(csv_text(&p->csv, columns[p->unit][1]), NULL, 10);
}

static void add_row(struct picture *p, uint64_t value)
{
	static const char *const labels[] = {
		[STACK_CGROUP] = "cgroup", [STACK_UNIT] = "unit", [STACK_CONTAINER] = "container",
		[STACK_USER] = "user",	   [STACK_FILE] = "file", [STACK_DIR] = "dir",
	};
	uint32_t path[HEAD + 2 * (FRAMES_MOST + 1)], number;
	const char *disk = csv_text(&p->csv, "disk"), *comm = csv_text(&p->csv, "comm");
	struct stack_pair *pair = NULL;
	size_t n = HEAD;
	int is_new = 0;

	if (intern_memory(&p->names) + intern_memory(&p->paths) > MEMORY_MOST) {
		p->too_large = true;
		return;
	}
	path[DISK] = add_name(p, disk, strlen(disk));
	path[COMM] = add_name(p, comm, strlen(comm));
	_Static_assert(ARRAY_SIZE(labels) == STACK_LABELS, "each has its column");
	for (int i = 0; i < STACK_LABELS; i++) {
		const char *label = csv_text(&p->csv, labels[i]);

		path[LABELS + i] = add_name(p, label, strlen(label));
	}
	n = add_frames(p, "kernel_stack", path, n);
	n = add_frames(p, "user_stack", path, n);
	number = intern_bytes(&p->paths, path, n * sizeof(*path), &is_new);
	if (is_new)
		pair = ARRAY_ADD(p->pairs, p->n);
	else if (number != INTERN_NONE)
		pair = &p->pairs[number];
	if (pair)
		pair->sums[p->side] += value;
	else
		p->no_memory = true;
}

/* Counts the time of each interval once. */
static void add_time(struct picture *p)
{
	const char *start = csv_text(&p->csv, "start"), *end = csv_text(&p->csv, "end");
	const double secs = strtod(end, NULL) - strtod(start, NULL);

	if (strcmp(start, p->start) == 0 && strcmp(end, p->end) == 0)
		return;
	p->secs[p->side] += secs > 0 ? secs : 0;
	snprintf(p->start, sizeof(p->start), "%s", start);
	snprintf(p->end, sizeof(p->end), "%s", end);
}

/* part_taker */
static size_t take_text(void *ctx, char *text)
{
	struct picture *p = ctx;
	const size_t len = p->heading ? 0 : strcspn(text, "\n");

	if (!p->heading) {
		p->heading = text[len] ? strndup(text, len + 1) : NULL;
		if (!p->heading)
			return 0;
		csv_open(&p->csv, p->heading);
		compare_columns(&p->csv, true);
	}
	for (p->csv.next = text + len + (len != 0); csv_next(&p->csv) && !p->no_memory;) {
		const uint64_t value = value_of(p);

		add_time(p);
		if (value)
			add_row(p, value);
	}
	return (size_t)(p->csv.next - text);
}

static int read_side(struct picture *p, const struct compare_source *source, struct error *err)
{
	static const char *const none[] = { NULL };
	struct part part;
	int r;

	p->start[0] = p->end[0] = 0;
	r = compare_read(source, p->side, "stack", none, take_text, p, &part, err);
	part_free(&part);
	free(p->heading);
	p->heading = NULL;
	if (!r && p->no_memory)
		r = error_no_memory(err);
	if (!r && p->too_large) {
		r = error_set(err, STATUS_FAILED, -E2BIG, "A and B have too many stacks to draw");
		error_hint(err, "compare shorter times: FILE@BEGIN..END");
	}
	return r;
}

/* ---- drawing ---- */

/* frames.next() */
static const char *next_frame(const void *owner, uint32_t *at)
{
	const struct picture *p = owner;
	const uint32_t number = ((const uint32_t *)(const void *)p->paths.bytes)[*at];

	if (number == INTERN_NONE)
		return NULL;
	(*at)++;
	return intern_key(&p->names, number);
}

static struct stack_row row_of(const struct picture *p, size_t i)
{
	const uint32_t *path = intern_key(&p->paths, (uint32_t)i);
	const uint32_t at = (uint32_t)(p->paths.at[i] / sizeof(*path));
	uint32_t user = HEAD;
	struct stack_row row = { .disk = intern_key(&p->names, path[DISK]),
				 .comm = intern_key(&p->names, path[COMM]) };

	while (path[user] != INTERN_NONE)
		user++;
	for (int label = 0; label < STACK_LABELS; label++)
		row.labels[label] = intern_key(&p->names, path[LABELS + label]);
	row.kernel = (struct frames){ next_frame, p, at + HEAD };
	row.user = (struct frames){ next_frame, p, at + user + 1 };
	return row;
}

static uint64_t most_of(const struct stack_pair *pair)
{
	return pair->sums[0] > pair->sums[1] ? pair->sums[0] : pair->sums[1];
}

static int smallest_first(const void *a, const void *b)
{
	const uint64_t x = most_of(a), y = most_of(b);

	return (x > y) - (x < y);
}

/* Both have something, and took some time: what is divided by is above 0. */
static int set_sides(const struct picture *p, const struct compare_options *o,
		     struct stacks_sides *sides, struct error *err)
{
	*sides = (struct stacks_sides){ .shares = o->shares };
	for (int side = 0; side < 2; side++) {
		double sum = 0;

		for (size_t i = 0; i < p->n; i++)
			sum += (double)p->pairs[i].sums[side];
		sides->whole[side] = o->shares ? sum : p->secs[side];
		if (!(sum > 0) || !(sides->whole[side] > 0))
			return error_set(err, STATUS_USAGE, -ENODATA, "%s has no I/O to draw",
					 side ? "B" : "A");
	}
	return 0;
}

static int draw(struct picture *p, const struct compare_options *o, FILE *stream, struct error *err)
{
	static const char *const whats[] = { "bytes", "I/Os", "time", "time off the CPU" };
	struct stacks_sides sides;
	char title[128], caption[512], a[128], b[128];
	int r = set_sides(p, o, &sides, err);

	if (r)
		return r;
	snprintf(title, sizeof(title), "I/O in %s by stack: from A to B, %s", whats[p->unit],
		 o->shares ? "shares of the sum" : "per second");
	snprintf(caption, sizeof(caption),
		 "A: %s, %.1f s; B: %s, %.1f s; %s; a path is as wide as the larger of A and B",
		 render_escape(o->sources[0].name, a, sizeof(a)), p->secs[0],
		 render_escape(o->sources[1].name, b, sizeof(b)), p->secs[1],
		 o->shares ? "each relative to its sum" : "each per second of its time");
	for (size_t i = 0; i < p->n; i++)
		p->pairs[i].row = row_of(p, i);
	qsort(p->pairs, p->n, sizeof(*p->pairs), smallest_first);
	r = stacks_svg_difference(stream, title, caption, p->unit, p->pairs, p->n, &sides);
	return r ? outfile_error(o->svg, r, err) : 0;
}

static int write_file(struct picture *p, const struct compare_options *o, struct error *err)
{
	struct outfile file = { NULL };
	int r;

	for (int i = 0; i < 2; i++)
		if (show_is_one_file(o->svg, o->sources[i].path))
			return error_set(err, STATUS_USAGE, -EINVAL,
					 "--svg and %s are the same file: %s", i ? "B" : "A",
					 o->svg);
	r = outfile_open(&file, o->svg, 0666, err);

	if (!r) {
		r = draw(p, o, file.stream, err) ?: outfile_commit(&file, err);
		outfile_discard(&file, false);
	}
	return r;
}

static bool has_unit(const struct compare_table *table, enum stack_unit unit)
{
	return table->values & (unit == STACK_WAIT    ? COMPARE_OF_WAITS
				: unit == STACK_BYTES ? COMPARE_OF_BYTES
						      : COMPARE_OF_IOS);
}

int compare_picture(const struct compare_options *o, const struct compare_table *table,
		    struct error *err)
{
	struct picture p = { .unit = table->values & COMPARE_OF_WAITS && !o->value_given
					 ? STACK_WAIT
					 : o->value };
	int r = 0;

	if (!has_unit(table, p.unit)) {
		error_set(err, STATUS_USAGE, -EINVAL, "A and B have not counted what --value says");
		error_hint(err, "recordings of stack --value ios or time have bytes, ios and time");
		return -EINVAL;
	}
	for (; !r && p.side < 2; p.side++)
		r = read_side(&p, &o->sources[p.side], err);
	if (!r)
		r = write_file(&p, o, err);
	intern_free(&p.names);
	intern_free(&p.paths);
	free(p.pairs);
	return r;
}
