// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/mapping_history.h"

#include <errno.h>

/* A version is a set of its own (@is_whole), or the one before with one mapping more. */
struct mapping_version {
	uint64_t since_ns;
	uint64_t number;
	struct mapping_node *now;
	struct mapping_node *change; /* that set, or that mapping alone */
	bool is_whole;
};

static void drop_version(struct mapping_pool *pool, struct mapping_version *v)
{
	mappings_drop(pool, v->now);
	mappings_drop(pool, v->change);
}

void history_clear(struct mapping_pool *pool, struct mapping_history *h)
{
	for (uint32_t i = 0; i < h->n; i++)
		drop_version(pool, &h->versions[i]);
	budget_free(&pool->budget, h->versions, h->room * sizeof(*h->versions));
	memset(h, 0, sizeof(*h));
}

/* How many versions began at @at_ns or before. */
static uint32_t count_until(const struct mapping_history *h, uint64_t at_ns)
{
	uint32_t lo = 0, hi = h->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (h->versions[mid].since_ns <= at_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct mapping_node *history_at(const struct mapping_history *h, uint64_t at_ns)
{
	uint32_t count = count_until(h, at_ns);

	return count ? h->versions[count - 1].now : NULL;
}

uint64_t history_number(const struct mapping_history *h, uint64_t at_ns)
{
	uint32_t count = count_until(h, at_ns);

	return count ? h->versions[count - 1].number : 0;
}

static int resize(struct mapping_pool *pool, struct mapping_history *h, uint32_t room)
{
	struct mapping_version *moved = budget_alloc(&pool->budget, room * sizeof(*moved));

	if (!moved)
		return -ENOMEM;
	if (h->n)
		memcpy(moved, h->versions, h->n * sizeof(*moved));
	budget_free(&pool->budget, h->versions, h->room * sizeof(*moved));
	h->versions = moved;
	h->room = room;
	return 0;
}

/* ---- changes ---- */

static int add_mapping(struct mapping_pool *pool, struct mapping_node **set,
		       const struct mapping *m)
{
	int r = mappings_set(pool, set, m);

	return !r && mappings_count(*set) > HISTORY_MAPPINGS ? -ENOSPC : r;
}

/* From what was before to what is now.  What there is no room for is not known. */
static int make_version(struct mapping_pool *pool, struct mapping_version *v,
			struct mapping_node *before)
{
	int r;

	v->number = ++pool->versions;
	mappings_drop(pool, v->now);
	v->now = mappings_share(v->is_whole ? v->change : before);
	if (v->is_whole)
		return 0;
	r = add_mapping(pool, &v->now, mappings_top(v->change));
	if (r) {
		drop_version(pool, v);
		v->now = v->change = NULL;
		v->is_whole = true;
	}
	return r;
}

/* Makes version @at, and those that follow from it. */
static int make_versions(struct mapping_pool *pool, struct mapping_history *h, uint32_t at)
{
	int r = 0;

	for (uint32_t i = at; i < h->n && (i == at || !h->versions[i].is_whole); i++) {
		int code = make_version(pool, &h->versions[i], i ? h->versions[i - 1].now : NULL);

		r = code ? code : r;
	}
	return r;
}

static void drop_first(struct mapping_pool *pool, struct mapping_history *h, uint32_t n)
{
	struct mapping_version *first = &h->versions[n];

	for (uint32_t i = 0; i < n; i++)
		drop_version(pool, &h->versions[i]);
	mappings_drop(pool, first->change);
	first->change = mappings_share(first->now);
	first->is_whole = true;
	h->n -= n;
	memmove(h->versions, first, h->n * sizeof(*first));
}

/* Takes over the reference to @change. */
static int insert(struct mapping_pool *pool, struct mapping_history *h, uint64_t at_ns,
		  struct mapping_node *change, bool is_whole)
{
	struct mapping_version made = { at_ns, 0, NULL, change, is_whole }, *to;
	int r = 0, code;
	uint32_t at;

	if (h->n == HISTORY_VERSIONS) {
		drop_first(pool, h, h->n / 2);
		r = -ENOSPC;
	}
	if (h->n == h->room && resize(pool, h, h->room ? 2 * h->room : 2)) {
		drop_version(pool, &made);
		history_clear(pool, h);
		return -ENOMEM;
	}
	at = count_until(h, at_ns);
	to = &h->versions[at];
	memmove(to + 1, to, (h->n - at) * sizeof(*to));
	*to = made;
	h->n++;
	code = make_versions(pool, h, at);
	return code ? code : r;
}

/* What was read at h->read_ns stays what was mapped then, whatever becomes known of before. */
static int keep_read(struct mapping_pool *pool, struct mapping_history *h)
{
	uint32_t count = count_until(h, h->read_ns);
	struct mapping_version *last = count ? &h->versions[count - 1] : NULL;

	if (!last || (last->since_ns == h->read_ns && last->is_whole))
		return 0;
	return insert(pool, h, h->read_ns, mappings_share(last->now), true);
}

int history_map(struct mapping_pool *pool, struct mapping_history *h, uint64_t at_ns,
		const struct mapping *m)
{
	const struct mapping *there = mappings_find(history_at(h, at_ns), m->start);
	struct mapping_node *change = NULL;
	int r, code;

	if (there && mapping_same(there, m))
		return 0;
	if (mappings_set(pool, &change, m)) {
		history_clear(pool, h);
		return -ENOMEM;
	}
	r = at_ns < h->read_ns ? keep_read(pool, h) : 0;
	code = insert(pool, h, at_ns, change, false);
	return code ? code : r;
}

int history_begin(struct mapping_pool *pool, struct mapping_history *h, uint64_t at_ns,
		  struct mapping_node *set)
{
	int r = at_ns < h->read_ns ? keep_read(pool, h) : 0;
	int code = insert(pool, h, at_ns, set, true);

	return code ? code : r;
}

/* ---- what was read ---- */

struct filling {
	struct mapping_pool *pool;
	struct mapping_node *set;
};

static int put_over(void *ctx, const struct mapping *m)
{
	struct filling *f = ctx;

	return add_mapping(f->pool, &f->set, m);
}

/* The last version until @at_ns that is a set of its own; the oldest if there is none. */
static struct mapping_version *last_whole(struct mapping_history *h, uint64_t at_ns)
{
	uint32_t i = count_until(h, at_ns);

	while (i > 1 && !h->versions[i - 1].is_whole)
		i--;
	return &h->versions[i ? i - 1 : 0];
}

/* @set over which all of @base is put.  NULL: no room. */
static struct mapping_node *put_together(struct mapping_pool *pool, struct mapping_node *set,
					 struct mapping_node *base)
{
	struct filling f = { pool, mappings_share(set) };

	if (mappings_each(base, put_over, &f)) {
		mappings_drop(pool, f.set);
		return NULL;
	}
	return f.set;
}

/* Where nothing is known to have been mapped since all was known last, what @set says. */
static int fill(struct mapping_pool *pool, struct mapping_history *h, uint64_t at_ns,
		struct mapping_node *set)
{
	struct mapping_version *base = last_whole(h, at_ns);
	struct mapping_node *filled = put_together(pool, set, base->change);
	int r;

	if (filled && !mappings_same(filled, base->change) && base->since_ns < h->read_ns) {
		mappings_drop(pool, filled);
		r = keep_read(pool, h);
		if (r)
			return r;
		base = last_whole(h, at_ns);
		filled = put_together(pool, set, base->change);
	}
	if (!filled)
		return -ENOMEM;
	mappings_drop(pool, base->change);
	base->change = filled;
	return make_versions(pool, h, (uint32_t)(base - h->versions));
}

int history_read(struct mapping_pool *pool, struct mapping_history *h, uint64_t at_ns,
		 struct mapping_node *set)
{
	bool is_first = !h->n || !h->versions[0].is_whole;
	int r = is_first ? insert(pool, h, 0, NULL, true) : 0;

	if (!r)
		r = fill(pool, h, at_ns, set);
	if (r || mappings_same(set, history_at(h, at_ns)))
		mappings_drop(pool, set);
	else
		r = insert(pool, h, at_ns, set, true);
	if (!r)
		h->read_ns = at_ns;
	return r;
}

/* ---- forgetting ---- */

void history_forget(struct mapping_pool *pool, struct mapping_history *h, uint64_t until_ns)
{
	uint32_t count = count_until(h, until_ns), room = h->room;

	if (count > 1)
		drop_first(pool, h, count - 1);
	while (room > 2 && room >= 4 * h->n)
		room /= 2;
	if (room < h->room)
		resize(pool, h, room);
}
