// SPDX-License-Identifier: GPL-2.0-or-later
#include "output/pivot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/hist.h"
#include "output/render_internal.h"

const struct column *schema_column(const struct schema *schema, const char *key)
{
	for (size_t i = 0; i < schema->n; i++)
		if (schema->columns[i].key && strcmp(schema->columns[i].key, key) == 0)
			return &schema->columns[i];
	return NULL;
}

const char *schema_text(const struct schema *schema, const void *row, const char *key)
{
	const struct column *column = schema_column(schema, key);

	return column && column->type == COLUMN_STR ? column_string(column, row) : "";
}

const struct hist *schema_hist(const struct schema *schema, const void *row)
{
	const struct hist *hist = NULL;

	for (size_t i = 0; !hist && i < schema->n; i++)
		if (schema->columns[i].type == COLUMN_HIST)
			hist = column_hist(&schema->columns[i], row);
	return hist;
}

uint64_t schema_number(const struct schema *schema, const void *row, const char *key)
{
	const struct column *column = schema_column(schema, key);

	return column && column->type != COLUMN_STR ? column_integer(column, row) : 0;
}

const char *column_text(const struct column *column, const void *row)
{
	return column_string(column, row);
}

uint64_t column_number(const struct column *column, const void *row)
{
	return column_integer(column, row);
}

void *pivot_row(const struct pivot_rows *p, size_t i)
{
	return p->rows + i * p->kind->all->row_size;
}

/* ---- one row ---- */

static void *member(const struct column *column, void *row)
{
	return (char *)row + column->offset;
}

static void set_text(const struct column *column, void *row, const char *text)
{
	memcpy(member(column, row), &text, sizeof(text));
}

static void set_hist(const struct column *column, void *row, const struct hist *hist)
{
	memcpy(member(column, row), &hist, sizeof(void *));
}

static void set_integer(const struct column *column, void *row, uint64_t value)
{
	const uint32_t narrow = (uint32_t)value;
	const bool flag = value;

	if (column->type == COLUMN_U64)
		memcpy(member(column, row), &value, sizeof(value));
	else if (column->type == COLUMN_U32)
		memcpy(member(column, row), &narrow, sizeof(narrow));
	else
		memcpy(member(column, row), &flag, sizeof(flag));
}

static const char *next_kept(const void *owner, uint32_t *at)
{
	const char *const *names = owner;

	return names[*at] ? names[(*at)++] : NULL;
}

static void set_frames(const struct column *column, void *row, const char **names)
{
	const struct frames frames = { names ? next_kept : NULL, names, 0 };

	memcpy(member(column, row), &frames, sizeof(frames));
}

/* Frames of all rows, which recordings of others may have in any number: 128 MB. */
#define FRAMES_MAX (16U << 20)

/* The list of frames is always a copy, and the names in it with @texts. */
static int own_frames(const struct column *column, void *row, struct text_set *texts,
		      size_t *n_frames)
{
	const struct frames from = column_frames(column, row);
	struct frames left = from;
	const char **names = NULL, *name;
	size_t n = 0;

	while (frames_next(&left))
		n++;
	if (n && n <= FRAMES_MAX - *n_frames)
		names = calloc(n + 1, sizeof(void *));
	set_frames(column, row, names);
	left = from;
	for (size_t i = 0; names && i < n; i++) {
		name = frames_next(&left);
		names[i] = texts ? text_keep(texts, name) : name;
		if (!names[i])
			return -ENOMEM;
		++*n_frames;
	}
	return n && !names ? -ENOMEM : 0;
}

/* With @texts the text is copied too; otherwise it stays in place. */
static int own_cell(const struct column *column, void *row, struct text_set *texts,
		    size_t *n_frames)
{
	const struct hist *from;
	const char *text;
	struct hist *hist;

	if (column->type == COLUMN_STR && texts) {
		text = column_string(column, row);
		text = text_keep(texts, text ? text : "");
		set_text(column, row, text);
		return text ? 0 : -ENOMEM;
	}
	if (column->type == COLUMN_FRAMES)
		return own_frames(column, row, texts, n_frames);
	if (column->type != COLUMN_HIST)
		return 0;
	from = column_hist(column, row);
	hist = from ? malloc(sizeof(*hist)) : NULL;
	if (hist)
		*hist = *from;
	set_hist(column, row, hist);
	return from && !hist ? -ENOMEM : 0;
}

