// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/block/in_flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/block/base.h"
#include "cmd/block/stuck_row.h"
#include "cmd/cli/command.h"
#include "cmd/engine/probe.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/system/process.h"

#define OLD_NS	  NS_PER_SEC /* a request that is older is worth a line */
#define NAME_SIZE 64
#define COMM_SIZE 64

/* A disk with requests in flight, or counts_none(). */
struct waiting_disk {
	char name[NAME_SIZE];
	uint32_t dev;
	uint64_t completed; /* so far */
	uint64_t since_ns;  /* since when it has had requests, and has completed none */
	/* The last look: */
	unsigned int n;
	uint64_t age_ns; /* of the oldest */
	bool at_least;
	bool queued;	      /* none of them is at the device */
	char comm[COMM_SIZE]; /* whose it is, or who waits for it; "": not known */
};

struct waits {
	struct disks *names;
	const struct blk_filters *filters; /* NULL: all disks */
	struct waiting_disk *disks;
	size_t n;
	struct tool_run *walk;		     /* iotrace stuck; NULL: not needed */
	bool stays;			     /* the walk is needed here */
	char chosen[BLK_FILTERS][NAME_SIZE]; /* the walk's -d */
};

static bool is_chosen(const struct waits *w, const char *name)
{
	const struct blk_filters *f = w->filters;

	for (uint32_t i = 0; f && i < f->n_disks; i++)
		if (strcmp(disks_name(w->names, f->disks[i].whole), name) == 0)
			return true;
	return !f || !f->n_disks;
}

/* ---- /proc/diskstats ---- */

/* Without I/O statistics (queue/iostats 0) a disk's number in flight is always 0: only the walk
 * knows. */
static bool counts_none(const char *name)
{
	char path[sizeof("/sys/block//queue/iostats") + NAME_SIZE];
	FILE *file FCLOSE_AT_END = NULL;

	snprintf(path, sizeof(path), "/sys/block/%s/queue/iostats", name);
	file = fopen(path, "re");
	return file && fgetc(file) == '0';
}

/* The disks of @line that have requests, or may; partitions and bio-based devices have none. */
static bool parse_line(const char *line, struct waiting_disk *to)
{
	unsigned long long reads, writes, discards = 0, flushes = 0;
	char path[sizeof("/sys/block//mq") + NAME_SIZE];
	unsigned int major, minor, now;

	/* The last operation since 5.5: flush commands. */
	if (sscanf(line,
		   "%u %u %63s %llu %*u %*u %*u %llu %*u %*u %*u %u %*u %*u %llu %*u %*u %*u %llu",
		   &major, &minor, to->name, &reads, &writes, &now, &discards, &flushes) < 6)
		return false;
	to->dev = DISK_DEV(major, minor);
	to->completed = reads + writes + discards + flushes;
	snprintf(path, sizeof(path), "/sys/block/%s/mq", to->name);
	return !strchr(to->name, '/') && !access(path, F_OK) && (now || counts_none(to->name));
}

static const struct waiting_disk *find(const struct waits *w, uint32_t dev)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->disks[i].dev == dev)
			return &w->disks[i];
	return NULL;
}

/* Reads the disks again: those with requests, and since when they have completed none. */
static void sample(struct waits *w)
{
	FILE *file FCLOSE_AT_END = fopen("/proc/diskstats", "re");
	const uint64_t now = clock_mono_ns();
	struct waiting_disk *disks = NULL, *disk;
	const struct waiting_disk *before;
	char line[512];
	size_t n = 0;

	while (file && fgets(line, sizeof(line), file)) {
		struct waiting_disk read = { .since_ns = now };

		if (!parse_line(line, &read) || !is_chosen(w, read.name))
			continue;
		before = find(w, read.dev);
		if (before && before->completed == read.completed)
			read.since_ns = before->since_ns;
		disk = ARRAY_ADD(disks, n);
		if (!disk)
			break;
		*disk = read;
	}
	free(w->disks);
	w->disks = disks;
	w->n = n;
}

/* ---- how many, and how old ---- */

static unsigned int count(const char *name)
{
	char path[sizeof("/sys/block//inflight") + NAME_SIZE];
	unsigned int reads = 0, writes = 0;
	FILE *file FCLOSE_AT_END = NULL;

	snprintf(path, sizeof(path), "/sys/block/%s/inflight", name);
	file = fopen(path, "re");
	return file && fscanf(file, "%u %u", &reads, &writes) == 2 ? reads + writes : 0;
}

