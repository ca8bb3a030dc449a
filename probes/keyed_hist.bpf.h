/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_KEYED_HIST_BPF_H
#define IOTRACE_PROBES_KEYED_HIST_BPF_H

/*
 * Adds to a histogram by key.  A hash map holds the histograms: unused keys take no memory.  A key
 * without room goes to the histograms of all keys together, which user space shows as (other).
 */

#include "probes/blk_options.bpf.h"
#include "probes/hist.bpf.h"
#include "probes/keyed_hist.h"

const volatile bool keyed = false;     /* --by */
const volatile bool keyed_dev = false; /* by disk */
const volatile bool keyed_who = false; /* by properties of the submitter */
const volatile bool keyed_cpu = false; /* in parts by CPU: no two CPUs write to a cache line */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, KEYED_HISTS);
	__type(key, struct hist_key);
	__type(value, struct keyed_hist);
} keyed0 SEC(".maps"), keyed1 SEC(".maps");

/* An empty one: too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct keyed_hist);
} new_keyed SEC(".maps");

/* The submitter of a request, as far as --by needs it. */
static __always_inline void key_submitter(struct hist_key *key, const struct blk_inflight *entry)
{
	if (!keyed_who || !entry || !entry->known)
		return;
	key->known = 1;
	key->cgroup = entry->cgroup;
	key->uid = entry->process.uid;
	if (!by_process)
		return;
	key->start = entry->process.start;
	key->pid = entry->process.pid;
}

static __always_inline struct keyed_hist *keyed_hist_in(void *hists, const struct hist_key *key)
{
	struct keyed_hist *hist = bpf_map_lookup_elem(hists, key), *empty;
	u32 zero = 0;

	if (hist)
		return hist;
	empty = bpf_map_lookup_elem(&new_keyed, &zero);
	if (!empty)
		return NULL;
	bpf_map_update_elem(hists, key, empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(hists, key);
}

/* NULL: no room for @key; sets its part. */
static __always_inline struct keyed_hist *keyed_hist_of(struct hist_key *key)
{
	if (keyed_cpu)
		key->part = KEYED_PART(bpf_get_smp_processor_id());
	return epoch & 1 ? keyed_hist_in(&keyed1, key) : keyed_hist_in(&keyed0, key);
}

static __always_inline void keyed_hist_add(struct keyed_hist *keyed_hist, u64 ns, const u64 unit_ns)
{
	u32 cpu = bpf_get_smp_processor_id() & (KEYED_CPUS - 1);

	probe_hist_add_to(&keyed_hist->hist, &keyed_hist->max_ns[cpu], ns, unit_ns, false);
}

#endif
