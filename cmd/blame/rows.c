// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/blame/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/block/files.h"
#include "core/base/array.h"
#include "output/columns.h"
#include "output/render.h"

#define OTHER 0 /* the number of all owners without one */

const char blame_all[] = "all", blame_by[] = "culprit", blame_itself[] = "itself",
	   blame_alone[] = "alone", blame_idle[] = "idle", blame_unknown[] = "unknown";

/* ---- columns ---- */

static void text_count(uint64_t n, char *buf, size_t size)
{
	if (n)
		snprintf(buf, size, "%" PRIu64, n);
	else
		snprintf(buf, size, "-");
}

/* Of no requests: none. */
static void text_percentile(uint64_t ns, char *buf, size_t size)
{
	if (ns)
		column_ms(ns, buf, size);
	else
		snprintf(buf, size, "-");
}

static double share_of(const struct blame_row *row)
{
	return row->victim_ns ? 100.0 * (double)row->time_ns / (double)row->victim_ns : 0;
}

static void cell_share(const void *row, char *buf, size_t size)
{
	snprintf(buf, size, "%.1f%%", share_of(row));
}

#define ROW struct blame_row

static const struct column columns[] = {
	LABEL(disk, "DISK", 6, "disk, named as in /proc/diskstats"),
	LABEL(victim, "VICTIM", 16, "whose requests waited, by the keys of --by"),
	LABEL(culprit, "CULPRIT", 16,
	      "whose requests they waited for; (all): the sum, (itself), (alone), (idle), "
	      "[unknown]: see kind"),
	LABEL(
	    kind, NULL, 0,
	    "all: the sum of the victim's rows; culprit; itself: its own other requests; alone: it "
	    "was alone at the disk; idle: it waited, and the disk had nothing to do; unknown: it "
	    "became known after its part of the time was divided"),
	COUNTER(ios, NULL, 0, "requests",
		"requests of the victim that completed; in rows of kind all, like admit_ns, "
		"queue_ns and device_ns",
		.metric = ""),
	COUNTER(time_ns, "TIMEms", 9, "ns",
		"time of these requests, added up: behind and beside requests of the culprit",
		.text = column_ms,
		.help =
		    "time of the victim's block I/O requests, from arrival to completion, divided "
		    "among the requests that were at the disk meanwhile"),
	COUNTER(victim_ns, "SHARE", 6, "ns", "time of all rows of the victim: of SHARE",
		.cell = cell_share, .metric = ""),
	COUNTER(behind_ns, "BEHINDms", 9, "ns",
		"of this, before the request was issued: behind requests at the disk",
		.text = column_ms, .metric = "", .spare = true),
	COUNTER(beside_ns, "BESIDEms", 9, "ns", "of this, while it was at the disk itself",
		.text = column_ms, .metric = "", .spare = true),
	COUNTER(admit_ns, NULL, 0, "ns", "time from arrival until the requests were created",
		.metric = ""),
	COUNTER(queue_ns, NULL, 0, "ns", "time from creation until they were issued to the disk",
		.metric = ""),
	COUNTER(device_ns, NULL, 0, "ns", "time from the issue until completion", .metric = ""),
	GAUGE(with, "WITH", 6, "requests",
	      "requests of the victim that arrived while the culprit had one in flight; in rows of "
	      "kind all, all of them",
	      .text = text_count),
	GAUGE(with_p50_ns, "P50ms", 7, "ns", "median of the times of these, accurate to 1/16",
	      .text = text_percentile, .spare = true),
	GAUGE(with_p99_ns, "P99ms", 7, "ns", "99th percentile of the times of these",
	      .text = text_percentile),
	GAUGE(without, "WITHOUT", 7, "requests", "the other requests of the victim",
	      .text = text_count, .spare = true),
	GAUGE(without_p50_ns, "P50ms", 7, "ns", "median of the times of these",
	      .text = text_percentile, .spare = true),
	GAUGE(without_p99_ns, "P99ms", 7, "ns", "99th percentile of the times of these",
	      .text = text_percentile, .spare = true),
	GAUGE(lost, NULL, 0, "requests",
	      "requests without a record while the victim's waited: if there are any, the division "
	      "is not exact"),
};

