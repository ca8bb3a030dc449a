// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/narrow.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cli/report.h"
#include "cmd/engine/show.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/parse.h"
#include "core/base/text.h"
#include "output/pivot.h"

#define NAMES	   16 /* in a list */
#define SUM_ROWS   (1 << 18)
#define SUM_LOSSES 64

/* A name or number of an option's list. */
struct wanted {
	const char *text; /* of args: not NUL-terminated */
	size_t len;
	uint64_t number;
	bool found;
};

/* One option: a row has one of the names. */
struct choice {
	const struct args_option *option;
	const struct column *columns[ARGS_COLUMNS];
	size_t n_columns;
	uint64_t least; /* ARGS_AT_LEAST, ARGS_UNLESS_YOUNGER */
	struct wanted wanted[NAMES];
	size_t n_wanted;
	struct text_seen seen;
};

struct narrow {
	const struct args *args;
	const struct tool_view *view;
	struct choice choices[ARGS_CHOICES];
	size_t n_choices;
	/* The view's columns, and behind its rows what else is chosen by. */
	struct column *columns;
	struct schema all;
	const struct schema *shown; /* the view's */
	bool joins;		    /* --by */
	struct pivot_kind kind;
	struct pivot_rows joined;
	/* By the recording machine's clock, ns; 0 and UINT64_MAX: all. */
	uint64_t from, to;
	/* Intervals so far; the number of the last one to be shown, 0: the one that says so. */
	size_t n, last;
	bool told; /* intervals are not cut */
	bool sums; /* --sum: what is added up so far is */
	struct pivot_rows sum;
	struct pivot_kind more; /* of the second table; .all NULL: none */
	struct pivot_rows more_sum;
	uint64_t sum_start_ns, sum_end_ns; /* the first and the last moment; end 0: nothing */
	struct loss losses[SUM_LOSSES];
	size_t n_losses;
	struct text_set loss_names;
	bool sum_shown; /* and is dropped when the next interval comes */
};

/* ---- times ---- */

struct span {
	uint64_t start, end; /* clock_local() */
	int32_t utc_offset;  /* at its end */
	bool any;
	/* Number of intervals; number of the last one that is at least partly between them. */
	size_t n, last;
};

static bool is_between(const struct narrow *w, uint64_t start, uint64_t end)
{
	return (!w->from || end > w->from) && (w->to == UINT64_MAX || start < w->to);
}

/* What is in @file, which is at its beginning again then. */
static int find_span(const struct narrow *w, FILE *file, const char *name, struct span *span,
		     struct error *err)
{
	struct recording_reader *reader = NULL;
	struct recording_interval in;
	struct error unused; /* the replay meets it again */

	*span = (struct span){ .any = false };
	if (!recording_reader_open(file, name, &reader, &unused) &&
	    !recording_reader_bind(reader, NULL, 0, &unused))
		while (recording_reader_next(reader, &in, &unused) > 0) {
			const uint64_t start = clock_local(in.interval.start_ns, in.utc_offset);

			if (!span->any || start < span->start)
				span->start = start;
			span->end = clock_local(in.interval.end_ns, in.utc_offset);
			span->utc_offset = in.utc_offset;
			span->any = true;
			span->n++;
			if (is_between(w, start, span->end))
				span->last = span->n;
		}
	recording_reader_close(reader);
	if (!fseek(file, 0, SEEK_SET))
		return 0;
	error_set(err, STATUS_USAGE, -ESPIPE, "--begin and --end need a file: %s is read only once",
		  name);
	return -ESPIPE;
}

#define DAY_NS (86400 * NS_PER_SEC)

/* How far @at is from the recording; 0: within it. */
static uint64_t distance(const struct span *span, uint64_t at)
{
	return at < span->start ? span->start - at : at > span->end ? at - span->end : 0;
}

/* A time of day: the last one that is within the recording, or not farther than @slack from it,
 * else the closest one; before @below.  *n: how many are within. */
