// SPDX-License-Identifier: GPL-2.0-or-later
#include "output/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "output/hist.h"
#include "output/render_internal.h"

#define NAME_SIZE   96
#define LABELS_MAX  16
#define LABEL_SHOWN 256 /* of a label, in characters */

/* Rows of METRICS_OTHER with reserved room: this many operations, and one for all others. */
#define OTHERS 4
#define AGE_NS (60 * NS_PER_SEC)

const char *const metrics_content_types[] = {
	[METRICS_CLASSIC] = "text/plain; version=0.0.4; charset=utf-8",
	[METRICS_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/* The buckets of a histogram by the unit of its column. */
struct buckets {
	const char *of, *unit;
	unsigned int first, n; /* bounds: 2^(first + i), less one except of times */
	unsigned int scale;    /* of the bounds and of the sum */
	bool zero;	       /* a bucket before these, for 0 alone */
	bool parts;	       /* see add_sum() */
};

static const struct buckets buckets[] = {
	{ "ns", "seconds", METRICS_FIRST_BUCKET, METRICS_BUCKETS, 1, false, true },
	{ "bytes", "bytes", 10, 17, 1, false, false },	    /* 1 KiB to 64 MiB */
	{ "sectors", "bytes", 3, 19, 512, true, true },	    /* 4 KiB to 1 GiB */
	{ "requests", "requests", 1, 12, 1, false, false }, /* 1 to 4095 */
};

/* A metric family.  Its values are at @at in struct series. */
struct metric {
	char name[NAME_SIZE]; /* without _total */
	const struct column *column;
	const struct buckets *buckets; /* of a histogram */
	const char *unit;	       /* "seconds", "bytes"; "": no unit in the name */
	size_t at;
};

/* Values of a counter or gauge, and of a histogram, which begins with its sum. */
enum {
	WHOLE,
	PART,
	SUM_VALUES,
	COUNT = SUM_VALUES,
	BUCKETS,
	HIST_VALUES = BUCKETS + METRICS_BUCKETS
};

/* A row: its labels, each with its NUL, and the values of all metrics. */
struct series {
	char *labels;
	size_t size;	   /* of labels */
	uint64_t recent;   /* recent activity: its first metric, halved each AGE_NS */
	bool reserved;	   /* its room is reserved: METRICS_OTHER */
	uint64_t ended_ns; /* when it was evicted: hidden, and back only after kept_ns */
	bool changed;	   /* since the last metrics_end() */
	bool written;	   /* since its last row */
	uint64_t since_ns; /* when its object was found gone, unchanged since; 0: it is not */
	uint64_t values[];
};

struct metrics_source {
	struct renderer renderer; /* first: metrics_renderer() */
	struct metrics *owner;
	unsigned int weight; /* 0: not bounded */
	struct schema schema;
	struct column *columns; /* of schema */
	const struct column *labels[LABELS_MAX];
	size_t n_labels;
	struct metric *metrics;
	size_t n_metrics, n_values;
	size_t lines;		/* of one row */
	size_t used;		/* lines, except reserved ones */
	size_t n_ended;		/* series with an ended_ns */
	unsigned int n_others;	/* reserved rows by operation and the like */
	uint64_t limited;	/* rows without room */
	struct series **series; /* by labels */
	size_t n;
	struct metrics_source *next;
};

struct metrics {
	size_t most, used; /* in use, including reserved lines */
	size_t reserved;
	uint64_t weights; /* of all sources */
	uint64_t kept_ns, aged_ns;
	uint64_t now_ns; /* of the last metrics_end() */
	size_t n_gone;	 /* series with a since_ns */
	struct metrics_source *first, **last;
};

/* ---- names ---- */

struct label_name {
	const char *key, *name;
	bool few;   /* values: stored in the series of the others */
	bool first; /* of the labels: the others belong to it */
	bool any;   /* value: METRICS_OTHER has it too */
};

static const struct label_name label_names[] = {
	{ "disk", "device" },
	{ "device", "device", .first = true },
	{ "guest", "guest", .first = true, .any = true },
	{ "vq", "queue" },
	{ "op", "operation", .few = true },
	{ "layer", "layer", .few = true },
	{ "io", "io", .few = true },
	{ "direction", "direction", .few = true },
};

static const struct label_name *label_name(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(label_names); i++)
		if (strcmp(label_names[i].key, key) == 0)
			return &label_names[i];
	return NULL;
}

static bool ends_with(const char *text, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && strncmp(text + len - n, end, n) == 0 &&
	       (len == n || text[len - n - 1] == '_');
}

/* "_@word", unless @name ends with it. */
static void append(char name[NAME_SIZE], const char *word, size_t len)
{
	size_t used = strlen(name);
	char part[NAME_SIZE];

	snprintf(part, sizeof(part), "%.*s", (int)len, word);
	if (len && !ends_with(name, used, part))
		snprintf(name + used, NAME_SIZE - used, "_%s", part);
}

/* The name of the column, without its unit. */
static const char *stem(const struct column *column, size_t *len)
{
	const char *word = column->metric
			       ?: column->role == ROLE_HISTOGRAM ? "duration"
								 : column->key;

	*len = strlen(word);
	if (!column->metric && ends_with(word, *len, column->unit) && *column->unit) {
		*len -= strlen(column->unit);
		*len -= *len > 0;
	}
	return word;
}

static bool is_time(const struct column *column)
{
	return strcmp(column->unit, "ns") == 0;
}

static const struct buckets *buckets_of(const struct column *column)
{
	if (column->role != ROLE_HISTOGRAM)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(buckets); i++)
		if (strcmp(column->unit, buckets[i].of) == 0)
			return &buckets[i];
	return NULL;
}

