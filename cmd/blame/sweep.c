// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/blame/sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

/*
 * Parts of a nanosecond.  All numbers of requests up to 16 divide it, so that their shares are
 * exact; the remainders of others are carried on, and are far below a nanosecond.
 */
#define PARTS ((blame_parts)720720 << 20)

#define CLOCKS_MAX 65		/* the first is for requests that wait */
#define SLOTS_SIZE (64UL << 20) /* limit of blame_room.slots */
#define TIMES_MAX  16384	/* limit of blame_room.times, 1.4 KB each */
#define CLOCKS_ALL                                                                                 \
	4096 /* limit of blame_room.clocks, 16 KB each; each disk has two in any case              \
	      */
#define NO_SLOT UINT32_MAX

struct blame_times {
	uint64_t count, max;
	uint32_t fine[HIST_FINE_SLOTS];
};

/*
 * How much of each owner's time passes for a request that is in a certain state: it waits, or is at
 * the disk with this weight.  For such a request the others weigh @disk.total - @weight, and owner
 * k is charged the integral of its weight over the others'.  It is the same for all requests in
 * this state, so that a request needs the difference between two moments only.
 */
struct clock {
	uint32_t weight;
	size_t n;			 /* requests in this state; 0: it does not go on */
	uint64_t none_ns;		 /* time without others */
	blame_parts rate;		 /* integral of PARTS over the others' weight */
	blame_parts carry;		 /* remainder of the divisions */
	blame_parts share[BLAME_OWNERS]; /* when the rate was ... */
	blame_parts since[BLAME_OWNERS]; /* ... this */
};

/* A request in flight that has been swept in part; two vectors of `stride` owners follow it in
 * `vectors`: the clock when it entered its state, and what it waited before. */
struct slot {
	struct clock *clock;
	uint64_t none_ns, idle_ns;
	blame_parts rate;
	uint64_t with[BLAME_OWNERS / 64]; /* a bit for each owner in flight when it arrived */
	uint32_t next;			  /* free one */
};

enum stage { STAGE_ARRIVAL, STAGE_ISSUE, STAGE_END };

struct kept {
	struct blame_io io;
	uint64_t from; /* it was swept up to there when it was added */
	uint32_t slot;
	uint8_t next; /* enum stage */
};

struct event {
	uint64_t time;
	uint32_t number; /* in `kept` */
	uint32_t stage;
};

struct blame_sweep {
	struct blame_room *room;
	uint64_t now;
	struct kept *kept;
	size_t n_kept;
	struct event *events, *sorted;
	size_t n_events;
	struct clock *clocks[CLOCKS_MAX];
	size_t n_clocks;
	uint64_t total;			  /* weight at the disk */
	uint64_t weights[BLAME_OWNERS];	  /* of it */
	uint32_t flying[BLAME_OWNERS];	  /* requests that have arrived */
	uint64_t users[BLAME_OWNERS];	  /* kept requests */
	uint64_t left[BLAME_OWNERS];	  /* when its last one ended */
	uint64_t bits[BLAME_OWNERS / 64]; /* with `flying` */
	uint32_t n_owners;
	struct slot *slots;
	blame_parts *vectors;
	uint32_t n_slots, free_slots, stride;
	struct blame_victim victims[BLAME_OWNERS];
	struct blame_losses losses;
};

static size_t size_of_slots(size_t n, size_t stride)
{
	return n * (sizeof(struct slot) + 2 * stride * sizeof(blame_parts));
}

int blame_sweep_open(struct blame_room *room, struct blame_sweep **out)
{
	struct blame_sweep *s = calloc(1, sizeof(*s));

	if (s)
		s->clocks[0] = calloc(1, sizeof(struct clock));
	if (!s || !s->clocks[0]) {
		free(s);
		return -ENOMEM;
	}
	s->room = room;
	s->n_clocks = 1;
	s->free_slots = NO_SLOT;
	*out = s;
	return 0;
}

void blame_sweep_free(struct blame_sweep *s)
{
	if (!s)
		return;
	blame_sweep_clear(s);
	s->room->clocks -= s->n_clocks - 1;
	s->room->kept -= s->n_kept;
	s->room->slots -= size_of_slots(s->n_slots, s->stride);
	for (size_t i = 0; i < s->n_clocks; i++)
		free(s->clocks[i]);
	free(s->kept);
	free(s->events);
	free(s->sorted);
	free(s->slots);
	free(s->vectors);
	free(s);
}

/* ---- room for requests in flight ---- */

static blame_parts *entered_of(const struct blame_sweep *s, uint32_t slot)
{
	return s->vectors + (size_t)slot * 2 * s->stride;
}

