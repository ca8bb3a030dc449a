/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The arithmetic of blame: any requests in any order, windows that end anywhere.  The rows of each
 * victim add up to its time in any case. */
#include "cmd/blame/sweep.h"
#include "fuzz.h"

struct input {
	const uint8_t *at, *end;
};

/* @bytes of the input, the lowest first; 0 after its end. */
static uint64_t take(struct input *in, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = 0; i < bytes && in->at < in->end; i++)
		value |= (uint64_t)*in->at++ << 8 * i;
	return value;
}

/* Of any size: the first byte says how many others it has. */
static uint64_t take_time(struct input *in)
{
	return take(in, take(in, 1) % 9);
}

/* Like all callers: no sum of times overflows, and only what never ends ends at UINT64_MAX. */
static uint64_t less(uint64_t *left, uint64_t ns)
{
	const uint64_t part = ns < *left ? ns : *left;

	*left -= part;
	return part;
}

static void add(struct blame_sweep *s, struct input *in)
{
	const uint8_t flags = (uint8_t)take(in, 1);
	uint64_t left = UINT64_MAX - 1;
	struct blame_io io = { .arrival = less(&left, take_time(in)) };

	io.admit = less(&left, take_time(in));
	io.queue = less(&left, take_time(in));
	io.device = flags & 1 ? left + 1 : less(&left, take_time(in));
	io.owner = (uint32_t)take(in, 1) % BLAME_OWNERS;
	io.weight = (uint32_t)take(in, flags & 2 ? 4 : 1);
	io.uncounted = flags & 1 || flags & 4;
	if (io.weight || !(flags & 1))
		blame_sweep_add(s, &io);
}

static void check(struct blame_sweep *s)
{
	for (uint32_t owner = 0; owner < BLAME_OWNERS; owner++) {
		struct blame_victim *v = blame_victim(s, owner);
		uint64_t ns, count;

		if (!v)
			continue;
		blame_settle(v);
		ns = v->alone_ns + v->idle_ns + v->unknown_ns;
		for (size_t i = 0; i < BLAME_OWNERS; i++) {
			ns += v->by[i].behind_ns + v->by[i].beside_ns;
			if (v->by[i].with &&
			    (blame_percentile(v->times, v->by[i].with, 990, &count),
			     count > v->ios))
				abort();
		}
		if (ns != v->admit_ns + v->queue_ns + v->device_ns)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct blame_room room = { 0 };
	struct blame_sweep *s[2];

	for (size_t i = 0; i < 2; i++)
		if (blame_sweep_open(&room, &s[i]))
			abort();
	while (in.at < in.end) {
		const uint8_t what = (uint8_t)take(&in, 1);
		struct blame_sweep *to = s[what & 1];

		if (what >> 1 & 3) {
			add(to, &in);
			continue;
		}
		if (blame_sweep_to(to, take_time(&in)))
			abort();
		check(to);
		if (what & 8)
			blame_sweep_clear(to);
		for (uint32_t owner = 0; what & 16 && owner < BLAME_OWNERS; owner++)
			blame_owner_unused(to, owner);
	}
	for (size_t i = 0; i < 2; i++) {
		if (blame_sweep_to(s[i], UINT64_MAX))
			abort();
		check(s[i]);
		blame_sweep_free(s[i]);
	}
	/* All that was taken was given back. */
	if (room.kept || room.slots || room.times || room.clocks)
		abort();
	return 0;
}
