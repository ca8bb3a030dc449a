// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/top/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "output/columns.h"
#include "output/hist.h"

/* ---- columns ---- */

static void cell_comm(const void *row, char *buf, size_t size)
{
	const struct top_row *r = row;

	if (r->writeback)
		snprintf(buf, size, "%s" BLK_WRITEBACK, r->comm);
	else
		text_unmarked(r->comm, BLK_WRITEBACK, buf, size);
}

static void cell_letter(const void *row, char *buf, size_t size)
{
	snprintf(buf, size, "%c", (char)((const struct top_row *)row)->letter);
}

static void text_kbytes(uint64_t bytes, char *buf, size_t size)
{
	snprintf(buf, size, "%" PRIu64, bytes / 1024);
}

static void cell_average(const void *row, char *buf, size_t size)
{
	const struct top_row *r = row;

	if (r->io > r->untimed)
		snprintf(buf, size, "%.2f",
			 (double)r->time_ns / 1e6 / (double)(r->io - r->untimed));
	else
		snprintf(buf, size, "-");
}

/* A time of 0 means unknown. */
static void text_ms(uint64_t ns, char *buf, size_t size)
{
	if (ns)
		column_ms(ns, buf, size);
	else
		snprintf(buf, size, "-");
}

#define ROW struct top_row

static const struct column columns[] = {
	LABEL(pid, "PID", 6, "process (thread group) that submitted the I/O; 0: unknown"),
	LABEL(comm, "COMM", 16, "name of the process, kept after it has exited", .cell = cell_comm),
	LABEL(
	    op, "D", 1,
	    "operation: read, write, discard, flush (a command to the device), sync (an empty request "
	    "that waits for one) and others",
	    .cell = cell_letter),
	LABEL(major, "MAJ", 3, "major number of the disk", .spare = true),
	LABEL(minor, "MIN", 3, "minor number of the disk", .spare = true),
	LABEL(disk, "DISK", 8, "disk, named as in /proc/diskstats"),
	COUNTER(io, "I/O", 5, "requests", "requests completed in the interval",
		.help = "block I/O requests completed", .rate = "IOPS"),
	COUNTER(bytes, "Kbytes", 7, "bytes", "bytes read, written or discarded by them",
		.text = text_kbytes, .rate = "KiB/s",
		.help = "bytes moved by completed block I/O requests"),
	COUNTER(
	    time_ns, "AVGms", 6, "ns",
	    "sum of the times from issue to the device until completion; text "
	    "shows the average",
	    .cell = cell_average,
	    .help =
		"time of block I/O requests from issue to the device until completion, added up"),
	LABEL(writeback, NULL, 0,
	      "write-back by a kernel thread, not by the process that dirtied "
	      "the pages"),
	STATE(start, "ns",
	      "start time of the process since boot: distinguishes processes "
	      "that reuse a PID"),
	STATE(letter, "", "letter of op in text"),
	STATE(untimed, "requests", "requests in io whose time is unknown"),
	GAUGE(p99_ns, "P99ms", 7, "ns",
	      "99th percentile of the times, accurate to 1/16; for (other), the "
	      "largest of its rows",
	      .text = text_ms),
	GAUGE(max_ns, "MAXms", 7, "ns", "longest of these times", .text = text_ms),
	COUNTER(errors, "ERR", 4, "requests", "requests completed with an error status",
		.help = "block I/O requests completed with an error status"),
	LABEL(cgroup, "CGROUP", 6, "control group that the I/O is charged to"),
};

#define N_COLUMNS ARRAY_SIZE(columns)

_Static_assert(KEY_COLUMNS_MAX + N_COLUMNS <= TOP_COLUMNS_MAX, "columns of all options");

static bool is_one_of(const char *key, const char *const *keys)
{
	while (*keys && strcmp(*keys, key) != 0)
		keys++;
	return *keys;
}

