// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/banks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/bpf/grace.h"
#include "core/system/process.h"

/* How long vCPUs are waited for that have to end their rounds, but wait for a CPU. */
#define WAIT_NS (NS_PER_SEC / 2)
#define POLL_NS (NS_PER_SEC / 1000)

/* Values are of slots and, behind them, of rows of keys. */
struct banks {
	struct bank_arrays arrays;
	size_t n;
	uint64_t *noted[KVM_BANKS]; /* what each bank held when it was last noted */
	uint64_t *base;		    /* of both together: what is left out */
	uint64_t values[];	    /* of all three */
};

int banks_open(const struct bank_arrays *arrays, struct banks **out)
{
	const size_t n = arrays->n_slots + arrays->n_keys;
	struct banks *b = calloc(1, sizeof(*b) + n * (KVM_BANKS + 1) * sizeof(*b->values));

	if (!b)
		return -ENOMEM;
	b->arrays = *arrays;
	b->n = n;
	b->base = b->values + KVM_BANKS * n;
	for (size_t bank = 0; bank < KVM_BANKS; bank++)
		b->noted[bank] = b->values + bank * n;
	*out = b;
	return 0;
}

void banks_close(struct banks *b)
{
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

/* Is a thread in the middle of a round of @bank, and on its way?  One that sleeps, as a vCPU that
 * has halted, may do so for long. */
static bool round_goes_on(const struct banks *b, uint32_t bank)
{
	struct process thread;

	for (size_t i = 0; b->arrays.rounds && i < KVM_ROUNDS; i++) {
		uint64_t round = __atomic_load_n(&b->arrays.rounds[i], __ATOMIC_RELAXED);

		if ((round & KVM_ROUND_OPEN) && (round & KVM_BANK_MASK) == bank &&
		    process_read((uint32_t)(round >> 32), &thread) == 0 && thread.state == 'R')
			return true;
	}
	return false;
}

/* All programs know of the change before it is looked which rounds go on. */
static void activate(struct banks *b, uint32_t next)
{
	const uint32_t bank = banks_active(b), word = next | KVM_CHANGE(bank);
	uint64_t deadline;

	__atomic_store_n(b->arrays.counting, word | KVM_CHANGING, __ATOMIC_SEQ_CST);
	grace_wait();
	deadline = clock_mono_ns() + WAIT_NS;
	while (round_goes_on(b, bank) && clock_mono_ns() < deadline)
		nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
	__atomic_store_n(b->arrays.counting, word, __ATOMIC_SEQ_CST);
	grace_wait();
	if (bank < KVM_BANKS)
		note(b, bank);
}

uint32_t banks_active(const struct banks *b)
{
	return *b->arrays.counting & KVM_BANK_MASK;
}

void banks_start(struct banks *b)
{
	if (b)
		activate(b, 0);
}

void banks_swap(struct banks *b)
{
	if (b && banks_active(b) < KVM_BANKS)
		activate(b, !banks_active(b));
}

void banks_stop(struct banks *b)
{
	if (b && banks_active(b) < KVM_BANKS)
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
	for (size_t i = 0; b && i < b->n; i++)
		b->base[i] = counted(b, i);
}
