// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/top/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static by_keys one_key(enum by_key key)
{
	return (by_keys)key + 1;
}

by_keys top_keys_of(by_keys by, bool with_cgroup)
{
	if (by)
		return by;
	by = one_key(KEY_PROCESS) | one_key(KEY_DISK) << 8 | one_key(KEY_COMM) << 16;
	return with_cgroup ? by | one_key(KEY_CGROUP) << 24 : by;
}

/* ---- rows that are added up ---- */

static void free_rows(struct top_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(rows[i].slots);
	free(rows);
}

static int copy_row(struct top_row *to, const struct top_row *from)
{
	*to = *from;
	if (!from->slots)
		return 0;
	to->slots = malloc(sizeof(*to->slots));
	if (!to->slots)
		return -ENOMEM;
	*to->slots = *from->slots;
	return 0;
}

#define TOP_GONE " (gone)"

struct grouping {
	by_keys keys;
	bool ops; /* rows of different operations stay apart */
};

static int compare_rows(const void *a, const void *b, void *ctx)
{
	const struct top_row *x = *(const struct top_row *const *)a,
			     *y = *(const struct top_row *const *)b;
	const struct grouping *g = ctx;
	int r = keys_compare(g->keys, &x->by, &y->by);

	if (!r && g->ops)
		r = (x->letter > y->letter) - (x->letter < y->letter);
	if (!r && g->ops && keys_have(g->keys, KEY_PROCESS))
		r = x->writeback - y->writeback;
	return r;
}

/* Adds up the @n rows of @rows, in *out; their texts stay where they are. */
static int group(const struct top_row **rows, size_t n, const struct grouping *grouping,
		 struct top_row **out, size_t *n_out)
{
	struct grouping g = *grouping;
	struct top_row *made = calloc(n + 1, sizeof(*made));
	size_t used = 0;
	int r = made ? 0 : -ENOMEM;

	if (n && !r)
		qsort_r(rows, n, sizeof(void *), compare_rows, &g);
	for (size_t i = 0; !r && i < n; i++) {
		if (i && compare_rows(&rows[i - 1], &rows[i], &g) == 0)
			r = top_row_join(&made[used - 1], rows[i]);
		else
			r = copy_row(&made[used++], rows[i]);
	}
	if (r) {
		free_rows(made, made ? used : 0);
		return r;
	}
	*out = made;
	*n_out = used;
	return 0;
}

/* ---- snapshots ---- */

static const char *keep(struct top_snapshot *s, const char *text)
{
	return text_keep(&s->texts, text ? text : "");
}

/* All texts of @row become those of @s; what it is by, and the columns of its own, say the same. */
static int own_row(struct top_snapshot *s, struct top_row *row, by_keys by)
{
	struct key_labels *labels = &row->by;

	if (!by) {
		*labels = (struct key_labels){ .disk = row->disk,
					       .comm = row->comm,
					       .cgroup = row->cgroup,
					       .start = row->start,
					       .pid = row->pid };
	}
	labels->disk = row->disk = keep(s, labels->disk);
	labels->comm = row->comm = keep(s, labels->comm);
	labels->cgroup = row->cgroup = keep(s, labels->cgroup);
	labels->unit = keep(s, labels->unit);
	labels->container = keep(s, labels->container);
	labels->user = keep(s, labels->user);
	row->op = keep(s, row->op);
	row->pid = labels->pid;
	row->start = labels->start;
	return row->disk && row->comm && row->cgroup && labels->unit && labels->container &&
		       labels->user && row->op
		   ? 0
		   : -ENOMEM;
}

static int copy_rows(struct top_snapshot *to, const struct top_row *rows, size_t n, by_keys by)
{
	int r = 0;

	to->rows = calloc(n + 1, sizeof(*to->rows));
	if (!to->rows)
		return -ENOMEM;
	while (!r && to->n < n) {
		r = copy_row(&to->rows[to->n], &rows[to->n]);
		if (!r)
			r = own_row(to, &to->rows[to->n++], by);
	}
	return r;
}

int top_snapshot_take(struct top_snapshot *to, const struct recording_interval *in, by_keys by)
{
	int r;

	*to = (struct top_snapshot){ .end_ns = in->interval.end_ns,
				     .ns = in->interval.end_ns - in->interval.start_ns,
				     .utc_offset = in->utc_offset };
	r = copy_rows(to, in->tables[0].rows, in->tables[0].n, by);
	if (!r && in->text)
		to->load = strdup(in->text);
	if (!r && in->text && !to->load)
		r = -ENOMEM;
	if (r)
		top_snapshot_free(to);
	return r;
}