static uint64_t find_clock(const struct span *span, uint64_t of_day, uint64_t slack, uint64_t below,
			   size_t *n)
{
	uint64_t day = span->start / DAY_NS * DAY_NS, at;

	*n = 0;
	at = day >= DAY_NS ? day - DAY_NS + of_day : of_day;
	for (; day <= span->end + DAY_NS && day + of_day < below; day += DAY_NS) {
		const bool within = distance(span, day + of_day) <= slack;

		*n += within;
		if (within || distance(span, day + of_day) < distance(span, at))
			at = day + of_day;
	}
	return at;
}

/* The first one after @from. */
static uint64_t next_clock(uint64_t from, uint64_t of_day)
{
	const uint64_t at = from / DAY_NS * DAY_NS + of_day;

	return at > from ? at : at + DAY_NS;
}

/* No time of day. */
static uint64_t find_moment(const struct span *span, const struct moment *moment)
{
	if (moment->kind == MOMENT_BEFORE_END)
		return span->end > moment->ns ? span->end - moment->ns : 0;
	if (moment->kind == MOMENT_UTC)
		return clock_local(moment->ns, span->utc_offset);
	return moment->ns;
}

static void tell_day(const char *option, const char *text, uint64_t at, size_t n)
{
	char date[CLOCK_TEXT_SIZE];

	if (n > 1)
		report_line("note: %s %s is %s, the last of %zu such times in the recording",
			    option, text_shown(text).text, clock_date(at, 0, date), n);
}

#define AROUND_NS (150 * NS_PER_SEC) /* of --around, to both sides */

/* Who asks what happens now means a time that is not recorded yet: an interval has not ended. */
#define UNFINISHED_NS (60 * NS_PER_SEC)

/* --begin and --end; without a recording (span->any) only what is wrong with the options. */
static int resolve(struct narrow *w, const struct span *span, struct error *err)
{
	const struct args *args = w->args;
	const char *const option = args->around ? "--at" : "--begin";
	const uint64_t slack = args->around ? UNFINISHED_NS : 0;
	struct moment begin = { MOMENT_NONE, 0 }, end = begin;
	size_t n;
	int r = args->begin ? parse_moment(option, args->begin, &begin, err) : 0;

	if (!r && args->end)
		r = parse_moment("--end", args->end, &end, err);
	if (r || !span->any)
		return r;
	if (args->end && end.kind != MOMENT_CLOCK)
		w->to = find_moment(span, &end);
	if (begin.kind == MOMENT_CLOCK) {
		w->from = find_clock(span, begin.ns, slack, w->to, &n);
		tell_day(option, args->begin, w->from, n);
	} else if (args->begin) {
		w->from = find_moment(span, &begin);
	}
	if (end.kind == MOMENT_CLOCK) {
		w->to = find_clock(span, end.ns, 0, UINT64_MAX, &n);
		if (args->begin && (n > 1 || (w->to <= w->from && !distance(span, w->from))))
			w->to = next_clock(w->from > span->start ? w->from : span->start, end.ns);
		else
			tell_day("--end", args->end, w->to, n);
	}
	if (args->around) {
		w->to = w->from + AROUND_NS;
		w->from -= w->from < AROUND_NS ? w->from : AROUND_NS;
	}
	return 0;
}

static int check_span(const struct narrow *w, const struct span *span, struct error *err)
{
	char start[CLOCK_TEXT_SIZE], end[CLOCK_TEXT_SIZE];
	const bool empty = w->from >= w->to;

	if (!span->any || (!empty && span->last))
		return 0;
	error_set(err, STATUS_USAGE, -EINVAL,
		  empty ? "--begin is not before --end" : "nothing was recorded in that time");
	error_hint(err, "the recording is from %s to %s", clock_date(span->start, 0, start),
		   clock_date(span->end, 0, end));
	return -EINVAL;
}

/* From when to when all of it is. */
static int find_bounds(const struct narrow *w, const struct segments *segments, const char *name,
		       struct span *span, struct error *err)
{
	struct span end;
	int r = find_span(w, segments->files[0], name, span, err);