static void drop_frames(struct pivot_rows *p, const struct column *column, const void *row)
{
	const char **names = (const char **)column_frames(column, row).owner;

	for (size_t i = 0; names && names[i]; i++)
		p->n_frames--;
	free(names);
}

static void drop_row(struct pivot_rows *p, void *row)
{
	for (size_t i = 0; i < p->kind->all->n; i++) {
		const struct column *column = &p->kind->all->columns[i];

		if (column->type == COLUMN_HIST)
			free((void *)column_hist(column, row));
		else if (column->type == COLUMN_FRAMES)
			drop_frames(p, column, row);
	}
	if (p->kind->drop)
		p->kind->drop(row);
}

/* Appends a copy of @from to @to, which has room for it. */
static int copy_row(struct pivot_rows *to, const void *from, struct text_set *texts)
{
	const struct pivot_kind *kind = to->kind;
	void *row = pivot_row(to, to->n);
	int r = 0;

	memcpy(row, from, kind->all->row_size);
	for (size_t i = 0; i < kind->all->n; i++)
		if (own_cell(&kind->all->columns[i], row, texts, &to->n_frames))
			r = -ENOMEM;
	if (kind->copied && kind->copied(row))
		r = -ENOMEM;
	to->n++;
	return r;
}

static int join_hist(const struct column *column, void *to, const void *from)
{
	const struct hist *more = column_hist(column, from);
	struct hist *hist = (struct hist *)column_hist(column, to);

	if (!more)
		return 0;
	if (!hist) {
		hist = calloc(1, sizeof(*hist));
		if (!hist)
			return -ENOMEM;
		set_hist(column, to, hist);
	}
	hist_add_growth(hist, more, NULL);
	return 0;
}

static int join_by_role(const struct schema *all, void *to, const void *from)
{
	int r = 0;

	for (size_t i = 0; !r && i < all->n; i++) {
		const struct column *column = &all->columns[i];
		uint64_t value, more;

		if (column->type == COLUMN_HIST)
			r = join_hist(column, to, from);
		if (column->role != ROLE_COUNTER && column->role != ROLE_GAUGE)
			continue;
		if (column->type == COLUMN_STR)
			continue;
		value = column_integer(column, to);
		more = column_integer(column, from);
		if (column->role == ROLE_COUNTER)
			set_integer(column, to, value + more);
		else if (more > value)
			set_integer(column, to, more);
	}
	return r;
}

static int join(const struct pivot_kind *kind, void *to, const void *from)
{
	return kind->join ? kind->join(to, from) : join_by_role(kind->all, to, from);
}

bool pivot_row_has(const struct pivot_kind *kind, const void *row, const char *part)
{
	for (size_t i = 0; i < kind->all->n; i++) {
		const struct column *column = &kind->all->columns[i];

		if (column->role == ROLE_LABEL && column->type == COLUMN_STR &&
		    strcasestr(column_string(column, row), part))
			return true;
	}
	return false;
}

/* ---- copies ---- */

static int make_room(struct pivot_rows *p, const struct pivot_kind *kind, size_t n)
{
	*p = (struct pivot_rows){ .kind = kind, .rows = calloc(n + 1, kind->all->row_size) };
	return p->rows ? 0 : -ENOMEM;
}

static void drop_rows(struct pivot_rows *p)
{
	for (size_t i = 0; i < p->n; i++)
		drop_row(p, pivot_row(p, i));
	free(p->rows);
	p->rows = NULL;
	p->n = 0;
}

void pivot_free(struct pivot_rows *p)
{
	if (p->kind)
		drop_rows(p);
	text_set_free(&p->texts);
	*p = (struct pivot_rows){ 0 };
}

int pivot_copy(struct pivot_rows *to, const struct pivot_kind *kind, const void *rows, size_t n)
{
	int r = make_room(to, kind, n);

	for (size_t i = 0; !r && i < n; i++)
		r = copy_row(to, schema_row(kind->all, rows, i), &to->texts);
	if (r)
		pivot_free(to);
	return r;
}

void *pivot_add_row(struct pivot_rows *to, const void *row)
{
	char *grown = reallocarray(to->rows, to->n + 1, to->kind->all->row_size);
	void *added;

	if (!grown)
		return NULL;
	to->rows = grown;
	added = pivot_row(to, to->n);
	if (!copy_row(to, row, &to->texts))
		return added;
	drop_row(to, pivot_row(to, --to->n));
	return NULL;
}

