// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/virtio/counts.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/bpf/grace.h"

#define WORDS(type) (sizeof(type) / sizeof(__u64))

struct virtio_counts {
	struct virtio_arrays arrays;
	struct virtio_value *values; /* the values already read from each */
	struct virtio_lat *lats;
};

int virtio_counts_open(const struct virtio_arrays *arrays, struct virtio_counts **out)
{
	size_t n = arrays->n * VIRTIO_BANKS;
	struct virtio_counts *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->arrays = *arrays;
	c->values = calloc(n, sizeof(*c->values));
	c->lats = arrays->lats ? calloc(n, sizeof(*c->lats)) : NULL;
	if (!c->values || (arrays->lats && !c->lats)) {
		virtio_counts_close(c);
		return -ENOMEM;
	}
	*out = c;
	return 0;
}

void virtio_counts_close(struct virtio_counts *c)
{
	if (!c)
		return;
	free(c->values);
	free(c->lats);
	free(c);
}

/* The growth of each of @n counters since @before; false: none has grown.  If one has grown its row
 * has an owner: this is checked afterwards. */
static bool take_words(const __u64 *now, __u64 *before, __u64 *grown, size_t n)
{
	__u64 any = 0;

	for (size_t i = 0; i < n; i++) {
		__u64 value = __atomic_load_n(&now[i], __ATOMIC_ACQUIRE);

		grown[i] = value - before[i];
		before[i] = value;
		any |= grown[i];
	}
	return any;
}

static int take_value(struct virtio_counts *c, size_t at, struct virtio_rows *rows)
{
	struct virtio_value value;

	if (!take_words((const __u64 *)&c->arrays.values[at], (__u64 *)&c->values[at],
			(__u64 *)&value, WORDS(value)))
		return 0;
	return virtio_rows_add(rows, &c->arrays.known[at / VIRTIO_BANKS], &value);
}

static int take_lat(struct virtio_counts *c, size_t at, struct virtio_rows *rows)
{
	struct virtio_lat *now = &c->arrays.lats[at], lat;

	if (!take_words(now->log2, c->lats[at].log2, lat.log2, WORDS(lat.log2)))
		return 0;
	lat.max_ns = __atomic_exchange_n(&now->max_ns, 0, __ATOMIC_RELAXED);
	return virtio_rows_add_latency(rows, &c->arrays.known[at / VIRTIO_BANKS], &lat);
}

static int take_bank(struct virtio_counts *c, uint32_t bank, struct virtio_rows *rows)
{
	size_t n = __atomic_load_n(c->arrays.taken, __ATOMIC_ACQUIRE);
	int r = 0;

	if (n > c->arrays.n)
		n = c->arrays.n;
	for (size_t row = 0; !r && row < n; row++) {
		size_t at = row * VIRTIO_BANKS + bank;

		r = take_value(c, at, rows);
		if (!r && c->lats)
			r = take_lat(c, at, rows);
	}
	return r;
}

int virtio_counts_take(struct virtio_counts *c, bool last, struct virtio_rows *rows,
		       uint64_t *end_ns)
{
	uint32_t inactive = *c->arrays.active;
	int r;

	__atomic_store_n(c->arrays.active, !inactive, __ATOMIC_SEQ_CST);
	*end_ns = clock_mono_ns();
	grace_wait();
	/* A program that is even later is counted when this bank is drained next. */
	r = take_bank(c, inactive, rows);
	return r || !last ? r : take_bank(c, !inactive, rows);
}