	/* The last one may have just begun. */
	for (size_t i = segments->n - 1; !r && i > 0; i--) {
		r = find_span(w, segments->files[i], name, &end, err);
		if (!r && end.any) {
			if (!span->any || end.start < span->start)
				span->start = end.start;
			span->end = end.end;
			span->utc_offset = end.utc_offset;
			span->any = true;
			break;
		}
	}
	return r;
}

/* The clock of the machine that recorded it may have been set, or was another. */
#define SLACK_NS (26 * 3600 * NS_PER_SEC)

/* Drops the segments that begin after --end, or end before --begin. */
static void choose_segments(const struct narrow *w, struct segments *segments)
{
	const struct segment_called *list = segments->names.list;
	size_t first = 0, n = segments->n;

	while (n > 1 && w->to != UINT64_MAX && list[n - 1].epoch_ns > w->to + SLACK_NS)
		n--;
	while (first + 1 < n && list[first + 1].epoch_ns + SLACK_NS < w->from)
		first++;
	segments_keep(segments, first, n - first);
}

/* Drops the first and the last segments whose intervals are all before, or after, the chosen time:
 * they may have been recorded with other options.  Counts the intervals of the others: @span. */
static int keep_shown(const struct narrow *w, struct segments *segments, const char *name,
		      struct span *span, struct error *err)
{
	size_t first = 0, n = 0;
	struct span one;
	int r = 0;

	*span = (struct span){ .any = false };
	for (size_t i = 0; !r && i < segments->n; i++) {
		r = find_span(w, segments->files[i], name, &one, err);
		if (one.any && !one.last && !span->last) {
			first = i + 1;
			span->n = 0;
			continue;
		}
		if (one.last)
			span->last = span->n + one.last;
		if (one.last || (!one.any && n == i))
			n = i + 1;
		span->n += one.n;
	}
	if (!r && span->last && segments->is_directory)
		segments_keep(segments, first, n - first);
	return r;
}

int narrow_open(const struct args *args, struct segments *segments, const char *name,
		struct narrow **out, struct error *err)
{
	struct narrow *w = calloc(1, sizeof(*w));
	struct span span = { .any = false }, bounds = span;
	int r = 0;

	*out = w;
	if (!w)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	w->args = args;
	w->to = UINT64_MAX;
	if (!args->begin && !args->end && !args->sums && !segments->is_directory)
		return 0;
	/* First what is wrong without the file. */
	r = resolve(w, &span, err);
	if (!r)
		r = find_bounds(w, segments, name, &bounds, err);
	if (!r)
		r = resolve(w, &bounds, err);
	if (r)
		return r;
	if (segments->is_directory)
		choose_segments(w, segments);
	r = keep_shown(w, segments, name, &span, err);
	w->last = args->end || args->around || args->sums || segments->is_directory ? span.last : 0;
	bounds.last = span.last;
	return r ? r : check_span(w, &bounds, err);
}

/* ---- columns ---- */

static int lacks(const char *option, const char *key, struct error *err)
{
	error_set(err, STATUS_USAGE, -ENOENT, "%s: the recording has no column '%s'", option, key);
	error_hint(err, "record with --by %s", strcmp(key, "pid") == 0 ? "process" : key);
	return -ENOENT;
}

/* The column @key of the table: the view's or, if the recording has it, one that is added. */
static const struct column *find_column(struct narrow *w, const struct recording_reader *reader,
					const char *table, const char *key)
{
	enum column_type type;
	struct column *added;

	if (!recording_reader_column(reader, table, key, &type) || type == COLUMN_HIST ||
	    type == COLUMN_FRAMES)
		return NULL;
	for (size_t i = 0; i < w->all.n; i++)
		if (w->columns[i].key && strcmp(w->columns[i].key, key) == 0)
			return &w->columns[i];
	added = &w->columns[w->all.n++];
	*added = (struct column){ .key = key, .type = type, .offset = w->all.row_size };
	w->all.row_size += sizeof(uint64_t);
	return added;
}

