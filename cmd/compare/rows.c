// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/compare/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cli/report.h"
#include "cmd/compare/stats.h"
#include "cmd/engine/csv.h"
#include "cmd/engine/part.h"
#include "core/base/array.h"
#include "core/base/clock.h"

#define ROWS_MOST 4096
#define REQUESTS  30 /* of A and B together: with fewer a row is left out */
#define KEY_SIZE  4096

const char *const compare_keys[COMPARE_KEYS] = { "op",	 "io",	      "layer",	"disk",
						 "unit", "container", "cgroup", "user",
						 "comm", "file",      "dir" };

/* ---- blocks ---- */

static void add_counts(struct compare_counts *to, const struct compare_counts *from)
{
	to->requests += from->requests;
	to->time_ns += from->time_ns;
	to->bytes += from->bytes;
	to->errors += from->errors;
}

static uint32_t add_slot(uint32_t a, uint64_t b)
{
	return b < UINT32_MAX - a ? a + (uint32_t)b : UINT32_MAX;
}

/* Adds each @group blocks up, to at most @most blocks. */
static void join_row(struct compare_row *row, int side, size_t group, size_t most)
{
	struct compare_counts *counts = row->counts[side];

	for (size_t i = 0; i < COMPARE_BLOCKS; i++) {
		const struct compare_counts from = counts[i];
		const size_t to = i / group < most ? i / group : most - 1;

		if (to == i)
			continue;
		counts[i] = (struct compare_counts){ 0 };
		add_counts(&counts[to], &from);
		for (size_t k = 0; row->slots[side] && k < HIST_FINE_SLOTS; k++) {
			uint32_t *slot = &row->slots[side][i][k];
			const uint32_t value = *slot;

			*slot = 0;
			row->slots[side][to][k] = add_slot(row->slots[side][to][k], value);
		}
	}
}

static void join(struct compare_table *table, int side, size_t group, size_t most)
{
	struct compare_times *times = &table->times[side];

	for (size_t i = 0; i < table->n; i++)
		join_row(table->rows[i], side, group, most);
	for (size_t i = 0; i < COMPARE_BLOCKS; i++) {
		const double secs = times->secs[i];

		times->secs[i] = 0;
		times->secs[i / group < most ? i / group : most - 1] += secs;
	}
	times->per *= group;
}

size_t compare_rows_join(struct compare_table *table, int side)
{
	const struct compare_times *times = &table->times[side];
	const size_t length = stats_block_length(times->n);
	const size_t group = (length + times->per - 1) / times->per;
	const size_t n = times->n / (times->per * group) ?: 1;

	join(table, side, group, n);
	return n;
}

/* ---- reading ---- */

struct reading {
	struct compare_table *table;
	int side;
	uint64_t chosen; /* --rows */
	struct csv csv;
	char *heading;		 /* its names */
	char start[32], end[32]; /* of the present interval */
	uint64_t keys;
	bool no_memory, has_slots;
	/* The second time, for the histograms of the rows that are compared: */
	bool again;
	size_t n; /* intervals so far */
};

static uint64_t seed_of(const char *bytes, size_t n)
{
	uint64_t seed = 14695981039346656037U; /* FNV-1a */

	for (size_t i = 0; i < n; i++)
		seed = (seed ^ (unsigned char)bytes[i]) * 1099511628211U;
	return seed;
}

/* The row of the present line; NULL: it is left out. */
static struct compare_row *find_row(struct reading *r)
{
	struct compare_table *table = r->table;
	struct compare_row **added;
	char key[KEY_SIZE];
	size_t len = 0;
	uint32_t number;

