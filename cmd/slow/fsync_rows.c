// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/slow/fsync_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/block/files.h"
#include "cmd/slow/fsync_parts.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "output/columns.h"
#include "output/render.h"

/* ---- columns ---- */

#define COVERED_ALL  "all"
#define COVERED_LOG  "log"
#define COVERED_DATA "data"

static void cell_time(const void *row, char *buf, size_t size)
{
	const struct fsync_row *r = row;
	char clock[CLOCK_TEXT_SIZE];

	clock_time(r->time, (int32_t)r->utc_offset, clock);
	snprintf(buf, size, "%s.%03u", clock, (unsigned int)(r->time / 1000000 % 1000));
}

/* Milliseconds in few characters. */
static void text_part(uint64_t ns, char *buf, size_t size)
{
	const double ms = (double)ns / 1e6;

	snprintf(buf, size, "%.*f", ms < 9.995 ? 2 : ms < 99.95 ? 1 : 0, ms);
}

/* Of journals that are not followed. */
static void text_covered(uint64_t ns, bool covered, char *buf, size_t size)
{
	if (covered)
		text_part(ns, buf, size);
	else
		snprintf(buf, size, "-");
}

#define CELL(part, is_covered)                                                                     \
	static void cell_##part(const void *row, char *buf, size_t size)                           \
	{                                                                                          \
		const struct fsync_row *r = row;                                                   \
                                                                                                   \
		text_covered(r->part##_ns, is_covered, buf, size);                                 \
	}

CELL(previous, strcmp(r->covered, COVERED_ALL) == 0)
CELL(locking, strcmp(r->covered, COVERED_ALL) == 0)
CELL(ordered, strcmp(r->covered, COVERED_ALL) == 0)
CELL(log, strcmp(r->covered, COVERED_DATA) != 0)

#define ROW struct fsync_row

static const struct column columns[] = {
	COLUMN(LABEL, "time", time, "TIME", 12, "ns", "when the call began, since the epoch",
	       .left = true, .cell = cell_time),
	LABEL(pid, NULL, 0, "process (thread group)"),
	LABEL(comm, "COMM", 15, "name of the process"),
	LABEL(call, NULL, 0, "fsync or fdatasync"),
	LABEL(fs, NULL, 0, "type of the file system"),
	LABEL(disk, NULL, 0, "disk of the file system, named as in /proc/diskstats; empty: none"),
	GAUGE(total_ns, "TOTALms", 7, "ns", "time of the system call", .text = column_ms),
	GAUGE(data_ns, "DATA", 5, "ns", "writing the file's own pages, and waiting for them",
	      .text = text_part),
	GAUGE(previous_ns, "PREV", 5, "ns",
	      "waiting for commits before the one with the file's metadata", .cell = cell_previous),
	GAUGE(locking_ns, "LOCK", 5, "ns", "the commit waited for open handles of other processes",
	      .cell = cell_locking),
	GAUGE(ordered_ns, "ORDER", 5, "ns",
	      "the commit wrote data of files, or waited for it, before the log",
	      .cell = cell_ordered),
	GAUGE(log_ns, "LOG", 5, "ns", "the commit wrote the log, without its record",
	      .cell = cell_log),
	GAUGE(flush_ns, "FLUSH", 5, "ns",
	      "flushing the disk's cache, with the commit record that is written thereafter",
	      .text = text_part),
	GAUGE(rest_ns, "REST", 5, "ns", "anything else, such as being woken", .text = text_part),
	LABEL(status, NULL, 0, "ok, or the error (EIO)"),
	LABEL(covered, NULL, 0,
	      "which parts are known: all (ext4), log (XFS: log is all that its log took), data "
	      "(others: only data, flush and rest)"),
	COLUMN(LABEL, "transaction", transaction, NULL, 0, "",
	       "number of the commit that it waited for; 0: none"),
	LABEL(holder, NULL, 0,
	      "process whose handle ended last while the commit waited: NAME[PID]"),
	LABEL(ordered_files, NULL, 0,
	      "files of the ordered data and their time, longest first, at most 8"),
	LABEL(file, NULL, 0, "path of the file; in [brackets]: why it is unknown"),
	LABEL(cgroup, NULL, 0, "control group of the process"),
	LABEL(unit, NULL, 0, "systemd unit of that control group"),
	LABEL(container, NULL, 0, "container of that control group"),
	LABEL(
	    disks, NULL, 0,
	    "the disks that the disk of the file system consists of (LVM, LUKS, md), separated by "
	    "commas"),
	LABEL(
	    phases, NULL, 0,
	    "the parts one after the other, from the beginning of the call, with their time in ns: "
	    "rest 1200, data 340000, ...; empty: more than 64"),
	STATE(utc_offset, "s", "time zone of the machine, seconds east of UTC modulo 2^32"),
};

const struct schema fsync_schema = SCHEMA(columns, struct fsync_row);

/* ---- records ---- */

/* Adds a copy of @record to @list, the address of an array of @n pointers to records. */
static int add_copy(void *list, size_t *n, const void *record, size_t size)
{
	void *copy = malloc(size);
	void **at = copy ? array_add(list, n, sizeof(copy)) : NULL;

	if (!at) {
		free(copy);
		return -ENOMEM;
	}
	*at = memcpy(copy, record, size);
	return 0;
}

static int add_call(struct fsync_rows *rows, const struct fsync_call_record *r)
{
	return add_copy(&rows->calls, &rows->n_calls, r,
			offsetof(struct fsync_call_record, path.path) + r->path.path_bytes);
}

static int add_file(struct fsync_rows *rows, const struct fsync_file_record *r)
{
	return add_copy(&rows->files, &rows->n_files, r,
			offsetof(struct fsync_file_record, path.path) + r->path.path_bytes);
}

static int add_commit(struct fsync_rows *rows, const struct fsync_commit *record)
{
	struct fsync_commit *commit = ARRAY_ADD(rows->commits, rows->n_commits);

	if (!commit)
		return -ENOMEM;
	*commit = *record;
	return 0;
}

/* Counts it, if there are @n of @most already. */
static bool is_full(struct fsync_rows *rows, size_t n, size_t most)
{
	if (n < most)
		return false;
	rows->full++;
	return true;
}

int fsync_rows_add(struct fsync_rows *rows, const void *record, size_t size)
{
	const struct fsync_call_record *call = record;
	const struct fsync_file_record *file = record;
	const struct fsync_head *head = record;

	if (size == sizeof(*call) && head->type == FSYNC_CALL &&
	    call->path.path_bytes <= sizeof(call->path.path))
		return is_full(rows, rows->n_calls, FSYNC_ROWS_MAX) ? 0 : add_call(rows, call);
	if (size == sizeof(struct fsync_commit) && head->type == FSYNC_COMMIT)
		return is_full(rows, rows->n_commits, FSYNC_COMMITS_MAX) ? 0
									 : add_commit(rows, record);
	if (size == sizeof(*file) && head->type == FSYNC_FILE &&
	    file->path.path_bytes <= sizeof(file->path.path))
		return is_full(rows, rows->n_files, FSYNC_FILES_MAX) ? 0 : add_file(rows, file);
	return 0;
}

/* ---- order ---- */

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static uint64_t total_of(const struct fsync_call_record *r)
{
	return r->call.exit_ns - r->call.enter_ns;
}

static int compare_exits(const void *a, const void *b)
{
	const struct fsync_call_record *const *x = a, *const *y = b;

	return compare((*x)->call.exit_ns, (*y)->call.exit_ns);
}

static int compare_totals(const void *a, const void *b)
{
	const struct fsync_call_record *const *x = a, *const *y = b;

	return compare(total_of(*y), total_of(*x)) ?: compare_exits(a, b);
}

/* By file system, then by time. */
static int compare_commits(const void *a, const void *b)
{
	const struct fsync_commit *x = a, *y = b;

	return compare(x->head.dev, y->head.dev) ?: compare(x->end_ns, y->end_ns);
}

static int compare_files(const void *a, const void *b)
{
	const struct fsync_file_record *const *x = a, *const *y = b;

	return compare((*x)->head.dev, (*y)->head.dev) ?: compare((*x)->begin_ns, (*y)->begin_ns);
}

/* The index of the first item that is not before @wanted. */
static size_t first_of(const void *items, size_t n, size_t size, const void *wanted,
		       int (*order)(const void *a, const void *b))
{
	size_t low = 0, high = n;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (order((const char *)items + mid * size, wanted) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The first commit of that file system that ends after @ns. */
static size_t first_commit(const struct fsync_rows *rows, uint32_t dev, uint64_t ns)
{
	const struct fsync_commit wanted = { .head.dev = dev, .end_ns = ns + 1 };

	return first_of(rows->commits, rows->n_commits, sizeof(wanted), &wanted, compare_commits);
}

static size_t first_file(const struct fsync_rows *rows, uint32_t dev, uint64_t ns)
{
	const struct fsync_file_record of = { .head.dev = dev, .begin_ns = ns }, *wanted = &of;

	return first_of(rows->files, rows->n_files, sizeof(void *), &wanted, compare_files);
}

/* ---- names ---- */

static const char *path_text(struct fsync_rows *rows, const struct fsync_head *head,
			     const struct fsync_path *path, const struct fsync_tables *t)
{
	const struct file_record file = {
		.kind = path->kind,
		.path_flags = path->path_flags,
		.dev = head->dev,
		.inode = path->inode,
		.magic = path->magic,
		.path = path->path,
		.path_bytes = path->path_bytes,
	};

	return files_text(&rows->texts, &file, t->mounts, t->disks);
}

static const char *holder_text(struct fsync_rows *rows, const struct fsync_commit *c)
{
	char text[64] = "";

	/* It may have ended while another file system's commit was waiting. */
	if (c && c->holder && c->holder_ns >= c->locking_ns && c->holder_ns <= c->flushing_ns)
		snprintf(text, sizeof(text), "%.*s[%u]", (int)sizeof(c->holder_comm),
			 c->holder_comm, c->holder);
	return text_keep(&rows->texts, text);
}

#define FILES_SHOWN 8

struct ordered {
	const struct fsync_file_record *file;
	uint64_t ns;
};

static int compare_inodes(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;

	return compare(x->file->path.inode, y->file->path.inode)
		   ?: compare(x->file->begin_ns, y->file->begin_ns);
}

static int compare_ordered(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;

	return compare(y->ns, x->ns) ?: compare(x->file->begin_ns, y->file->begin_ns);
}

/* The files of ordered data within @parts, each once, in *@out, which is the caller's; how many, or
 * -ENOMEM.  There may be FSYNC_FILES_MAX of them. */
static ssize_t find_ordered(const struct fsync_rows *rows, const struct fsync_call *call,
			    const struct fsync_parts *parts, struct ordered **out)
{
	const uint64_t begin_ns = parts->commit ? parts->commit->flushing_ns : call->fast_ns;
	const uint32_t dev = call->head.dev;
	size_t n = 0, files = 0;

	*out = NULL;
	for (size_t i = first_file(rows, dev, begin_ns);
	     i < rows->n_files && rows->files[i]->head.dev == dev &&
	     rows->files[i]->begin_ns < parts->to_ns;
	     i++) {
		const struct fsync_file_record *f = rows->files[i];
		const bool more = i + 1 < rows->n_files && rows->files[i + 1]->head.dev == dev;
		const uint64_t ns = fsync_file_ns(call, parts, f->begin_ns,
						  more ? rows->files[i + 1]->begin_ns : UINT64_MAX);
		struct ordered *o = ns ? ARRAY_ADD(*out, n) : NULL;

		if (o)
			*o = (struct ordered){ f, ns };
		else if (ns)
			return -ENOMEM;
	}
	if (n)
		qsort(*out, n, sizeof(**out), compare_inodes);
	for (size_t i = 0; i < n; i++) {
		struct ordered *o = *out;

		if (files && o[files - 1].file->path.inode == o[i].file->path.inode)
			o[files - 1].ns += o[i].ns;
		else
			o[files++] = o[i];
	}
	return (ssize_t)files;
}

/* A comma, which separates the names, and a backslash are \\xNN. */
static void put_path(FILE *stream, const char *path)
{
	for (; *path; path++) {
		if (*path == ',' || *path == '\\')
			fprintf(stream, "\\x%02x", *path);
		else
			fputc(*path, stream);
	}
}

static const char *make_ordered_text(struct fsync_rows *rows, const struct fsync_call *call,
				     const struct fsync_parts *parts, const struct fsync_tables *t)
{
	char *text = NULL;
	size_t size = 0;
	const char *kept = NULL;
	struct ordered *o;
	const ssize_t n = parts->ordered ? find_ordered(rows, call, parts, &o) : 0;
	FILE *stream;

	if (!n)
		return "";
	stream = n > 0 ? open_memstream(&text, &size) : NULL;
	if (stream) {
		qsort(o, (size_t)n, sizeof(*o), compare_ordered);
		for (size_t i = 0; i < (size_t)n && i < FILES_SHOWN; i++) {
			const struct fsync_file_record *f = o[i].file;

			fputs(i ? ", " : "", stream);
			put_path(stream, path_text(rows, &f->head, &f->path, t) ?: "");
			fprintf(stream, " (%.3f ms)", (double)o[i].ns / 1e6);
		}
		if (n > FILES_SHOWN)
			fputs(", ...", stream);
		if (!fclose(stream))
			kept = text_keep(&rows->texts, text);
	}
	free(text);
	free(o);
	return kept;
}

/* Many calls may wait for one commit: its text is made once for the calls that waited for all of
 * its ordered data. */
static const char *ordered_text(struct fsync_rows *rows, const struct fsync_call *call,
				const struct fsync_parts *parts, const struct fsync_tables *t)
{
	const struct fsync_commit *c = parts->commit;
	const bool whole = c && !call->fast_ns && parts->from_ns <= c->flushing_ns &&
			   parts->to_ns >= c->logging_ns && parts->to_ns >= c->waited_ns;

	if (!whole || !parts->ordered)
		return make_ordered_text(rows, call, parts, t);
	if (c != rows->whole_commit || !rows->whole_text) {
		rows->whole_text = make_ordered_text(rows, call, parts, t);
		rows->whole_commit = c;
	}
	return rows->whole_text;
}

/* Of the devices of last calls it is known already. */
static const char *disks_text(struct fsync_rows *rows, uint32_t dev, const struct fsync_tables *t)
{
	struct fsync_below *known = &rows->below[dev % ARRAY_SIZE(rows->below)];
	uint32_t devs[DISKS_BELOW];
	char text[512] = "";
	size_t n, len = 0;

	if (!dev)
		return "";
	if (known->text && known->dev == dev)
		return known->text;
	n = disks_below(t->disks, dev, devs, ARRAY_SIZE(devs));
	for (size_t i = 0; i < n && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? "," : "",
					disks_name(t->disks, devs[i]));
	*known = (struct fsync_below){ dev, text_keep(&rows->texts, text) };
	return known->text;
}

static const char *phases_text(struct fsync_rows *rows, const struct fsync_parts *p)
{
	static const struct {
		size_t part;
		const char *name;
	} names[] = {
		{ offsetof(struct fsync_parts, data), "data" },
		{ offsetof(struct fsync_parts, previous), "previous" },
		{ offsetof(struct fsync_parts, locking), "locking" },
		{ offsetof(struct fsync_parts, ordered), "ordered" },
		{ offsetof(struct fsync_parts, log), "log" },
		{ offsetof(struct fsync_parts, flush), "flush" },
		{ offsetof(struct fsync_parts, rest), "rest" },
	};
	char text[FSYNC_PHASES * 32] = "";
	size_t len = 0;

	for (size_t i = 0; p->n_phases <= FSYNC_PHASES && i < p->n_phases; i++) {
		size_t k = 0;

		while (names[k].part != p->phases[i].part)
			k++;
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s %" PRIu64,
					i ? ", " : "", names[k].name, p->phases[i].ns);
	}
	return text_keep(&rows->texts, text);
}

/* ---- rows ---- */

static const char *status_text(struct text_set *texts, uint32_t error)
{
	const char *name = error ? strerrorname_np((int)error) : "ok";
	char text[16];

	if (name)
		return name;
	snprintf(text, sizeof(text), "%u", error);
	return text_keep(texts, text);
}

static const char *covered_by(const struct fsync_call *call)
{
	if (call->sync_ns)
		return COVERED_ALL;
	return strcmp(call->fs, "xfs") == 0 ? COVERED_LOG : COVERED_DATA;
}

static int make_row(struct fsync_rows *rows, const struct fsync_call_record *r,
		    const struct fsync_tables *t)
{
	const struct fsync_call *c = &r->call;
	const size_t first = first_commit(rows, c->head.dev, c->enter_ns);
	struct fsync_row *row = &rows->rows[rows->n_rows++];
	struct text_set *texts = &rows->texts;
	struct fsync_parts p;
	size_t n = first;

	while (n < rows->n_commits && rows->commits[n].head.dev == c->head.dev &&
	       rows->commits[n].end_ns <= c->exit_ns)
		n++;
	fsync_parts(c, rows->commits + first, n - first, &p);
	*row = (struct fsync_row){
		.time = c->enter_ns + (uint64_t)t->epoch_less,
		.pid = c->pid,
		.comm = text_keep(texts, c->comm),
		.call = c->datasync ? "fdatasync" : "fsync",
		.fs = text_keep(texts, c->fs),
		.disk = c->disk ? disks_name(t->disks, c->disk) : "",
		.file = path_text(rows, &c->head, &r->path, t),
		.status = status_text(texts, c->error),
		.covered = covered_by(c),
		.holder = holder_text(rows, p.locking ? p.commit : NULL),
		.ordered_files = ordered_text(rows, c, &p, t),
		.disks = disks_text(rows, c->disk, t),
		.phases = phases_text(rows, &p),
		.cgroup = text_keep(texts, cgroups_path(t->cgroups, c->cgroup)),
		.unit = text_keep(texts, cgroups_name(t->cgroups, c->cgroup, CGROUP_UNIT)),
		.container =
		    text_keep(texts, cgroups_name(t->cgroups, c->cgroup, CGROUP_CONTAINER)),
		.transaction = p.commit ? p.commit->transaction : 0,
		.total_ns = total_of(r),
		.data_ns = p.data,
		.previous_ns = p.previous,
		.locking_ns = p.locking,
		.ordered_ns = p.ordered,
		.log_ns = p.log,
		.flush_ns = p.flush,
		.rest_ns = p.rest,
		.utc_offset = (uint32_t)t->utc_offset,
	};
	return row->comm && row->fs && row->file && row->status && row->holder &&
		       row->ordered_files && row->disks && row->phases && row->cgroup &&
		       row->unit && row->container
		   ? 0
		   : -ENOMEM;
}

int fsync_rows_make(struct fsync_rows *rows, const struct fsync_tables *tables, size_t most)
{
	int r = 0;

	rows->n_rows = 0;
	rows->whole_commit = NULL;
	memset(rows->below, 0, sizeof(rows->below));
	free(rows->rows);
	rows->rows = calloc(rows->n_calls + 1, sizeof(*rows->rows));
	if (!rows->rows)
		return -ENOMEM;
	mounts_refresh(tables->mounts);
	if (rows->n_commits)
		qsort(rows->commits, rows->n_commits, sizeof(*rows->commits), compare_commits);
	if (rows->n_files) /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
		qsort(rows->files, rows->n_files, sizeof(*rows->files), compare_files);
	if (rows->n_calls) /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
		qsort(rows->calls, rows->n_calls, sizeof(*rows->calls),
		      most ? compare_totals : compare_exits);
	for (size_t i = 0; !r && i < rows->n_calls && (!most || rows->n_rows < most); i++)
		if (rows->calls[i]->call.head.epoch != tables->epoch)
			r = make_row(rows, rows->calls[i], tables);
	return r;
}

/* ---- what is not needed any more ---- */

struct span {
	uint64_t from_ns, to_ns;
};

static int compare_spans(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return compare(x->from_ns, y->from_ns);
}

/* Sorts them, and joins the overlapping ones; returns how many are left. */
static size_t merge_spans(struct span *spans, size_t n)
{
	size_t kept = 0;

	qsort(spans, n, sizeof(*spans), compare_spans);
	for (size_t i = 0; i < n; i++) {
		if (!kept || spans[i].from_ns > spans[kept - 1].to_ns)
			spans[kept++] = spans[i];
		else if (spans[i].to_ns > spans[kept - 1].to_ns)
			spans[kept - 1].to_ns = spans[i].to_ns;
	}
	return kept;
}

/* Is @ns in one of @n merged @spans? */
static bool in_spans(const struct span *spans, size_t n, uint64_t ns)
{
	size_t low = 0, high = n;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (spans[mid].to_ns < ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low < n && spans[low].from_ns <= ns;
}

void fsync_rows_forget(struct fsync_rows *rows, uint64_t oldest_ns)
{
	struct span *spans = calloc(rows->n_calls + rows->n_commits + 1, sizeof(*spans));
	size_t n = 0, kept = 0;

	if (!spans)
		return; /* what is stored is bounded */
	spans[n++] = (struct span){ oldest_ns, UINT64_MAX };
	for (size_t i = 0; i < rows->n_calls; i++)
		spans[n++] =
		    (struct span){ rows->calls[i]->call.enter_ns, rows->calls[i]->call.exit_ns };
	n = merge_spans(spans, n);
	for (size_t i = 0; i < rows->n_commits; i++)
		if (in_spans(spans, n, rows->commits[i].end_ns))
			rows->commits[kept++] = rows->commits[i];
	rows->n_commits = kept;
	for (size_t i = 0; i < rows->n_commits; i++)
		if (rows->commits[i].start_ns)
			spans[n++] =
			    (struct span){ rows->commits[i].start_ns, rows->commits[i].end_ns };
	n = merge_spans(spans, n);
	kept = 0;
	for (size_t i = 0; i < rows->n_files; i++) {
		if (in_spans(spans, n, rows->files[i]->begin_ns))
			rows->files[kept++] = rows->files[i];
		else
			free(rows->files[i]);
	}
	rows->n_files = kept;
	free(spans);
}

void fsync_rows_limit(struct fsync_rows *rows, size_t most)
{
	if (rows->n_calls <= most)
		return;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	qsort(rows->calls, rows->n_calls, sizeof(*rows->calls), compare_totals);
	while (rows->n_calls > most)
		free(rows->calls[--rows->n_calls]);
}

void fsync_rows_clear(struct fsync_rows *rows, uint32_t epoch, uint64_t oldest_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < rows->n_calls; i++) {
		if (rows->calls[i]->call.head.epoch == epoch)
			rows->calls[n++] = rows->calls[i];
		else
			free(rows->calls[i]);
	}
	rows->n_calls = n;
	fsync_rows_forget(rows, oldest_ns);
	rows->n_rows = 0;
	text_set_free(&rows->texts);
}

void fsync_rows_free(struct fsync_rows *rows)
{
	for (size_t i = 0; i < rows->n_calls; i++)
		free(rows->calls[i]);
	for (size_t i = 0; i < rows->n_files; i++)
		free(rows->files[i]);
	free(rows->calls);
	free(rows->commits);
	free(rows->files);
	free(rows->rows);
	text_set_free(&rows->texts);
}

/* ---- text ---- */

static int print_name(FILE *stream, const char *what, const char *name)
{
	return fputs(what, stream) < 0 ? -errno : render_name(stream, name);
}

static int print_names(FILE *stream, const struct fsync_row *row)
{
	int r = print_name(stream, "    ", row->file);

	if (!r)
		r = print_name(stream, ": ", row->call);
	if (!r && strcmp(row->status, "ok") != 0)
		r = print_name(stream, " failed: ", row->status);
	if (!r && fprintf(stream, ", pid %u, ", row->pid) < 0)
		r = -errno;
	if (!r)
		r = render_name(stream, row->fs);
	if (!r && *row->disk)
		r = print_name(stream, " on ", row->disk);
	if (!r && *row->holder)
		r = print_name(stream, "\n    LOCK: ", row->holder);
	if (!r && *row->ordered_files)
		r = print_name(stream, "\n    ORDER: ", row->ordered_files);
	if (!r && fputs("\n", stream) < 0)
		r = -errno;
	return r;
}

int fsync_print_rows(FILE *stream, const struct fsync_row *rows, size_t n)
{
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		r = render_table_rows(stream, &fsync_schema, &rows[i], 1);
		if (!r)
			r = print_names(stream, &rows[i]);
	}
	return r;
}