static bool is_shown(const struct column *column, const struct top_options *o)
{
	static const char *const labels[] = { "pid",  "comm",	   "major", "minor",
					      "disk", "writeback", "start", NULL };
	static const char *const figures[] = { "p99_ns", "max_ns", "errors", NULL };

	if (is_one_of(column->key, figures))
		return o->extended;
	if (strcmp(column->key, "cgroup") == 0)
		return o->cgroup_owner;
	return !o->by || !is_one_of(column->key, labels);
}

void top_schema(const struct top_options *o, struct column to[TOP_COLUMNS_MAX],
		struct schema *schema)
{
	size_t n = keys_columns(o->by, offsetof(struct top_row, by), to);

	for (size_t i = 0; i < N_COLUMNS; i++)
		if (is_shown(&columns[i], o))
			to[n++] = columns[i];
	*schema = (struct schema){ to, n, sizeof(struct top_row) };
}

/* ---- rows ---- */

static const char no_disk[] = "-";

static struct top_row *new_row(struct top_rows *rows)
{
	struct top_row *row = ARRAY_ADD(rows->rows, rows->n);

	return row;
}

int top_rows_add(struct top_rows *rows, const struct top_key *key, const struct top_value *value,
		 const struct top_slots *slots)
{
	struct top_slots *copy = NULL;
	struct top_row *row;

	if (slots) {
		copy = malloc(sizeof(*copy));
		if (!copy)
			return -ENOMEM;
		*copy = *slots;
	}
	row = new_row(rows);
	if (!row) {
		free(copy);
		return -ENOMEM;
	}
	*row = (struct top_row){
		.key = *key,
		.io = value->io,
		.bytes = value->bytes,
		.time_ns = value->time_ns,
		.untimed = value->untimed,
		.max_ns = value->max_ns,
		.errors = value->errors,
		.slots = copy,
	};
	row->key.cpu = 0;
	return 0;
}

/* The number of a disk may have been another's when a row was drained.  A name is always the same
 * string (core/naming/disks.h). */
static int compare_keys(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	/* All bytes are set, including padding. */
	int r = memcmp((const char *)&x->key, (const char *)&y->key, sizeof(x->key));

	if (!r)
		r = (x->disk > y->disk) - (x->disk < y->disk);
	/* With --by dir the key has no file. */
	return r || x->key.file.kind ? r : (x->by.dir > y->by.dir) - (x->by.dir < y->by.dir);
}

/* A slot beyond UINT32_MAX counts that many: rank() notices that some are missing. */
static void add_slots(struct top_slots *to, const struct top_slots *from)
{
	for (size_t i = 0; i < TOP_SLOTS; i++)
		if (__builtin_add_overflow(to->counts[i], from->counts[i], &to->counts[i]))
			to->counts[i] = UINT32_MAX;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* @from is freed. */
void top_row_add(struct top_row *to, struct top_row *from)
{
	to->io += from->io;
	to->bytes += from->bytes;
	to->time_ns += from->time_ns;
	to->untimed += from->untimed;
	to->errors += from->errors;
	to->max_ns = larger(to->max_ns, from->max_ns);
	to->p99_ns = larger(to->p99_ns, from->p99_ns);
	if (to->slots && from->slots) {
		add_slots(to->slots, from->slots);
		free(from->slots);
	} else if (from->slots) {
		to->slots = from->slots;
	}
	from->slots = NULL;
}

#define LAST_SLOT (TOP_SLOT_FIRST + TOP_SLOTS - 1)

static uint64_t slots_hist(const struct top_slots *slots, uint64_t max_ns, struct hist *hist)
{
	uint64_t placed = 0;

	*hist = (struct hist){ .max = max_ns };
	for (size_t i = 0; i < TOP_SLOTS; i++) {
		hist->fine[TOP_SLOT_FIRST + i] = slots->counts[i];
		placed += slots->counts[i];
	}
	/* The last slot also has all longer times. */
	if (max_ns >> 36) {
		hist->fine[hist_fine_slot(max_ns)] = hist->fine[LAST_SLOT];
		hist->fine[LAST_SLOT] = 0;
	}
	return placed;
}

bool top_row_times(const struct top_row *row, struct hist *times)
{
	return row->slots && slots_hist(row->slots, row->max_ns, times) == row->io - row->untimed;
}

/* Computes the percentile of @row from its slots, if all of its times are in them. */
static void rank(struct top_row *row)
{
	uint64_t placed, shortest;
	struct hist hist;

	if (!row->slots)
		return;
	placed = slots_hist(row->slots, row->max_ns, &hist);
	shortest = hist.fine[TOP_SLOT_FIRST];
	hist.fine[TOP_SLOT_FIRST] = 0; /* also has shorter times */
	hist_raise_max(&hist);
	hist.fine[TOP_SLOT_FIRST] = shortest;
	row->max_ns = hist.max;
	if (placed == row->io - row->untimed)
		row->p99_ns = hist_percentile(&hist, 990);
}

static void drop_slots(struct top_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		free(rows->rows[i].slots);
		rows->rows[i].slots = NULL;
	}
}

