// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stack/table.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/array.h"

int table_add(struct table *t, const struct table_key *key, const struct table_row *more)
{
	const struct {
		struct table_key key;
		struct table_row row;
	} made = { .key = *key };
	uint32_t number = intern_keyed(&t->rows, &made, sizeof(made), sizeof(*key));
	struct table_row *row;

	if (number == INTERN_NONE)
		return -ENOMEM;
	row = intern_value(&t->rows, number);
	for (int i = 0; i < 2; i++) {
		row->bytes[i] += more->bytes[i];
		row->ios[i] += more->ios[i];
		row->ns[i] += more->ns[i];
	}
	t->tree.owners = intern_memory(&t->rows);
	return 0;
}

const struct table_key *table_key(const struct table *t, uint32_t row)
{
	return intern_key(&t->rows, row);
}

const struct table_row *table_row(const struct table *t, uint32_t row)
{
	return (const void *)(table_key(t, row) + 1);
}

void table_free(struct table *t)
{
	stack_tree_free(&t->tree);
	intern_free(&t->rows);
	t->tree.owners = 0;
}

void table_clear(struct table *t)
{
	table_free(t);
	t->tree.rebuilt++;
}

int table_copy_names(struct table *to, const struct table *from, struct table_key *key)
{
	uint32_t *names[2 + STACK_LABELS] = { &key->disk, &key->comm };

	for (size_t i = 0; i < STACK_LABELS; i++)
		names[2 + i] = &key->labels[i];
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		*names[i] = stack_tree_name(&to->tree, stack_tree_text(&from->tree, *names[i]));
		if (*names[i] == INTERN_NONE)
			return -ENOMEM;
	}
	return 0;
}

/* ---- folding ---- */

struct order {
	uint64_t size;
	uint32_t row;
};

static int most_first(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static uint64_t size_of(const struct table_row *row, enum stack_unit unit)
{
	const uint64_t *both = unit == STACK_BYTES ? row->bytes
			       : unit == STACK_IOS ? row->ios
						   : row->ns;

	return both[0] + both[1];
}

static struct order *largest_first(const struct table *t)
{
	struct order *order = calloc(t->rows.n ? t->rows.n : 1, sizeof(*order));

	if (!order)
		return NULL;
	for (uint32_t i = 0; i < t->rows.n; i++)
		order[i] = (struct order){ size_of(table_row(t, i), t->unit), i };
	if (t->rows.n)
		qsort(order, t->rows.n, sizeof(*order), most_first);
	return order;
}

/* The stack of @from's node @node in @to. */
static uint32_t copy_stack(struct stack_tree *to, const struct stack_tree *from, uint32_t node)
{
	uint32_t path[512], depth = 0, made = 0;

	for (; node && depth < ARRAY_SIZE(path); node = stack_tree_at(from, node)->caller)
		path[depth++] = stack_tree_at(from, node)->name;
	while (depth-- > 0)
		made = stack_tree_node(to, made,
				       stack_tree_name(to, stack_tree_text(from, path[depth])));
	return made;
}

/* Like table_copy_names(), but without the names of the process and the file. */
static int copy_few_names(struct table *to, const struct table *from, struct table_key *key)
{
	uint32_t *dropped[] = { &key->comm, &key->labels[STACK_FILE], &key->labels[STACK_DIR] };
	bool shown[ARRAY_SIZE(dropped)];

	key->start = key->pid = 0;
	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++) {
		shown[i] = stack_tree_text(&from->tree, *dropped[i])[0];
		if (shown[i])
			*dropped[i] = key->disk;
	}
	if (table_copy_names(to, from, key))
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++) {
		if (shown[i])
			*dropped[i] =
			    stack_tree_name(&to->tree, i ? TABLE_OTHER_FILES : TABLE_LOST_PROCESS);
		if (*dropped[i] == INTERN_NONE)
			return -ENOMEM;
	}
	return 0;
}

static int copy_row(struct table *to, const struct table *from, uint32_t row, bool stack,
		    bool process)
{
	struct table_key key = *table_key(from, row);
	struct stack_tree *tree = &to->tree;
	uint32_t lost = 0;
	int r;

	if (!stack && (key.kernel || key.user))
		lost = stack_tree_node(tree, 0, stack_tree_name(tree, STACK_TREE_LOST));
	key.kernel = stack ? copy_stack(tree, &from->tree, key.kernel) : key.kernel ? lost : 0;
	key.user = stack ? copy_stack(tree, &from->tree, key.user) : key.user ? lost : 0;
	r = process ? table_copy_names(to, from, &key) : copy_few_names(to, from, &key);
	if (r || key.kernel == INTERN_NONE || key.user == INTERN_NONE)
		return -ENOMEM;
	return table_add(to, &key, table_row(from, row));
}

/* Replaces @t by a new table: the largest rows keep everything until half of the limit is used, the
 * next keep their process and file until three quarters are used, the rest only the disk. */
static int evict(struct table *t, const struct order *order)
{
	const size_t limit = t->tree.limit;
	struct table made = { .tree = { .limit = limit, .rebuilt = t->tree.rebuilt + 1 },
			      .unit = t->unit,
			      .evicted = t->evicted };
	int r = 0;

	for (uint32_t i = 0; !r && i < t->rows.n; i++) {
		size_t memory = stack_tree_memory(&made.tree);
		bool stack = memory < limit / 2, process = memory < limit / 4 * 3;

		if (!stack)
			made.evicted++;
		r = copy_row(&made, t, order[i].row, stack, process);
	}
	if (r) {
		table_free(&made);
		return r;
	}
	table_free(t);
	*t = made;
	return 0;
}

int table_fit(struct table *t)
{
	struct order *order;
	int r;

	if (stack_tree_memory(&t->tree) <= t->tree.limit)
		return 0;
	order = largest_first(t);
	if (!order)
		return -ENOMEM;
	r = evict(t, order);
	free(order);
	return r;
}
