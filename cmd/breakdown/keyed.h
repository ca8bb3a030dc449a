/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Histograms by key: drains, names and sorts them. */
#ifndef IOTRACE_CMD_BREAKDOWN_KEYED_H
#define IOTRACE_CMD_BREAKDOWN_KEYED_H

#include "cmd/breakdown/hists.h"
#include "cmd/block/by.h"
#include "cmd/block/file_names.h"
#include "core/naming/cgroups.h"
#include "core/naming/disks.h"
#include "core/naming/process_names.h"
#include "core/naming/users.h"
#include "probes/keyed_hist.h"

/* A drained histogram, of one key and row. */
struct keyed_entry {
	struct hist_key key;
	struct key_labels labels;
	char comm[PROCESS_NAME_SIZE]; /* KEY_COMM: the name when it was drained */
	char *file, *dir;	      /* of `labels` */
	struct hist_row row;
};

/* The histograms of one key, from entries[first] on, by row. */
struct keyed_group {
	size_t first, n;
	uint64_t total_ns; /* its rank */
};

/* Histograms by key between two outputs, in bounded memory. */
struct keyed {
	by_keys keys; /* 0: none, and all other fields are unused */
	bool unit_slots;
	bool partitions; /* a number may be a partition's: its disk is counted */
	struct disks *disks;
	struct process_names *names;
	struct cgroups *cgroups;
	struct users *users;
	struct file_names *files;
	/* The rows of (other): histograms without room. */
	struct hist_row *other;
	uint32_t n_rows;
	/* How much @entry adds to the size of its key, by which keys are ordered.  NULL: its
	 * time. */
	uint64_t (*weight)(const void *ctx, const struct keyed_entry *entry);
	const void *ctx;
	/* Private: */
	struct keyed_entry **entries;
	size_t n;
	struct keyed_group *groups; /* largest first */
	size_t n_groups;
};

/* Retained entries: 27 MB.  The entries of one drain are added to that. */
#define KEYED_ENTRIES_MAX 8192

/* Is there room for a histogram for each CPU and key of @by, in maps of @entries (0: KEYED_HISTS)?
 * A disk has some ten: operations, or rows of a layer. */
bool keyed_fits_cpus(by_keys by, uint32_t entries, const struct disks *disks);

/* For how many files there are names between two drains, in maps of @entries (0: KEYED_HISTS). */
uint32_t keyed_files_room(by_keys by, uint32_t entries);

/* Adds @value, a struct keyed_hist, of @key, a struct hist_key. 0 or -ENOMEM.  (Has the type of a
 * callback of double_buffer_drain_hash(); @ctx is a struct keyed.) */
int keyed_add(void *ctx, const void *key, const void *value);

/* Joins entries of the same key, and keeps to KEYED_ENTRIES_MAX. */
void keyed_compact(struct keyed *k);

/* Removes all entries from the map @fd, which no program writes to.  Their number, or -errno. */
int keyed_drain(struct keyed *k, int fd);

/* At the end of an interval, when all names have arrived: names, orders and groups them. 0 or
 * -ENOMEM. */
int keyed_finish(struct keyed *k);

/* For the next interval; the rows of (other) are the caller's. */
void keyed_clear(struct keyed *k);
void keyed_free(struct keyed *k);

#endif