int top_row_join(struct top_row *to, const struct top_row *from)
{
	bool timed = to->io > to->untimed, more = from->io > from->untimed;
	struct top_slots *slots = NULL;
	uint64_t p99_ns = timed ? more ? 0 : to->p99_ns : from->p99_ns;
	struct top_row rest = *from;

	if (from->slots) {
		slots = malloc(sizeof(*slots));
		if (!slots)
			return -ENOMEM;
		*slots = *from->slots;
	}
	if ((timed && !to->slots) || (more && !slots)) {
		free(slots);
		free(to->slots);
		to->slots = slots = NULL;
	}
	rest.slots = slots;
	top_row_add(to, &rest);
	to->p99_ns = p99_ns;
	rank(to);
	return 0;
}

static void join(struct top_rows *rows)
{
	size_t used = 0;

	qsort(rows->rows, rows->n, sizeof(*rows->rows), compare_keys);
	for (size_t i = 1; i < rows->n; i++) {
		struct top_row *to = &rows->rows[used], *from = &rows->rows[i];

		if (compare_keys(to, from) != 0) {
			rows->rows[++used] = *from;
			continue;
		}
		top_row_add(to, from);
	}
	rows->n = used + 1;
}

/* ---- --by ---- */

static void mask_keys(struct top_rows *rows, by_keys by)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct top_key *key = &rows->rows[i].key;

		if (!keys_are_all(by))
			key->writeback = 0;
		if (!keys_have(by, KEY_FILE))
			memset(&key->file, 0, sizeof(key->file)); /* the directory is there */
		if (!keys_have(by, KEY_DISK))
			key->dev = 0;
		if (!keys_of_process(by))
			key->start = key->pid = 0;
		if (!keys_of_submitter(by))
			key->known = 0;
	}
}

static int compare_labels(const void *a, const void *b, void *by)
{
	const struct top_row *x = a, *y = b;
	int r = keys_compare(*(by_keys *)by, &x->by, &y->by);

	return r ? r : (x->letter > y->letter) - (x->letter < y->letter);
}

/* Different processes may have one name, different cgroups one unit. */
static void join_labels(struct top_rows *rows, by_keys by)
{
	size_t used = 0;

	qsort_r(rows->rows, rows->n, sizeof(*rows->rows), compare_labels, &by);
	for (size_t i = 1; i < rows->n; i++) {
		if (compare_labels(&rows->rows[used], &rows->rows[i], &by) != 0)
			rows->rows[++used] = rows->rows[i];
		else
			top_row_add(&rows->rows[used], &rows->rows[i]);
	}
	rows->n = used + 1;
}

size_t top_rows_limit(struct top_row *rows, size_t n, by_keys by, uint64_t most)
{
	struct top_row *others[UINT8_MAX + 1] = { NULL };
	size_t used = n;

	if (n <= most)
		return n;
	for (size_t i = 0; i < n; i++) {
		struct top_row **other = &others[rows[i].letter & UINT8_MAX];

		if (i == most)
			used = i;
		if (i < most) {
			if (keys_compare(by, &rows[i].by, &keys_other) == 0)
				*other = &rows[i];
		} else if (*other) {
			top_row_add(*other, &rows[i]);
		} else {
			*other = &rows[used++];
			**other = rows[i];
			(*other)->by = keys_other;
		}
	}
	return used;
}