static int add_number(const struct choice *c, struct wanted *wanted, struct error *err)
{
	char text[64], name[ARGS_NAME_SIZE];

	snprintf(text, sizeof(text), "%.*s", (int)wanted->len, wanted->text);
	return parse_u64(args_name(c->option, name), text, 0, UINT32_MAX, &wanted->number, err);
}

#define DEV "/dev/"

/* "sda,/dev/sdb" */
static int add_names(struct choice *c, const char *text, struct error *err)
{
	char name[ARGS_NAME_SIZE];

	for (;; text++) {
		struct wanted *wanted = &c->wanted[c->n_wanted];

		if (c->n_wanted == NAMES)
			return error_set(err, STATUS_USAGE, -E2BIG, "%s: more than %d names",
					 args_name(c->option, name), NAMES);
		if (strncmp(text, DEV, strlen(DEV)) == 0)
			text += strlen(DEV);
		*wanted = (struct wanted){ .text = text, .len = strcspn(text, ",") };
		if (!wanted->len)
			return error_set(err, STATUS_USAGE, -EINVAL, "%s: a name is missing",
					 args_name(c->option, name));
		if (c->columns[0]->type != COLUMN_STR && add_number(c, wanted, err))
			return -EINVAL;
		c->n_wanted++;
		text += wanted->len;
		if (!*text)
			return 0;
	}
}

static bool is_time(const struct args_option *option)
{
	return option->chooses == ARGS_AT_LEAST || option->chooses == ARGS_UNLESS_YOUNGER;
}

static int add_value(struct choice *c, const char *text, struct error *err)
{
	char name[ARGS_NAME_SIZE];

	if (is_time(c->option))
		return parse_ms(args_name(c->option, name), text, &c->least, err);
	return add_names(c, text, err);
}

static int add_choice(struct narrow *w, const struct args_option *option,
		      const struct recording_reader *reader, const char *table, struct error *err)
{
	struct choice *c = &w->choices[w->n_choices];
	char name[ARGS_NAME_SIZE];

	c->option = option;
	for (size_t i = 0; i < ARGS_COLUMNS && option->columns[i]; i++) {
		const struct column *column = find_column(w, reader, table, option->columns[i]);

		if (column)
			c->columns[c->n_columns++] = column;
	}
	if (!c->n_columns)
		return lacks(args_name(option, name), option->columns[0], err);
	w->n_choices++;
	return 0;
}

static struct choice *find_choice(struct narrow *w, const struct args_option *option)
{
	for (size_t i = 0; i < w->n_choices; i++)
		if (w->choices[i].option == option)
			return &w->choices[i];
	return NULL;
}

/* --by: the recording has all labels of the rows to be made. */
static int check_labels(const struct narrow *w, const struct recording_reader *reader,
			const char *table, struct error *err)
{
	enum column_type type;

	for (size_t i = 0; i < w->shown->n; i++) {
		const struct column *column = &w->shown->columns[i];

		if (column->key && column->role == ROLE_LABEL &&
		    !recording_reader_column(reader, table, column->key, &type))
			return lacks("--by", column->key, err);
	}
	return 0;
}

static bool is_regrouped(const struct args *args)
{
	for (size_t i = 0; i < args->n_given; i++)
		if (args->given[i]->flags & ARGS_REGROUPS)
			return true;
	return false;
}

int narrow_tables(struct narrow *w, const struct recording_reader *reader,
		  const struct tool_view *view, struct recording_table *tables, size_t n,
		  struct error *err)
{
	const struct args *args = w->args;
	int r = 0;