const struct schema blame_schema = SCHEMA(columns, struct blame_row);

/* ---- disks and owners ---- */

static void free_disk(struct blame_disk *disk)
{
	for (size_t i = 0; i < BLAME_OWNERS; i++)
		free(disk->owners[i]);
	blame_sweep_free(disk->sweep);
	free(disk->name);
	free(disk);
}

static struct blame_disk *new_disk(struct blame_room *room, const char *name)
{
	struct blame_disk *disk = calloc(1, sizeof(*disk));

	if (!disk)
		return NULL;
	disk->name = strdup(name);
	disk->owners[OTHER] = strdup("(other)");
	if (disk->name && disk->owners[OTHER] && !blame_sweep_open(room, &disk->sweep))
		return disk;
	free_disk(disk);
	return NULL;
}

struct blame_disk *blame_disk_of(struct blame_rows *rows, const char *name)
{
	struct blame_disk *disk;

	for (size_t i = 0; i < rows->n_disks; i++)
		if (strcmp(rows->disks[i]->name, name) == 0)
			return rows->disks[i];
	disk = rows->n_disks < BLAME_DISKS ? new_disk(&rows->room, name) : NULL;
	if (disk)
		rows->disks[rows->n_disks++] = disk;
	else
		rows->full++;
	return disk;
}

uint32_t blame_owner_of(struct blame_rows *rows, struct blame_disk *disk, const char *name)
{
	uint32_t unused = BLAME_OWNERS;

	for (uint32_t i = 0; i < BLAME_OWNERS; i++)
		if (!disk->owners[i] && unused == BLAME_OWNERS)
			unused = i;
		else if (disk->owners[i] && strcmp(disk->owners[i], name) == 0)
			return i;
	if (unused == BLAME_OWNERS || rows->room.owners == BLAME_NAMES)
		return OTHER;
	disk->owners[unused] = strdup(name);
	rows->room.owners += disk->owners[unused] != NULL;
	return disk->owners[unused] ? unused : UINT32_MAX;
}

/* "fio[1234]", "kworker/u8:3-wb[77]" */
static char *process_name(const struct key_labels *labels, bool writeback)
{
	char own[64], *name = NULL;

	if (writeback)
		snprintf(own, sizeof(own), "%.40s" BLK_WRITEBACK, labels->comm);
	else
		text_unmarked(labels->comm, BLK_WRITEBACK, own, sizeof(own));
	return asprintf(&name, "%s[%u]", own, labels->pid) < 0 ? NULL : name;
}

char *blame_name(const struct blame_options *o, const struct key_labels *labels, bool writeback)
{
	const bool by_process = o->by == KEY_PROCESS + 1;
	struct key_labels all = *labels;
	char dir[FILES_DIR_SIZE];

	if (by_process && strcmp(labels->comm, KEYS_UNKNOWN) != 0)
		return process_name(labels, writeback);
	if (keys_of_file(o->by)) {
		all.file = !all.file ? KEYS_UNKNOWN : *all.file ? all.file : "-";
		all.dir = files_dir(all.file, keys_dir_depth(o->by), dir);
		return keys_name(o->by, &all);
	}
	return keys_name(by_process ? KEY_COMM + 1 : o->by, labels);
}

int blame_label(struct blame_rows *rows, const struct blame_options *o, struct blame_disk *disk,
		const struct key_labels *labels, bool writeback, uint32_t *number)
{
	char *name = blame_name(o, labels, writeback);

	*number = name ? blame_owner_of(rows, disk, name) : UINT32_MAX;
	free(name);
	return *number == UINT32_MAX ? -ENOMEM : 0;
}

uint32_t blame_weight(const struct blame_options *o, const char *op, uint64_t bytes)
{
	static const char *const with_data[] = { "read", "write", "zone_append" };

	if (strcmp(op, "sync") == 0)
		return 0;
	for (size_t i = 0; o->weight == WEIGHT_BYTES && i < ARRAY_SIZE(with_data); i++)
		if (strcmp(op, with_data[i]) == 0 && bytes >= 512)
			return bytes / 512 < UINT32_MAX ? (uint32_t)(bytes / 512) : UINT32_MAX;
	return 1;
}