/* Rows that were just drained. */
static void label_disks(struct top_rows *rows, struct disks *disks)
{
	for (size_t i = 0; i < rows->n; i++) {
		uint32_t dev = rows->rows[i].key.dev;

		if (!rows->rows[i].disk)
			rows->rows[i].disk = dev ? disks_name(disks, dev) : no_disk;
	}
}

/* The same for files: names are from the last drain. */
static void label_files(struct top_rows *rows, const struct top_tables *tables)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct key_labels *by = &rows->rows[i].by;

		if (by->file)
			continue;
		if (rows->rows[i].key.known == TOP_EVICTED) {
			*by = keys_other;
			continue;
		}
		by->file = file_names_get(tables->files, &rows->rows[i].key.file);
		by->dir = file_names_dir(tables->files, by->file, tables->depth);
	}
}

/* Forgets the names of files that are in no row. */
static void keep_files(struct top_rows *rows, struct file_names *files)
{
	file_names_begin_keep(files);
	for (size_t i = 0; i < rows->n; i++) {
		struct key_labels *by = &rows->rows[i].by;

		if (rows->rows[i].key.known == TOP_EVICTED)
			continue;
		by->file = file_names_keep(files, by->file);
		by->dir = file_names_keep(files, by->dir);
	}
	file_names_end_keep(files);
}

static const char *label_cgroup(const struct top_row *row, const struct top_tables *tables,
				enum cgroup_name what)
{
	return row->key.known ? cgroups_name(tables->cgroups, row->key.cgroup, what) : KEYS_UNKNOWN;
}

/* Except the name of the process. */
static void label_keys(struct top_row *row, const struct top_tables *tables)
{
	struct key_labels *by = &row->by;

	if (row->key.known == TOP_EVICTED) {
		*by = keys_other;
		return;
	}
	by->disk = row->disk;
	if (keys_have(tables->by, KEY_CGROUP))
		by->cgroup = label_cgroup(row, tables, CGROUP_PATH);
	if (keys_have(tables->by, KEY_UNIT))
		by->unit = label_cgroup(row, tables, CGROUP_UNIT);
	if (keys_have(tables->by, KEY_CONTAINER))
		by->container = label_cgroup(row, tables, CGROUP_CONTAINER);
	if (keys_have(tables->by, KEY_USER))
		by->user = row->key.known ? users_name(tables->users, row->key.uid) : KEYS_UNKNOWN;
}

static void label(struct top_row *row, const struct top_tables *tables)
{
	const struct top_key *k = &row->key;

	row->op = blk_op_name(k->op);
	row->letter = (unsigned char)blk_op_letter(k->op);
	row->major = DISK_MAJOR(k->dev);
	row->minor = DISK_MINOR(k->dev);
	row->writeback = k->writeback;
	if (tables->by)
		label_keys(row, tables);
	else
		row->cgroup = tables->cgroups ? cgroups_path(tables->cgroups, k->cgroup) : "";
}

/* ---- too many rows ---- */

static uint64_t sort_value(const struct top_row *row, enum top_sort sort)
{
	switch (sort) {
	case SORT_IO:
		return row->io;
	case SORT_TIME:
		return row->time_ns;
	case SORT_BYTES:
		break;
	}
	return row->bytes;
}

static int compare_values(const void *a, const void *b, void *sort)
{
	uint64_t p = sort_value(a, *(enum top_sort *)sort),
		 q = sort_value(b, *(enum top_sort *)sort);

	return p != q ? (p < q) - (p > q) : compare_keys(a, b);
}

