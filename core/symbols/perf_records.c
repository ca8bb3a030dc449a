// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/perf_records.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/system/cpus.h"
#include "core/naming/disks.h"

/* Of all CPUs together; a machine with many has less for each. */
#define ALL_BUFFERS (8U << 20)
#define MAX_PAGES   64

struct ring {
	int fd; /* -1: the CPU is offline */
	struct perf_event_mmap_page *page;
	uint64_t tail;		 /* all before is read */
	struct perf_record next; /* read, but not handed over */
	bool has_next;
};

/* What changes with each CPU that comes or goes. */
struct cpu_changes {
	char online[256];  /* the list's beginning */
	uint64_t uevents;  /* of any device */
	int64_t asleep_ns; /* so far: without uevents all CPUs but one go, and come back */
};

struct perf_records {
	struct ring *rings; /* by CPU */
	size_t n_rings;
	size_t page_size, data_size;
	struct cpu_changes changes;
	bool is_partial; /* a CPU's ring could not be opened */
	uint64_t lost;
};

static int open_event(int cpu, bool build_ids)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.build_id = build_ids, /* 5.12 */
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	long fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static int open_ring(struct perf_records *p, int cpu)
{
	struct ring *ring = &p->rings[cpu];
	void *page;
	int fd = open_event(cpu, true);

	if (fd == -EINVAL)
		fd = open_event(cpu, false);
	if (fd < 0)
		return fd;
	page = mmap(NULL, p->page_size + p->data_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		int r = -errno;

		close(fd);
		return r;
	}
	*ring = (struct ring){ .fd = fd, .page = page };
	return 0;
}

static void close_ring(struct perf_records *p, struct ring *ring)
{
	if (ring->fd < 0)
		return;
	munmap(ring->page, p->page_size + p->data_size);
	close(ring->fd);
	free(ring->next.path);
	*ring = (struct ring){ .fd = -1 };
}

/* ---- CPUs that come and go ---- */

static void read_text(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, buf, size - 1);

	buf[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
}

static bool cpus_changed(struct perf_records *p)
{
	struct cpu_changes now = { 0 };
	struct timespec boot, mono;
	char text[32];
	bool changed;

	read_text("/sys/devices/system/cpu/online", now.online, sizeof(now.online));
	read_text("/sys/kernel/uevent_seqnum", text, sizeof(text));
	now.uevents = strtoull(text, NULL, 10);
	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	now.asleep_ns =
	    (boot.tv_sec - mono.tv_sec) * (int64_t)NS_PER_SEC + boot.tv_nsec - mono.tv_nsec;
	/* The clocks are read one after the other. */
	changed = strcmp(now.online, p->changes.online) != 0 || now.uevents != p->changes.uevents ||
		  now.asleep_ns - p->changes.asleep_ns > (int64_t)NS_PER_SEC / 10;
	if (changed)
		p->changes = now;
	return changed;
}

/* An event of a CPU that goes offline is taken off it (perf_event_exit_cpu_context()) and not put
 * back when it returns: its time stands still. */
static bool is_alive(const struct ring *ring)
{
	uint64_t first[2], second[2];

	return read(ring->fd, first, sizeof(first)) == sizeof(first) &&
	       read(ring->fd, second, sizeof(second)) == sizeof(second) && second[1] > first[1];
}

/* Rings for those CPUs that have come.  0, or -errno of the last that could not be had. */
static int open_missing(struct perf_records *p)
{
	int r = 0;

	for (size_t cpu = 0; cpu < p->n_rings; cpu++) {
		int code = p->rings[cpu].fd < 0 ? open_ring(p, (int)cpu) : -ENODEV;

		if (!code)
			p->lost++;	  /* what there was on this CPU until now */
		else if (code != -ENODEV) /* offline */
			r = code;
	}
	return r;
}

static void watch_cpus(struct perf_records *p)
{
	bool changed = cpus_changed(p);
	int r;

	if (!changed && !p->is_partial)
		return;
	for (size_t cpu = 0; changed && cpu < p->n_rings; cpu++)
		if (p->rings[cpu].fd >= 0 && !is_alive(&p->rings[cpu]))
			close_ring(p, &p->rings[cpu]);
	r = open_missing(p);
	if (r && !p->is_partial)
		p->lost++;
	p->is_partial = r;
}

size_t perf_records_cpus(const struct perf_records *p)
{
	size_t n = 0;

	for (size_t cpu = 0; cpu < p->n_rings; cpu++)
		n += p->rings[cpu].fd >= 0;
	return n;
}

int perf_records_open(struct perf_records **out)
{
	struct perf_records *p = calloc(1, sizeof(*p));
	size_t cpus = cpus_possible(), pages = MAX_PAGES;
	int r;

	if (!p)
		return -ENOMEM;
	p->page_size = (size_t)sysconf(_SC_PAGESIZE);
	while (pages > 4 && pages * p->page_size * cpus > ALL_BUFFERS)
		pages /= 2;
	p->data_size = pages * p->page_size;
	p->rings = calloc(cpus, sizeof(*p->rings));
	r = p->rings ? 0 : -ENOMEM;
	for (; !r && p->n_rings < cpus; p->n_rings++)
		p->rings[p->n_rings].fd = -1;
	cpus_changed(p);
	if (!r)
		r = open_missing(p);
	p->lost = 0; /* nothing is missed of before */
	if (!r && !perf_records_cpus(p))
		r = -ENODEV;
	if (!r)
		*out = p;
	else
		perf_records_close(p);
	return r;
}

