// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/top/screen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/block/volumes.h"
#include "core/system/process.h"
#include "output/columns.h"

/* ---- columns ---- */

#define GONE	     " (gone)"
#define SEVERAL_GONE " gone)" /* behind their number */

/* Only iotrace may put the marks of write-back and of an exited process after a name. */
static void put_name(const struct top_row *row, bool writeback, bool gone, char *buf, size_t size)
{
	char name[128], own[128];

	text_unmarked(row->by.comm, GONE, name, sizeof(name));
	text_unmarked(name, SEVERAL_GONE, own, sizeof(own));
	if (writeback && row->writeback)
		snprintf(name, sizeof(name), "%.100s" BLK_WRITEBACK, own);
	else if (writeback)
		text_unmarked(own, BLK_WRITEBACK, name, sizeof(name));
	else
		snprintf(name, sizeof(name), "%s", own);
	if (gone && row->exited)
		snprintf(buf, size, "%s (%u" SEVERAL_GONE, name, row->exited);
	else
		snprintf(buf, size, "%s%s", name, gone && row->gone ? GONE : "");
}

static void cell_submitter(const void *row, char *buf, size_t size)
{
	put_name(row, true, true, buf, size);
}

static void cell_process(const void *row, char *buf, size_t size)
{
	put_name(row, false, true, buf, size);
}

/* Of several processes. */
static void cell_comm(const void *row, char *buf, size_t size)
{
	put_name(row, false, false, buf, size);
}

/* Of several: none. */
static void cell_pid(const void *row, char *buf, size_t size)
{
	const struct top_row *r = row;

	if (!r->exited)
		snprintf(buf, size, "%u", r->pid);
}

static by_keys one_key(enum by_key key)
{
	return (by_keys)key + 1;
}

/* The keys that rows have. */
static by_keys keys_of(const struct top_shown *shown)
{
	by_keys keys = shown->rows;

	if (keys)
		return keys;
	keys = one_key(KEY_PROCESS) | one_key(KEY_DISK) << 8 | one_key(KEY_COMM) << 16;
	return shown->options->cgroup_owner ? keys | one_key(KEY_CGROUP) << 24 : keys;
}

#define ROW struct top_row

/* Not one of the labels: it may be found later than these. */
static const struct column command =
    COLUMN(GAUGE, "command", command, "COMMAND", 7, "", "", .left = true);

/* A live run has directories where it has files. */
static bool has_key(const struct top_shown *shown, enum by_key key)
{
	by_keys keys = keys_of(shown);

	return keys_have(keys, key) || (key == KEY_DIR && shown->commands && keys_of_file(keys));
}

/* Is that the initial grouping? */
static bool is_initial(const struct top_shown *shown, enum by_key key)
{
	by_keys by = shown->options->by;

	return keys_have(by, key) && !(by >> 8);
}

/* The initial grouping, then by each of the keys. */
static size_t columns_by(void *ctx, size_t i, struct column columns[TABLE_SCREEN_COLUMNS])
{
	const struct top_shown *shown = ctx;
	struct top_options o = *shown->options;
	struct schema schema;

	for (int key = 0; i && key < BY_KEYS; key++) {
		const by_keys one = one_key((enum by_key)key);

		if (!has_key(shown, (enum by_key)key) || is_initial(shown, (enum by_key)key))
			continue;
		o.by = one;
		o.cgroup_owner = false;
		i--;
	}
	if (i)
		return 0;
	top_schema(&o, columns, &schema);
	if (shown->commands && schema_column(&schema, "pid"))
		columns[schema.n++] = command;
	for (size_t c = 0; c < schema.n; c++)
		if (strcmp(columns[c].key, "pid") == 0)
			columns[c].cell = cell_pid;
		else if (strcmp(columns[c].key, "comm") == 0)
			columns[c].cell = !o.by				 ? cell_submitter
					  : keys_have(o.by, KEY_PROCESS) ? cell_process
									 : cell_comm;
	return schema.n;
}

