// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/blame/held_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/blame/held_limits.h"
#include "cmd/blame/rows.h"
#include "output/columns.h"
#include "output/render.h"

static const char *const kinds[HELD_KINDS] = {
	[HELD_TAG] = "no tag",
	[HELD_WBT] = "wbt",
	[HELD_IO_LATENCY] = "io.latency",
	[HELD_IO_COST] = "io.cost",
	[HELD_FROZEN] = "frozen queue",
	[HELD_NR_REQUESTS] = "nr_requests",
	[HELD_IO_MAX] = "io.max",
	[HELD_IO_MAX_UNTIMED] = "io.max",
	[HELD_DIRTY] = "dirty pages",
};

/* ---- columns ---- */

#define ROW struct held_row

/* Times are unknown where no hold has one. */
#define TIME_CELL(member)                                                                          \
	static void member##_cell(const void *row, char *buf, size_t size)                         \
	{                                                                                          \
		const struct held_row *r = row;                                                    \
                                                                                                   \
		if (r->timed)                                                                      \
			column_ms(r->member, buf, size);                                           \
		else                                                                               \
			snprintf(buf, size, "-");                                                  \
	}

TIME_CELL(total_ns)
TIME_CELL(avg_ns)
TIME_CELL(p99_ns)
TIME_CELL(max_ns)

static const struct column columns[] = {
	LABEL(
	    disk, "DISK", 6,
	    "disk; -: dirty pages of a file system without a disk, or with several; [unknown]: the "
	    "bio got no request"),
	LABEL(victim, "VICTIM", 16, "whose I/O was held, by the keys of --by"),
	LABEL(
	    kind, "HELD BY", 12,
	    "no tag, nr_requests (of a scheduler), wbt, io.latency, io.cost, io.max, frozen queue, "
	    "dirty pages (the writer waits)"),
	COUNTER(count, "COUNT", 7, "", "bios that were held; for dirty pages, pauses of writers",
		.help = "bios that were held before they became requests, and pauses of writers",
		.metric = ""),
	COUNTER(timed, NULL, 0, "", "bios and pauses whose time is known", .metric = ""),
	COUNTER(total_ns, "TOTALms", 9, "ns", "sum of their times", .cell = total_ns_cell,
		.metric = ""),
	GAUGE(avg_ns, "AVGms", 8, "ns", "their average", .cell = avg_ns_cell),
	GAUGE(p99_ns, "P99ms", 8, "ns", "their 99th percentile, accurate to 1/16",
	      .cell = p99_ns_cell),
	GAUGE(max_ns, "MAXms", 8, "ns", "longest of them", .cell = max_ns_cell),
	LABEL(limit, "LIMIT", 0,
	      "setting of the limit at the output; of CGROUP: it is the limit of a cgroup above; "
	      "several: the victim has several limits"),
};

const struct schema held_schema = SCHEMA(columns, struct held_row);

/* ---- counts ---- */

struct held_entry {
	struct held_row row;
	struct hist hist;
	bool several; /* limits */
};

/* Strings are in `texts`: equal ones have one address. */
struct entry_key {
	const char *disk, *victim, *kind;
};

static const char *disk_of(const struct held_rows *rows, const struct hist_key *key)
{
	if (key->dev)
		return disks_name(rows->from.disks, key->dev);
	return key->row == HELD_DIRTY ? "-" : KEYS_UNKNOWN;
}

static char *name_of(const struct held_rows *rows, const struct hist_key *key, const char *disk)
{
	const struct held_tables *from = &rows->from;
	const char *user = from->users ? users_name(from->users, key->uid) : "";
	const struct key_labels labels = {
		.disk = disk,
		.comm = key->known && keys_of_process(from->o->by)
			    ? process_names_get(from->names, key->pid, key->start)
			    : KEYS_UNKNOWN,
		.cgroup = cgroups_path(from->cgroups, key->cgroup),
		.unit = cgroups_name(from->cgroups, key->cgroup, CGROUP_UNIT),
		.container = cgroups_name(from->cgroups, key->cgroup, CGROUP_CONTAINER),
		.user = key->known ? user : KEYS_UNKNOWN,
		.pid = key->pid,
		.start = key->start,
	};

	return blame_name(from->o, &labels, false);
}

/* Without room for another row no name is stored: a new one is NULL. */
static const char *keep(struct held_rows *rows, const char *name)
{
	return rows->n_entries < HELD_ROWS ? text_keep(&rows->texts, name)
					   : text_find(&rows->texts, name);
}

static int find_key(struct held_rows *rows, const struct hist_key *key, struct entry_key *to)
{
	const char *disk = disk_of(rows, key);
	char *name = name_of(rows, key, disk);

	if (!name)
		return -ENOMEM;
	to->disk = keep(rows, disk);
	to->victim = keep(rows, name);
	to->kind = kinds[key->row];
	free(name);
	return (to->disk && to->victim) || rows->n_entries == HELD_ROWS ? 0 : -ENOMEM;
}

/* *@out NULL: there is no room for another row. */
static int find_entry(struct held_rows *rows, const struct entry_key *key, struct held_entry **out)
{
	const uint32_t there = intern_find(&rows->keys, key, sizeof(*key));
	struct held_entry *e;

	*out = NULL;
	if (there != INTERN_NONE) {
		*out = rows->entries[there];
		return 0;
	}
	if (rows->n_entries == HELD_ROWS)
		return 0;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	if (intern_bytes(&rows->keys, key, sizeof(*key), NULL) == INTERN_NONE) {
		free(e);
		return -ENOMEM;
	}
	e->row = (struct held_row){ .disk = key->disk, .victim = key->victim, .kind = key->kind };
	*out = rows->entries[rows->n_entries++] = e;
	return 0;
}

