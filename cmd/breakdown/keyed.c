// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/keyed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/bpf/double_buffer.h"
#include "core/system/cpus.h"

/* ---- draining ---- */

static int keep(struct keyed *k, struct keyed_entry *entry)
{
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	struct keyed_entry **kept = ARRAY_ADD(k->entries, k->n);

	if (!kept)
		return -ENOMEM;
	*kept = entry;
	return 0;
}

static void label_comm(const struct keyed *k, struct keyed_entry *e)
{
	const char *name =
	    e->key.known ? process_names_get(k->names, e->key.pid, e->key.start) : KEYS_UNKNOWN;

	snprintf(e->comm, sizeof(e->comm), "%s", name);
	e->labels.comm = e->comm;
}

static const char *disk_name(const struct keyed *k, uint32_t dev)
{
	if (!dev)
		return "-";
	return k->partitions ? disks_whole_name(k->disks, dev) : disks_name(k->disks, dev);
}

static const char *cgroup_name(const struct keyed *k, const struct keyed_entry *e,
			       enum cgroup_name what)
{
	return e->key.known ? cgroups_name(k->cgroups, e->key.cgroup, what) : KEYS_UNKNOWN;
}

static int label_file(const struct keyed *k, struct keyed_entry *e)
{
	const char *file = file_names_get(k->files, &e->key.file);

	if (keys_have(k->keys, KEY_DIR))
		e->dir = strdup(file_names_dir(k->files, file, keys_dir_depth(k->keys)));
	e->file = strdup(file);
	e->labels.file = e->file;
	e->labels.dir = e->dir;
	return e->file && (e->dir || !keys_have(k->keys, KEY_DIR)) ? 0 : -ENOMEM;
}

static int label(const struct keyed *k, struct keyed_entry *e)
{
	e->labels.pid = e->key.pid;
	e->labels.start = e->key.start;
	if (keys_have(k->keys, KEY_DISK))
		e->labels.disk = disk_name(k, e->key.dev);
	if (keys_have(k->keys, KEY_CGROUP))
		e->labels.cgroup = cgroup_name(k, e, CGROUP_PATH);
	if (keys_have(k->keys, KEY_UNIT))
		e->labels.unit = cgroup_name(k, e, CGROUP_UNIT);
	if (keys_have(k->keys, KEY_CONTAINER))
		e->labels.container = cgroup_name(k, e, CGROUP_CONTAINER);
	if (keys_have(k->keys, KEY_USER))
		e->labels.user = e->key.known ? users_name(k->users, e->key.uid) : KEYS_UNKNOWN;
	if (keys_of_process(k->keys))
		label_comm(k, e);
	return keys_of_file(k->keys) ? label_file(k, e) : 0;
}

static void count_disk(void *n, uint32_t dev)
{
	(void)dev;
	++*(uint32_t *)n;
}

bool keyed_fits_cpus(by_keys by, uint32_t entries, const struct disks *disks)
{
	uint32_t cpus = cpus_possible(), n = 0;

	if (!keys_have(by, KEY_DISK) || keys_of_submitter(by) || keys_of_file(by))
		return false;
	disks_each(disks, count_disk, &n);
	return 10 * n * (cpus < KEYED_CPUS ? cpus : KEYED_CPUS) <=
	       (entries ? entries : KEYED_HISTS);
}

/* A file has several histograms: there are fewer files. */
uint32_t keyed_files_room(by_keys by, uint32_t entries)
{
	return !keys_of_file(by) ? 1 : entries ? entries : KEYED_HISTS;
}

static void free_entry(struct keyed_entry *e)
{
	free(e->file);
	free(e->dir);
	free(e);
}

int keyed_add(void *ctx, const void *key, const void *value)
{
	const struct keyed_hist *from = value;
	struct keyed_entry *e = calloc(1, sizeof(*e));
	struct keyed *k = ctx;

	if (!e)
		return -ENOMEM;
	e->key = *(const struct hist_key *)key;
	hists_add(&e->row.hist, &from->hist, k->unit_slots);
	for (size_t i = 0; i < KEYED_CPUS; i++)
		if (from->max_ns[i] > e->row.hist.max)
			e->row.hist.max = from->max_ns[i];
	e->row.self_ns = from->self_ns;
	if (!label(k, e) && !keep(k, e))
		return 0;
	free_entry(e);
	return -ENOMEM;
}