void top_snapshot_free(struct top_snapshot *s)
{
	free_rows(s->rows, s->n);
	text_set_free(&s->texts);
	free(s->load);
	*s = (struct top_snapshot){ 0 };
}

size_t top_snapshot_memory(const struct top_snapshot *s)
{
	size_t total = s->n * sizeof(*s->rows) + text_set_memory(&s->texts);

	for (size_t i = 0; i < s->n; i++)
		total += s->rows[i].slots ? sizeof(*s->rows[i].slots) : 0;
	return total + (s->load ? strlen(s->load) + 1 : 0);
}

/* ---- processes that have exited ---- */

static int compare_processes(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->start > y->start) - (x->start < y->start);
}

/* Is it of a process that has exited?  @rows are ordered, @i of them have been marked. */
static bool is_gone(const struct top_row *rows, size_t i, bool (*exists)(uint32_t pid))
{
	if (!rows[i].pid)
		return false;
	if (i && compare_processes(&rows[i - 1], &rows[i]) == 0)
		return rows[i - 1].gone;
	return !exists(rows[i].pid);
}

static int add_exited(struct top_snapshot *now, size_t n, const struct top_row *was,
		      bool (*exists)(uint32_t pid))
{
	struct top_row *grown, row = *was;
	int r;

	if (was->gone || !was->pid || bsearch(was, now->rows, n, sizeof(*was), compare_processes))
		return 0;
	/* The process of the row before is that of this one, more often than not. */
	if (now->n == n || compare_processes(&now->rows[now->n - 1], was) != 0)
		if (exists(was->pid))
			return 0;
	grown = reallocarray(now->rows, now->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	now->rows = grown;
	row.slots = NULL;
	row.gone = true;
	row.io = row.bytes = row.time_ns = row.untimed = 0;
	row.max_ns = row.p99_ns = row.errors = 0;
	r = own_row(now, &row, keys_all());
	if (!r)
		now->rows[now->n++] = row;
	return r;
}

int top_snapshot_mark_gone(struct top_snapshot *now, const struct top_snapshot *before,
			   bool (*exists)(uint32_t pid))
{
	size_t n = now->n;
	int r = 0;

	if (n)
		qsort(now->rows, n, sizeof(*now->rows), compare_processes);
	for (size_t i = 0; i < n; i++)
		now->rows[i].gone = is_gone(now->rows, i, exists);
	for (size_t i = 0; !r && i < before->n; i++)
		r = add_exited(now, n, &before->rows[i], exists);
	return r;
}

/* ---- sums ---- */

static int most_bytes(const void *a, const void *b)
{
	const struct top_row *x = *(const struct top_row *const *)a,
			     *y = *(const struct top_row *const *)b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* Of too many, the smaller half is no longer told apart. */
static void fold(struct top_row *rows, size_t n, const struct top_row **order)
{
	for (size_t i = 0; i < n; i++)
		order[i] = &rows[i];
	qsort(order, n, sizeof(void *), most_bytes);
	for (size_t i = TOP_ROWS_MAX / 2; i < n; i++) {
		struct top_row *row = &rows[order[i] - rows];

		row->by = keys_other;
		row->writeback = false;
	}
}

int top_snapshot_add(struct top_snapshot *sum, const struct top_snapshot *from, by_keys have)
{
	const struct grouping all = { have, true };
	size_t n = sum->n + from->n, n_rows = 0;
	const struct top_row **rows = calloc(n + 1, sizeof(void *));
	struct top_snapshot made = { .end_ns = from->end_ns,
				     .ns = sum->ns + from->ns,
				     .utc_offset = from->utc_offset };
	struct top_row *added = NULL, *folded = NULL;
	int r = rows ? 0 : -ENOMEM;

	for (size_t i = 0; rows && i < n; i++)
		rows[i] = i < sum->n ? &sum->rows[i] : &from->rows[i - sum->n];
	if (!r)
		r = group(rows, n, &all, &added, &n_rows);
	if (!r && n_rows > TOP_ROWS_MAX) {
		size_t before = n_rows;

		fold(added, before, rows);
		r = group(rows, before, &all, &folded, &n_rows);
		free_rows(added, before);
		added = folded;
	}
	if (!r) {
		r = copy_rows(&made, added, n_rows, have);
		free_rows(added, n_rows);
	}
	free(rows);
	if (r) {
		top_snapshot_free(&made);
		return r;
	}
	top_snapshot_free(sum);
	*sum = made;
	return 0;
}

/* ---- disks ---- */

static int busiest(const void *a, const void *b)
{
	const struct top_disk *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return (x->io < y->io) - (x->io > y->io);
}

size_t top_disks(const struct top_snapshot *s, struct top_disk *disks, size_t most)
{
	const struct grouping by_disk = { one_key(KEY_DISK), false };
	const struct top_row **rows = calloc(s->n + 1, sizeof(void *));
	struct top_row *made;
	struct top_disk *all;
	size_t n, n_rows = 0;

	for (size_t i = 0; rows && i < s->n; i++)
		if (s->rows[i].io)
			rows[n_rows++] = &s->rows[i];
	if (!rows || group(rows, n_rows, &by_disk, &made, &n)) {
		free(rows);
		return 0;
	}
	all = calloc(n + 1, sizeof(*all));
	for (size_t i = 0; all && i < n; i++)
		all[i] =
		    (struct top_disk){ made[i].by.disk, made[i].io, made[i].bytes, made[i].p99_ns };
	if (!all)
		n = 0;
	else
		qsort(all, n, sizeof(*all), busiest);
	free_rows(made, n);
	n = n < most ? n : most;
	if (n)
		memcpy(disks, all, n * sizeof(*disks));
	free(all);
	free(rows);
	return n;
}

/* ---- filters ---- */

static bool has(const char *text, const char *part)
{
	return !part[0] || strcasestr(text, part);
}

static bool is_process(const struct key_labels *by, const char *filter)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%u", by->pid);
	return !filter[0] || strcmp(pid, filter) == 0 || strcmp(by->comm, filter) == 0;
}

static bool is_shown(const struct top_view *v, const struct top_row *row)
{
	const struct key_labels *by = &row->by;
	const char *name = v->filters[TOP_FILTER_NAME], *disk = v->filters[TOP_FILTER_DISK];

	return (has(by->comm, name) || has(by->disk, name) || has(by->cgroup, name) ||
		has(by->unit, name) || has(by->container, name) || has(by->user, name)) &&
	       is_process(by, v->filters[TOP_FILTER_PROCESS]) &&
	       (!disk[0] || strcmp(by->disk, disk) == 0) &&
	       has(by->cgroup, v->filters[TOP_FILTER_CGROUP]);
}

/* ---- the tree ---- */

#define TREE_DEPTH 16 /* a container can nest groups as it likes */

/* The first @len bytes of @path, as a row of the tree. */
static int add_node(struct top_view *v, struct top_row *to, const struct top_row *from, size_t len)
{
	char *path = strndup(from->by.cgroup, len);
	const char *kept = path ? text_keep(&v->texts, path) : NULL;
	int r = copy_row(to, from);

	free(path);
	to->by = (struct key_labels){ .cgroup = kept };
	to->letter = ' ';
	to->op = "";
	return kept ? r : -ENOMEM;
}

static size_t depth_of(const char *path)
{
	size_t n = 0;

	for (; *path; path++)
		n += *path == '/' && path[1];
	return n;
}

/* A group stands above what is in it. */
static int compare_paths(const void *a, const void *b)
{
	const unsigned char *p =
	    (const unsigned char *)(*(const struct top_row *const *)a)->by.cgroup;
	const unsigned char *q =
	    (const unsigned char *)(*(const struct top_row *const *)b)->by.cgroup;

	while (*p && *p == *q) {
		p++;
		q++;
	}
	return (*p == '/' ? 1 : *p) - (*q == '/' ? 1 : *q);
}

/* A name is that of the last part, further to the right the deeper. */
static int name_nodes(struct top_view *v)
{
	for (size_t i = 0; i < v->n; i++) {
		const char *path = v->rows[i].by.cgroup ?: "", *slash = strrchr(path, '/');
		size_t depth = depth_of(path);
		char *name = NULL;

		if (asprintf(&name, "%*s%s", (int)(2 * depth), "",
			     slash && slash[1] ? slash + 1 : path) < 0)
			return -ENOMEM;
		v->rows[i].by.cgroup = v->rows[i].cgroup = text_keep(&v->texts, name);
		free(name);
		if (!v->rows[i].cgroup)
			return -ENOMEM;
	}
	return 0;
}

/* @from counts for its group and all above it; of what lies deeper the last level has it all. */
static int add_nodes(struct top_view *v, struct top_row *nodes, size_t *used,
		     const struct top_row *from)
{
	const char *path = from->by.cgroup;
	size_t levels = 0;
	int r = 0;

	if (path[0] == '/' && path[1])
		r = add_node(v, &nodes[(*used)++], from, 1);
	for (size_t len = 1; !r && levels < TREE_DEPTH && path[0] && path[len]; len++) {
		if (path[len] != '/' || !path[len + 1])
			continue;
		r = add_node(v, &nodes[(*used)++], from, len);
		levels++;
	}
	return r || levels == TREE_DEPTH ? r : add_node(v, &nodes[(*used)++], from, strlen(path));
}

/* Each of the @n rows counts for its group and all above it. */
static int make_tree(struct top_view *v, const struct top_row *rows, size_t n)
{
	const struct grouping by_cgroup = { one_key(KEY_CGROUP), false };
	size_t room = 0, used = 0, n_rows = 0;
	const struct top_row **order;
	struct top_row *nodes, *made = NULL;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		size_t depth = depth_of(rows[i].by.cgroup);

		room += (depth < TREE_DEPTH ? depth : TREE_DEPTH) + 2;
	}
	nodes = calloc(room + 1, sizeof(*nodes));
	order = calloc(room + 1, sizeof(void *));
	if (!nodes || !order)
		r = -ENOMEM;
	for (size_t i = 0; !r && i < n; i++)
		r = add_nodes(v, nodes, &used, &rows[i]);
	for (size_t i = 0; !r && i < used; i++)
		order[i] = &nodes[i];
	if (!r)
		r = group(order, used, &by_cgroup, &made, &n_rows);
	free_rows(nodes, nodes ? used : 0);
	for (size_t i = 0; !r && i < n_rows; i++)
		order[i] = &made[i];
	if (!r && n_rows)
		qsort(order, n_rows, sizeof(void *), compare_paths);
	v->rows = r ? NULL : calloc(n_rows + 1, sizeof(*v->rows));
	for (size_t i = 0; v->rows && i < n_rows; i++)
		v->rows[v->n++] = *order[i];
	if (!r && !v->rows)
		free_rows(made, n_rows);
	else
		free(made);
	free(order);
	return r ? r : v->rows ? name_nodes(v) : -ENOMEM;
}