static void name_metric(struct metric *metric, const char *prefix, const struct column *column)
{
	size_t len, before;
	const char *word = stem(column, &len);

	metric->column = column;
	metric->buckets = buckets_of(column);
	metric->unit = metric->buckets			    ? metric->buckets->unit
		       : is_time(column)		    ? "seconds"
		       : strcmp(column->unit, "bytes") == 0 ? "bytes"
							    : "";
	snprintf(metric->name, NAME_SIZE, "%s", prefix);
	before = strlen(metric->name);
	append(metric->name, word, len);
	append(metric->name, metric->unit, strlen(metric->unit));
	/* A key that repeats the prefix. */
	if (!metric->name[before])
		append(metric->name, column->unit, strlen(column->unit));
}

/* ---- sources ---- */

int metrics_open(size_t most, uint64_t kept_ns, struct metrics **out)
{
	struct metrics *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->most = most;
	m->kept_ns = kept_ns;
	m->last = &m->first;
	*out = m;
	return 0;
}

static void free_series(struct series *series)
{
	free(series->labels);
	free(series);
}

static void free_source(struct metrics_source *s)
{
	for (size_t i = 0; i < s->n; i++)
		free_series(s->series[i]);
	free(s->series);
	free(s->metrics);
	free(s->columns);
	free(s);
}

void metrics_close(struct metrics *m)
{
	struct metrics_source *next;

	if (!m)
		return;
	for (struct metrics_source *s = m->first; s; s = next) {
		next = s->next;
		free_source(s);
	}
	free(m);
}

static bool is_metric(const struct column *column)
{
	if (!column->key || (column->metric && !*column->metric))
		return false;
	if (column->role == ROLE_GAUGE)
		return column->metric;
	return column->role == ROLE_COUNTER || buckets_of(column);
}

/* The _count and _sum of a histogram. */
static bool is_of_hist(const struct schema *schema, const struct column *column)
{
	if (strcmp(column->key, "count") != 0 && strcmp(column->key, "total_ns") != 0)
		return false;
	for (size_t i = 0; i < schema->n; i++)
		if (schema->columns[i].role == ROLE_HISTOGRAM)
			return true;
	return false;
}

static bool is_listed(const char *key, const char *const *list)
{
	for (; key && list && *list; list++)
		if (strcmp(*list, key) == 0)
			return true;
	return false;
}

static void add_metric(struct metrics_source *s, const char *prefix, const struct column *column)
{
	struct metric *metric = &s->metrics[s->n_metrics++];
	const struct buckets *b = buckets_of(column);

	name_metric(metric, prefix, column);
	metric->at = s->n_values;
	s->n_values += b ? HIST_VALUES : SUM_VALUES;
	s->lines += b ? b->n + b->zero + 3 : 1;
}

