// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/perf_records.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/cpus.h"
#include "core/disks.h"

/* Of all CPUs together; a machine with many has less for each. */
#define ALL_BUFFERS (8U << 20)
#define MOST_PAGES  64

struct ring {
	int fd;
	struct perf_event_mmap_page *page;
};

struct perf_records {
	struct ring *rings;
	size_t n_rings;
	size_t page_size, data_size;
	uint64_t lost;
	struct perf_record *list; /* of one read */
	size_t n, room;
};

static int open_event(int cpu, bool build_ids)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
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
	struct ring *ring = &p->rings[p->n_rings];
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
	ring->fd = fd;
	ring->page = page;
	p->n_rings++;
	return 0;
}

int perf_records_open(struct perf_records **out)
{
	struct perf_records *p = calloc(1, sizeof(*p));
	size_t cpus = cpus_possible(), pages = MOST_PAGES;
	int r;

	if (!p)
		return -ENOMEM;
	p->page_size = (size_t)sysconf(_SC_PAGESIZE);
	while (pages > 4 && pages * p->page_size * cpus > ALL_BUFFERS)
		pages /= 2;
	p->data_size = pages * p->page_size;
	p->rings = calloc(cpus, sizeof(*p->rings));
	r = p->rings ? 0 : -ENOMEM;
	for (size_t cpu = 0; !r && cpu < cpus; cpu++) {
		r = open_ring(p, (int)cpu);
		if (r == -ENODEV) /* a CPU that is not there now */
			r = 0;
	}
	if (!r && !p->n_rings)
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
	for (size_t i = 0; i < p->n_rings; i++) {
		munmap(p->rings[i].page, p->page_size + p->data_size);
		close(p->rings[i].fd);
	}
	free(p->rings);
	free(p->list);
	free(p);
}

uint64_t perf_records_lost(const struct perf_records *p)
{
	return p->lost;
}

static struct perf_record *new_record(struct perf_records *p)
{
	if (p->n == p->room) {
		size_t room = p->room ? 2 * p->room : 256;
		struct perf_record *grown = realloc(p->list, room * sizeof(*grown));

		if (!grown)
			return NULL;
		p->list = grown;
		p->room = room;
	}
	memset(&p->list[p->n], 0, sizeof(*p->list));
	return &p->list[p->n++];
}

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

/* @at: what follows the header, @size bytes; pid, tid and time come last in every record. */
static int take_record(struct perf_records *p, const struct perf_event_header *header,
		       const char *at, size_t size)
{
	struct perf_record made = { 0 }, *record;
	uint32_t tid = 0;
	uint64_t lost;

	if (header->type == PERF_RECORD_LOST && size >= 16) {
		TAKE(lost, at, 8);
		p->lost += lost;
		return 0;
	}
	if (size < 24)
		return 0;
	TAKE(made.pid, at, 0);
	TAKE(made.time_ns, at, size - 8);
	if (header->type == PERF_RECORD_MMAP2 && size > MAPPED_PATH + 16) {
		made.kind = PERF_MAPPED;
		read_mapped(&made, at, size - 16, header->misc);
	} else if (header->type == PERF_RECORD_COMM &&
		   (header->misc & PERF_RECORD_MISC_COMM_EXEC)) {
		made.kind = PERF_EXEC;
	} else if (header->type == PERF_RECORD_FORK || header->type == PERF_RECORD_EXIT) {
		made.kind = header->type == PERF_RECORD_FORK ? PERF_FORK : PERF_EXIT;
		TAKE(made.parent, at, 4);
		TAKE(tid, at, 8);
		if (tid != made.pid)
			return 0; /* a thread */
	} else {
		return 0;
	}
	record = (int32_t)made.pid < 0 ? NULL : new_record(p);
	if (!record) {
		free(made.path);
		return (int32_t)made.pid < 0 ? 0 : -ENOMEM;
	}
	*record = made;
	return 0;
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

static int read_ring(struct perf_records *p, struct ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;
	struct perf_event_header header;
	char bytes[65536];
	int r = 0;

	while (!r && tail < head) {
		copy_out(p, ring, tail, &header, sizeof(header));
		if (header.size < sizeof(header))
			break;
		copy_out(p, ring, tail + sizeof(header), bytes, header.size - sizeof(header));
		r = take_record(p, &header, bytes, header.size - sizeof(header));
		tail += header.size;
	}
	__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
	return r;
}

static int by_time(const void *a, const void *b)
{
	const struct perf_record *x = a, *y = b;

	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

int perf_records_read(struct perf_records *p,
		      void (*each)(void *ctx, const struct perf_record *record), void *ctx)
{
	int r = 0;

	for (size_t i = 0; i < p->n_rings; i++) {
		int code = read_ring(p, &p->rings[i]);

		r = code ? code : r;
	}
	if (p->n)
		qsort(p->list, p->n, sizeof(*p->list), by_time);
	for (size_t i = 0; i < p->n; i++) {
		if (p->list[i].kind != PERF_MAPPED || p->list[i].path)
			each(ctx, &p->list[i]);
		free(p->list[i].path);
	}
	p->n = 0;
	return r;
}