/* ---- bounded memory ---- */

static int compare(const void *a, const void *b, void *ctx)
{
	const struct keyed_entry *x = *(struct keyed_entry *const *)a,
				 *y = *(struct keyed_entry *const *)b;
	int r = keys_compare(((const struct keyed *)ctx)->keys, &x->labels, &y->labels);

	return r ? r : (x->key.row > y->key.row) - (x->key.row < y->key.row);
}

static void join(struct keyed *k)
{
	size_t used = 0;

	if (k->n)
		qsort_r(k->entries, k->n, sizeof(struct keyed_entry *), compare, k);
	for (size_t i = 0; i < k->n; i++) {
		struct keyed_entry *from = k->entries[i];

		if (!used || compare(&k->entries[used - 1], &from, k) != 0) {
			k->entries[used++] = from;
			continue;
		}
		hists_merge(&k->entries[used - 1]->row, &from->row);
		free_entry(from);
	}
	k->n = used;
}

static int compare_sizes(const void *a, const void *b)
{
	const struct keyed_entry *x = *(struct keyed_entry *const *)a,
				 *y = *(struct keyed_entry *const *)b;

	return (x->row.hist.total < y->row.hist.total) - (x->row.hist.total > y->row.hist.total);
}

/* The smaller half becomes part of (other). */
static void fold(struct keyed *k)
{
	qsort(k->entries, k->n, sizeof(struct keyed_entry *), compare_sizes);
	while (k->n > KEYED_ENTRIES_MAX / 2) {
		struct keyed_entry *e = k->entries[--k->n];

		if (e->key.row < k->n_rows)
			hists_merge(&k->other[e->key.row], &e->row);
		free_entry(e);
	}
}

/* The labels hold copies. */
static void forget_names(struct keyed *k)
{
	if (!keys_of_process(k->keys) || !process_names_forget(k->names))
		return;
	for (size_t i = 0; i < k->n; i++)
		process_names_keep(k->names, k->entries[i]->key.pid, k->entries[i]->key.start);
}

void keyed_compact(struct keyed *k)
{
	join(k);
	if (k->n > KEYED_ENTRIES_MAX)
		fold(k);
	forget_names(k);
}

int keyed_drain(struct keyed *k, int fd)
{
	size_t before = k->n;
	int r = double_buffer_drain_hash(fd, sizeof(struct hist_key), sizeof(struct keyed_hist),
					 keyed_add, k),
	    n;

	if (r)
		return r;
	n = (int)(k->n - before);
	keyed_compact(k);
	return n;
}

/* ---- an output ---- */

static uint64_t weight_of(const struct keyed *k, const struct keyed_entry *e)
{
	return k->weight ? k->weight(k->ctx, e) : e->row.hist.total;
}

static int compare_groups(const void *a, const void *b)
{
	const struct keyed_group *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	return (x->first > y->first) - (x->first < y->first);
}

static void group(struct keyed *k)
{
	struct keyed_group *g = k->groups;

	for (size_t i = 0; i < k->n; i++) {
		if (!i || keys_compare(k->keys, &k->entries[i - 1]->labels, &k->entries[i]->labels))
			*g++ = (struct keyed_group){ .first = i };
		g[-1].n++;
		g[-1].total_ns += weight_of(k, k->entries[i]);
	}
	k->n_groups = (size_t)(g - k->groups);
	if (k->n_groups)
		qsort(k->groups, k->n_groups, sizeof(*k->groups), compare_groups);
}

int keyed_finish(struct keyed *k)
{
	for (size_t i = 0; i < k->n; i++) {
		if (keys_have(k->keys, KEY_PROCESS))
			label_comm(k, k->entries[i]);
		if (!k->unit_slots)
			hist_log2_from_fine(&k->entries[i]->row.hist);
	}
	/* A process may have got the name of an earlier entry. */
	join(k);
	k->groups = calloc(k->n + 1, sizeof(*k->groups));
	if (!k->groups)
		return -ENOMEM;
	group(k);
	return 0;
}

void keyed_clear(struct keyed *k)
{
	for (size_t i = 0; i < k->n; i++)
		free_entry(k->entries[i]);
	free(k->groups);
	k->groups = NULL;
	k->n = k->n_groups = 0;
}

void keyed_free(struct keyed *k)
{
	keyed_clear(k);
	free(k->entries);
	k->entries = NULL;
}