/* ---- rows ---- */

static struct blame_row *add_row(struct blame_rows *rows, const struct blame_row *all,
				 const char *kind, const char *culprit, uint64_t ns)
{
	struct blame_row *row = ARRAY_ADD(rows->rows, rows->n);

	if (row)
		*row = (struct blame_row){
			.disk = all->disk,
			.victim = all->victim,
			.culprit = culprit,
			.kind = kind,
			.time_ns = ns,
			.victim_ns = all->time_ns,
			.lost = all->lost,
		};
	return row;
}

static int add_pair(struct blame_rows *rows, const struct blame_row *all,
		    const struct blame_disk *disk, const struct blame_victim *v, uint32_t owner,
		    uint32_t own)
{
	const struct blame_pair *pair = &v->by[owner];
	const bool itself = owner == own;
	struct blame_row *row;

	if (!pair->behind_ns && !pair->beside_ns)
		return 0;
	row =
	    add_row(rows, all, itself ? blame_itself : blame_by,
		    itself ? BLAME_ITSELF : disk->owners[owner], pair->behind_ns + pair->beside_ns);
	if (!row)
		return -ENOMEM;
	row->behind_ns = pair->behind_ns;
	row->beside_ns = pair->beside_ns;
	row->with_p50_ns = blame_percentile(pair->with, NULL, 500, &row->with);
	row->with_p99_ns = blame_percentile(pair->with, NULL, 990, &row->with);
	row->without_p50_ns = blame_percentile(v->times, pair->with, 500, &row->without);
	row->without_p99_ns = blame_percentile(v->times, pair->with, 990, &row->without);
	return 0;
}

static int add_rest(struct blame_rows *rows, const struct blame_row *all, const char *kind,
		    const char *culprit, uint64_t ns)
{
	return !ns || add_row(rows, all, kind, culprit, ns) ? 0 : -ENOMEM;
}

static int compare_times(const void *a, const void *b)
{
	const struct blame_row *x = a, *y = b;
	int r = (x->kind != blame_all) - (y->kind != blame_all);

	if (r || x->time_ns != y->time_ns)
		return r ? r : x->time_ns < y->time_ns ? 1 : -1;
	return strcmp(x->culprit, y->culprit);
}

static int add_victim(struct blame_rows *rows, const struct blame_disk *disk, uint32_t owner,
		      uint64_t lost)
{
	struct blame_victim *v = blame_victim(disk->sweep, owner);
	struct blame_row all = { .disk = disk->name, .victim = disk->owners[owner], .lost = lost },
			 *row;
	size_t first = rows->n;
	int r = 0;

	if (!v)
		return 0;
	blame_settle(v);
	all.time_ns = v->admit_ns + v->queue_ns + v->device_ns;
	row = add_row(rows, &all, blame_all, BLAME_ALL, all.time_ns);
	if (!row)
		return -ENOMEM;
	row->ios = v->ios;
	row->admit_ns = v->admit_ns;
	row->queue_ns = v->queue_ns;
	row->device_ns = v->device_ns;
	row->with_p50_ns = blame_percentile(v->times, NULL, 500, &row->with);
	row->with_p99_ns = blame_percentile(v->times, NULL, 990, &row->with);
	for (uint32_t i = 0; !r && i < BLAME_OWNERS; i++)
		r = add_pair(rows, &all, disk, v, i, disk->own[owner] ?: owner);
	r = r ? r : add_rest(rows, &all, blame_alone, BLAME_ALONE, v->alone_ns);
	r = r ? r : add_rest(rows, &all, blame_idle, BLAME_IDLE, v->idle_ns);
	r = r ? r : add_rest(rows, &all, blame_unknown, "[unknown]", v->unknown_ns);
	qsort(rows->rows + first, rows->n - first, sizeof(*rows->rows), compare_times);
	return r;
}

/* A victim of a disk. */
struct ranked {
	uint64_t ns;
	uint32_t owner;
};

static int compare_victims(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return (x->owner > y->owner) - (x->owner < y->owner);
}