static int add_limit(struct held_rows *rows, struct held_entry *e, const struct hist_key *key)
{
	char limit[HELD_LIMIT_SIZE];
	const char *kept;

	if (e->several)
		return 0;
	held_limit(rows->from.cgroups, key, limit);
	kept = text_keep(&rows->texts, limit);
	if (!kept)
		return -ENOMEM;
	e->several = e->row.limit && e->row.limit != kept;
	e->row.limit = e->several ? "several" : kept;
	return 0;
}

static void add_times(struct held_entry *e, const struct keyed_hist *from, bool timed)
{
	uint64_t n = 0;

	for (size_t i = 0; i < HIST_FINE_SLOTS; i++) {
		n += from->hist.fine[i];
		if (timed)
			e->hist.fine[i] += from->hist.fine[i];
	}
	e->row.count += n;
	if (!timed)
		return;
	e->hist.count += n;
	e->hist.total += from->hist.total_ns;
	for (size_t i = 0; i < KEYED_CPUS; i++)
		if (from->max_ns[i] > e->hist.max)
			e->hist.max = from->max_ns[i];
}

int held_rows_add(void *ctx, const void *key, const void *value)
{
	const struct hist_key *of = key;
	struct held_rows *rows = ctx;
	struct entry_key wanted;
	struct held_entry *e;
	int r;

	if (of->row >= HELD_KINDS)
		return 0;
	if (!rows->entries)
		rows->entries = calloc(HELD_ROWS, sizeof(struct held_entry *));
	if (!rows->entries)
		return -ENOMEM;
	r = find_key(rows, of, &wanted);
	if (!r)
		r = find_entry(rows, &wanted, &e);
	if (r)
		return r;
	if (!e) {
		for (size_t i = 0; i < HIST_FINE_SLOTS; i++)
			rows->full += ((const struct keyed_hist *)value)->hist.fine[i];
		return 0;
	}
	add_times(e, value, of->row != HELD_IO_MAX_UNTIMED);
	return add_limit(rows, e, of);
}

/* ---- an output ---- */

static int compare(const void *a, const void *b)
{
	const struct held_row *x = a, *y = b;
	int r = strcmp(x->disk, y->disk);

	if (r || x->total_ns != y->total_ns)
		return r ? r : x->total_ns < y->total_ns ? 1 : -1;
	r = strcmp(x->victim, y->victim);
	return r ? r : strcmp(x->kind, y->kind);
}

void held_rows_average(struct held_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rows[i].avg_ns = rows[i].timed ? rows[i].total_ns / rows[i].timed : 0;
}

int held_rows_make(struct held_rows *rows)
{
	rows->rows = calloc(rows->n_entries + 1, sizeof(*rows->rows));
	if (!rows->rows)
		return -ENOMEM;
	for (size_t i = 0; i < rows->n_entries; i++) {
		struct held_entry *e = rows->entries[i];

		hist_raise_max(&e->hist);
		e->row.timed = e->hist.count;
		e->row.total_ns = e->hist.total;
		e->row.p99_ns = hist_percentile(&e->hist, 990);
		e->row.max_ns = e->hist.max;
		rows->rows[i] = e->row;
	}
	rows->n = rows->n_entries;
	held_rows_average(rows->rows, rows->n);
	qsort(rows->rows, rows->n, sizeof(*rows->rows), compare);
	return 0;
}

void held_rows_clear(struct held_rows *rows)
{
	for (size_t i = 0; i < rows->n_entries; i++)
		free(rows->entries[i]);
	rows->n_entries = rows->n = 0;
	free(rows->rows);
	rows->rows = NULL;
	intern_free(&rows->keys);
	text_set_free(&rows->texts);
	rows->texts = (struct text_set){ 0 };
}

void held_rows_free(struct held_rows *rows)
{
	held_rows_clear(rows);
	free(rows->entries);
	rows->entries = NULL;
}

/* ---- display ---- */

static bool is_of(const struct held_row *row, const char *part)
{
	return !part || strcasestr(row->victim, part);
}

int held_rows_of(struct render_interval *in, const char *part, void **own, struct error *err)
{
	const struct held_row *rows = in->rows;
	struct held_row *kept = calloc(in->n + 1, sizeof(*kept));
	size_t n = 0;

	if (!kept)
		return error_no_memory(err);
	for (size_t i = 0; i < in->n; i++)
		if (is_of(&rows[i], part))
			kept[n++] = rows[i];
	*own = kept;
	in->rows = kept;
	in->n = n;
	return 0;
}

int held_rows_print(const struct held_row *rows, size_t n, const char *part, FILE *stream)
{
	struct held_row *shown = calloc(n + 1, sizeof(*shown));
	size_t n_shown = 0;
	int r = 0;

	if (!shown)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (is_of(&rows[i], part))
			shown[n_shown++] = rows[i];
	if (n_shown)
		r = render_table(stream, &held_schema, shown, n_shown, NULL);
	free(shown);
	return r || !n_shown || fputs("\n", stream) >= 0 ? r : -errno;
}
