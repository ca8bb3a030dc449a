// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/compare/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/compare/stats.h"
#include "core/base/array.h"
#include "core/base/clock.h"

#define ROWS_MOST 4096
#define REQUESTS  30 /* of A and B together: with fewer a row is left out */
#define KEY_SIZE  32768
/* A replay of stack begins with its smallest rows: the others are summed up. */
#define STACKS_MOST "4000"

const char *const compare_keys[COMPARE_KEYS] = { "op",		"io",	     "layer",  "disk",
						 "unit",	"container", "cgroup", "user",
						 "comm",	"file",	     "dir",    "user_stack",
						 "kernel_stack" };

/* ---- blocks ---- */

static void add_counts(struct compare_counts *to, const struct compare_counts *from)
{
	to->requests += from->requests;
	to->time_ns += from->time_ns;
	to->bytes += from->bytes;
	to->errors += from->errors;
	to->waits_ns += from->waits_ns;
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
	bool no_memory, has_slots, of_stack, of_value;
	unsigned int values;
	const char *op; /* of stack: of the present line; otherwise it has a column */
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
		const char *label = !(r->keys & 1U << i)       ? ""
				    : i == COMPARE_OP && r->op ? r->op
							       : csv_text(&r->csv, compare_keys[i]);
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

/* Reads, and writes. */
static void add_stack(struct reading *r, size_t block)
{
	static const char *const columns[2][4] = {
		{ "read_ios", "read_time_ns", "read_bytes", "read_wait_ns" },
		{ "write_ios", "write_time_ns", "write_bytes", "write_wait_ns" },
	};

	if (*csv_text(&r->csv, "kernel_stack"))
		r->table->stacks[r->side] |= COMPARE_OF_KERNEL;
	if (*csv_text(&r->csv, "user_stack"))
		r->table->stacks[r->side] |= COMPARE_OF_USER;
	for (int i = 0; i < 2; i++) {
		const struct compare_counts counts = {
			.requests = csv_number(&r->csv, columns[i][0]),
			.time_ns = csv_number(&r->csv, columns[i][1]),
			.bytes = csv_number(&r->csv, columns[i][2]),
			.waits_ns = csv_number(&r->csv, columns[i][3]),
		};
		struct compare_row *row;

		r->op = i ? "write" : "read";
		row = counts.requests + counts.bytes + counts.waits_ns > 0 ? find_row(r) : NULL;
		if (row)
			add_counts(&row->counts[r->side][block], &counts);
	}
}

static void add_line(struct reading *r)
{
	const size_t block = find_block(r);
	struct compare_row *row;

	if (r->of_stack) {
		add_stack(r, block);
		return;
	}
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

unsigned int compare_columns(struct csv *csv, bool of_stack)
{
	static const char *const names[][2] = { { "user", "user_stack" },
						{ "kernel", "kernel_stack" },
						{ "user_name", "user" } };

	for (size_t i = 0; of_stack && i < csv->n; i++)
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			if (strcmp(csv->names[i], names[k][0]) == 0) {
				csv->names[i] = names[k][1];
				break;
			}
	return !of_stack ? 0
			 : (csv_has(csv, "read_bytes") ? COMPARE_OF_BYTES : 0U) |
			       (csv_has(csv, "read_ios") ? COMPARE_OF_IOS : 0U) |
			       (csv_has(csv, "read_wait_ns") ? COMPARE_OF_WAITS : 0U);
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
	r->values = compare_columns(&r->csv, r->of_stack);
	r->has_slots = csv_has(&r->csv, "slots");
	r->of_value = csv_has(&r->csv, "total"); /* without a unit */
	r->keys = r->of_stack ? 1U << COMPARE_OP : 0;
	for (int key = 0; key < COMPARE_KEYS; key++)
		if (csv_has(&r->csv, compare_keys[key]))
			r->keys |= 1U << key;
	if (!csv_has(&r->csv, "count"))
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

/* Of @name, "A" or "B". */
static int pass_error(const char *name, const struct part *part, struct error *err)
{
	const bool usage = part->status == STATUS_USAGE;
	int len;
	const char *what = part_error(part, &len);

	return error_set(err, usage ? STATUS_USAGE : STATUS_FAILED, usage ? -ENOENT : -EIO,
			 "%s: %.*s", name, len, what);
}

/* @begin, @end: "" for all. */
static int read_part(const char *path, const char *begin, const char *end, int side,
		     const char *subcommand, const char *const *more, part_taker *take, void *ctx,
		     struct part *part, struct error *err)
{
	const char *args[12] = { "--replay", path, "--csv", "--slots" };
	size_t n = 4;
	int code;

	if (*begin) {
		args[n++] = "--begin";
		args[n++] = begin;
	}
	if (*end) {
		args[n++] = "--end";
		args[n++] = end;
	}
	while (*more && n + 1 < ARRAY_SIZE(args))
		args[n++] = *more++;
	code = part_read(subcommand, args, take, ctx, part, err);
	if (!code && part->status)
		code = pass_error(side ? "B" : "A", part, err);
	if (!code && part->cut)
		code = error_no_memory(err);
	return code;
}

int compare_read(const struct compare_source *source, int side, const char *subcommand,
		 const char *const *more, part_taker *take, void *ctx, struct part *part,
		 struct error *err)
{
	return read_part(source->path, source->begin, source->end, side, subcommand, more, take,
			 ctx, part, err);
}

static int read_text(struct reading *r, const char *path, const char *begin, const char *end,
		     struct error *err)
{
	static const char *const largest[] = { "-r", STACKS_MOST, NULL };
	struct part part;
	int code = read_part(path, begin, end, r->side, r->table->subcommand,
			     largest + (r->of_stack ? 0 : 2), take_text, r, &part, err);

	if (!code && !r->again)
		part_report(r->side ? "B" : "A", &part);
	if (!code && r->no_memory)
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

static int no_latencies(int side, struct error *err)
{
	error_set(err, STATUS_USAGE, -ENOENT, "%s is a recording of breakdown --value",
		  side ? "B" : "A");
	error_hint(err, "compare needs latencies: record breakdown without --value");
	return -ENOENT;
}

static int other_keys(struct error *err)
{
	error_set(err, STATUS_USAGE, -EINVAL, "the rows of A and B have different keys");
	error_hint(err, "--rows chooses keys that both have, such as disk");
	return -EINVAL;
}

/* What two recordings of stack have counted, and by which stacks, must be the same. */
static int other_stacks(const struct compare_table *table, unsigned int values_of_b,
			struct error *err)
{
	static const char *const values[] = { [COMPARE_OF_BYTES] = "bytes",
					      [COMPARE_OF_BYTES | COMPARE_OF_IOS] =
						  "bytes, I/Os and their time",
					      [COMPARE_OF_WAITS] = "waits" };
	static const char *const stacks[] = { "none", "of the kernel", "of user space", "both" };

	if (table->values != values_of_b) {
		error_set(err, STATUS_USAGE, -EINVAL,
			  "A and B have not counted the same: A %s, B %s", values[table->values],
			  values[values_of_b]);
		error_hint(err, "record both with the same --value");
		return -EINVAL;
	}
	if (table->stacks[0] != table->stacks[1]) {
		error_set(err, STATUS_USAGE, -EINVAL,
			  "A and B have other kinds of stacks: A %s, B %s",
			  stacks[table->stacks[0]], stacks[table->stacks[1]]);
		error_hint(err, "record both with the same of -K and -U, or --rows disk");
		return -EINVAL;
	}
	return 0;
}

/* Its stacks are keys of its rows. */
static bool by_stacks(const struct compare_table *table)
{
	return table->keys & (1U << COMPARE_KERNEL_STACK | 1U << COMPARE_USER_STACK);
}

static int most_first(const void *a, const void *b)
{
	const struct compare_row *x = *(struct compare_row *const *)a;
	const struct compare_row *y = *(struct compare_row *const *)b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
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
		for (size_t k = 0; k < 2 * COMPARE_BLOCKS; k++) {
			const struct compare_counts *counts = &row->counts[k & 1][k / 2];

			row->weight += table->values == COMPARE_OF_BYTES   ? counts->bytes
				       : table->values == COMPARE_OF_WAITS ? counts->waits_ns
									   : counts->requests;
		}
		if (row->weight >= REQUESTS)
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
		r->of_stack = strcmp(table->subcommand, "stack") == 0;
		table->times[side].per = 1;
		code = read_text(r, source->path, source->begin, source->end, err);
		if (code)
			return code;
		if (r->of_value)
			return no_latencies(side, err);
		if (!table->times[side].n)
			return error_set(err, STATUS_USAGE, -ENOENT,
					 "%s has no interval of %s in that time", side ? "B" : "A",
					 table->subcommand);
		if (side && r->keys != table->keys)
			return other_keys(err);
		table->keys = r->keys;
		if (side && r->of_stack && table->values != r->values)
			return other_stacks(table, r->values, err);
		table->values = r->values;
	}
	if (by_stacks(table) && table->stacks[0] != table->stacks[1])
		return other_stacks(table, table->values, err);
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

bool compare_rows_few(const struct compare_table *table)
{
	return table->values &&
	       (table->times[0].n < STATS_LEAST_BLOCKS || table->times[1].n < STATS_LEAST_BLOCKS);
}

void compare_decode(char *text)
{
	const char *from = text;
	char *to = text, digits[3] = "";

	while (*from) {
		unsigned long code = 0;

		if (from[0] == '\\' && from[1] == 'x' && from[2] && from[3]) {
			memcpy(digits, from + 2, 2);
			code = strtoul(digits, NULL, 16);
		}
		if (code >= ' ' && code < 0x7f) {
			*to++ = (char)code;
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = 0;
}

void compare_rows_free(struct compare_table *table)
{
	for (size_t i = 0; i < table->n; i++)
		free_row(table->rows[i]);
	free(table->rows);
	intern_free(&table->names);
}
