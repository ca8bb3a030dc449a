// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/compare/show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/compare/stats.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "output/render.h"

#define WIDTH	   80
#define NAME_SIZE  2048
#define FEW_LISTED 10 /* changes of stacks, if which are chance is not known */

static const char *const whats[COMPARE_WHATS] = { "average",  "p99",   "distribution", "errors",
						  "requests", "bytes", "waits" };
static const char *const verdicts[] = { "worse", "better", "more", "less", "same" };

/* ---- text ---- */

/* @text, escaped, in at most @room columns: what is cut off ends with "...". */
static void put_name(const char *text, size_t room)
{
	char shown[NAME_SIZE];
	const char *at = render_escape(text, shown, sizeof(shown)), *cut = at;
	size_t used = 0;

	while (*at) {
		used += render_step(&at);
		if (used + 3 <= room)
			cut = at;
	}
	if (used <= room)
		fputs(shown, stdout);
	else
		printf("%.*s...", (int)(cut - shown), shown);
}

/* Adds @text to the @len characters of @name. */
static size_t add_text(char name[NAME_SIZE], size_t len, const char *before, const char *text)
{
	if (len + 1 < NAME_SIZE)
		snprintf(name + len, NAME_SIZE - len, "%s%s", before, text);
	return strlen(name);
}

/* "nginx.service on sda", "ext4 (cached)": what the row is about, besides its operation. */
static void name_row(const struct compare_row *row, char name[NAME_SIZE])
{
	const char *disk = row->labels[COMPARE_DISK];
	size_t len = 0;

	name[0] = 0;
	for (int key = COMPARE_LAYER; key < COMPARE_USER_STACK; key++) {
		const char *label = row->labels[key];

		/* Of a disk there is one layer. */
		if (*label && strcmp(label, "-") != 0 && key != COMPARE_DISK &&
		    (key != COMPARE_LAYER || !*disk))
			len = add_text(name, len, len ? " " : "", label);
	}
	compare_decode(name);
	len = strlen(name);
	if (*disk)
		len = add_text(name, len, len ? " on " : "", disk);
	if (*row->labels[COMPARE_IO])
		add_text(name, add_text(name, len, " (", row->labels[COMPARE_IO]), ")", "");
}

/* A number with a unit: three digits. */
static void put_scaled(double value, const char *const *units, size_t n, double step, char *to,
		       size_t size)
{
	size_t i = 0;

	for (; i + 1 < n && value >= step * (step > 1000 ? 1 : 0.9995); i++)
		value /= step;
	snprintf(to, size, "%.*f%s",
		 value >= 99.95 || i == 0 ? 0
		 : value >= 9.995	  ? 1
					  : 2,
		 value, units[i]);
}

static void put_value(enum compare_what what, double value, char *to, size_t size)
{
	static const char *const times[] = { " ns", " us", " ms", " s" };
	static const char *const waits[] = { " ns/s", " us/s", " ms/s", " s/s" };
	static const char *const bytes[] = { " B/s", " KiB/s", " MiB/s", " GiB/s" };

	if (what == COMPARE_AVERAGE || what == COMPARE_P99)
		put_scaled(value, times, ARRAY_SIZE(times), 1000, to, size);
	else if (what == COMPARE_WAITS)
		put_scaled(value, waits, ARRAY_SIZE(waits), 1000, to, size);
	else if (what == COMPARE_BYTES)
		put_scaled(value, bytes, ARRAY_SIZE(bytes), 1024, to, size);
	else
		snprintf(to, size, value < 100 ? "%.1f/s" : "%.0f/s", value);
}

/* The change of a ratio: "+139 %", "x12". */
static void put_ratio(double ratio, char *to, size_t size)
{
	if (ratio >= 10)
		snprintf(to, size, "x%.0f", ratio);
	else
		snprintf(to, size, fabs(ratio - 1) < 0.0995 ? "%+.1f %%" : "%+.0f %%",
			 (ratio - 1) * 100);
}