struct followed {
	struct tool_run *t;
	struct waits *w;
	uint64_t now_ns;
};

static void name_submitter(struct tool_run *t, const struct blk_process *process,
			   char comm[COMM_SIZE])
{
	struct process now;

	if (process->pid && t->names)
		snprintf(comm, COMM_SIZE, "%s",
			 process_names_get(t->names, process->pid, process->start));
	else if (process->pid && !process_read(process->pid, &now))
		snprintf(comm, COMM_SIZE, "%s", now.comm);
}

/* A request that this run's programs follow. */
static void take_followed(void *ctx, const struct blk_inflight *entry)
{
	const struct followed *f = ctx;
	const char *name = disks_whole_name(f->t->disks, entry->dev);
	const uint64_t age = f->now_ns - entry->issue_ns;

	for (size_t i = 0; i < f->w->n; i++) {
		struct waiting_disk *disk = &f->w->disks[i];

		if (strcmp(disk->name, name) != 0 || age < disk->age_ns)
			continue;
		disk->age_ns = age;
		disk->at_least = false;
		disk->comm[0] = 0;
		name_submitter(f->t, &entry->process, disk->comm);
	}
}

static void look_here(struct tool_run *t, struct waits *w)
{
	struct followed f = { t, w, clock_mono_ns() };

	for (size_t i = 0; i < w->n; i++) {
		w->disks[i].n = count(w->disks[i].name);
		w->disks[i].age_ns = f.now_ns - w->disks[i].since_ns;
		w->disks[i].at_least = true;
	}
	if (w->n && t->disks && t->object.obj)
		blk_each_in_flight(t->object.obj, probe_program_fd(t->object.obj, "rq_busy"),
				   f.now_ns - OLD_NS, false, take_followed, &f);
}

/* ---- iotrace stuck ---- */

static struct waiting_disk *disk_of(struct waits *w, const struct stuck_row *row)
{
	struct waiting_disk *disk;

	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->disks[i].name, row->disk) == 0)
			return &w->disks[i];
	disk = ARRAY_ADD(w->disks, w->n);
	if (disk) {
		*disk = (struct waiting_disk){ .since_ns = clock_mono_ns() };
		snprintf(disk->name, sizeof(disk->name), "%s", row->disk);
	}
	return disk;
}

/* in_flight_each()'s. */
static void take_row(void *ctx, const struct stuck_row *row)
{
	struct waits *w = ctx;
	const bool whole = strcmp(row->kind, STUCK_KIND_DISK) == 0;
	const uint64_t age = row->age_ns ?: row->device_ns;
	struct waiting_disk *disk;

	if (!whole && strcmp(row->kind, STUCK_KIND_REQUEST) != 0)
		return;
	disk = disk_of(w, row);
	if (disk && whole) {
		disk->n = row->in_flight ?: row->queued;
		disk->queued = !row->in_flight;
	} else if (disk && age >= disk->age_ns) {
		disk->age_ns = age;
		disk->at_least = !row->age_ns && row->at_least;
		snprintf(disk->comm, sizeof(disk->comm), "%s", row->comm);
	}
}

struct receiver {
	void (*each)(void *ctx, const struct stuck_row *row);
	void *ctx;
	const struct waits *waits;
};

/* struct tool_run's sink(). */
static int pass_rows(void *ctx, struct tool_run *t, struct recording_interval *in,
		     struct error *err)
{
	const struct receiver *to = ctx;
	const struct stuck_row *rows = in->tables[0].rows;

	(void)t;
	(void)err;
	for (size_t i = 0; i < in->tables[0].n; i++)
		if (is_chosen(to->waits, rows[i].disk))
			to->each(to->ctx, &rows[i]);
	return 0;
}

static void close_walk(struct waits *w)
{
	tool_close(w->walk);
	w->walk = NULL;
}