size_t pivot_memory(const struct pivot_rows *p)
{
	size_t row = 0;

	if (!p->kind)
		return 0;
	row = p->kind->all->row_size;
	for (size_t i = 0; i < p->kind->all->n; i++)
		if (p->kind->all->columns[i].type == COLUMN_HIST)
			row += sizeof(struct hist);
	return p->n * row + p->n_frames * sizeof(char *) + text_set_memory(&p->texts);
}

/* ---- rows with the same labels ---- */

/* Labels that distinguish rows. */
struct labels {
	const struct column **columns; /* @late is the last one */
	size_t n;
	const struct column *late; /* NULL: none */
};

static bool is_key(const struct column *column, const char *key)
{
	return key && column->key && strcmp(column->key, key) == 0;
}

/* Numbers first, which compare quickly. */
static int find_labels(struct labels *labels, const struct schema *schema,
		       const struct pivot_kind *kind)
{
	*labels = (struct labels){ calloc(schema->n + 1, sizeof(void *)) };
	for (int texts = 0; labels->columns && texts <= 1; texts++)
		for (size_t i = 0; i < schema->n; i++) {
			const struct column *column = &schema->columns[i];

			if (column->role != ROLE_LABEL && column->role != ROLE_STACK &&
			    !is_key(column, kind->identity))
				continue;
			if (is_key(column, kind->late))
				labels->late = column;
			else if ((column->type == COLUMN_STR) == texts)
				labels->columns[labels->n++] = column;
		}
	if (labels->columns && labels->late)
		labels->columns[labels->n++] = labels->late;
	return labels->columns ? 0 : -ENOMEM;
}

/* Equal names of equal frames; otherwise in any order. */
static int compare_stacks(struct frames a, struct frames b)
{
	const char *x, *y;

	if (a.owner == b.owner && a.at == b.at)
		return 0;
	do {
		x = frames_next(&a);
		y = frames_next(&b);
	} while (x && y && (x == y || strcmp(x, y) == 0));
	return x && y ? strcmp(x, y) : (x != NULL) - (y != NULL);
}

static int compare_cells(const struct column *column, const void *a, const void *b)
{
	const char *x, *y;
	uint64_t p, q;

	if (column->type == COLUMN_STR) {
		x = column_string(column, a);
		y = column_string(column, b);
		return x == y ? 0 : strcmp(x, y);
	}
	if (column->type == COLUMN_FRAMES)
		return compare_stacks(column_frames(column, a), column_frames(column, b));
	p = column_integer(column, a);
	q = column_integer(column, b);
	return (p > q) - (p < q);
}

static int compare_rows(const void *a, const void *b, void *ctx)
{
	const struct labels *labels = ctx;
	int r = 0;

	for (size_t i = 0; !r && i < labels->n; i++)
		r = compare_cells(labels->columns[i], a, b);
	return r;
}

/* Is @row the same as the one @before it in this order, which has no late label?  Then that gets
 * it. */
static bool names(const struct labels *labels, void *before, const void *row)
{
	struct labels others = { labels->columns, labels->n - 1, NULL };

	if (!labels->late || *column_string(labels->late, before) ||
	    compare_rows(before, row, &others))
		return false;
	set_text(labels->late, before, column_string(labels->late, row));
	return true;
}

/* Compares pointers to rows. */
static int compare_labels(const void *a, const void *b, void *ctx)
{
	return compare_rows(*(const void *const *)a, *(const void *const *)b, ctx);
}

/* Adds up @rows, whose order changes; texts are not copied. */
static int group(const struct pivot_kind *kind, const void **rows, size_t n, struct labels *labels,
		 struct pivot_rows *out)
{
	int r = make_room(out, kind, n);

	if (n && !r)
		qsort_r(rows, n, sizeof(void *), compare_labels, labels);
	for (size_t i = 0; !r && i < n; i++) {
		if (i && !kind->apart &&
		    (compare_labels(&rows[i - 1], &rows[i], labels) == 0 ||
		     names(labels, pivot_row(out, out->n - 1), rows[i])))
			r = join(kind, pivot_row(out, out->n - 1), rows[i]);
		else
			r = copy_row(out, rows[i], NULL);
	}
	if (r)
		pivot_free(out);
	return r;
}

/* ---- sums ---- */