/* A label in first position makes the series of one object neighbours. */
static void add_label(struct metrics_source *s, const struct column *column)
{
	const struct label_name *name = label_name(column->key);
	size_t at = name && name->first ? 0 : s->n_labels;

	memmove(&s->labels[at + 1], &s->labels[at], (s->n_labels - at) * sizeof(void *));
	s->labels[at] = column;
	s->n_labels++;
}

static int fill_source(struct metrics_source *s, const char *prefix, const struct schema *schema,
		       const char *const *without)
{
	s->columns = calloc(schema->n + 1, sizeof(*s->columns));
	s->metrics = calloc(schema->n + 1, sizeof(*s->metrics));
	if (!s->columns || !s->metrics)
		return -ENOMEM;
	memcpy(s->columns, schema->columns, schema->n * sizeof(*s->columns));
	s->schema = (struct schema){ s->columns, schema->n, schema->row_size };
	for (size_t i = 0; i < schema->n; i++) {
		const struct column *column = &s->columns[i];

		if (is_listed(column->key, without))
			continue;
		if (column->role == ROLE_LABEL && column->key && s->n_labels < LABELS_MAX)
			add_label(s, column);
		else if (is_metric(column) && !is_of_hist(schema, column))
			add_metric(s, prefix, column);
	}
	return 0;
}

/* How many rows of METRICS_OTHER have reserved room.  With labels of few values only these rows
 * would be the rows themselves. */
static size_t reserved_rows(const struct metrics_source *s)
{
	size_t few = 0;

	for (size_t i = 0; i < s->n_labels; i++) {
		const struct label_name *name = label_name(s->labels[i]->key);

		few += name && name->few;
	}
	return few && few < s->n_labels ? OTHERS + 1 : 1;
}

static int add_interval(struct renderer *r, const struct render_interval *in, struct error *err)
{
	(void)err;
	return metrics_add((struct metrics_source *)r, in->rows, in->n);
}

static const struct renderer_ops adder = { .interval = add_interval, .says_all = true };

int metrics_source(struct metrics *m, const char *prefix, const struct schema *schema,
		   const char *const *without, unsigned int weight, struct metrics_source **out)
{
	struct metrics_source *s = calloc(1, sizeof(*s));

	if (s && fill_source(s, prefix, schema, without)) {
		free_source(s);
		s = NULL;
	}
	if (!s)
		return -ENOMEM;
	s->renderer.ops = &adder;
	s->owner = m;
	s->weight = weight;
	if (weight) {
		m->weights += weight;
		m->reserved += reserved_rows(s) * s->lines;
		m->used += reserved_rows(s) * s->lines;
	}
	*m->last = s;
	m->last = &s->next;
	*out = s;
	return 0;
}

struct renderer *metrics_renderer(struct metrics_source *source)
{
	return &source->renderer;
}

/* ---- rows ---- */

/* A row's labels, each with its NUL. */
struct labels {
	char text[LABELS_MAX * METRICS_LABEL_SIZE];
	size_t size;
};

/* Programs read labels, but show them to people: control and format characters are escaped, too. */
size_t metrics_label(char to[METRICS_LABEL_SIZE], const char *text)
{
	struct name_walk walk = { text, LABEL_SHOWN };
	char unit[ESCAPE_UNIT_SIZE];
	size_t size = 0;

	_Static_assert(METRICS_LABEL_SIZE >= (ESCAPE_UNIT_SIZE - 1) * LABEL_SHOWN + 4,
		       "room for a value");
	for (; walk.most && *walk.rest; walk.most--) {
		walk.rest += data_next(walk.rest, true, unit);
		memcpy(to + size, unit, strlen(unit));
		size += strlen(unit);
	}
	if (name_is_cut(&walk)) {
		memcpy(to + size, "...", 3);
		size += 3;
	}
	to[size] = 0;
	return size + 1;
}

static const char *label_value(const struct column *column, const void *row, char buf[32])
{
	if (column->type == COLUMN_STR)
		return column_string(column, row);
	if (column->type == COLUMN_BOOL)
		return column_integer(column, row) ? "true" : "false";
	snprintf(buf, 32, "%" PRIu64, column_integer(column, row));
	return buf;
}

/* The labels of a row that are METRICS_OTHER. */
enum others { NO_LABEL, MANY_VALUED, ALL_LABELS };