/* ---- the view ---- */

void top_view_next_by(struct top_view *v)
{
	by_keys order[BY_KEYS + 1];
	size_t n = 0, now = 0;

	order[n++] = v->first;
	for (int key = 0; key < BY_KEYS; key++)
		if (keys_have(v->have, (enum by_key)key) && one_key((enum by_key)key) != v->first)
			order[n++] = one_key((enum by_key)key);
	for (size_t i = 0; i < n; i++)
		if (order[i] == v->by)
			now = i;
	v->by = order[v->tree ? now : (now + 1) % n];
	v->tree = false;
}

void top_view_columns(struct top_view *v)
{
	const struct top_options o = { .by = v->tree ? one_key(KEY_CGROUP) : v->by,
				       .extended = v->extended,
				       .cgroup_owner = v->with_cgroup };

	top_schema(&o, v->columns, &v->schema);
}

static void clear(struct top_view *v)
{
	free_rows(v->rows, v->n);
	v->rows = NULL;
	v->n = 0;
	text_set_free(&v->texts);
	v->texts = (struct text_set){ NULL };
}

/* Behind the names of processes that have exited, and of no others. */
static int mark_names(struct top_view *v, bool processes)
{
	for (size_t i = 0; i < v->n; i++) {
		struct top_row *row = &v->rows[i];
		char own[128], name[sizeof(own) + sizeof(TOP_GONE)];

		text_unmarked(row->by.comm, TOP_GONE, own, sizeof(own));
		snprintf(name, sizeof(name), "%s%s", own, row->gone && processes ? TOP_GONE : "");
		if (strcmp(name, row->by.comm) == 0)
			continue;
		row->comm = row->by.comm = text_keep(&v->texts, name);
		if (!row->comm)
			return -ENOMEM;
	}
	return 0;
}

int top_view_rows(struct top_view *v, const struct top_snapshot *s)
{
	const struct grouping g = { v->tree ? one_key(KEY_CGROUP)
				    : v->by ? v->by
					    : top_keys_of(0, v->with_cgroup),
				    !v->tree };
	const struct top_row **rows = calloc(s->n + 1, sizeof(void *));
	struct top_row *made = NULL;
	bool processes = keys_have(g.keys, KEY_PROCESS);
	size_t n = 0, n_made = 0;
	int r = rows ? 0 : -ENOMEM;

	clear(v);
	top_view_columns(v);
	for (size_t i = 0; rows && i < s->n; i++)
		if (is_shown(v, &s->rows[i]) && (processes || s->rows[i].io))
			rows[n++] = &s->rows[i];
	if (!r)
		r = group(rows, n, &g, &made, &n_made);
	free(rows);
	if (r)
		return r;
	if (v->tree) {
		r = make_tree(v, made, n_made);
		free_rows(made, n_made);
		return r;
	}
	v->rows = made;
	v->n = n_made;
	return processes || keys_have(g.keys, KEY_COMM) ? mark_names(v, processes) : 0;
}

void top_view_free(struct top_view *v)
{
	clear(v);
}