	if (!n)
		return 0;
	w->view = view;
	w->shown = tables[0].schema;
	w->all = *w->shown;
	w->joins = is_regrouped(args);
	w->sums = args->sums && w->shown != view->other.schema; /* which are one output anyway */
	w->kind = (struct pivot_kind){ .all = w->shown, .identity = "start", .join = view->join };
	if (n > 1)
		w->more = (struct pivot_kind){ .all = tables[1].schema };
	w->columns = calloc(w->all.n + ARGS_CHOICES * ARGS_COLUMNS, sizeof(*w->columns));
	if (!w->columns)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	memcpy(w->columns, w->shown->columns, w->all.n * sizeof(*w->columns));
	w->all.columns = w->columns;
	if (w->sums && view->moments) {
		error_set(err, STATUS_USAGE, -EINVAL,
			  "--sum: the rows of this subcommand cannot be added up");
		error_hint(err, "--begin and --end choose the time without it");
		return -EINVAL;
	}
	if (w->joins)
		r = check_labels(w, reader, tables[0].name, err);
	for (size_t i = 0; !r && i < args->n_choices; i++) {
		const struct args_option *option = args->choices[i].option;

		if (!find_choice(w, option))
			r = add_choice(w, option, reader, tables[0].name, err);
		if (!r)
			r = add_value(find_choice(w, option), args->choices[i].text, err);
	}
	tables[0].schema = &w->all;
	return r;
}

/* ---- rows ---- */

static bool is_name(const char *text, size_t len, const struct wanted *wanted)
{
	return len == wanted->len && memcmp(text, wanted->text, len) == 0;
}

/* Is it one of the parts of @text, which @mark separates? */
static bool is_part(const char *text, char mark, const struct wanted *wanted)
{
	const char marks[] = { mark, 0 };

	for (;; text++) {
		size_t len = strcspn(text, marks);

		if (is_name(text, len, wanted))
			return true;
		text += len;
		if (!*text)
			return false;
	}
}

/* A cgroup with this name or path, or one below it; a unit, a container. */
static bool is_within(const char *path, const struct wanted *wanted)
{
	if (wanted->text[0] != '/')
		return is_part(path, '/', wanted);
	return strncmp(path, wanted->text, wanted->len) == 0 &&
	       (!path[wanted->len] || path[wanted->len] == '/' || wanted->len == 1);
}

static bool matches(const struct choice *c, const struct column *column, const void *row,
		    const struct wanted *wanted)
{
	const char *text;

	if (column->type != COLUMN_STR)
		return column_number(column, row) == wanted->number;
	text = column_text(column, row);
	/* A file system on several disks is called sda+sdb. */
	return c->option->chooses == ARGS_WITHIN
		   ? is_within(text, wanted)
		   : is_name(text, strlen(text), wanted) || is_part(text, '+', wanted);
}

/* To be able to say what there is. */
static void remember(struct choice *c, const void *row)
{
	const struct column *column = c->columns[0];
	char number[24];

	if (column->type != COLUMN_STR)
		snprintf(number, sizeof(number), "%" PRIu64, column_number(column, row));
	text_seen_add(&c->seen, column->type == COLUMN_STR ? column_text(column, row) : number);
}

/* The first column that is not 0. */
static uint64_t time_of(const struct choice *c, const void *row)
{
	uint64_t ns = 0;

	for (size_t i = 0; !ns && i < c->n_columns; i++)
		ns = column_number(c->columns[i], row);
	return ns;
}

static bool chooses(struct choice *c, const void *row)
{
	bool found = false;

	if (is_time(c->option))
		return time_of(c, row) >= c->least ||
		       (c->option->chooses == ARGS_UNLESS_YOUNGER && !time_of(c, row));
	for (size_t i = 0; i < c->n_wanted; i++)
		for (size_t k = 0; k < c->n_columns; k++)
			if (matches(c, c->columns[k], row, &c->wanted[i]))
				found = c->wanted[i].found = true;
	if (!found)
		remember(c, row);
	return found;
}

/* All options look at each row, so that each knows what there is. */
static bool is_chosen(struct narrow *w, const void *row)
{
	bool chosen = true;

	for (size_t i = 0; i < w->n_choices; i++)
		chosen &= chooses(&w->choices[i], row);
	return chosen;
}

/* Not another one? */
static bool names_disk(const struct choice *c, const char *disk)
{
	bool found = strcmp(c->columns[0]->key, "disk") != 0;

	for (size_t i = 0; i < c->n_wanted; i++)
		found |= is_name(disk, strlen(disk), &c->wanted[i]);
	return found;
}