static int add_disk(struct blame_rows *rows, const struct blame_disk *disk, uint64_t lost)
{
	struct ranked victims[BLAME_OWNERS];
	int r = 0;

	for (uint32_t i = 0; i < BLAME_OWNERS; i++) {
		const struct blame_victim *v = blame_victim(disk->sweep, i);

		victims[i] = (struct ranked){ v ? v->admit_ns + v->queue_ns + v->device_ns : 0, i };
	}
	qsort(victims, BLAME_OWNERS, sizeof(*victims), compare_victims);
	for (uint32_t i = 0; !r && i < BLAME_OWNERS; i++)
		r = add_victim(rows, disk, victims[i].owner, lost);
	return r;
}

static int compare_disks(const void *a, const void *b)
{
	return strcmp((*(struct blame_disk *const *)a)->name,
		      (*(struct blame_disk *const *)b)->name);
}

int blame_rows_make(struct blame_rows *rows, uint64_t lost)
{
	int r = 0;

	rows->n = 0;
	qsort(rows->disks, rows->n_disks, sizeof(void *), compare_disks);
	for (size_t i = 0; !r && i < rows->n_disks; i++)
		r = add_disk(rows, rows->disks[i], lost);
	return r;
}

/* With few numbers left: the numbers of owners that have ended are free again. */
static void forget_owners(struct blame_rows *rows, struct blame_disk *disk)
{
	size_t n = 0;

	for (size_t i = 0; i < BLAME_OWNERS; i++)
		n += disk->owners[i] != NULL;
	if (n <= BLAME_OWNERS / 2 && rows->room.owners <= BLAME_NAMES / 2)
		return;
	for (uint32_t i = OTHER + 1; i < BLAME_OWNERS; i++)
		if (disk->owners[i] && blame_owner_unused(disk->sweep, i)) {
			free(disk->owners[i]);
			disk->owners[i] = NULL;
			rows->room.owners--;
		}
}

/* By disk and victim, its sum first. */
static int compare_names(const void *a, const void *b)
{
	const struct blame_row *x = a, *y = b;
	int r = strcmp(x->disk, y->disk) ?: strcmp(x->victim, y->victim);

	return r ?: (strcmp(x->kind, blame_all) != 0) - (strcmp(y->kind, blame_all) != 0);
}

static int compare_shown(const void *a, const void *b)
{
	const struct blame_row *x = a, *y = b;
	int r = (x->victim_ns < y->victim_ns) - (x->victim_ns > y->victim_ns);

	r = r ?: compare_names(a, b);
	return r ?: (x->time_ns < y->time_ns) - (x->time_ns > y->time_ns);
}

void blame_rows_arrange(struct blame_row *rows, size_t n)
{
	const struct blame_row *sum = NULL;

	if (!n)
		return;
	qsort(rows, n, sizeof(*rows), compare_names);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(rows[i].kind, blame_all) == 0)
			sum = &rows[i];
		if (sum && strcmp(sum->disk, rows[i].disk) == 0 &&
		    strcmp(sum->victim, rows[i].victim) == 0)
			rows[i].victim_ns = sum->time_ns;
	}
	qsort(rows, n, sizeof(*rows), compare_shown);
}

void blame_rows_clear(struct blame_rows *rows)
{
	for (size_t i = 0; i < rows->n_disks; i++) {
		blame_sweep_clear(rows->disks[i]->sweep);
		forget_owners(rows, rows->disks[i]);
	}
	rows->n = 0;
}

void blame_rows_free(struct blame_rows *rows)
{
	for (size_t i = 0; i < rows->n_disks; i++)
		free_disk(rows->disks[i]);
	free(rows->rows);
	*rows = (struct blame_rows){ 0 };
}

/* ---- text ---- */

#define VICTIMS_SHOWN  10
#define CULPRITS_SHOWN 8

bool blame_row_is_of(const struct blame_row *row, const char *part)
{
	return !part || strcasestr(row->victim, part);
}