void perf_records_close(struct perf_records *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_rings; i++)
		close_ring(p, &p->rings[i]);
	free(p->rings);
	free(p);
}

uint64_t perf_records_lost(const struct perf_records *p)
{
	return p->lost;
}

/* ---- records ---- */

/* Little by little out of @at, which need not be aligned. */
#define TAKE(to, at, offset) memcpy(&(to), (at) + (offset), sizeof(to))

/* u32 pid, tid; u64 addr, len, pgoff; 24 bytes of identity; u32 prot, flags; the path. */
#define MAPPED_PATH 64

static void read_mapped(struct perf_record *record, const char *at, size_t size, uint16_t misc)
{
	uint32_t major, minor;
	uint8_t id_size;

	TAKE(record->start, at, 8);
	TAKE(record->length, at, 16);
	TAKE(record->offset, at, 24);
	if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		TAKE(id_size, at, 32);
		record->id.size = id_size <= 20 ? id_size : 0;
		memcpy(record->id.bytes, at + 36, record->id.size);
	} else {
		TAKE(major, at, 32);
		TAKE(minor, at, 36);
		TAKE(record->inode, at, 40);
		record->dev = DISK_DEV(major, minor);
	}
	record->path = strndup(at + MAPPED_PATH, size - MAPPED_PATH);
}

/* @at: what follows the header, @size bytes; pid, tid and time come last in every record.
 * True: *made is one. */
static bool take_record(struct perf_records *p, const struct perf_event_header *header,
			const char *at, size_t size, struct perf_record *made)
{
	uint32_t tid = 0;
	uint64_t lost;

	memset(made, 0, sizeof(*made));
	if (header->type == PERF_RECORD_LOST && size >= 16) {
		TAKE(lost, at, 8);
		p->lost += lost;
		return false;
	}
	if (size < 24)
		return false;
	TAKE(made->pid, at, 0);
	TAKE(made->time_ns, at, size - 8);
	if ((int32_t)made->pid < 0)
		return false;
	if (header->type == PERF_RECORD_MMAP2 && size > MAPPED_PATH + 16) {
		made->kind = PERF_MAPPED;
		read_mapped(made, at, size - 16, header->misc);
		p->lost += !made->path;
		return made->path;
	}
	if (header->type == PERF_RECORD_COMM) {
		made->kind = PERF_EXEC;
		return header->misc & PERF_RECORD_MISC_COMM_EXEC;
	}
	if (header->type != PERF_RECORD_FORK && header->type != PERF_RECORD_EXIT)
		return false;
	made->kind = header->type == PERF_RECORD_FORK ? PERF_FORK : PERF_EXIT;
	TAKE(made->parent, at, 4);
	TAKE(tid, at, 8);
	return tid == made->pid; /* not a thread */
}

static void copy_out(const struct perf_records *p, const struct ring *ring, uint64_t at, void *to,
		     size_t size)
{
	const char *data = (const char *)ring->page + p->page_size;
	size_t from = (size_t)(at % p->data_size), first = p->data_size - from;

	if (first > size)
		first = size;
	memcpy(to, data + from, first);
	memcpy((char *)to + first, data, size - first);
}

/* Has the ring a next record?  It is in ring->next then. */
static bool peek(struct perf_records *p, struct ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	struct perf_event_header header;
	char bytes[65536];

	while (!ring->has_next && ring->tail < head) {
		copy_out(p, ring, ring->tail, &header, sizeof(header));
		if (header.size < sizeof(header)) {
			ring->tail = head;
			break;
		}
		copy_out(p, ring, ring->tail + sizeof(header), bytes, header.size - sizeof(header));
		ring->tail += header.size;
		ring->has_next =
		    take_record(p, &header, bytes, header.size - sizeof(header), &ring->next);
	}
	if (ring->page->data_tail != ring->tail)
		__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
	return ring->has_next;
}

/* The ring with the oldest record until @until_ns; NULL: none has one. */
static struct ring *oldest(struct perf_records *p, uint64_t until_ns)
{
	struct ring *found = NULL;

	for (size_t i = 0; i < p->n_rings; i++) {
		struct ring *ring = &p->rings[i];

		if (ring->fd < 0 || !peek(p, ring) || ring->next.time_ns > until_ns)
			continue;
		until_ns = ring->next.time_ns;
		found = ring;
	}
	return found;
}

void perf_records_read(struct perf_records *p,
		       void (*each)(void *ctx, const struct perf_record *record), void *ctx)
{
	/* What comes meanwhile waits: of another CPU there may be something that came before. */
	uint64_t until_ns = clock_mono_ns();
	struct ring *ring;

	while ((ring = oldest(p, until_ns))) {
		each(ctx, &ring->next);
		free(ring->next.path);
		ring->next.path = NULL;
		ring->has_next = false;
	}
	watch_cpus(p);
}
