// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/banks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/bpf/grace.h"

/* Slots and, behind them, rows of keys. */
struct banks {
	struct bank_arrays arrays;
	size_t n;
	uint64_t *noted[KVM_BANKS]; /* what each bank held when it was last noted */
	uint64_t *base;		    /* of both together: what is left out */
};

int banks_open(const struct bank_arrays *arrays, struct banks **out)
{
	size_t n = arrays->n_slots + arrays->n_keys;
	struct banks *b = calloc(1, sizeof(*b));
	uint64_t *values = calloc(n + 1, (KVM_BANKS + 1) * sizeof(*values));

	if (!b || !values) {
		free(b);
		free(values);
		return -ENOMEM;
	}
	b->arrays = *arrays;
	b->n = n;
	b->base = values;
	for (size_t bank = 0; bank < KVM_BANKS; bank++)
		b->noted[bank] = values + (bank + 1) * n;
	*out = b;
	return 0;
}

void banks_close(struct banks *b)
{
	if (!b)
		return;
	free(b->base);
	free(b);
}

static void note(struct banks *b, uint32_t bank)
{
	const struct bank_arrays *a = &b->arrays;
	uint64_t *to = b->noted[bank];

	memset(to, 0, a->n_slots * sizeof(*to));
	for (size_t cpu = 0; cpu < a->n_cpus; cpu++) {
		const uint64_t *row = a->counts + (cpu * KVM_BANKS + bank) * a->stride;

		for (size_t slot = 0; slot < a->n_slots; slot++)
			to[slot] += __atomic_load_n(&row[slot], __ATOMIC_RELAXED);
	}
	/* A row with a count has its key: before a key is looked at. */
	for (size_t i = 0; i < a->n_keys; i++)
		to[a->n_slots + i] = __atomic_load_n(&a->keys[i].counts[bank], __ATOMIC_ACQUIRE);
}

static void activate(struct banks *b, uint32_t next)
{
	uint32_t bank = *b->arrays.active;

	if (bank >= KVM_BANKS)
		return;
	__atomic_store_n(b->arrays.active, next, __ATOMIC_SEQ_CST);
	grace_wait();
	note(b, bank);
}

void banks_start(struct banks *b)
{
	__atomic_store_n(b->arrays.active, 0, __ATOMIC_SEQ_CST);
}

void banks_swap(struct banks *b)
{
	if (b)
		activate(b, !*b->arrays.active);
}

void banks_stop(struct banks *b)
{
	if (b)
		activate(b, KVM_BANKS);
}

static uint64_t counted(const struct banks *b, size_t i)
{
	uint64_t sum = 0;

	for (size_t bank = 0; bank < KVM_BANKS; bank++)
		sum += b->noted[bank][i];
	return sum;
}

uint64_t banks_slot(const struct banks *b, size_t slot)
{
	return counted(b, slot) - b->base[slot];
}

uint64_t banks_key(const struct banks *b, size_t row, struct kvm_key *key)
{
	size_t i = b->arrays.n_slots + row;
	uint64_t count = counted(b, i) - b->base[i];

	if (count)
		*key = b->arrays.keys[row].key;
	return count;
}

void banks_reset(struct banks *b)
{
	for (size_t i = 0; i < b->n; i++)
		b->base[i] = counted(b, i);
}