	for (int i = 0; i < COMPARE_KEYS; i++) {
		const char *label = r->keys & 1U << i ? csv_text(&r->csv, compare_keys[i]) : "";
		const size_t size = strlen(label) + 1;

		if (len + size > sizeof(key)) {
			table->left_out += !r->again;
			return NULL;
		}
		memcpy(key + len, label, size);
		len += size;
	}
	number = intern_find(&table->names, key, len);
	if (number != INTERN_NONE)
		return table->rows[number];
	if (r->again)
		return NULL;
	if (table->n == ROWS_MOST) {
		table->left_out++;
		return NULL;
	}
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	added = ARRAY_ADD(table->rows, table->n);
	if (added)
		*added = calloc(1, sizeof(**added));
	if (!added || !*added || intern_bytes(&table->names, key, len, NULL) == INTERN_NONE) {
		r->no_memory = true;
		return NULL;
	}
	(*added)->seed = seed_of(key, len);
	return *added;
}

/* "SLOT:COUNT;SLOT:COUNT" */
static void add_slots(struct reading *r, struct compare_row *row, size_t block, const char *text)
{
	uint32_t(**slots)[HIST_FINE_SLOTS] = &row->slots[r->side];
	char *next;

	if (!*slots) {
		*slots = calloc(COMPARE_BLOCKS, sizeof(**slots)); /* 344 KB */
		r->no_memory |= !*slots;
	}
	while (*slots && *text) {
		const unsigned long slot = strtoul(text, &next, 10);

		if (*next != ':' || slot >= HIST_FINE_SLOTS)
			return;
		(*slots)[block][slot] =
		    add_slot((*slots)[block][slot], strtoull(next + 1, &next, 10));
		text = next + (*next == ';');
	}
}

static void set_interval(struct reading *r, const char *start, const char *end)
{
	snprintf(r->start, sizeof(r->start), "%s", start);
	snprintf(r->end, sizeof(r->end), "%s", end);
	r->n++;
}

/* The block of the present line; a new one if its interval is. */
static size_t find_block(struct reading *r)
{
	struct compare_times *times = &r->table->times[r->side];
	const char *start = csv_text(&r->csv, "start"), *end = csv_text(&r->csv, "end");
	double from = strtod(start, NULL), to = strtod(end, NULL);

	if (!r->n || strcmp(start, r->start) != 0 || strcmp(end, r->end) != 0) {
		if (!times->n)
			times->start = from;
		if (times->n && times->n == times->per * COMPARE_BLOCKS)
			join(r->table, r->side, 2, COMPARE_BLOCKS);
		times->end = to;
		times->secs[times->n / times->per] += to > from ? to - from : 0;
		times->n++;
		set_interval(r, start, end);
	}
	return (times->n - 1) / times->per;
}

static double number_of(const struct csv *csv, const char *name, const char *other)
{
	return csv_number(csv, *csv_text(csv, name) ? name : other);
}

static void add_line(struct reading *r)
{
	const size_t block = find_block(r);
	struct compare_row *row;

	if (!*csv_text(&r->csv, "op"))
		return; /* an interval without rows */
	row = find_row(r);
	if (!row)
		return;
	add_counts(&row->counts[r->side][block],
		   &(struct compare_counts){
		       .requests = number_of(&r->csv, "count", "io"),
		       .time_ns = number_of(&r->csv, "total_ns", "time_ns"),
		       .bytes = csv_number(&r->csv, "bytes"),
		       .errors = csv_number(&r->csv, "errors"),
		   });
}

/* The histogram of the present line, of the same intervals as the first time. */
static void add_hist(struct reading *r)
{
	const struct compare_times *times = &r->table->times[r->side];
	const char *start = csv_text(&r->csv, "start"), *end = csv_text(&r->csv, "end");
	struct compare_row *row;

	if (!r->n && strtod(start, NULL) != times->start)
		return;
	if (!r->n || strcmp(start, r->start) != 0 || strcmp(end, r->end) != 0)
		set_interval(r, start, end);
	row = r->n <= times->n ? find_row(r) : NULL;
	if (row && row->chosen)
		add_slots(r, row, (r->n - 1) / times->per, csv_text(&r->csv, "slots"));
}

static bool has_column(const struct reading *r, const char *name)
{
	for (size_t i = 0; i < r->csv.n; i++)
		if (strcmp(r->csv.names[i], name) == 0)
			return true;
	return false;
}

