// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stack_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint32_t table_name(struct table *t, const char *name)
{
	return intern_text(&t->names, name);
}

uint32_t table_node(struct table *t, uint32_t caller, uint32_t name)
{
	const struct table_node node = { caller, name };
	uint32_t number;

	if (caller == INTERN_NONE || name == INTERN_NONE)
		return INTERN_NONE;
	number = intern_bytes(&t->nodes, &node, sizeof(node), NULL);
	return number == INTERN_NONE ? number : number + 1;
}

int table_add(struct table *t, const struct table_key *key, const struct table_row *more)
{
	int is_new;
	uint32_t row = intern_bytes(&t->keys, key, sizeof(*key), &is_new);

	if (row == INTERN_NONE)
		return -ENOMEM;
	if (row >= t->rows_room) {
		uint32_t room = t->rows_room + t->rows_room / 2 + 256;
		struct table_row *grown = realloc(t->rows, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		t->rows = grown;
		t->rows_room = room;
	}
	if (is_new)
		memset(&t->rows[row], 0, sizeof(t->rows[row]));
	for (int i = 0; i < 2; i++) {
		t->rows[row].bytes[i] += more->bytes[i];
		t->rows[row].ios[i] += more->ios[i];
		t->rows[row].ns[i] += more->ns[i];
	}
	return 0;
}

const struct table_key *table_key(const struct table *t, uint32_t row)
{
	return intern_key(&t->keys, row);
}

const char *table_text(const struct table *t, uint32_t name)
{
	return intern_key(&t->names, name);
}

static const struct table_node *node_at(const struct table *t, uint32_t node)
{
	return intern_key(&t->nodes, node - 1);
}

static const char *next_frame(const void *owner, uint32_t *at)
{
	const struct table *t = owner;
	const struct table_node *node;

	if (!*at)
		return NULL;
	node = node_at(t, *at);
	*at = node->caller;
	return table_text(t, node->name);
}

struct frames table_frames(const struct table *t, uint32_t node)
{
	return (struct frames){ next_frame, t, node };
}

size_t table_memory(const struct table *t)
{
	return intern_memory(&t->names) + intern_memory(&t->nodes) + intern_memory(&t->keys) +
	       t->rows_room * sizeof(*t->rows);
}

void table_free(struct table *t)
{
	intern_free(&t->names);
	intern_free(&t->nodes);
	intern_free(&t->keys);
	free(t->rows);
	t->rows = NULL;
	t->rows_room = 0;
}

int table_copy_labels(struct table *to, const struct table *from, struct table_key *key)
{
	for (int i = 0; i < STACK_LABELS; i++) {
		key->labels[i] = table_name(to, table_text(from, key->labels[i]));
		if (key->labels[i] == INTERN_NONE)
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
	struct order *order = calloc(t->keys.n ? t->keys.n : 1, sizeof(*order));

	if (!order)
		return NULL;
	for (uint32_t i = 0; i < t->keys.n; i++)
		order[i] = (struct order){ size_of(&t->rows[i], t->unit), i };
	if (t->keys.n)
		qsort(order, t->keys.n, sizeof(*order), most_first);
	return order;
}

/* The stack of @from's node @node in @to. */
static uint32_t copy_stack(struct table *to, const struct table *from, uint32_t node)
{
	uint32_t path[512], depth = 0, made = 0;

	for (; node && depth < 512; node = node_at(from, node)->caller)
		path[depth++] = node;
	while (depth-- > 0)
		made = table_node(
		    to, made, table_name(to, table_text(from, node_at(from, path[depth])->name)));
	return made;
}

static int copy_row(struct table *to, const struct table *from, uint32_t row, bool stack,
		    bool process)
{
	struct table_key key = *table_key(from, row);
	uint32_t lost = 0;

	if (!stack && (key.kernel || key.user))
		lost = table_node(to, 0, table_name(to, TABLE_LOST_STACK));
	key.kernel = stack ? copy_stack(to, from, key.kernel) : key.kernel ? lost : 0;
	key.user = stack ? copy_stack(to, from, key.user) : key.user ? lost : 0;
	key.disk = table_name(to, table_text(from, key.disk));
	key.comm = table_name(to, process ? table_text(from, key.comm) : TABLE_LOST_PROCESS);
	if (!process)
		key.start = key.pid = 0;
	if (table_copy_labels(to, from, &key) || key.disk == INTERN_NONE ||
	    key.kernel == INTERN_NONE || key.user == INTERN_NONE || key.comm == INTERN_NONE)
		return -ENOMEM;
	return table_add(to, &key, &from->rows[row]);
}

/* A new table in the place of @t: the largest rows keep all until half of the limit is used, the
 * next keep their process until three quarters are, the rest only the disk. */
static int evict(struct table *t, const struct order *order)
{
	struct table made = {
		.unit = t->unit, .limit = t->limit, .rebuilt = t->rebuilt + 1, .evicted = t->evicted
	};
	int r = 0;

	for (uint32_t i = 0; !r && i < t->keys.n; i++) {
		size_t memory = table_memory(&made);
		bool stack = memory < t->limit / 2, process = memory < t->limit / 4 * 3;

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

	if (table_memory(t) <= t->limit)
		return 0;
	order = largest_first(t);
	if (!order)
		return -ENOMEM;
	r = evict(t, order);
	free(order);
	return r;
}
