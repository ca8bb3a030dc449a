// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/perf_maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/symbols/perf_map.h"

/* By pid: if two processes share a slot, the later one has it. */
#define SLOTS 1024

/* An unused share expires after this time. */
#define SAVED_NS (10 * NS_PER_SEC)

/* The last line may have been incomplete when the map was read. */
#define OVERLAP (64 << 10)

struct perf_map_slot {
	struct stat st; /* when it was read */
	uint64_t free_ns;
	uint64_t start_ns;
	uint32_t pid; /* 0: free */
	uid_t uid;
	uint32_t round;
	bool changed; /* in that round */
};

struct perf_maps {
	struct perf_map_slot slots[SLOTS];
	uint64_t free_ns;
	uint32_t round;
};

struct perf_maps *perf_maps_new(void)
{
	struct perf_maps *m = calloc(1, sizeof(*m));

	if (m)
		m->round = 1;
	return m;
}

void perf_maps_free(struct perf_maps *m)
{
	free(m);
}

void perf_maps_end_round(struct perf_maps *m)
{
	if (m)
		m->round++;
}

/* ---- time ---- */

/* @free_ns: when the share will have paid for the read. */
static bool is_time(uint64_t free_ns)
{
	return clock_mono_ns() >= free_ns;
}

static void pay(uint64_t *free_ns, uint64_t took_ns, unsigned int share)
{
	uint64_t now_ns = clock_mono_ns();

	if (*free_ns + SAVED_NS < now_ns)
		*free_ns = now_ns - SAVED_NS;
	*free_ns += took_ns * share;
}

/* ---- records of reading ---- */

static struct perf_map_slot *slot_of(const struct perf_maps *m, uint32_t pid)
{
	return (struct perf_map_slot *)(uintptr_t)&m->slots[pid % SLOTS];
}

static bool is_of(const struct perf_map_slot *slot, uint32_t pid, uint64_t start_ns)
{
	return slot->pid == pid && slot->start_ns == start_ns;
}

bool perf_maps_has(const struct perf_maps *m, uint32_t pid, uint64_t start_ns)
{
	return m && is_of(slot_of(m, pid), pid, start_ns);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size <= b->st_size;
}

static bool is_unchanged(const struct stat *a, const struct stat *b)
{
	return is_same_file(a, b) && a->st_size == b->st_size &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static bool look(struct perf_map_slot *slot)
{
	struct opened_file file;

	if (perf_map_open(slot->pid, slot->start_ns, slot->uid, &file))
		return false;
	opened_file_close(&file);
	return !is_unchanged(&slot->st, &file.st);
}

bool perf_maps_changed(struct perf_maps *m, uint32_t pid, uint64_t start_ns)
{
	struct perf_map_slot *slot;

	if (!perf_maps_has(m, pid, start_ns))
		return false;
	slot = slot_of(m, pid);
	if (slot->round != m->round) {
		slot->changed = look(slot);
		slot->round = m->round;
	}
	return slot->changed;
}

/* ---- reading ---- */

int perf_maps_begin(struct perf_maps *m, uint32_t pid, uint64_t start_ns, uid_t uid,
		    struct perf_map_reading *reading)
{
	struct perf_map_slot *slot = slot_of(m, pid);
	bool is_known = is_of(slot, pid, start_ns);
	struct opened_file file;
	int r;

	if (is_known && uid == PERF_MAP_NO_OWNER)
		uid = slot->uid;
	r = perf_map_open(pid, start_ns, uid, &file);
	if (r)
		return r;
	if (!is_known)
		*slot = (struct perf_map_slot){
			.start_ns = start_ns, .pid = pid, .round = m->round, .changed = true
		};
	slot->uid = uid;
	*reading = (struct perf_map_reading){
		.file = file,
		.is_new = !slot->st.st_ino || !is_same_file(&slot->st, &file.st),
		.maps = m,
		.slot = slot,
	};
	return 0;
}

static bool read_from(struct perf_map_reading *reading, off_t at)
{
	if (!is_time(reading->slot->free_ns) || !is_time(reading->maps->free_ns) ||
	    lseek(reading->file.fd, at, SEEK_SET) != at)
		return false;
	reading->is_read = true;
	return true;
}

bool perf_maps_read_added(struct perf_map_reading *reading)
{
	off_t end = reading->slot->st.st_size;

	if (reading->is_new || is_unchanged(&reading->slot->st, &reading->file.st))
		return false;
	return read_from(reading, end > OVERLAP ? end - OVERLAP : 0);
}

bool perf_maps_read_all(struct perf_map_reading *reading)
{
	return read_from(reading, 0);
}

void perf_maps_end(struct perf_map_reading *reading, uint64_t took_ns)
{
	struct perf_map_slot *slot = reading->slot;

	opened_file_close(&reading->file);
	if (!reading->is_read)
		return;
	slot->st = reading->file.st;
	slot->round = reading->maps->round;
	slot->changed = false;
	pay(&slot->free_ns, took_ns, PERF_MAP_SHARE);
	pay(&reading->maps->free_ns, took_ns, PERF_MAPS_SHARE);
}