static void take_labels(const struct metrics_source *s, const void *row, enum others others,
			struct labels *labels)
{
	char buf[32];

	labels->size = 0;
	for (size_t i = 0; i < s->n_labels; i++) {
		const struct label_name *name = label_name(s->labels[i]->key);
		const char *value = label_value(s->labels[i], row, buf);

		if (name && name->any && strcmp(value, METRICS_OTHER) == 0)
			value = "\\x28other)";
		if (others == ALL_LABELS || (others == MANY_VALUED && !(name && name->few)))
			value = METRICS_OTHER;
		labels->size += metrics_label(labels->text + labels->size, value);
	}
}

/* The index of the labels, or where they belong. */
static bool find(const struct metrics_source *s, const struct labels *labels, size_t *at)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct series *series = s->series[middle];
		size_t size = series->size < labels->size ? series->size : labels->size;
		int order = memcmp(series->labels, labels->text, size);

		if (!order)
			order = (series->size > labels->size) - (series->size < labels->size);
		if (!order) {
			*at = middle;
			return true;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*at = low;
	return false;
}

static struct series *new_series(const struct metrics_source *s, const struct labels *labels)
{
	struct series *series =
	    calloc(1, sizeof(*series) + s->n_values * sizeof(series->values[0]));

	if (!series)
		return NULL;
	series->labels = malloc(labels->size + 1);
	if (!series->labels) {
		free(series);
		return NULL;
	}
	memcpy(series->labels, labels->text, labels->size);
	series->size = labels->size;
	return series;
}

static struct series *insert(struct metrics_source *s, const struct labels *labels, size_t at)
{
	struct series *series = new_series(s, labels);

	if (!series)
		return NULL;
	if (!array_add(&s->series, &s->n, sizeof(void *))) {
		free_series(series);
		return NULL;
	}
	memmove(&s->series[at + 1], &s->series[at], (s->n - 1 - at) * sizeof(void *));
	s->series[at] = series;
	return series;
}

/* The amount that the row adds to metric @i: for a histogram, the number of values. */
static uint64_t amount(const struct metrics_source *s, size_t i, const void *row)
{
	const struct column *column = s->metrics[i].column;
	const struct hist *h;

	if (column->role != ROLE_HISTOGRAM)
		return column_integer(column, row);
	h = column_hist(column, row);
	return h ? hist_slots_total(h) : 0;
}

/* Does the row add nothing? */
static bool is_empty(const struct metrics_source *s, const void *row)
{
	for (size_t i = 0; i < s->n_metrics; i++)
		if (amount(s, i, row))
			return false;
	return true;
}

static void remove_at(struct metrics_source *s, size_t at)
{
	size_t lines = s->series[at]->reserved || s->series[at]->ended_ns ? 0 : s->lines;

	s->owner->n_gone -= s->series[at]->since_ns != 0;
	s->n_ended -= s->series[at]->ended_ns != 0;
	free_series(s->series[at]);
	s->n--;
	memmove(&s->series[at], &s->series[at + 1], (s->n - at) * sizeof(void *));
	s->owner->used -= lines;
	s->used -= lines;
}

/* The end of the series from @from on with the same object: the object's label is first. */
static size_t object_end(const struct metrics_source *s, size_t from)
{
	size_t to = from + 1;

	while (to < s->n && strcmp(s->series[to]->labels, s->series[from]->labels) == 0)
		to++;
	return to;
}

static void set_since(struct metrics_source *s, struct series *series, uint64_t since_ns)
{
	s->owner->n_gone -= series->since_ns != 0;
	s->owner->n_gone += since_ns != 0;
	series->since_ns = since_ns;
}

static bool all_written(const struct metrics_source *s, size_t from, size_t to)
{
	while (from < to && s->series[from]->written)
		from++;
	return from == to;
}

/* Removes the series of the object that has been gone longest, among series that were read.  False:
 * none. */