static size_t take_heading(struct reading *r, const char *text)
{
	const size_t len = strcspn(text, "\n");

	if (!text[len])
		return 0;
	r->heading = strndup(text, len + 1);
	if (!r->heading) {
		r->no_memory = true;
		return 0;
	}
	csv_open(&r->csv, r->heading);
	r->has_slots = has_column(r, "slots");
	r->keys = 0;
	for (int key = 0; key < COMPARE_KEYS; key++)
		if (has_column(r, compare_keys[key]))
			r->keys |= 1U << key;
	if (!has_column(r, "count"))
		r->keys &= ~(1U << COMPARE_IO); /* of top it is a number */
	if (r->chosen) {
		if (!(r->chosen & 1U << COMPARE_LAYER))
			r->keys &= ~(1U << COMPARE_IO);
		r->keys &= r->chosen | 1U << COMPARE_OP | 1U << COMPARE_IO;
	}
	return len + 1;
}

static size_t take_text(void *ctx, char *text)
{
	struct reading *r = ctx;
	const size_t skipped = r->heading ? 0 : take_heading(r, text);

	if (!r->heading)
		return 0;
	for (r->csv.next = text + skipped; csv_next(&r->csv);)
		(r->again ? add_hist : add_line)(r);
	return (size_t)(r->csv.next - text);
}

/* The last line of @errors, which notes may precede, without "iotrace: ": of @name, "A" or "B". */
static int pass_error(const char *name, const char *errors, int status, struct error *err)
{
	const char *what = errors, *next = errors;

	for (; *next; next += strcspn(next, "\n"), next += *next != 0)
		if (strncmp(next, "iotrace: ", 9) == 0)
			what = next + 9;
	if (!*what)
		what = "its replay was ended";
	return error_set(err, status == STATUS_USAGE ? STATUS_USAGE : STATUS_FAILED,
			 status == STATUS_USAGE ? -ENOENT : -EIO, "%s: %.*s", name,
			 (int)strcspn(what, "\n"), what);
}

/* Losses and notes. */
static void report_lines(const char *name, const char *lines)
{
	for (size_t len; *lines; lines += len + (lines[len] != 0)) {
		len = strcspn(lines, "\n");
		if (strncmp(lines, "iotrace: ", 9) == 0 && len > 9)
			report_line("%s: %.*s", name, (int)len - 9, lines + 9);
	}
}

static int read_text(struct reading *r, const char *path, const char *begin, const char *end,
		     struct error *err)
{
	const char *args[] = { "--replay", path, "--csv", "--slots", NULL, NULL, NULL, NULL, NULL };
	size_t n = 4;
	const char *name = r->side ? "B" : "A";
	struct part part;
	int code;

	if (*begin) {
		args[n++] = "--begin";
		args[n++] = begin;
	}
	if (*end) {
		args[n++] = "--end";
		args[n++] = end;
	}
	code = part_read(r->table->subcommand, args, take_text, r, &part, err);
	if (!code && part.status)
		code = pass_error(name, part.errors, part.status, err);
	else if (!code && !r->again)
		report_lines(name, part.errors);
	if (!code && (r->no_memory || part.cut))
		code = error_no_memory(err);
	part_free(&part);
	free(r->heading);
	r->heading = NULL;
	return code;
}

static void put_time(double seconds, char to[CLOCK_TEXT_SIZE + 1])
{
	char clock[CLOCK_TEXT_SIZE];

	snprintf(to, CLOCK_TEXT_SIZE + 1, "%sZ",
		 clock_date((uint64_t)seconds * NS_PER_SEC, 0, clock));
}

/* Reads the histograms of the rows that have room for them.  A recording may grow meanwhile, so
 * that another time is ten minutes before its end. */
