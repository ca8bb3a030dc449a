// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/latency.h"

#include <errno.h>

#include "core/base/array.h"
#include "core/base/intern.h"

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
	free(l->rows);
	free(l->times);
	text_set_free(&l->names);
	free(l);
}

/* Room for @n at least; rows keep their places. */
static int grow(struct latency *l, size_t n)
{
	struct latency_times *times;
	struct latency_row *rows;

	if (n <= l->n)
		return 0;
	rows = reallocarray(l->rows, n, sizeof(*rows));
	l->rows = rows ?: l->rows;
	times = reallocarray(l->times, n, sizeof(*times));
	l->times = times ?: l->times;
	if (!rows || !times)
		return -ENOMEM;
	memset(times + l->n, 0, (n - l->n) * sizeof(*times));
	for (; l->n < n; l->n++)
		rows[l->n] = (struct latency_row){ .name = "", .guest = "" };
	for (size_t i = 0; i < n; i++)
		rows[i].times = &times[i].now;
	return 0;
}

/* A row that has counted something has its key, which is not to be looked at before. */
static bool in_use(const struct kvm_latency_row *row)
{
	return __atomic_load_n(&row->latency.exits, __ATOMIC_ACQUIRE) ||
	       __atomic_load_n(&row->latency.total_ns, __ATOMIC_ACQUIRE);
}

static void read_row(struct latency_row *to, struct hist *times, const struct kvm_latency_row *from)
{
	to->class = from->key.class;
	to->reason = from->key.reason;
	to->pid = from->key.tgid;
	to->vcpu = from->key.vcpu;
	to->exits = from->latency.exits;
	times->total = from->latency.total_ns;
	times->max = from->latency.max_ns;
	times->count = 0;
	for (size_t i = 0; i < HIST_FINE_SLOTS; i++)
		times->count += times->fine[i] = from->latency.fine[i];
}

int latency_read(struct latency *l, const struct kvm_latency_row *rows, size_t n, uint32_t active,
		 struct error *err)
{
	while (n && !in_use(&rows[n - 1])) /* they are used from the first on */
		n--;
	if (grow(l, n))
		return error_no_memory(err);
	for (size_t i = 0; i < n; i++)
		if (in_use(&rows[i]) && rows[i].key.bank != active)
			read_row(&l->rows[i], &l->times[i].now, &rows[i]);
	return 0;
}

int latency_load(struct latency *l, const struct latency_row *rows, size_t n)
{
	static const struct hist none;

	if (grow(l, n))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		l->times[i].now = *(rows[i].times ?: &none);
		l->rows[i] = rows[i];
		l->rows[i].times = &l->times[i].now;
	}
	return 0;
}

void latency_set_baseline(struct latency *l)
{
	for (size_t i = 0; i < l->n; i++) {
		l->times[i].before = l->times[i].now;
		l->times[i].exits_before = l->rows[i].exits;
	}
}

void latency_clear(struct latency *l)
{
	latency_set_baseline(l);
	for (size_t i = 0; i < l->n; i++)
		l->times[i].exits_cleared = l->rows[i].exits;
}

/* The sum with the labels of @of, made if it is not there; @labels has those of all, by index.
 * NULL without memory. */
static struct latency_sum *sum_of(struct latency_sum **sums, size_t *n, struct intern *labels,
				  const struct latency_sum *of)
{
	const uint32_t label[] = { (uint32_t)of->event, of->pid, of->vcpu };
	uint32_t at = intern_bytes(labels, label, sizeof(label), NULL);
	struct latency_sum *s;

	if (at < *n)
		return &(*sums)[at];
	s = at == INTERN_NONE ? NULL : ARRAY_ADD(*sums, *n);
	if (!s)
		return NULL;
	*s = *of;
	if (s->vcpu != KVM_NONE)
		snprintf(s->vcpu_text, sizeof(s->vcpu_text), "%u", s->vcpu);
	return s;
}

static int by_time(const void *a, const void *b)
{
	const struct latency_sum *left = a, *right = b;
	const uint64_t keys[][2] = {
		{ left->pid, right->pid },
		{ left->vcpu, right->vcpu },
		{ right->hist.total, left->hist.total }, /* the longest first */
		{ left->class, right->class },
		{ left->reason, right->reason },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return 0;
}

int latency_sums(const struct latency *l, uint32_t pid, bool all_processes, bool by_vcpu,
		 struct latency_sum **sums, size_t *n)
{
	struct latency_sum *found = NULL, *sum;
	struct intern labels = { 0 };
	size_t n_found = 0;

	for (size_t i = 0; i < l->n; i++) {
		const struct latency_row *row = &l->rows[i];
		const struct latency_sum of = {
			.class = row->class,
			.reason = row->reason,
			.pid = all_processes ? 0 : row->pid,
			.vcpu = by_vcpu ? row->vcpu : KVM_NONE,
			.event = row->event,
			.guest = row->guest,
		};

		if (!row->exits || (pid && row->pid != pid))
			continue;
		sum = sum_of(&found, &n_found, &labels, &of);
		if (!sum) {
			intern_free(&labels);
			free(found);
			return -ENOMEM;
		}
		sum->exits += row->exits - l->times[i].exits_before;
		sum->total_exits += row->exits - l->times[i].exits_cleared;
		hist_add_growth(&sum->hist, &l->times[i].now, &l->times[i].before);
	}
	intern_free(&labels);
	for (size_t i = 0; i < n_found; i++)
		hist_log2_from_fine(&found[i].hist);
	if (n_found)
		qsort(found, n_found, sizeof(*found), by_time);
	*sums = found;
	*n = n_found;
	return 0;
}