static bool remove_oldest(struct metrics *m)
{
	struct metrics_source *of = NULL;
	uint64_t oldest = UINT64_MAX;
	size_t at = 0, end = 0;

	for (struct metrics_source *s = m->first; s && m->n_gone; s = s->next)
		for (size_t from = 0, to; s->weight && from < s->n; from = to) {
			uint64_t since_ns = s->series[from]->since_ns;

			to = object_end(s, from);
			if (!since_ns || since_ns >= oldest || !all_written(s, from, to))
				continue;
			oldest = since_ns;
			of = s;
			at = from;
			end = to;
		}
	while (of && end > at)
		remove_at(of, --end);
	return of;
}

static size_t share(const struct metrics_source *s)
{
	const struct metrics *m = s->owner;

	if (m->most <= m->reserved)
		return 0;
	return (size_t)((m->most - m->reserved) * (uint64_t)s->weight / m->weights);
}

/* The source that is most beyond its share; NULL: none. */
static struct metrics_source *largest(const struct metrics *m)
{
	struct metrics_source *found = NULL;
	size_t most = 0;

	for (struct metrics_source *s = m->first; s; s = s->next)
		if (s->weight && s->used > share(s) && s->used - share(s) > most) {
			most = s->used - share(s);
			found = s;
		}
	return found;
}

/*
 * Ends the series of @s with the least recent activity, below @than, among series that were read.
 * Its labels stay, so that it does not return before each reader has seen that it is gone: a
 * counter that restarts with a higher value would look like a continued one.  False: none ends.
 */
static bool end_smallest(struct metrics_source *s, uint64_t than)
{
	struct series *found = NULL;

	for (size_t i = 0; i < s->n && s->n_ended * s->lines < s->owner->most; i++) {
		struct series *series = s->series[i];

		if (series->written && series->recent < than && !series->ended_ns &&
		    strcmp(series->labels, METRICS_OTHER) != 0) {
			than = series->recent;
			found = series;
		}
	}
	if (!found)
		return false;
	set_since(s, found, 0);
	found->ended_ns = s->owner->now_ns ?: 1;
	s->n_ended++;
	s->used -= s->lines;
	s->owner->used -= s->lines;
	return true;
}

/* Forgets series that have been gone for long enough. */
static void forget_ended(struct metrics_source *s, uint64_t now_ns)
{
	size_t at = s->n;

	while (at-- && s->n_ended) {
		const struct series *series = s->series[at];

		if (series->ended_ns && now_ns - series->ended_ns >= s->owner->kept_ns)
			remove_at(s, at);
	}
}

/* Makes room for one more row of @s, which adds @amount. */
static bool make_room(struct metrics_source *s, uint64_t amount)
{
	struct metrics *m = s->owner;

	while (m->used + s->lines > m->most) {
		bool has_share = s->used + s->lines > share(s);
		struct metrics_source *from = has_share ? s : largest(m);

		if (!remove_oldest(m) &&
		    !(from && end_smallest(from, has_share ? amount : UINT64_MAX)))
			return false;
	}
	return true;
}

/* The series of these labels, or a new one: NULL: out of memory. */
static struct series *find_or_insert(struct metrics_source *s, const struct labels *labels,
				     bool reserved)
{
	struct series *series;
	size_t at;

	if (find(s, labels, &at))
		return s->series[at];
	series = insert(s, labels, at);
	if (!series)
		return NULL;
	series->reserved = reserved;
	if (s->weight && !reserved) {
		s->owner->used += s->lines;
		s->used += s->lines;
	}
	return series;
}

/* The series for rows without room. */
static struct series *other_series(struct metrics_source *s, const void *row)
{
	struct labels labels;
	size_t at;

	s->limited++;
	take_labels(s, row, MANY_VALUED, &labels);
	if (find(s, &labels, &at))
		return s->series[at];
	if (s->n_others + 1 < reserved_rows(s))
		s->n_others++;
	else
		take_labels(s, row, ALL_LABELS, &labels);
	return find_or_insert(s, &labels, true);
}

/* NULL: out of memory. */
static struct series *series_of(struct metrics_source *s, const void *row)
{
	struct labels labels;
	size_t at;

	take_labels(s, row, NO_LABEL, &labels);
	if (find(s, &labels, &at))
		return s->series[at]->ended_ns ? other_series(s, row) : s->series[at];
	if (!s->weight || make_room(s, amount(s, 0, row)))
		return find_or_insert(s, &labels, false);
	return other_series(s, row);
}

/* Nanoseconds are stored as seconds and a remainder, and sectors likewise: their sum over all I/O
 * may exceed 64 bits. */