static int print_victim(const struct blame_row *row, bool fsyncs, FILE *stream)
{
	int r = render_name(stream, row->disk);

	if (!r && fputs(" ", stream) < 0)
		r = -errno;
	if (!r)
		r = render_name(stream, row->victim);
	if (r)
		return r;
	if (fsyncs)
		r = fprintf(stream, ": %" PRIu64 " waits of fsyncs took %.2f ms\n(", row->ios,
			    (double)row->time_ns / 1e6);
	else
		r = fprintf(stream,
			    ": %" PRIu64 " I/Os took %.2f ms\n"
			    "(ADMIT %.2f + QUEUE %.2f + DEVICE %.2f; ",
			    row->ios, (double)row->time_ns / 1e6, (double)row->admit_ns / 1e6,
			    (double)row->queue_ns / 1e6, (double)row->device_ns / 1e6);
	if (r < 0 || fprintf(stream, "P50 %.2f, P99 %.2f)", (double)row->with_p50_ns / 1e6,
			     (double)row->with_p99_ns / 1e6) < 0)
		return -errno;
	if (row->lost &&
	    fprintf(stream, ", not exact: %" PRIu64 " requests without a record", row->lost) < 0)
		return -errno;
	return fputs(
		   "\n   TIMEms  SHARE    WITH   P50ms   P99ms WITHOUT   P50ms   P99ms  CULPRIT\n",
		   stream) < 0
		   ? -errno
		   : 0;
}

static int print_times(uint64_t n, uint64_t p50_ns, uint64_t p99_ns, FILE *stream)
{
	int r;

	if (n)
		r = fprintf(stream, " %7" PRIu64 " %7.2f %7.2f", n, (double)p50_ns / 1e6,
			    (double)p99_ns / 1e6);
	else
		r = fprintf(stream, " %7s %7s %7s", "-", "-", "-");
	return r < 0 ? -errno : 0;
}

static int print_culprit(const struct blame_row *row, FILE *stream)
{
	int r;

	if (fprintf(stream, "%9.2f %5.1f%%", (double)row->time_ns / 1e6, share_of(row)) < 0)
		return -errno;
	r = print_times(row->with, row->with_p50_ns, row->with_p99_ns, stream);
	if (!r)
		r = print_times(row->without, row->without_p50_ns, row->without_p99_ns, stream);
	if (!r && fputs("  ", stream) < 0)
		r = -errno;
	if (!r)
		r = render_name(stream, row->culprit);
	return !r && fputs("\n", stream) < 0 ? -errno : r;
}

/* The rest of a table that is too long. */
static int print_rest(size_t n, uint64_t ns, const char *what, FILE *stream)
{
	if (n && fprintf(stream, "%9.2f        %zu more %s\n", (double)ns / 1e6, n, what) < 0)
		return -errno;
	return 0;
}

static bool same_victim(const struct blame_row *a, const struct blame_row *b)
{
	return strcmp(a->disk, b->disk) == 0 && strcmp(a->victim, b->victim) == 0;
}

/* The @n rows of one victim, of which the first is its sum. */
static int print_rows(const struct blame_row *rows, size_t n, bool fsyncs, FILE *stream)
{
	uint64_t rest_ns = 0;
	int r = print_victim(rows, fsyncs, stream);

	for (size_t i = 1; !r && i < n; i++)
		if (i <= CULPRITS_SHOWN)
			r = print_culprit(&rows[i], stream);
		else
			rest_ns += rows[i].time_ns;
	if (!r && n > CULPRITS_SHOWN + 1)
		r = print_rest(n - CULPRITS_SHOWN - 1, rest_ns, "rows", stream);
	return !r && fputs("\n", stream) < 0 ? -errno : r;
}

int blame_rows_print(const struct blame_row *rows, size_t n, const char *part, bool fsyncs,
		     FILE *stream)
{
	size_t shown = 0, rest = 0, next;
	uint64_t rest_ns = 0;
	int r = 0;

	for (size_t i = 0; !r && i < n; i = next) {
		for (next = i + 1; next < n && same_victim(&rows[i], &rows[next]); next++)
			;
		if (!blame_row_is_of(&rows[i], part))
			continue;
		if (shown++ < VICTIMS_SHOWN) {
			r = print_rows(&rows[i], next - i, fsyncs, stream);
		} else {
			rest++;
			rest_ns += rows[i].time_ns;
		}
	}
	return r ? r : print_rest(rest, rest_ns, "victims", stream);
}