/* Without it what this run sees itself is enough: no error is reported. */
static void open_walk(struct tool_run *t, struct waits *w)
{
	static char name[] = "iotrace stuck", least[] = "-m", zero[] = "0", disk[] = "-d";
	char *argv[3 + 2 * BLK_FILTERS + 1] = { name, least, zero };
	struct error err;
	int argc = 3;

	for (uint32_t i = 0; w->filters && i < w->filters->n_disks; i++) {
		snprintf(w->chosen[i], NAME_SIZE, "%s",
			 disks_name(w->names, w->filters->disks[i].whole));
		argv[argc++] = disk;
		argv[argc++] = w->chosen[i];
	}
	if (tool_open(command_find("stuck")->tool, argc, argv, &w->walk, &err)) {
		close_walk(w);
		return;
	}
	w->walk->sink = pass_rows; /* in_flight_each() */
	if (tool_attach(w->walk, t->run, &err))
		close_walk(w);
}

/* ---- in words ---- */

static void put_age(uint64_t ns, char *to, size_t size)
{
	const double seconds = (double)ns / 1e9;

	if (seconds < 10)
		snprintf(to, size, "%.1f s", seconds);
	else if (seconds < 120)
		snprintf(to, size, "%.0f s", seconds);
	else if (seconds < 7200)
		snprintf(to, size, "%.0f min", seconds / 60);
	else
		snprintf(to, size, "%.1f h", seconds / 3600);
}

static void put_line(const struct waiting_disk *disk, char *to, size_t size)
{
	char age[32];

	put_age(disk->age_ns, age, sizeof(age));
	snprintf(to, size, "%u request%s %s on %s, the oldest for %s%s%s%s", disk->n,
		 disk->n == 1 ? "" : "s", disk->queued ? "queued" : "in flight", disk->name,
		 disk->at_least ? "at least " : "", age, *disk->comm ? ", by " : "",
		 text_shown(disk->comm).text);
}

/* ---- the contract ---- */

static void open_waits(struct tool_run *t)
{
	struct waits *w = t->waits;

	if (t->tool->base == &block_base) {
		w->names = t->disks;
		w->filters = block_of(t)->filters;
	}
	sample(w);
}

static void attached(struct tool_run *t)
{
	const uint64_t now = clock_mono_ns();
	struct waits *w = t->waits;

	sample(w);
	for (size_t i = 0; i < w->n && !w->stays; i++)
		w->stays = w->disks[i].since_ns < now;
	if (w->stays && !w->walk)
		open_walk(t, w);
}

static int compare_ages(const void *a, const void *b)
{
	const struct waiting_disk *x = a, *y = b;

	return (x->age_ns < y->age_ns) - (x->age_ns > y->age_ns);
}

static size_t look(struct tool_run *t, char (*lines)[TOOL_WAITS_SIZE], size_t room)
{
	struct waits *w = t->waits;
	size_t n = 0;

	sample(w);
	if (w->walk && w->stays) {
		for (size_t i = 0; i < w->n; i++)
			w->disks[i].n = 0;
		in_flight_each(t, take_row, w);
	} else {
		look_here(t, w);
	}
	if (w->n)
		qsort(w->disks, w->n, sizeof(*w->disks), compare_ages);
	for (size_t i = 0; i < w->n && n < room; i++)
		if (w->disks[i].n && w->disks[i].age_ns >= OLD_NS)
			put_line(&w->disks[i], lines[n++], TOOL_WAITS_SIZE);
	return n;
}

static void close_waits(struct tool_run *t)
{
	struct waits *w = t->waits;

	close_walk(w);
	free(w->disks);
}

/* ---- for others ---- */

void in_flight_watch(struct tool_run *t)
{
	struct waits *w = t->waits;

	if (!w)
		return;
	sample(w);
	if (w->n && !w->walk)
		open_walk(t, w);
}

bool in_flight_each(struct tool_run *t, void (*each)(void *ctx, const struct stuck_row *row),
		    void *ctx)
{
	struct waits *w = t->waits;
	struct receiver to = { each, ctx, w };
	struct error err;

	if (!w || !w->walk)
		return false;
	w->walk->sink = pass_rows;
	w->walk->sink_ctx = &to;
	return !tool_emit(w->walk, false, &err);
}

void in_flight_unwatch(struct tool_run *t)
{
	struct waits *w = t->waits;

	if (w && w->walk && !w->stays)
		close_walk(w);
}

const struct tool_waits in_flight = {
	.size = sizeof(struct waits),
	.open = open_waits,
	.attached = attached,
	.look = look,
	.close = close_waits,
};
