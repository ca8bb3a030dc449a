// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/last_minute.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"

#define MINUTE_NS     (60 * NS_PER_SEC)
#define INTERVALS_MAX 3600 /* as many as a replay goes back by */
#define BARS_MAX      60

static uint64_t sum_of(const struct pivot_rows *rows, const char *key)
{
	const struct column *column = rows->kind ? schema_column(rows->kind->all, key) : NULL;
	struct schema one = { column, 1, 0 };
	uint64_t sum = 0;

	for (size_t i = 0; column && i < rows->n; i++)
		sum += schema_number(&one, pivot_row(rows, i), key);
	return sum;
}

int last_minute_add(struct last_minute *m, const struct pivot_rows *rows,
		    const char *const keys[LAST_MINUTE_GRAPHS], uint64_t end_ns, uint64_t ns)
{
	struct last_minute_interval *added;

	if (m->n == INTERVALS_MAX)
		memmove(m->intervals, m->intervals + 1, --m->n * sizeof(*m->intervals));
	added = ARRAY_ADD(m->intervals, m->n);
	if (!added)
		return -ENOMEM;
	*added = (struct last_minute_interval){ .end_ns = end_ns, .ns = ns };
	for (size_t i = 0; i < LAST_MINUTE_GRAPHS && keys[i]; i++)
		added->sums[i] = sum_of(rows, keys[i]);
	return 0;
}

void last_minute_free(struct last_minute *m)
{
	free(m->intervals);
	*m = (struct last_minute){ 0 };
}

/* Nanoseconds that two spans of time have in common. */
static uint64_t common(uint64_t begin, uint64_t end, const struct last_minute_interval *interval)
{
	uint64_t from = interval->end_ns > interval->ns ? interval->end_ns - interval->ns : 0;

	if (from < begin)
		from = begin;
	if (end > interval->end_ns)
		end = interval->end_ns;
	return end > from ? end - from : 0;
}

static double rate_of(const struct last_minute_interval *interval, size_t i)
{
	return interval->ns ? (double)interval->sums[i] * NS_PER_SEC / (double)interval->ns : 0;
}

/* The average rate between two times; -1: nothing is known. */
static double average(const struct last_minute *m, size_t i, uint64_t begin, uint64_t end)
{
	double sum = 0, covered = 0;

	for (size_t k = 0; k < m->n; k++) {
		double ns = (double)common(begin, end, &m->intervals[k]);

		sum += rate_of(&m->intervals[k], i) * ns;
		covered += ns;
	}
	return covered > 0 ? sum / covered : -1;
}

/* The console of Linux has few of the blocks. */
static const char *bar(double rate, double most)
{
	static const char *const blocks[] = { " ",	"\u2581", "\u2582", "\u2583", "\u2584",
					      "\u2585", "\u2586", "\u2587", "\u2588" };
	static const char *const console[] = { " ", "_", "_", ".", "-", "-", "=", "=", "#" };
	const char *type = getenv("TERM");
	size_t height = most > 0 && rate > 0 ? (size_t)(rate / most * 7 + 1) : 0;

	if (height > 8)
		height = 8;
	return type && strcmp(type, "linux") == 0 ? console[height] : blocks[height];
}

/* "1234.5", in at most seven characters. */
static void put_rate(double rate, char text[32])
{
	snprintf(text, 32, rate < 99999.95 ? "%.1f" : rate < 1e7 ? "%.0f" : "%.1e", rate);
}

void last_minute_graph(const struct last_minute *m, size_t i, uint64_t end_ns,
		       const struct column *column, size_t room, char *out, size_t size)
{
	const double kilo = strcmp(column->unit, "bytes") == 0 ? 1024 : 1;
	const size_t around = 9 + 8 + 2 + 14;
	size_t n = room > around + 8 ? room - around : 8, len;
	double rates[BARS_MAX], most = 0, now = 0;
	char rate[32];

	if (n > BARS_MAX)
		n = BARS_MAX;
	for (size_t k = 0; k < m->n; k++)
		if (m->intervals[k].end_ns <= end_ns)
			now = rate_of(&m->intervals[k], i);
	most = now;
	for (size_t k = 0; k < n; k++) {
		uint64_t end = end_ns - MINUTE_NS * (n - 1 - k) / n;

		rates[k] = average(m, i, end - MINUTE_NS / n, end);
		if (rates[k] > most)
			most = rates[k];
	}
	put_rate(now / kilo, rate);
	len = (size_t)snprintf(out, size, "%-9.9s %7s  ", column->rate ?: column->heading, rate);
	for (size_t k = 0; k < n && len + 8 < size; k++)
		len += (size_t)snprintf(out + len, size - len, "%s", bar(rates[k], most));
	put_rate(most / kilo, rate);
	if (len < size)
		snprintf(out + len, size - len, "  max %s", rate);
}