static int read_again(struct reading *r, const struct compare_source *source, struct error *err)
{
	const struct compare_times *times = &r->table->times[r->side];
	const bool whole = !*source->begin && !*source->end;
	char begin[CLOCK_TEXT_SIZE + 1] = "", end[CLOCK_TEXT_SIZE + 1] = "";
	int code;

	r->again = true;
	r->n = 0;
	if (!whole) {
		put_time(times->start, begin);
		put_time(times->end + 1, end);
	}
	code = read_text(r, source->path, begin, end, err);
	if (!code && r->n < times->n)
		return error_set(err, STATUS_FAILED, -EAGAIN, "%s changed while it was read",
				 r->side ? "B" : "A");
	return code;
}

static int other_keys(struct error *err)
{
	error_set(err, STATUS_USAGE, -EINVAL, "the rows of A and B have different keys");
	error_hint(err, "--rows chooses keys that both have, such as disk");
	return -EINVAL;
}

static int most_first(const void *a, const void *b)
{
	const struct compare_row *x = *(struct compare_row *const *)a;
	const struct compare_row *y = *(struct compare_row *const *)b;

	if (x->requests != y->requests)
		return x->requests < y->requests ? 1 : -1;
	return (x->seed > y->seed) - (x->seed < y->seed);
}

static void free_row(struct compare_row *row)
{
	if (row)
		free(row->slots[0]);
	if (row)
		free(row->slots[1]);
	free(row);
}

/* Labels, and the rows with most requests: *chosen, COMPARE_ROWS of them at most. */
static size_t choose(struct compare_table *table, struct compare_row ***chosen)
{
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	struct compare_row **list = calloc(table->n + 1, sizeof(*list));
	size_t n = 0;

	*chosen = list;
	for (size_t i = 0; list && i < table->n; i++) {
		struct compare_row *row = table->rows[i];
		const char *label = intern_key(&table->names, (uint32_t)i);

		for (int key = 0; key < COMPARE_KEYS; key++, label += strlen(label) + 1)
			row->labels[key] = label;
		for (size_t k = 0; k < 2 * COMPARE_BLOCKS; k++)
			row->requests += row->counts[k & 1][k / 2].requests;
		if (row->requests >= REQUESTS)
			list[n++] = row;
	}
	if (n) /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
		qsort(list, n, sizeof(*list), most_first);
	n = n < COMPARE_ROWS ? n : COMPARE_ROWS;
	for (size_t i = 0; i < n; i++)
		list[i]->chosen = true;
	return n;
}

/* From here on the table has these rows alone. */
static void keep_rows(struct compare_table *table, struct compare_row **chosen, size_t n)
{
	for (size_t i = 0; i < table->n; i++)
		if (!table->rows[i]->chosen)
			free_row(table->rows[i]);
	table->left_out += table->n - n;
	free(table->rows);
	table->rows = chosen;
	table->n = n;
}

int compare_rows_read(struct compare_table *table, const struct compare_options *o,
		      struct error *err)
{
	struct reading sides[2];
	struct compare_row **busiest;
	int code = 0;
	size_t n;

	for (int side = 0; side < 2; side++) {
		struct reading *r = &sides[side];
		const struct compare_source *source = &o->sources[side];

		*r = (struct reading){ .table = table, .side = side, .chosen = o->keys };
		table->times[side].per = 1;
		code = read_text(r, source->path, source->begin, source->end, err);
		if (code)
			return code;
		if (!table->times[side].n)
			return error_set(err, STATUS_USAGE, -ENOENT,
					 "%s has no interval of %s in that time", side ? "B" : "A",
					 table->subcommand);
		if (side && r->keys != table->keys)
			return other_keys(err);
		table->keys = r->keys;
	}
	n = choose(table, &busiest);
	if (!busiest)
		return error_no_memory(err);
	for (size_t side = 0; !code && side < 2 && sides[0].has_slots && sides[1].has_slots; side++)
		code = read_again(&sides[side], &o->sources[side], err);
	if (code)
		free(busiest);
	else
		keep_rows(table, busiest, n);
	return code;
}

void compare_rows_free(struct compare_table *table)
{
	for (size_t i = 0; i < table->n; i++)
		free_row(table->rows[i]);
	free(table->rows);
	intern_free(&table->names);
}
