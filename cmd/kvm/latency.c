// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/latency.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/array.h"

_Static_assert(HIST_FINE_SLOTS == PROBE_FINE_SLOTS, "the probes count in the same slots");

void latency_free(struct latency *l)
{
	free(l->rows);
	free(l->before);
	*l = (struct latency){ NULL };
}

/* A row that has counted something has its key, which is not to be looked at before. */
static bool in_use(const struct kvm_latency_row *row)
{
	return __atomic_load_n(&row->latency.exits, __ATOMIC_ACQUIRE) ||
	       __atomic_load_n(&row->latency.total_ns, __ATOMIC_ACQUIRE);
}

static struct latency_row read_row(const struct kvm_latency_row *from)
{
	struct latency_row row = { .key = from->key, .exits = from->latency.exits };

	row.times.total = from->latency.total_ns;
	row.times.max = from->latency.max_ns;
	for (size_t i = 0; i < HIST_FINE_SLOTS; i++)
		row.times.count += row.times.fine[i] = from->latency.fine[i];
	return row;
}

static int add_growth(struct latency *l, const struct latency_row *now,
		      const struct latency_row *before)
{
	struct latency_row *row;

	if (now->exits == before->exits && now->times.count == before->times.count)
		return 0;
	row = ARRAY_ADD(l->rows, l->n);
	if (!row)
		return -ENOMEM;
	row->key = now->key;
	row->exits = now->exits - before->exits;
	hist_add_growth(&row->times, &now->times, &before->times);
	return 0;
}

int latency_read(struct latency *l, const struct kvm_latency_row *rows, size_t n, uint32_t active,
		 struct error *err)
{
	l->n = 0;
	while (n && !in_use(&rows[n - 1])) /* they are used from the first on */
		n--;
	while (l->n_before < n) {
		const struct latency_row *added = ARRAY_ADD(l->before, l->n_before);

		if (!added)
			return error_no_memory(err);
	}
	for (size_t i = 0; i < n; i++) {
		struct latency_row now;

		if (!in_use(&rows[i]) || rows[i].key.bank == active)
			continue;
		now = read_row(&rows[i]);
		if (add_growth(l, &now, &l->before[i]))
			return error_no_memory(err);
		l->before[i] = now;
	}
	return 0;
}