static void describe(const struct compare_change *change, char *to, size_t size)
{
	char a[32], b[32], by[32], low[32], high[32];

	put_value(change->what, change->a, a, sizeof(a));
	put_value(change->what, change->b, b, sizeof(b));
	put_ratio(change->b / change->a, by, sizeof(by));
	put_ratio(change->low, low, sizeof(low));
	put_ratio(change->high, high, sizeof(high));
	if (change->what == COMPARE_SHAPE)
		snprintf(to, size, " are %s: distance %.2f",
			 change->b < change->a ? "longer" : "shorter", fabs(change->b - change->a));
	else if (change->a == 0)
		snprintf(to, size, " %s -> %s, new", a, b);
	else if (change->b == 0)
		snprintf(to, size, " %s -> %s, gone", a, b);
	else if (isnan(change->low))
		snprintf(to, size, " %s -> %s, %s", a, b, by);
	else
		snprintf(to, size, " %s -> %s, %s (%s to %s)", a, b, by, low, high);
}

/* A stack, leaf first, in lines of its own: "submit_bio <- ext4_io_submit <- ...". */
static void put_stack(const struct compare_row *row)
{
	static const enum compare_key keys[] = { COMPARE_KERNEL_STACK, COMPARE_USER_STACK };
	size_t used = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *next = row->labels[keys[i]];

		while (*next) {
			const size_t len = strcspn(next, ";");
			char frame[NAME_SIZE], shown[NAME_SIZE];
			size_t columns = 0;

			snprintf(frame, sizeof(frame), "%.*s", (int)len, next);
			compare_decode(frame);
			for (const char *at = render_escape(frame, shown, sizeof(shown)); *at;)
				columns += render_step(&at);
			if (used && used + 4 + columns + 3 <= WIDTH) {
				fputs(" <- ", stdout);
				used += 4;
			} else {
				printf("%s\n        ", used ? " <-" : "");
				used = 8;
			}
			put_name(frame, WIDTH - 8 - 3);
			used += columns;
			next += len + (next[len] == ';');
		}
	}
	if (used)
		puts("");
}

/* In a second line if both do not fit into one. */
static void put_change(const struct compare_change *change)
{
	char name[NAME_SIZE], shown[NAME_SIZE], figures[200], what[64];
	size_t used, columns = 0;

	describe(change, figures, sizeof(figures));
	if (change->what == COMPARE_SHAPE)
		snprintf(what, sizeof(what), "%.20s latencies of ",
			 change->row->labels[COMPARE_OP]);
	else
		snprintf(what, sizeof(what), "%.20s %s of ", change->row->labels[COMPARE_OP],
			 whats[change->what]);
	name_row(change->row, name);
	used = (size_t)printf("%-7s %s", verdicts[change->verdict], what);
	for (const char *at = render_escape(name, shown, sizeof(shown)); *at;)
		columns += render_step(&at);
	put_name(name, WIDTH - used);
	printf("%s%s", used + columns + strlen(figures) > WIDTH ? "\n       " : "", figures);
	if (*change->row->labels[COMPARE_KERNEL_STACK] || *change->row->labels[COMPARE_USER_STACK])
		put_stack(change->row);
	else
		puts("");
}

/* A shifted distribution is not news of a row whose average or p99 says the same. */
static bool is_said(const struct compare_changes *changes, const struct compare_change *change)
{
	for (size_t i = 0; change->what == COMPARE_SHAPE && i < changes->n; i++) {
		const struct compare_change *other = &changes->list[i];

		if (other->row == change->row && other->verdict == change->verdict &&
		    (other->what == COMPARE_AVERAGE || other->what == COMPARE_P99))
			return true;
	}
	return false;
}

/* The end of a path says more than its beginning. */
static void put_path(const char *path, size_t room)
{
	char shown[NAME_SIZE];
	const char *at = render_escape(path, shown, sizeof(shown));
	size_t columns = 0;

	for (const char *rest = shown; *rest;)
		columns += render_step(&rest);
	if (columns > room) {
		for (; columns + 3 > room; columns--)
			render_step(&at);
		fputs("...", stdout);
	}
	fputs(at, stdout);
}

/* The times are UTC, as in the commands of a report: the recordings may be of several machines. */
static void put_source(const struct compare_shown *shown, int side)
{
	char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE], text[128];
	const struct compare_times *times = &shown->tables[0].times[side];
	const uint64_t start = (uint64_t)(times->start * 1e9), end = (uint64_t)(times->end * 1e9);

	clock_date(start, 0, from);
	if (clock_day(start, 0) == clock_day(end, 0))
		clock_time(end, 0, to);
	else
		clock_date(end, 0, to);
	snprintf(text, sizeof(text), ": %zu interval%s from %sZ to %sZ", times->n,
		 times->n == 1 ? "" : "s", from, to);
	printf("%c ", side ? 'B' : 'A');
	put_path(shown->options->sources[side].name, WIDTH - 2 - strlen(text));
	puts(text);
}