static void evict(struct top_rows *rows, by_keys by, enum top_sort sort)
{
	qsort_r(rows->rows, rows->n, sizeof(*rows->rows), compare_values, &sort);
	for (size_t i = TOP_ROWS_MAX / 2; i < rows->n; i++) {
		struct top_key *key = &rows->rows[i].key;

		rows->evicted += key->known != TOP_EVICTED;
		key->start = key->cgroup = 0;
		key->pid = key->uid = 0;
		memset(&key->file, 0, sizeof(key->file));
		rows->rows[i].by.file = rows->rows[i].by.dir = keys_other.file;
		key->known = TOP_EVICTED;
		if (!by)
			continue;
		key->dev = 0;
		rows->rows[i].disk = no_disk;
	}
	join(rows);
}

/* ---- labels ---- */

/* At the end of the interval, when all names have arrived. */
static void label_process(struct top_row *row, struct process_names *names)
{
	const struct top_key *k = &row->key;

	row->start = k->start;
	row->pid = k->pid;
	if (k->known == TOP_EVICTED)
		row->comm = TOP_OTHERS;
	else
		row->comm = k->known ? process_names_get(names, k->pid, k->start) : KEYS_UNKNOWN;
}

static void label_key_process(struct top_row *row, const struct top_tables *tables)
{
	const struct top_key *k = &row->key;

	if (k->known == TOP_EVICTED)
		return;
	if (keys_have(tables->by, KEY_PROCESS)) {
		row->by.pid = k->pid;
		row->by.start = k->start;
	}
	if (keys_of_process(tables->by))
		row->by.comm =
		    k->known ? process_names_get(tables->names, k->pid, k->start) : KEYS_UNKNOWN;
}

struct order {
	by_keys by;
	enum top_sort sort;
};

/* Largest first; then by I/Os, then in an order that does not change from one refresh to the
 * next. */
static int compare_rows(const void *a, const void *b, void *ctx)
{
	const struct top_row *x = a, *y = b;
	const struct order *order = ctx;
	by_keys by = order->by;
	uint64_t p = sort_value(x, order->sort), q = sort_value(y, order->sort);

	if (p != q)
		return p > q ? -1 : 1;
	if (x->io != y->io)
		return x->io > y->io ? -1 : 1;
	if (by)
		return compare_labels(x, y, &by);
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->letter != y->letter)
		return x->letter < y->letter ? -1 : 1;
	return strcmp(x->disk, y->disk);
}

void top_rows_compact(struct top_rows *rows, const struct top_tables *tables, enum top_sort sort)
{
	bool forgot;

	if (!rows->n)
		return;
	if (tables->files)
		label_files(rows, tables);
	if (tables->by)
		mask_keys(rows, tables->by);
	label_disks(rows, tables->disks);
	join(rows);
	if (rows->n > TOP_ROWS_MAX)
		evict(rows, tables->by, sort);
	if (tables->files && file_names_are_many(tables->files))
		keep_files(rows, tables->files);
	forgot = process_names_forget(tables->names);
	for (size_t i = 0; i < rows->n; i++) {
		label(&rows->rows[i], tables);
		if (forgot)
			process_names_keep(tables->names, rows->rows[i].key.pid,
					   rows->rows[i].key.start);
	}
}

void top_rows_finish(struct top_rows *rows, const struct top_tables *tables, enum top_sort sort)
{
	top_rows_compact(rows, tables, sort);
	for (size_t i = 0; i < rows->n; i++) {
		if (tables->by)
			label_key_process(&rows->rows[i], tables);
		else
			label_process(&rows->rows[i], tables->names);
	}
	if (tables->by && rows->n)
		join_labels(rows, tables->by);
	for (size_t i = 0; i < rows->n; i++)
		rank(&rows->rows[i]);
	if (!tables->keep_slots)
		drop_slots(rows);
	top_rows_sort(rows->rows, rows->n, tables->by, sort);
}

void top_rows_sort(struct top_row *rows, size_t n, by_keys by, enum top_sort sort)
{
	struct order order = { by, sort };

	if (n)
		qsort_r(rows, n, sizeof(*rows), compare_rows, &order);
}

void top_rows_clear(struct top_rows *rows)
{
	drop_slots(rows);
	rows->n = 0;
}

void top_rows_free(struct top_rows *rows)
{
	top_rows_clear(rows);
	free(rows->rows);
	memset(rows, 0, sizeof(*rows));
}