static int largest_first(const void *left, const void *right, void *column)
{
	return -compare_cells(column, *(const void *const *)left, *(const void *const *)right);
}

/* If there are too many rows, the smaller half is folded, or left out. */
static int fold(struct pivot_rows *rows, struct labels *labels, const char *order, size_t most)
{
	const struct pivot_kind *kind = rows->kind;
	const struct column *by = schema_column(kind->all, order);
	const void **sorted = calloc(rows->n + 1, sizeof(void *));
	struct pivot_rows made = { 0 }, kept_rows;
	size_t kept = rows->n;
	int r;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < rows->n; i++)
		sorted[i] = pivot_row(rows, i);
	if (by)
		qsort_r(sorted, rows->n, sizeof(void *), largest_first, (void *)by);
	for (size_t i = most / 2; kind->fold && i < rows->n; i++)
		kind->fold((void *)sorted[i]);
	if (!kind->fold)
		kept = most / 2;
	r = group(kind, sorted, kept, labels, &made);
	free(sorted);
	if (r)
		return r;
	/* The names of removed rows go, too. */
	r = pivot_copy(&kept_rows, kind, made.rows, made.n);
	pivot_free(&made);
	if (r)
		return r;
	pivot_free(rows);
	*rows = kept_rows;
	return 0;
}

/* Added rows may have equal labels. */
static int order_rows(struct pivot_rows *sum, struct labels *labels)
{
	const size_t n = sum->n;
	int r = 0;

	qsort_r(sum->rows, n, sum->kind->all->row_size, compare_rows, labels);
	sum->n = 0;
	for (size_t i = 0; i < n; i++) {
		void *row = pivot_row(sum, i);

		if (sum->n && (compare_rows(pivot_row(sum, sum->n - 1), row, labels) == 0 ||
			       names(labels, pivot_row(sum, sum->n - 1), row))) {
			if (join(sum->kind, pivot_row(sum, sum->n - 1), row))
				r = -ENOMEM;
			drop_row(sum, row);
		} else if (sum->n++ < i) {
			memcpy(pivot_row(sum, sum->n - 1), row, sum->kind->all->row_size);
		}
	}
	return r;
}