static size_t left_out(const struct compare_shown *shown)
{
	size_t n = 0;

	for (size_t i = 0; i < shown->n_tables; i++)
		n += shown->tables[i].left_out;
	return n;
}

/* Changes of stacks in too few intervals: which are beyond chance is not known. */
static void put_few(const struct compare_shown *shown, size_t listed, size_t n)
{
	if (n > listed)
		printf("and %zu smaller changes of stacks\n", n - listed);
	for (size_t i = 0; i < shown->n_tables; i++)
		if (compare_rows_few(&shown->tables[i]))
			printf(
			    "stack: with fewer than %d intervals of each it is not known what is "
			    "chance\n",
			    STATS_LEAST_BLOCKS);
}

void compare_show_text(const struct compare_shown *shown)
{
	const struct compare_changes *changes = shown->changes;
	const size_t *n = changes->verdicts;
	size_t few = 0;

	for (int side = 0; side < 2; side++)
		put_source(shown, side);
	for (size_t i = 0; i < changes->n; i++) {
		const struct compare_change *change = &changes->list[i];

		if (change->verdict == COMPARE_SAME || is_said(changes, change))
			continue;
		few += isnan(change->p);
		if (!isnan(change->p) || few <= FEW_LISTED)
			put_change(change);
	}
	put_few(shown, few < FEW_LISTED ? few : FEW_LISTED, few);
	printf("%zu comparisons: %zu worse, %zu better, %zu of more or less I/O, %zu as before\n",
	       changes->n, n[COMPARE_WORSE], n[COMPARE_BETTER], n[COMPARE_MORE] + n[COMPARE_LESS],
	       n[COMPARE_SAME]);
	if (left_out(shown))
		printf("not compared: %zu rows that have fewer requests\n", left_out(shown));
}

/* ---- JSON ---- */

static void put_number(const char *key, double value)
{
	if (isfinite(value))
		printf(",\"%s\":%.9g", key, value);
	else
		printf(",\"%s\":null", key);
}

static void put_string(const char *key, const char *value)
{
	printf(",\"%s\":", key);
	render_json(stdout, value);
}

static void put_comparison(const struct compare_change *change, bool first)
{
	const bool shape = change->what == COMPARE_SHAPE;

	printf("%s{\"what\":\"%s\"", first ? "" : ",", whats[change->what]);
	put_string("unit", shape							    ? ""
			   : change->what == COMPARE_AVERAGE || change->what == COMPARE_P99 ? "ns"
			   : change->what == COMPARE_BYTES ? "bytes/s"
			   : change->what == COMPARE_WAITS ? "ns/s"
							   : "1/s");
	put_string("subcommand", change->subcommand);
	fputs(",\"row\":{\"op\":", stdout);
	render_json(stdout, change->row->labels[COMPARE_OP]);
	for (int key = COMPARE_OP + 1; key < COMPARE_KEYS; key++)
		if (*change->row->labels[key])
			put_string(compare_keys[key], change->row->labels[key]);
	fputs("}", stdout);
	put_string("verdict", verdicts[change->verdict]);
	put_number("a", shape ? NAN : change->a);
	put_number("b", shape ? NAN : change->b);
	put_number("distance", shape ? fabs(change->b - change->a) : NAN);
	put_number("change", shape ? NAN : change->b / change->a - 1);
	put_number("low", change->low - 1);
	put_number("high", change->high - 1);
	put_number("p", change->p);
	put_number("p_holm", change->adjusted);
	fputs("}", stdout);
}

void compare_show_json(const struct compare_shown *shown)
{
	const struct compare_changes *changes = shown->changes;

	fputs("{\"type\":\"comparison\",\"schema\":1", stdout);
	put_string("version", IOTRACE_VERSION);
	for (int side = 0; side < 2; side++) {
		const struct compare_times *times = &shown->tables[0].times[side];

		printf(",\"%s\":{\"start\":%.9f,\"end\":%.9f,\"intervals\":%zu", side ? "b" : "a",
		       times->start, times->end, times->n);
		put_string("name", shown->options->sources[side].name);
		fputs("}", stdout);
	}
	printf(",\"left_out\":%zu,\"comparisons\":[", left_out(shown));
	for (size_t i = 0; i < changes->n; i++)
		put_comparison(&changes->list[i], i == 0);
	puts("]}");
}