/* In the reader's memory; the rows become the view's. */
static void choose_rows(struct narrow *w, struct recording_rows *rows)
{
	char *to = (char *)rows->rows;
	size_t n = 0;

	for (size_t i = 0; i < rows->n; i++) {
		const char *row = (const char *)rows->rows + i * w->all.row_size;

		if (is_chosen(w, row))
			memmove(to + n++ * w->shown->row_size, row, w->shown->row_size);
	}
	rows->n = n;
}

/* Leaves the rows of wanted disks in the second table. */
static void choose_more(const struct narrow *w, struct recording_rows *rows)
{
	const size_t size = w->more.all->row_size;
	char *to = (char *)rows->rows;
	size_t n = 0;

	for (size_t i = 0; i < rows->n; i++) {
		const char *row = (const char *)rows->rows + i * size;
		const char *disk = schema_text(w->more.all, row, "disk");
		bool chosen = true;

		for (size_t k = 0; k < w->n_choices; k++)
			chosen &= names_disk(&w->choices[k], disk);
		if (chosen)
			memmove(to + n++ * size, row, size);
	}
	rows->n = n;
}

static int join_rows(struct narrow *w, struct recording_rows *rows)
{
	const struct pivot_rows from = { &w->kind, (char *)rows->rows, rows->n, { NULL } };
	const struct pivot_view view = { .schema = w->shown };
	int r;

	pivot_free(&w->joined);
	r = pivot_make(&from, &view, &w->joined);
	*rows = (struct recording_rows){ w->joined.rows, w->joined.n };
	return r;
}

#define TOLD_NS (60 * NS_PER_SEC)

/* An interval that is much longer than what is wanted of it. */
static void tell_whole(struct narrow *w, uint64_t start, uint64_t end)
{
	char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE];

	if (w->told || ((start >= w->from || w->from - start < TOLD_NS) &&
			(end <= w->to || end - w->to < TOLD_NS)))
		return;
	w->told = true;
	report_line("note: an interval of the recording is shown whole: from %s to %s",
		    clock_date(start, 0, from), clock_date(end, 0, to));
}

/* ---- --sum ---- */

static int sum_losses(struct narrow *w, const struct interval *interval)
{
	for (size_t i = 0; i < interval->n_losses; i++) {
		const struct loss *from = &interval->losses[i];
		struct loss *to = w->losses;

		while (to < w->losses + w->n_losses && strcmp(to->key, from->key) != 0)
			to++;
		if (to == w->losses + SUM_LOSSES)
			continue;
		if (to == w->losses + w->n_losses) {
			*to = (struct loss){ .key = text_keep(&w->loss_names, from->key),
					     .text = text_keep(&w->loss_names, from->text) };
			if (!to->key || !to->text)
				return -ENOMEM;
			w->n_losses++;
		}
		to->count += from->count;
	}
	return 0;
}

static void empty_sum(struct narrow *w)
{
	pivot_free(&w->sum);
	pivot_free(&w->more_sum);
	w->sum_end_ns = 0;
	w->n_losses = 0;
}