static void add_sum(uint64_t *to, uint64_t value, bool parts)
{
	to[WHOLE] += parts ? value / NS_PER_SEC : value;
	to[PART] += parts ? value % NS_PER_SEC : 0;
	if (to[PART] >= NS_PER_SEC) {
		to[PART] -= NS_PER_SEC;
		to[WHOLE]++;
	}
}

static void add_hist(uint64_t *to, const struct buckets *b, const struct hist *h)
{
	uint64_t zeros = 0;

	if (!h)
		return;
	add_sum(to, h->total, b->parts);
	if (b->zero) {
		zeros = h->fine[0] < h->log2[0] ? h->fine[0] : h->log2[0];
		to[BUCKETS] += zeros;
	}
	for (unsigned int slot = 0; slot < HIST_LOG2_SLOTS; slot++) {
		/* of 2^slot to 2^(slot+1) - 1 */
		unsigned int bucket = slot < b->first ? 0 : slot + 1 - b->first;

		to[COUNT] += h->log2[slot];
		if (bucket < b->n)
			to[BUCKETS + b->zero + bucket] += h->log2[slot] - (slot ? 0 : zeros);
	}
}

static void add_row(const struct metrics_source *s, struct series *series, const void *row)
{
	series->changed = true;
	series->written = false;
	series->recent += amount(s, 0, row);
	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct column *column = s->metrics[i].column;
		uint64_t *to = &series->values[s->metrics[i].at];

		if (column->role == ROLE_HISTOGRAM) {
			add_hist(to, s->metrics[i].buckets, column_hist(column, row));
			continue;
		}
		if (column->role == ROLE_GAUGE)
			to[WHOLE] = to[PART] = 0;
		add_sum(to, column_integer(column, row), is_time(column));
	}
}

/* The object of @row is back, or still exists: none of its series is evicted, like the row's
 * own. */
static void revive(struct metrics_source *s, const void *row)
{
	struct labels labels;
	size_t at;

	if (is_empty(s, row))
		return;
	take_labels(s, row, NO_LABEL, &labels);
	if (!find(s, &labels, &at))
		return;
	s->series[at]->written = false;
	while (at && strcmp(s->series[at - 1]->labels, s->series[at]->labels) == 0)
		at--;
	for (size_t to = object_end(s, at); at < to; at++)
		set_since(s, s->series[at], 0);
}

/* A gauge that has a series may be 0 again. */
static bool is_news(struct metrics_source *s, const void *row)
{
	struct labels labels;
	size_t at;

	if (!is_empty(s, row))
		return true;
	if (s->metrics[0].column->role != ROLE_GAUGE)
		return false;
	take_labels(s, row, NO_LABEL, &labels);
	return find(s, &labels, &at);
}

int metrics_add(struct metrics_source *s, const void *rows, size_t n)
{
	for (size_t i = 0; s->weight && i < n; i++)
		revive(s, schema_row(&s->schema, rows, i));
	for (size_t i = 0; i < n; i++) {
		const void *row = schema_row(&s->schema, rows, i);
		struct series *series;

		if (s->weight && !is_news(s, row))
			continue;
		series = series_of(s, row);
		if (!series)
			return -ENOMEM;
		add_row(s, series, row);
	}
	return 0;
}

/* Do the series from @from to @to, of one object, end? */
static bool have_ended(struct metrics_source *s, size_t from, size_t to, uint64_t now_ns,
		       metrics_look *look, void *ctx)
{
	const char *value = s->series[from]->labels;
	enum metrics_presence presence = METRICS_NOT_LOOKED;
	uint64_t since_ns = s->series[from]->since_ns;
	bool changed = false;

	for (size_t i = from; i < to; i++) {
		changed |= s->series[i]->changed;
		s->series[i]->changed = false;
	}
	if (strcmp(value, METRICS_OTHER) != 0)
		presence = look(ctx, s->labels[0]->key, value, changed);
	if (changed || presence == METRICS_THERE)
		since_ns = 0;
	if (presence == METRICS_GONE && !since_ns)
		since_ns = now_ns;
	for (size_t i = from; i < to; i++)
		set_since(s, s->series[i], since_ns);
	return presence == METRICS_GONE && now_ns - since_ns >= s->owner->kept_ns;
}

