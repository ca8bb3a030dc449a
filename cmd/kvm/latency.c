// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/latency.h"

#include <errno.h>

#include "core/base/array.h"

_Static_assert(HIST_FINE_SLOTS == PROBE_FINE_SLOTS, "the probes count in the same slots");

int latency_open(struct latency **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void latency_close(struct latency *l)
{
	if (!l)
		return;
	free(l->entries);
	free(l);
}

/* Room for @n; rows keep their places. */
static int grow(struct latency *l, size_t n)
{
	struct latency_entry *more = reallocarray(l->entries, n, sizeof(*more));

	if (!more)
		return -ENOMEM;
	memset(more + l->n, 0, (n - l->n) * sizeof(*more));
	l->entries = more;
	l->n = n;
	return 0;
}

/* A row that has counted something has its key, which is not to be looked at before. */
static bool in_use(const struct kvm_latency_row *row)
{
	return __atomic_load_n(&row->latency.exits, __ATOMIC_ACQUIRE) ||
	       __atomic_load_n(&row->latency.total_ns, __ATOMIC_ACQUIRE);
}

/* Rows are used from the first on. */
static size_t rows_in_use(const struct kvm_latency_row *rows, size_t n)
{
	while (n && !in_use(&rows[n - 1]))
		n--;
	return n;
}

int latency_read(struct latency *l, const struct kvm_latency_row *rows, size_t n, uint32_t active,
		 struct error *err)
{
	n = rows_in_use(rows, n);
	if (n > l->n && grow(l, n))
		return error_no_memory(err);
	for (size_t i = 0; i < n; i++) {
		if (!in_use(&rows[i]) || rows[i].key.bank == active)
			continue;
		l->entries[i].key = rows[i].key;
		l->entries[i].now = rows[i].latency;
	}
	return 0;
}

void latency_set_baseline(struct latency *l)
{
	for (size_t i = 0; i < l->n; i++)
		l->entries[i].before = l->entries[i].now;
}

void latency_clear(struct latency *l)
{
	for (size_t i = 0; i < l->n; i++)
		l->entries[i].cleared = l->entries[i].before = l->entries[i].now;
}

/* Adds what @e has counted since latency_set_baseline().  The longest is known of all time only: it
 * is no more than what the highest slot holds. */
static void add(struct latency_sum *sum, const struct latency_entry *e)
{
	uint64_t lo, hi, max = 0, n;

	sum->exits += e->now.exits - e->before.exits;
	sum->total_exits += e->now.exits - e->cleared.exits;
	sum->hist.total += e->now.total_ns - e->before.total_ns;
	for (unsigned int slot = 0; slot < HIST_FINE_SLOTS; slot++) {
		n = e->now.fine[slot] - e->before.fine[slot];
		if (!n)
			continue;
		hist_fine_bounds(slot, &lo, &hi);
		max = hi < e->now.max_ns ? hi : e->now.max_ns;
		sum->hist.fine[slot] += n;
		sum->hist.count += n;
	}
	if (max > sum->hist.max)
		sum->hist.max = max;
}

/* The sum with the labels of @of, made if it is not there; NULL without memory. */
static struct latency_sum *sum_of(struct latency_sum **sums, size_t *n,
				  const struct latency_sum *of)
{
	struct latency_sum *s = *sums;

	for (size_t i = 0; i < *n; i++, s++)
		if (s->class == of->class && s->reason == of->reason && s->pid == of->pid &&
		    s->vcpu == of->vcpu)
			return s;
	s = ARRAY_ADD(*sums, *n);
	if (s)
		*s = *of;
	return s;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_time(const void *a, const void *b)
{
	const struct latency_sum *left = a, *right = b;
	int r = compare(left->pid, right->pid);

	if (!r)
		r = compare(left->vcpu, right->vcpu);
	if (!r)
		r = compare(right->hist.total, left->hist.total);
	if (!r)
		r = compare(left->class, right->class);
	return r ? r : compare(left->reason, right->reason);
}

int latency_sums(const struct latency *l, uint32_t pid, bool all_processes, bool by_vcpu,
		 struct latency_sum **sums, size_t *n)
{
	struct latency_sum *found = NULL, *sum;
	size_t n_found = 0;

	for (size_t i = 0; i < l->n; i++) {
		const struct kvm_latency_key *key = &l->entries[i].key;
		const struct latency_sum of = {
			.class = key->class,
			.reason = key->reason,
			.pid = all_processes ? 0 : key->tgid,
			.vcpu = by_vcpu ? key->vcpu : KVM_NONE,
		};

		if (!l->entries[i].now.exits || (pid && key->tgid != pid))
			continue;
		sum = sum_of(&found, &n_found, &of);
		if (!sum) {
			free(found);
			return -ENOMEM;
		}
		add(sum, &l->entries[i]);
	}
	for (size_t i = 0; i < n_found; i++)
		hist_log2_from_fine(&found[i].hist);
	if (n_found)
		qsort(found, n_found, sizeof(*found), by_time);
	*sums = found;
	*n = n_found;
	return 0;
}