static void *find_row(const struct pivot_rows *sum, size_t n, const void *row,
		      struct labels *labels)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int r = compare_rows(pivot_row(sum, mid), row, labels);

		if (!r)
			return pivot_row(sum, mid);
		if (r < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

/* The first @n rows of @sum are in the order of @labels. */
static int add_rows(struct pivot_rows *sum, const struct pivot_rows *from, struct labels *labels)
{
	const size_t n = sum->n;
	int r = 0;

	for (size_t i = 0; !r && i < from->n; i++) {
		void *there =
		    sum->kind->apart ? NULL : find_row(sum, n, pivot_row(from, i), labels);

		if (there)
			r = join(sum->kind, there, pivot_row(from, i));
		else
			r = copy_row(sum, pivot_row(from, i), &sum->texts);
	}
	return r || sum->n == n || sum->kind->apart ? r : order_rows(sum, labels);
}

int pivot_add(struct pivot_rows *sum, const struct pivot_rows *from, const char *order, size_t most)
{
	const struct pivot_kind *kind = from->kind;
	struct labels labels;
	char *grown;
	int r;

	if (!kind)
		return 0;
	sum->kind = kind;
	grown = reallocarray(sum->rows, sum->n + from->n + 1, kind->all->row_size);
	if (!grown)
		return -ENOMEM;
	sum->rows = grown;
	if (find_labels(&labels, kind->all, kind))
		return -ENOMEM;
	r = add_rows(sum, from, &labels);
	if (!r && sum->n > most)
		r = fold(sum, &labels, order, most);
	free(labels.columns);
	return r;
}

/* ---- trees ---- */

#define TREE_DEPTH 16 /* a container can nest groups without limit */

static size_t depth_of(const char *path)
{
	size_t n = 0;

	for (; *path; path++)
		n += *path == '/' && path[1];
	return n;
}

/* The first @len bytes of @path, as a row of the tree. */
static int add_node(struct pivot_rows *nodes, const struct column *column, const void *from,
		    const char *path, size_t len)
{
	char *text = strndup(path, len);
	const char *kept = text ? text_keep(&nodes->texts, text) : NULL;
	int r = copy_row(nodes, from, NULL);

	free(text);
	set_text(column, pivot_row(nodes, nodes->n - 1), kept ? kept : "");
	return kept ? r : -ENOMEM;
}

/* @from is counted for its group and all groups above it; deeper groups are all counted in the last
 * level. */
static int add_nodes(struct pivot_rows *nodes, const struct column *column, const void *from)
{
	const char *path = column_string(column, from);
	size_t levels = 0;
	int r = 0;

	if (path[0] == '/' && path[1])
		r = add_node(nodes, column, from, path, 1);
	for (size_t len = 1; !r && levels < TREE_DEPTH && path[0] && path[len]; len++) {
		if (path[len] != '/' || !path[len + 1])
			continue;
		r = add_node(nodes, column, from, path, len);
		levels++;
	}
	return r || levels == TREE_DEPTH ? r : add_node(nodes, column, from, path, strlen(path));
}

/* A group is above its children. */
static int compare_paths(const void *a, const void *b, void *column)
{
	const unsigned char *p = (const unsigned char *)column_string(column, a);
	const unsigned char *q = (const unsigned char *)column_string(column, b);

	while (*p && *p == *q) {
		p++;
		q++;
	}
	return (*p == '/' ? 1 : *p) - (*q == '/' ? 1 : *q);
}

/* The name is the last part, indented by depth. */
static int name_nodes(struct pivot_rows *tree, const struct column *column)
{
	for (size_t i = 0; i < tree->n; i++) {
		const char *path = column_string(column, pivot_row(tree, i));
		const char *slash = strrchr(path, '/'), *kept;
		char *name = NULL;

		if (asprintf(&name, "%*s%s", (int)(2 * depth_of(path)), "",
			     slash && slash[1] ? slash + 1 : path) < 0)
			return -ENOMEM;
		kept = text_keep(&tree->texts, name);
		free(name);
		if (!kept)
			return -ENOMEM;
		set_text(column, pivot_row(tree, i), kept);
	}
	return 0;
}

/* Counts each row of @rows for its group and all groups above it. */
static int make_tree(const struct pivot_kind *kind, const void **rows, size_t n,
		     const struct column *column, struct pivot_rows *to)
{
	struct labels labels = { &column, 1, NULL };
	struct pivot_rows nodes = { 0 };
	const void **order;
	size_t room = 0;
	int r;

	for (size_t i = 0; i < n; i++) {
		size_t depth = depth_of(column_string(column, rows[i]));

		room += (depth < TREE_DEPTH ? depth : TREE_DEPTH) + 2;
	}
	r = make_room(&nodes, kind, room);
	order = calloc(room + 1, sizeof(void *));
	if (!order)
		r = -ENOMEM;
	for (size_t i = 0; !r && i < n; i++)
		r = add_nodes(&nodes, column, rows[i]);
	for (size_t i = 0; !r && i < nodes.n; i++)
		order[i] = pivot_row(&nodes, i);
	if (!r)
		r = group(kind, order, nodes.n, &labels, to);
	free(order);
	if (!r) {
		to->texts = nodes.texts;
		nodes.texts = (struct text_set){ NULL };
		if (to->n)
			qsort_r(to->rows, to->n, kind->all->row_size, compare_paths,
				(void *)column);
		r = name_nodes(to, column);
	}
	pivot_free(&nodes);
	if (r)
		pivot_free(to);
	return r;
}

/* ---- the displayed rows ---- */

int pivot_make(const struct pivot_rows *from, const struct pivot_view *view, struct pivot_rows *to)
{
	const struct column *path = view->tree ? schema_column(view->schema, view->tree) : NULL;
	const void **rows = calloc(from->n + 1, sizeof(void *));
	struct labels labels = { 0 };
	size_t n = 0;
	int r;

	*to = (struct pivot_rows){ 0 };
	if (!from->kind || !rows) {
		free(rows);
		return from->kind ? -ENOMEM : 0;
	}
	for (size_t i = 0; i < from->n; i++)
		if (!view->is_shown || view->is_shown(view->ctx, pivot_row(from, i)))
			rows[n++] = pivot_row(from, i);
	if (path) {
		r = make_tree(from->kind, rows, n, path, to);
	} else {
		r = find_labels(&labels, view->schema, from->kind);
		if (!r)
			r = group(from->kind, rows, n, &labels, to);
		free(labels.columns);
	}
	free(rows);
	return r;
}