static size_t end_objects(struct metrics_source *s, uint64_t now_ns, metrics_look *look, void *ctx)
{
	size_t ended = 0;

	for (size_t from = 0, to; from < s->n; from = to) {
		to = object_end(s, from);
		if (!have_ended(s, from, to, now_ns, look, ctx))
			continue;
		ended += to - from;
		while (to > from)
			remove_at(s, --to);
	}
	return ended;
}

/* Activity of a minute before counts half. */
static void age(struct metrics *m, uint64_t now_ns)
{
	if (now_ns - m->aged_ns < AGE_NS)
		return;
	m->aged_ns = now_ns;
	for (struct metrics_source *s = m->first; s; s = s->next)
		for (size_t i = 0; i < s->n; i++)
			s->series[i]->recent /= 2;
}

size_t metrics_end(struct metrics *m, uint64_t now_ns, metrics_look *look, void *ctx)
{
	size_t ended = 0;

	age(m, now_ns);
	m->now_ns = now_ns;
	for (struct metrics_source *s = m->first; s; s = s->next) {
		forget_ended(s, now_ns);
		if (s->weight && s->n_labels)
			ended += end_objects(s, now_ns, look, ctx);
	}
	return ended;
}

size_t metrics_series(const struct metrics *m)
{
	size_t lines = 0;

	for (const struct metrics_source *s = m->first; s; s = s->next)
		lines += s->weight ? (s->n - s->n_ended) * s->lines : 0;
	return lines;
}

size_t metrics_least(const struct metrics *m)
{
	return m->reserved;
}

uint64_t metrics_limited(const struct metrics_source *s)
{
	return s->limited;
}

/* ---- writing ---- */

static void put_escaped_text(struct sink *sink, const char *value)
{
	for (; *value; value++) {
		if (*value == '\n')
			sink_puts(sink, "\\n");
		else if (*value == '"' || *value == '\\')
			sink_write(sink, (const char[]){ '\\', *value }, 2);
		else
			sink_write(sink, value, 1);
	}
}

/* NAME_SUFFIX{LABELS,le="@le"} and a space; @le: NULL: none. */
static void put_name(struct sink *sink, const struct metrics_source *s, const struct series *series,
		     const struct metric *metric, const char *suffix, const char *le)
{
	const char *value = series->labels, *before = "{";

	sink_puts(sink, metric->name);
	sink_puts(sink, suffix);
	for (size_t i = 0; i < s->n_labels; i++, value += strlen(value) + 1, before = ",") {
		const struct label_name *name = label_name(s->labels[i]->key);

		sink_printf(sink, "%s%s=\"", before, name ? name->name : s->labels[i]->key);
		put_escaped_text(sink, value);
		sink_puts(sink, "\"");
	}
	if (le)
		sink_printf(sink, "%sle=\"%s\"", before, le);
	sink_puts(sink, le || s->n_labels ? "} " : " ");
}

/* A number of @whole and @part billionths, without trailing zeros. */
static const char *decimal(uint64_t whole, uint64_t part, char buf[32])
{
	int len = snprintf(buf, 32, "%" PRIu64 ".%09" PRIu64, whole, part);

	while (buf[len - 1] == '0')
		buf[--len] = 0;
	if (buf[len - 1] == '.')
		buf[--len] = 0;
	return buf;
}

static const char *bound(const struct buckets *b, unsigned int i, char buf[32])
{
	const uint64_t power = 1ULL << (b->first + i - b->zero);

	if (strcmp(b->of, "ns") == 0)
		return decimal(power / NS_PER_SEC, power % NS_PER_SEC, buf);
	return decimal(b->zero && !i ? 0 : (power - 1) * b->scale, 0, buf);
}

static const char *hist_sum(const struct buckets *b, const uint64_t *values, char buf[48])
{
	const uint64_t part = values[PART] * b->scale;
	const uint64_t whole = values[WHOLE] * b->scale + part / NS_PER_SEC;

	if (!b->parts || strcmp(b->of, "ns") == 0)
		return decimal(values[WHOLE], values[PART], buf);
	if (whole)
		snprintf(buf, 48, "%" PRIu64 "%09" PRIu64, whole, (uint64_t)(part % NS_PER_SEC));
	else
		snprintf(buf, 48, "%" PRIu64, part);
	return buf;
}