static blame_parts *behind_of(const struct blame_sweep *s, uint32_t slot)
{
	return entered_of(s, slot) + s->stride;
}

/* Room for @n slots with vectors of @stride.  0, -ENOMEM, or -ENOSPC. */
static int resize(struct blame_sweep *s, uint32_t n, uint32_t stride)
{
	blame_parts *vectors;
	struct slot *slots;

	if (s->room->slots + size_of_slots(n, stride) > SLOTS_SIZE)
		return -ENOSPC;
	slots = reallocarray(s->slots, n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	s->slots = slots;
	vectors = calloc(n, 2 * stride * sizeof(*vectors));
	if (!vectors)
		return -ENOMEM;
	for (size_t i = 0; i < 2UL * s->n_slots; i++)
		memcpy(vectors + i * stride, s->vectors + i * s->stride,
		       s->stride * sizeof(*vectors));
	free(s->vectors);
	s->room->slots += size_of_slots(n, stride) - size_of_slots(s->n_slots, s->stride);
	s->vectors = vectors;
	s->stride = stride;
	for (; s->n_slots < n; s->n_slots++) {
		s->slots[s->n_slots].next = s->free_slots;
		s->free_slots = s->n_slots;
	}
	return 0;
}

/* Vectors for all owners.  Without room requests in flight lose theirs. */
static int widen(struct blame_sweep *s)
{
	uint32_t stride = s->stride ? s->stride : 8;
	int r;

	while (stride < s->n_owners)
		stride *= 2;
	if (stride == s->stride)
		return 0;
	r = resize(s, s->n_slots ? s->n_slots : 16, stride);
	if (r != -ENOSPC)
		return r;
	for (size_t i = 0; i < s->n_kept; i++)
		s->kept[i].slot = NO_SLOT;
	s->room->slots -= size_of_slots(s->n_slots, s->stride);
	s->n_slots = 0;
	s->free_slots = NO_SLOT;
	s->stride = stride;
	return 0;
}

/* NO_SLOT: there is no room. -ENOMEM in *@r. */
static uint32_t take_slot(struct blame_sweep *s, int *r)
{
	uint32_t slot;

	if (s->free_slots == NO_SLOT)
		*r = resize(s, s->n_slots ? 2 * s->n_slots : 16, s->stride);
	if (*r == -ENOSPC)
		*r = 0;
	slot = s->free_slots;
	if (*r || slot == NO_SLOT)
		return NO_SLOT;
	s->free_slots = s->slots[slot].next;
	memset(entered_of(s, slot), 0, 2 * s->stride * sizeof(blame_parts));
	return slot;
}

static void give_slot(struct blame_sweep *s, uint32_t slot)
{
	s->slots[slot].next = s->free_slots;
	s->free_slots = slot;
}

/* ---- clocks ---- */

static void advance(struct blame_sweep *s, uint64_t time)
{
	const uint64_t ns = time - s->now;

	for (size_t i = 0; ns && i < s->n_clocks; i++) {
		struct clock *c = s->clocks[i];
		const uint64_t others = s->total - c->weight;
		blame_parts parts;

		if (!c->n)
			continue;
		if (!others) {
			c->none_ns += ns;
			continue;
		}
		parts = ns * PARTS + c->carry;
		c->rate += parts / others;
		c->carry = parts % others;
	}
	s->now = time;
}

/* The weight of @owner changes. */
static void settle_owner(struct blame_sweep *s, uint32_t owner, int64_t change)
{
	for (size_t i = 0; i < s->n_clocks; i++) {
		struct clock *c = s->clocks[i];

		c->share[owner] += s->weights[owner] * (c->rate - c->since[owner]);
		c->since[owner] = c->rate;
	}
	s->weights[owner] += (uint64_t)change;
	s->total += (uint64_t)change;
}

static uint32_t distance(uint32_t a, uint32_t b)
{
	return a > b ? a - b : b - a;
}

/* The clock for requests at the disk of @weight; if all are in use one of nearly this weight. NULL:
 * out of memory. */
static struct clock *clock_of(struct blame_sweep *s, uint32_t weight)
{
	struct clock *nearest = NULL, *unused = NULL;

	for (size_t i = 1; i < s->n_clocks; i++) {
		struct clock *c = s->clocks[i];

		if (c->weight == weight)
			return c;
		if (!c->n)
			unused = c;
		else if (!nearest ||
			 distance(c->weight, weight) < distance(nearest->weight, weight))
			nearest = c;
	}
	if (!unused &&
	    (s->n_clocks == 1 || (s->n_clocks < CLOCKS_MAX && s->room->clocks < CLOCKS_ALL))) {
		unused = calloc(1, sizeof(*unused));
		if (!unused)
			return NULL;
		s->clocks[s->n_clocks++] = unused;
		s->room->clocks++;
	}
	if (!unused)
		return nearest;
	unused->weight = weight;
	return unused;
}

static blame_parts charged(const struct blame_sweep *s, const struct clock *c, uint32_t owner)
{
	return c->share[owner] + s->weights[owner] * (c->rate - c->since[owner]);
}

/* The request in @slot begins to wait, or is issued. */
static void enter(struct blame_sweep *s, uint32_t slot, struct clock *c)
{
	blame_parts *entered = entered_of(s, slot);
	struct slot *at = &s->slots[slot];

	at->clock = c;
	at->none_ns = c->none_ns;
	at->rate = c->rate;
	for (uint32_t i = 0; i < s->n_owners; i++)
		entered[i] = charged(s, c, i);
}

/* It has waited, or is complete: adds what it was charged to @to.  Returns its time without
 * others. */
static uint64_t leave(struct blame_sweep *s, uint32_t slot, uint32_t owner, blame_parts *to)
{
	const blame_parts *entered = entered_of(s, slot);
	const struct slot *at = &s->slots[slot];
	const struct clock *c = at->clock;

	for (uint32_t i = 0; i < s->n_owners; i++)
		to[i] += charged(s, c, i) - entered[i];
	to[owner] -= c->weight * (c->rate - at->rate); /* not its own */
	return c->none_ns - at->none_ns;
}

/* ---- percentiles ---- */

static void add_time(struct blame_sweep *s, struct blame_times **to, uint64_t ns)
{
	if (!*to && s->room->times < TIMES_MAX) {
		*to = calloc(1, sizeof(**to));
		s->room->times += *to != NULL;
	}
	if (!*to) {
		s->losses.untimed++;
		return;
	}
	(*to)->count++;
	(*to)->fine[hist_fine_slot(ns)]++;
	if (ns > (*to)->max)
		(*to)->max = ns;
}

uint64_t blame_percentile(const struct blame_times *of, const struct blame_times *less,
			  unsigned int permille, uint64_t *count)
{
	struct hist h = { 0 };

	*count = 0;
	if (!of)
		return 0;
	h.count = of->count - (less ? less->count : 0);
	h.max = of->max;
	for (size_t i = 0; i < HIST_FINE_SLOTS; i++)
		h.fine[i] = of->fine[i] - (less ? less->fine[i] : 0);
	*count = h.count;
	return hist_percentile(&h, permille);
}

/* ---- the life of a request ---- */

static uint64_t time_of(const struct kept *k, enum stage stage)
{
	const struct blame_io *io = &k->io;
	uint64_t time = io->arrival;

	if (stage >= STAGE_ISSUE)
		time += io->admit + io->queue;
	if (stage >= STAGE_END)
		time += io->device;
	return time < k->from ? k->from : time;
}

static int arrive(struct blame_sweep *s, struct kept *k)
{
	const uint32_t owner = k->io.owner;
	int r = 0;

	k->slot = take_slot(s, &r);
	if (r)
		return r;
	s->clocks[0]->n++;
	if (k->slot != NO_SLOT) {
		memcpy(s->slots[k->slot].with, s->bits, sizeof(s->bits));
		enter(s, k->slot, s->clocks[0]);
	}
	s->flying[owner]++;
	s->bits[owner / 64] |= UINT64_C(1) << owner % 64;
	return 0;
}

static int issue(struct blame_sweep *s, struct kept *k)
{
	struct clock *c;

	if (!k->io.weight)
		return 0;
	c = clock_of(s, k->io.weight);
	if (!c)
		return -ENOMEM;
	k->io.weight = c->weight;
	if (k->slot != NO_SLOT)
		s->slots[k->slot].idle_ns = leave(s, k->slot, k->io.owner, behind_of(s, k->slot));
	s->clocks[0]->n--;
	settle_owner(s, k->io.owner, c->weight);
	c->n++;
	if (k->slot != NO_SLOT)
		enter(s, k->slot, c);
	return 0;
}

static void add_pairs(struct blame_sweep *s, struct blame_victim *v, uint32_t slot,
		      const blame_parts *behind, const blame_parts *beside, uint64_t ns)
{
	for (uint32_t i = 0; i < s->n_owners; i++) {
		v->by[i].behind += behind[i];
		v->by[i].beside += beside[i];
		if (s->slots[slot].with[i / 64] >> i % 64 & 1)
			add_time(s, &v->by[i].with, ns);
	}
}

static int add_victim(struct blame_sweep *s, struct kept *k)
{
	struct blame_victim *v = &s->victims[k->io.owner];
	const uint64_t ns = k->io.admit + k->io.queue + k->io.device;
	const uint64_t end = k->io.arrival + ns;
	uint64_t unknown = k->from > k->io.arrival ? k->from - k->io.arrival : 0;
	blame_parts beside[BLAME_OWNERS] = { 0 };

	if (!v->by)
		v->by = calloc(BLAME_OWNERS, sizeof(*v->by));
	if (!v->by)
		return -ENOMEM;
	v->ios++;
	v->admit_ns += k->io.admit;
	v->queue_ns += k->io.queue;
	v->device_ns += k->io.device;
	add_time(s, &v->times, ns);
	if (k->slot == NO_SLOT || k->from > end)
		unknown = ns;
	v->unknown_ns += unknown;
	s->losses.unknown += unknown != 0;
	if (k->slot == NO_SLOT)
		return 0;
	if (k->io.weight) {
		v->idle_ns += s->slots[k->slot].idle_ns;
		v->alone_ns += leave(s, k->slot, k->io.owner, beside);
	} else {
		v->idle_ns += leave(s, k->slot, k->io.owner, behind_of(s, k->slot));
	}
	add_pairs(s, v, k->slot, behind_of(s, k->slot), beside, ns);
	return 0;
}

static int end(struct blame_sweep *s, struct kept *k)
{
	const uint32_t owner = k->io.owner;
	int r = k->io.uncounted ? 0 : add_victim(s, k);

	if (r)
		return r;
	if (k->slot != NO_SLOT)
		give_slot(s, k->slot);
	if (k->io.weight) {
		clock_of(s, k->io.weight)->n--;
		settle_owner(s, owner, -(int64_t)k->io.weight);
	} else {
		s->clocks[0]->n--;
	}
	if (!--s->flying[owner])
		s->bits[owner / 64] &= ~(UINT64_C(1) << owner % 64);
	s->left[owner] = s->now;
	s->users[owner]--;
	return 0;
}

/* ---- the sweep ---- */

int blame_sweep_add(struct blame_sweep *s, const struct blame_io *io)
{
	struct kept *k;

	if (io->owner >= s->n_owners) {
		s->n_owners = io->owner + 1;
		if (widen(s))
			return -ENOMEM;
	}
	k = ARRAY_ADD(s->kept, s->n_kept);
	if (!k)
		return -ENOMEM;
	k->io = *io;
	s->room->kept++;
	k->from = s->now;
	s->users[io->owner]++;
	s->losses.missed += io->weight && io->arrival + io->admit + io->queue < s->now;
	return 0;
}

/* Digit 0 is the stage, the others are the bytes of the time since @base. */
static size_t digit_of(const struct event *e, uint64_t base, unsigned int digit)
{
	return digit ? (e->time - base) >> 8 * (digit - 1) & 255 : e->stage;
}

/* Of the same digit: in the order of @from. */
static void sort_by_digit(const struct event *from, struct event *to, size_t n, uint64_t base,
			  unsigned int digit)
{
	size_t places[257] = { 0 };

	for (size_t i = 0; i < n; i++)
		places[digit_of(&from[i], base, digit) + 1]++;
	for (size_t i = 0; i < 255; i++)
		places[i + 1] += places[i];
	for (size_t i = 0; i < n; i++)
		to[places[digit_of(&from[i], base, digit)]++] = from[i];
}

/* By time, then stage, then number, by which they are in order.  There are hundreds of thousands a
 * second: with qsort() it was a third of blame's own CPU time. */
static int sort_events(struct blame_sweep *s)
{
	const size_t n = s->n_events;
	struct event *from = s->events, *to = reallocarray(s->sorted, n + 1, sizeof(*to));
	uint64_t first = UINT64_MAX, last = 0;

	if (!to)
		return -ENOMEM;
	s->sorted = to;
	for (size_t i = 0; i < n; i++) {
		first = from[i].time < first ? from[i].time : first;
		last = from[i].time > last ? from[i].time : last;
	}
	for (unsigned int digit = 0;
	     n && digit <= 8 && (!digit || (last - first) >> 8 * (digit - 1)); digit++) {
		struct event *sorted = to;

		sort_by_digit(from, to, n, first, digit);
		to = from;
		from = sorted;
	}
	if (from != s->events)
		memcpy(s->events, from, n * sizeof(*from));
	return 0;
}

static int find_events(struct blame_sweep *s, uint64_t until)
{
	s->n_events = 0;
	for (size_t i = 0; i < s->n_kept; i++)
		for (int stage = s->kept[i].next; stage <= STAGE_END; stage++) {
			const uint64_t time = time_of(&s->kept[i], (enum stage)stage);
			struct event *event;

			if (time >= until)
				break;
			event = ARRAY_ADD(s->events, s->n_events);
			if (!event)
				return -ENOMEM;
			*event = (struct event){ time, (uint32_t)i, (uint32_t)stage };
		}
	return sort_events(s);
}

static int handle(struct blame_sweep *s, const struct event *event)
{
	struct kept *k = &s->kept[event->number];
	int r;

	advance(s, event->time);
	if (event->stage == STAGE_ARRIVAL)
		r = arrive(s, k);
	else if (event->stage == STAGE_ISSUE)
		r = issue(s, k);
	else
		r = end(s, k);
	k->next++;
	return r;
}

int blame_sweep_to(struct blame_sweep *s, uint64_t until)
{
	size_t n = 0;
	int r;

	if (until <= s->now)
		return 0;
	r = find_events(s, until);
	for (size_t i = 0; !r && i < s->n_events; i++)
		r = handle(s, &s->events[i]);
	if (r)
		return r;
	advance(s, until);
	for (size_t i = 0; i < s->n_kept; i++)
		if (s->kept[i].next <= STAGE_END)
			s->kept[n++] = s->kept[i];
	s->room->kept -= s->n_kept - n;
	s->n_kept = n;
	return 0;
}

uint64_t blame_swept(const struct blame_sweep *s)
{
	return s->now;
}

struct blame_losses blame_sweep_losses(struct blame_sweep *s)
{
	const struct blame_losses losses = s->losses;

	s->losses = (struct blame_losses){ 0 };
	return losses;
}

bool blame_owner_unused(const struct blame_sweep *s, uint32_t owner)
{
	if (s->users[owner])
		return false;
	for (size_t i = 0; i < s->n_kept; i++)
		if (s->kept[i].next != STAGE_ARRIVAL && s->kept[i].io.arrival <= s->left[owner])
			return false;
	return true;
}

/* ---- sums ---- */

struct blame_victim *blame_victim(struct blame_sweep *s, uint32_t owner)
{
	return s->victims[owner].ios ? &s->victims[owner] : NULL;
}

static void free_times(struct blame_sweep *s, struct blame_times *times)
{
	s->room->times -= times != NULL;
	free(times);
}

void blame_sweep_clear(struct blame_sweep *s)
{
	for (size_t i = 0; i < BLAME_OWNERS; i++) {
		struct blame_victim *v = &s->victims[i];

		for (size_t k = 0; v->by && k < BLAME_OWNERS; k++)
			free_times(s, v->by[k].with);
		free(v->by);
		free_times(s, v->times);
		*v = (struct blame_victim){ 0 };
	}
}

/* A figure that is rounded. */
struct rounded {
	uint64_t *ns;
	blame_parts rest;
};

static int compare_rests(const void *a, const void *b)
{
	const struct rounded *x = a, *y = b;

	if (x->rest != y->rest)
		return x->rest < y->rest ? 1 : -1;
	return (x->ns > y->ns) - (x->ns < y->ns);
}

static struct rounded round_down(blame_parts parts, uint64_t *ns)
{
	*ns = (uint64_t)(parts / PARTS);
	return (struct rounded){ ns, parts % PARTS };
}

void blame_settle(struct blame_victim *v)
{
	struct rounded all[2 * BLAME_OWNERS];
	/* Times of a hostile recording wrap. */
	uint64_t rest =
	    v->admit_ns + v->queue_ns + v->device_ns - v->alone_ns - v->idle_ns - v->unknown_ns;
	int64_t left;
	size_t n = 0;

	for (size_t i = 0; i < BLAME_OWNERS; i++) {
		struct blame_pair *p = &v->by[i];

		if (p->behind)
			all[n++] = round_down(p->behind, &p->behind_ns);
		if (p->beside)
			all[n++] = round_down(p->beside, &p->beside_ns);
	}
	for (size_t i = 0; i < n; i++)
		rest -= *all[i].ns;
	left = (int64_t)rest;
	qsort(all, n, sizeof(*all), compare_rests);
	for (size_t i = 0; i < n && left > 0; i++, left--)
		++*all[i].ns;
	/* The remainders that the clocks carry on may make the sum a little larger. */
	for (size_t i = n; i-- && left < 0;)
		if (*all[i].ns) {
			--*all[i].ns;
			left++;
		}
}