/* Every column that there is. */
static const struct schema *all_columns(void)
{
	const struct top_options plain = { .extended = true, .cgroup_owner = true };
	static struct column columns[KEY_COLUMNS_MAX + TOP_COLUMNS_MAX];
	static struct schema all;
	struct schema own;
	size_t n;

	if (all.n)
		return &all;
	n = keys_columns(keys_all(), offsetof(struct top_row, by), columns);
	n += keys_columns(one_key(KEY_DIR), offsetof(struct top_row, by), columns + n);
	top_schema(&plain, columns + n, &own);
	all = (struct schema){ columns, n + own.n, sizeof(struct top_row) };
	return &all;
}

/* An exited process without I/Os gets a row if processes have rows. */
static bool is_shown(const void *row, const struct schema *shown)
{
	return ((const struct top_row *)row)->io || schema_column(shown, "pid");
}

/* ---- rows ---- */

static int copied(void *copy)
{
	struct top_row *row = copy;
	struct top_slots *slots = row->slots;

	if (!slots)
		return 0;
	row->slots = malloc(sizeof(*row->slots));
	if (!row->slots)
		return -ENOMEM;
	*row->slots = *slots;
	return 0;
}

static void drop(void *row)
{
	free(((struct top_row *)row)->slots);
}

static int join(void *to, const void *from)
{
	struct top_row *row = to;

	row->gone = row->gone && ((const struct top_row *)from)->gone;
	return top_row_join(to, from);
}

/* Its own columns repeat the keys. */
static void set_own(struct top_row *row)
{
	const struct key_labels *labels = &row->by;

	row->disk = labels->disk;
	row->comm = labels->comm;
	row->cgroup = labels->cgroup;
	row->pid = labels->pid;
	row->start = labels->start;
}

static void settle(void *ctx, void *settled)
{
	const struct top_shown *shown = ctx;
	struct top_row *row = settled;

	if (shown->rows) {
		set_own(row);
		return;
	}
	row->by.disk = row->disk;
	row->by.comm = row->comm;
	row->by.cgroup = row->cgroup;
	row->by.pid = row->pid;
	row->by.start = row->start;
}

static void fold(void *folded)
{
	struct top_row *row = folded;

	row->by = keys_other;
	row->writeback = row->gone = false;
	row->major = row->minor = 0;
	set_own(row);
}

/* ---- processes that have exited ---- */

static int compare_processes(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->start > y->start) - (x->start < y->start);
}

static struct top_row *row_at(const struct pivot_rows *p, size_t i)
{
	return pivot_row(p, i);
}

/* Is row @i of a process that has exited?  Rows are sorted by process, and earlier ones are
 * marked. */
static bool is_gone(const struct pivot_rows *p, size_t i, bool (*exists)(uint32_t pid))
{
	const struct top_row *row = row_at(p, i);

	if (!row->pid)
		return false;
	if (i && compare_processes(row_at(p, i - 1), row) == 0)
		return row_at(p, i - 1)->gone;
	return !exists(row->pid);
}

/* The first @n rows of @now are sorted. */
static int add_exited(struct pivot_rows *now, size_t n, const struct top_row *was,
		      bool (*exists)(uint32_t pid))
{
	struct top_row row = *was;

	if (was->gone || !was->pid || bsearch(was, now->rows, n, sizeof(*was), compare_processes))
		return 0;
	/* The previous row often has the same process. */
	if (now->n == n || compare_processes(row_at(now, now->n - 1), was) != 0)
		if (exists(was->pid))
			return 0;
	row.slots = NULL;
	row.gone = true;
	row.io = row.bytes = row.time_ns = row.untimed = 0;
	row.max_ns = row.p99_ns = row.errors = 0;
	return pivot_add_row(now, &row) ? 0 : -ENOMEM;
}