static void put_hist(struct sink *sink, const struct metrics_source *s, const struct series *series,
		     const struct metric *metric)
{
	const uint64_t *values = &series->values[metric->at];
	const struct buckets *b = metric->buckets;
	uint64_t count = 0;
	char buf[48];

	for (unsigned int i = 0; i < b->n + b->zero; i++) {
		count += values[BUCKETS + i];
		put_name(sink, s, series, metric, "_bucket", bound(b, i, buf));
		sink_printf(sink, "%" PRIu64 "\n", count);
	}
	put_name(sink, s, series, metric, "_bucket", "+Inf");
	sink_printf(sink, "%" PRIu64 "\n", values[COUNT]);
	put_name(sink, s, series, metric, "_sum", NULL);
	sink_printf(sink, "%s\n", hist_sum(b, values, buf));
	put_name(sink, s, series, metric, "_count", NULL);
	sink_printf(sink, "%" PRIu64 "\n", values[COUNT]);
}

static void put_series(struct sink *sink, const struct metrics_source *s,
		       const struct series *series, const struct metric *metric)
{
	const uint64_t *values = &series->values[metric->at];
	char buf[32];

	if (metric->column->role == ROLE_HISTOGRAM) {
		put_hist(sink, s, series, metric);
		return;
	}
	put_name(sink, s, series, metric, metric->column->role == ROLE_COUNTER ? "_total" : "",
		 NULL);
	sink_printf(sink, "%s\n", decimal(values[WHOLE], values[PART], buf));
}

static const char *help_of(const struct metric *metric)
{
	return metric->column->help ?: metric->column->meaning;
}

/* OpenMetrics has the counter's name without _total here. */
static void put_head(struct sink *sink, const struct metric *metric, enum metrics_format format)
{
	enum column_role role = metric->column->role;
	const char *help = help_of(metric);
	const char *suffix = role == ROLE_COUNTER && format == METRICS_CLASSIC ? "_total" : "";

	sink_printf(sink, "# HELP %s%s ", metric->name, suffix);
	/* The classic format does not escape quotes here. */
	if (format == METRICS_OPENMETRICS)
		put_escaped_text(sink, help);
	else
		sink_puts(sink, help);
	sink_puts(sink, "\n");
	sink_printf(sink, "# TYPE %s%s %s\n", metric->name, suffix, role_name(role));
	if (format == METRICS_OPENMETRICS && *metric->unit)
		sink_printf(sink, "# UNIT %s %s\n", metric->name, metric->unit);
}

void metrics_each(const struct metrics_source *s,
		  void (*each)(void *ctx, const struct metrics_about *about), void *ctx)
{
	const char *labels[LABELS_MAX + 1] = { NULL };

	for (size_t i = 0; i < s->n_labels; i++) {
		const struct label_name *name = label_name(s->labels[i]->key);

		labels[i] = name ? name->name : s->labels[i]->key;
	}
	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct metric *metric = &s->metrics[i];

		each(ctx, &(struct metrics_about){ metric->name, role_name(metric->column->role),
						   metric->unit, help_of(metric), labels });
	}
}

static void put_source(struct sink *sink, const struct metrics_source *s,
		       enum metrics_format format)
{
	for (size_t i = 0; s->n > s->n_ended && i < s->n_metrics; i++) {
		put_head(sink, &s->metrics[i], format);
		for (size_t k = 0; k < s->n; k++)
			if (!s->series[k]->ended_ns)
				put_series(sink, s, s->series[k], &s->metrics[i]);
	}
}

static void set_written(const struct metrics *m)
{
	for (struct metrics_source *s = m->first; s; s = s->next)
		for (size_t i = 0; i < s->n; i++)
			s->series[i]->written = true;
}

int metrics_write(struct metrics *m, enum metrics_format format, bool is_read, FILE *stream)
{
	struct sink sink = { .stream = stream };
	int r;

	for (const struct metrics_source *s = m->first; s; s = s->next)
		put_source(&sink, s, format);
	if (format == METRICS_OPENMETRICS)
		sink_puts(&sink, "# EOF\n");
	r = sink_flush(&sink);
	if (!r && is_read)
		set_written(m);
	return r;
}