/* Adds @in; NARROW_SHOW: that was the last one of the sum, which is in *@in. */
static int add_to_sum(struct narrow *w, struct recording_interval *in, struct error *err)
{
	const struct recording_rows *rows = &in->tables[0];
	const struct pivot_rows from = { &w->kind, (char *)rows->rows, rows->n, { NULL } };
	const struct recording_rows *more = &in->tables[1];
	const struct pivot_rows from_more = { &w->more, (char *)more->rows, more->n, { NULL } };
	const struct interval one = in->interval;

	/* The clock may have been set back. */
	if (!w->sum_end_ns || one.start_ns < w->sum_start_ns)
		w->sum_start_ns = one.start_ns;
	if (one.end_ns > w->sum_end_ns)
		w->sum_end_ns = one.end_ns;
	if (w->sum.n + rows->n > SUM_ROWS || w->more_sum.n + more->n > SUM_ROWS) {
		error_set(err, STATUS_FAILED, -E2BIG, "--sum: more than %d rows", SUM_ROWS);
		error_hint(err, "choose a shorter time, or --by fewer keys");
		return -E2BIG;
	}
	if (pivot_add(&w->sum, &from, NULL, SUM_ROWS) || sum_losses(w, &in->interval) ||
	    (w->more.all && pivot_add(&w->more_sum, &from_more, NULL, SUM_ROWS)))
		return error_no_memory(err);
	/* The next one would end later than half of an interval beyond it. */
	if (!in->last && (!w->args->sum_ns || one.end_ns + (one.end_ns - one.start_ns) / 2 <
						  w->sum_start_ns + w->args->sum_ns))
		return NARROW_ADD;
	in->tables[0] = (struct recording_rows){ w->sum.rows, w->sum.n };
	in->tables[1] = (struct recording_rows){ w->more_sum.rows, w->more_sum.n };
	in->interval.start_ns = w->sum_start_ns;
	in->interval.end_ns = w->sum_end_ns;
	in->interval.losses = w->losses;
	in->interval.n_losses = w->n_losses;
	w->sum_shown = true;
	return NARROW_SHOW;
}

int narrow_interval(struct narrow *w, void *ctx, struct recording_interval *in, struct error *err)
{
	const uint64_t start = clock_local(in->interval.start_ns, in->utc_offset);
	const uint64_t end = clock_local(in->interval.end_ns, in->utc_offset);
	struct recording_rows *rows = &in->tables[0];
	int r = 0;

	w->n++;
	if (w->sum_shown)
		empty_sum(w);
	w->sum_shown = false;
	if (!is_between(w, start, end))
		return NARROW_SKIP;
	tell_whole(w, start, end);
	in->last = w->last ? w->n == w->last : in->last;
	if (w->n_choices)
		choose_rows(w, rows);
	if (w->n_choices && w->more.all)
		choose_more(w, &in->tables[1]);
	if (w->joins)
		r = join_rows(w, rows);
	if (r)
		return error_no_memory(err);
	if (w->sums) {
		r = add_to_sum(w, in, err);
		if (r != NARROW_SHOW)
			return r;
		r = 0;
	}
	if ((w->n_choices || w->joins || w->sums) && w->view->narrowed)
		r = w->view->narrowed(ctx, (void *)rows->rows, rows->n, w->joins || w->sums);
	return r ? error_no_memory(err) : NARROW_SHOW;
}

void narrow_times(const struct narrow *w, uint64_t *from, uint64_t *to)
{
	*from = w->from;
	*to = w->to;
}

bool narrow_ends(const struct narrow *w)
{
	return w->last && w->n == w->last;
}

/* ---- the end ---- */

static void report(const struct choice *c, const struct wanted *wanted)
{
	char text[65], list[TEXT_SEEN_SIZE], there[sizeof(list) + 32] = "";
	struct text_close close = { .wanted = text };

	snprintf(text, sizeof(text), "%.*s", (int)wanted->len, wanted->text);
	for (size_t i = 0; i < c->seen.n && c->columns[0]->type == COLUMN_STR; i++)
		text_close_add(&close, c->seen.list[i].text);
	if (close.names[0][0])
		snprintf(there, sizeof(there), " (did you mean %.64s?)", close.names[0]);
	else if (c->seen.n)
		snprintf(there, sizeof(there), " (it has: %s)", text_seen_told(&c->seen, list));
	report_line("no row of the recording has the %s '%s'%s", c->columns[0]->key,
		    text_shown(text).text, there);
}

void narrow_report(const struct narrow *w)
{
	for (size_t i = 0; i < w->n_choices; i++)
		for (size_t k = 0; k < w->choices[i].n_wanted; k++)
			if (!w->choices[i].wanted[k].found)
				report(&w->choices[i], &w->choices[i].wanted[k]);
}

void narrow_close(struct narrow *w)
{
	if (!w)
		return;
	pivot_free(&w->joined);
	pivot_free(&w->sum);
	pivot_free(&w->more_sum);
	text_set_free(&w->loss_names);
	free(w->columns);
	free(w);
}