int top_mark_gone(struct pivot_rows *now, const struct pivot_rows *before,
		  bool (*exists)(uint32_t pid))
{
	const size_t n = now->n;
	int r = 0;

	if (n)
		qsort(now->rows, n, sizeof(struct top_row), compare_processes);
	for (size_t i = 0; i < n; i++)
		row_at(now, i)->gone = is_gone(now, i, exists);
	for (size_t i = 0; !r && i < before->n; i++) {
		r = add_exited(now, n, row_at(before, i), exists);
		if (!r && now->n > n) /* its own texts repeat them */
			set_own(row_at(now, now->n - 1));
	}
	return r;
}

static int follow(struct pivot_rows *now, const struct pivot_rows *before)
{
	return top_mark_gone(now, before, process_exists);
}

/* ---- the rows to be shown ---- */

/* Rows of processes that are gone come last, in the order of all shown columns except the process.
 */
static int compare_gone(const void *a, const void *b, void *shown)
{
	const struct schema *schema = shown;
	const struct top_row *x = a, *y = b;
	int r = (x->gone > y->gone) - (x->gone < y->gone);

	for (size_t i = 0; !r && i < schema->n; i++) {
		const char *key = schema->columns[i].key;
		uint64_t p, q;

		if (schema->columns[i].role != ROLE_LABEL || strcmp(key, "pid") == 0)
			continue;
		p = schema_number(schema, x, key);
		q = schema_number(schema, y, key);
		r = (p > q) - (p < q);
		if (!r)
			r = strcmp(schema_text(schema, x, key), schema_text(schema, y, key));
	}
	return r;
}

/* Several processes of one name that are gone become one row, which says how many. */
static void join_gone(struct pivot_rows *rows, const struct schema *shown)
{
	size_t used = 0;

	if (rows->n)
		qsort_r(rows->rows, rows->n, sizeof(struct top_row), compare_gone, (void *)shown);
	for (size_t i = 0; i < rows->n; i++) {
		struct top_row *row = row_at(rows, i);
		struct top_row *to = used ? row_at(rows, used - 1) : NULL;

		if (!to || !row->gone || compare_gone(to, row, (void *)shown) != 0 ||
		    top_row_join(to, row)) {
			*row_at(rows, used++) = *row;
			continue;
		}
		drop(row);
		to->exited += !to->exited + 1;
		to->pid = to->by.pid = 0;
	}
	rows->n = used;
}

static void finish(void *ctx, struct pivot_rows *rows, const struct schema *shown)
{
	struct command_lines *commands = ((struct top_shown *)ctx)->commands;
	struct top_row *row;

	if (!schema_column(shown, "pid"))
		return;
	join_gone(rows, shown);
	if (commands)
		command_lines_begin(commands);
	for (size_t i = 0; i < rows->n; i++) {
		row = row_at(rows, i);
		row->command = !commands || row->gone
				   ? ""
				   : command_lines_find(commands, row->pid, row->start, row->comm);
	}
}

static bool times(const void *row, struct hist *times)
{
	return top_row_times(row, times);
}

static const char *order(void *ctx)
{
	static const char *const keys[] = {
		[SORT_BYTES] = "bytes",
		[SORT_IO] = "io",
		[SORT_TIME] = "time_ns",
	};

	return keys[((const struct top_shown *)ctx)->options->sort];
}

static void said(const struct recording_interval *in, char *text, size_t size)
{
	char words[VOLUMES_WORDS_SIZE];
	size_t len = 0;

	for (size_t i = 0; len < size && volumes_say(in, &i, words);)
		len += (size_t)snprintf(text + len, size - len, "  %s", words);
}

const struct table_screen_spec top_screen = {
	.all = all_columns,
	.kind = { .identity = "start", .join = join, .copied = copied, .drop = drop, .fold = fold },
	.none = "no I/O",
	.instead = "-C",
	.text = "loadavg",
	.said = said,
	.tree = "cgroup",
	.most = TOP_ROWS_MAX,
	.order_of = order,
	.by = columns_by,
	.settle = settle,
	.follow = follow,
	.finish = finish,
	.times = times,
	.graphs = { "io", "bytes" },
	.is_shown = is_shown,
};
