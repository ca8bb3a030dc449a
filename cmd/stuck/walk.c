// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stuck/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/bpf/double_buffer.h"
#include "probes/stuck.skel.h"

#define TICK_TIME_NS (NS_PER_SEC / 20) /* to measure the length of a tick by */

/* ---- running a program ---- */

static int run_program(const struct bpf_program *prog)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	int r = bpf_prog_test_run_opts(bpf_program__fd(prog), &opts);

	return !r && opts.retval ? -ENXIO : r;
}

/* Calls @each after every run, until the walk that @prog does is at its end.  -EAGAIN: it is not
 * after @most runs, or it has lost its way, as the list changed meanwhile. */
static int run_to_end(struct stuck_walk *w, const struct bpf_program *prog,
		      int (*each)(struct stuck_walk *w), size_t most)
{
	const struct stuck_result *result = &w->skel->bss->result;
	struct stuck_args *args = &w->skel->bss->args;

	args->node = 0;
	for (size_t i = 0; i < most; i++) {
		int r = run_program(prog);

		if (!r)
			r = each(w);
		if (r || result->broken)
			return r ? r : -EAGAIN;
		if (!result->node)
			return 0;
		args->node = result->node;
	}
	return -EAGAIN;
}

static void count(struct stuck_walk *w, enum stuck_loss loss)
{
	w->skel->bss->stuck_losses[loss]++;
}

/* ---- clocks ---- */

static int read_clock(struct stuck_walk *w)
{
	int r;

	w->skel->bss->args.list = STUCK_LISTS;
	r = run_program(w->skel->progs.walk_list);
	if (!r && !w->first.ns)
		w->first = w->skel->bss->result;
	return r;
}

/*
 * The scheduler notes times by a clock of its own, which NTP does not adjust: after weeks it may
 * differ from CLOCK_MONOTONIC by seconds.  This thread sleeps, and the scheduler notes when it got
 * its CPU back, microseconds before the program reads CLOCK_MONOTONIC: the shortest time counts.
 */
static int read_clocks(struct stuck_walk *w)
{
	const struct stuck_result *now = &w->skel->bss->result;
	int64_t ahead;
	int r;

	for (int i = 0; i < 4; i++) {
		usleep(1);
		r = read_clock(w);
		if (r)
			return r;
		ahead = (int64_t)(now->ns - now->arrival);
		if (!i || ahead < w->scheduler_ahead)
			w->scheduler_ahead = ahead;
	}
	w->ns = now->ns;
	w->ticks = now->ticks;
	return 0;
}

/* ---- disks ---- */

static int take_disks(struct stuck_walk *w)
{
	const struct stuck_disk *from = w->disks_map.at;

	for (uint32_t i = 0; i < w->skel->bss->result.n; i++) {
		struct stuck_disk *to = ARRAY_ADD(w->disks, w->n_disks);

		if (!to)
			return -ENOMEM;
		*to = from[i];
		to->suspended = 0;
		to->mapped[0] = 0;
	}
	w->skel->bss->args.number = (uint32_t)w->n_disks;
	return 0;
}

static int forget(void *ctx, const void *key, const void *value)
{
	(void)ctx;
	(void)key;
	(void)value;
	return 0;
}

/* The addresses of the last walk are addresses of something else by now. */
static int forget_addresses(struct stuck_walk *w)
{
	const struct bpf_map *maps[] = { w->skel->maps.addresses, w->skel->maps.page_addresses,
					 w->skel->maps.owners };
	int r = 0;

	for (size_t i = 0; !r && i < ARRAY_SIZE(maps); i++)
		r = double_buffer_drain_hash(bpf_map__fd(maps[i]), sizeof(uint64_t),
					     bpf_map__value_size(maps[i]), forget, NULL);
	return r;
}

#define DISK_WALKS 10	 /* while the list of disks changes */
#define DISKS_MOST 65536 /* in a list that never ends */

/* The kernel's list of disks has no lock here: where the next one is removed in this moment, the
 * walk begins again. */
static int list_disks(struct stuck_walk *w)
{
	int r = -EAGAIN;

	for (int i = 0; r == -EAGAIN && i < DISK_WALKS; i++) {
		r = forget_addresses(w);
		if (r)
			return r;
		w->n_disks = 0;
		w->skel->bss->args = (struct stuck_args){ .class_fd = (uint32_t)w->class_fd };
		r = run_to_end(w, w->skel->progs.list_disks, take_disks, DISKS_MOST / STUCK_BATCH);
	}
	if (r != -EAGAIN)
		return r;
	count(w, STUCK_LOSS_DISKS);
	return 0;
}

/* ---- requests ---- */

/* Devices may share their tags (SCSI hosts, NVMe namespaces).  A request belongs to the disk in
 * whose queue it is. */
static int take_requests(struct stuck_walk *w, uint32_t disk)
{
	const struct stuck_request *from = w->requests_map.at;

	for (uint32_t i = 0; i < w->skel->bss->result.n; i++) {
		struct stuck_found *to;

		if (w->n_requests == STUCK_REQUESTS_MOST) {
			count(w, STUCK_LOSS_FULL);
			continue;
		}
		to = ARRAY_ADD(w->requests, w->n_requests);
		if (!to)
			return -ENOMEM;
		*to = (struct stuck_found){ .r = from[i], .disk = disk };
	}
	w->skel->bss->args.number = (uint32_t)w->n_requests;
	return 0;
}

static int walk_tags(struct stuck_walk *w, uint32_t disk)
{
	struct stuck_args *args = &w->skel->bss->args;
	int r = 0;

	args->from = 0;
	do {
		r = run_program(w->skel->progs.walk_tags);
		if (!r)
			r = take_requests(w, disk);
		args->from += STUCK_BATCH;
	} while (!r && args->from < w->skel->bss->result.tags);
	return r;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct stuck_found *const *x = a, *const *y = b;

	return ((*x)->r.rq > (*y)->r.rq) - ((*x)->r.rq < (*y)->r.rq);
}

/* Sorts the disk's requests, from @first on, by their addresses.  0 or -ENOMEM. */
static int sort_requests(struct stuck_walk *w, size_t first)
{
	free(w->sorted);
	w->n_sorted = w->n_requests - first;
	w->sorted = calloc(w->n_sorted + 1, sizeof(void *));
	if (!w->sorted)
		return -ENOMEM;
	for (size_t i = 0; i < w->n_sorted; i++)
		w->sorted[i] = &w->requests[first + i];
	qsort(w->sorted, w->n_sorted, sizeof(void *), compare_addresses);
	return 0;
}

static struct stuck_found *find_request(const struct stuck_walk *w, uint64_t rq)
{
	struct stuck_found wanted = { .r.rq = rq }, *key = &wanted, **found;

	found = bsearch(&key, w->sorted, w->n_sorted, sizeof(void *), compare_addresses);
	return found ? *found : NULL;
}

static int take_list(struct stuck_walk *w)
{
	static const enum stuck_where wheres[STUCK_LISTS] = {
		[STUCK_LIST_DISPATCH] = STUCK_IN_DISPATCH, [STUCK_LIST_REQUEUE] = STUCK_IN_REQUEUE,
		[STUCK_LIST_FLUSH] = STUCK_IN_FLUSH,	   [STUCK_LIST_FLUSH_1] = STUCK_IN_FLUSH,
		[STUCK_LIST_FLUSHES] = STUCK_IN_QUEUE,
	};
	const enum stuck_where where = wheres[w->skel->bss->args.list];
	const uint64_t *from = w->listed_map.at;

	for (uint32_t i = 0; i < w->skel->bss->result.n; i++) {
		struct stuck_found *found = find_request(w, from[i]);

		/* A write may have come back from the device, and wait for the flush behind it. */
		if (found && (found->r.state == STUCK_NOT_ISSUED ||
			      (found->r.state == STUCK_COMPLETED && where == STUCK_IN_FLUSH)))
			found->where = where;
	}
	return 0;
}

static bool is_of_queue(uint32_t list)
{
	return list == STUCK_LIST_REQUEUE || list == STUCK_LIST_FLUSHES;
}

static int walk_lists(struct stuck_walk *w, uint32_t hw_queue)
{
	const size_t most = w->n_sorted / STUCK_LIST + 8; /* it may get some more meanwhile */
	int r = 0;

	for (uint32_t list = 0; !r && list < STUCK_LISTS; list++) {
		if (hw_queue && is_of_queue(list))
			continue;
		w->skel->bss->args.list = list;
		r = run_to_end(w, w->skel->progs.walk_list, take_list, most);
		/* It led into another list. */
		if (r == -EAGAIN) {
			count(w, STUCK_LOSS_CHANGED);
			r = 0;
		}
	}
	return r;
}

static void place(const struct stuck_disk *disk, struct stuck_found *found)
{
	if (found->r.state == STUCK_ISSUED)
		found->where = STUCK_AT_DEVICE;
	else if (found->r.state == STUCK_COMPLETED)
		found->where = STUCK_ENDED;
	else
		found->where = *disk->scheduler ? STUCK_IN_SCHEDULER : STUCK_IN_QUEUE;
}

/* Three for each CPU (nvme), of which a kernel has 8,192 at most. */
#define HW_QUEUES_MOST (3 * 8192)

static int walk_disk(struct stuck_walk *w, uint32_t disk)
{
	const struct stuck_disk *d = &w->disks[disk];
	const size_t first = w->n_requests;
	int r = 0;

	if (d->hw_queues > HW_QUEUES_MOST) {
		count(w, STUCK_LOSS_CHANGED);
		return 0;
	}
	w->skel->bss->args.queue = d->queue;
	for (uint32_t i = 0; !r && i < d->hw_queues; i++) {
		w->skel->bss->args.hw_queue = i;
		r = walk_tags(w, disk);
	}
	for (size_t i = first; i < w->n_requests; i++)
		place(d, &w->requests[i]);
	if (!r && w->n_requests > first)
		r = sort_requests(w, first);
	for (uint32_t i = 0; !r && w->n_requests > first && i < d->hw_queues; i++) {
		w->skel->bss->args.hw_queue = i;
		r = walk_lists(w, i);
	}
	return r;
}

/* ---- ages ---- */

/* The length of a tick (CONFIG_HZ): what passed since the first run, TICK_TIME_NS at least. */
static int read_tick(struct stuck_walk *w)
{
	static const unsigned int hz[] = { 100, 250, 300, 1000 };
	const struct stuck_result *now = &w->skel->bss->result;
	unsigned int best = hz[0];
	double per_second;
	int r;

	while (now->ns - w->first.ns < TICK_TIME_NS) {
		usleep((useconds_t)((TICK_TIME_NS - (now->ns - w->first.ns)) / 1000 + 1));
		r = read_clock(w);
		if (r)
			return r;
	}
	per_second = (double)(now->ticks - w->first.ticks) * (double)NS_PER_SEC /
		     (double)(now->ns - w->first.ns);
	for (size_t i = 0; i < ARRAY_SIZE(hz); i++)
		if ((per_second - hz[i]) * (per_second - hz[i]) <
		    (per_second - best) * (per_second - best))
			best = hz[i];
	w->tick_ns = NS_PER_SEC / best;
	return 0;
}

/* At least 1 where @then is known: what began after @now, during the walk, is young. */
static uint64_t since(uint64_t now, uint64_t then)
{
	if (!then)
		return 0;
	return now > then ? now - then : 1;
}

/*
 * By the deadline, which is the time-out after the issue: right to a tick until the first time-out.
 * A driver without a handler for that, or one that waits on, begins again.
 */
static void set_device_time(struct stuck_found *found, const struct stuck_walk *w)
{
	const uint64_t issued = found->r.deadline - found->r.timeout;

	if (!found->r.timeout)
		return;
	found->device_ns = w->ticks > issued ? (w->ticks - issued) * w->tick_ns : 1;
	found->at_least = !found->age_ns || found->age_ns > found->r.timeout * w->tick_ns;
}

static int set_ages(struct stuck_walk *w)
{
	int r = 0;

	for (size_t i = 0; !r && i < w->n_requests; i++) {
		struct stuck_found *found = &w->requests[i];

		found->age_ns = since(w->ns, found->r.start_ns);
		if (found->where != STUCK_AT_DEVICE && found->where != STUCK_ENDED)
			continue;
		found->device_ns = since(w->ns, found->r.io_start_ns);
		if (!found->device_ns && !w->tick_ns)
			r = read_tick(w);
		if (!found->device_ns && !r)
			set_device_time(found, w);
		/* By ticks; or a thread that issues the requests of others remembers what time it
		 * was (6.9, da4c8c3d0975). */
		if (found->age_ns && found->device_ns > found->age_ns)
			found->device_ns = found->age_ns;
	}
	return r;
}

/* ---- threads ---- */

/* A whole record of @fd, though it may come in pieces.  1, 0 at the end, or -errno. */
static int read_task(int fd, struct stuck_task *task)
{
	size_t got = 0;

	while (got < sizeof(*task)) {
		ssize_t n = read(fd, (char *)task + got, sizeof(*task) - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		got += (size_t)n;
	}
	return 1;
}

static int read_tasks(struct stuck_walk *w)
{
	const int fd = bpf_iter_create(w->tasks_link);
	struct stuck_task task, *to;
	int r;

	w->n_tasks = 0;
	if (fd < 0)
		return -errno;
	while ((r = read_task(fd, &task)) > 0) {
		if (w->n_tasks == STUCK_TASKS_MOST) {
			count(w, STUCK_LOSS_FULL);
			continue;
		}
		to = ARRAY_ADD(w->tasks, w->n_tasks);
		if (!to) {
			r = -ENOMEM;
			break;
		}
		*to = task;
		if (to->since_ns)
			to->since_ns += (uint64_t)w->scheduler_ahead;
	}
	close(fd);
	return r;
}

/* ---- who submitted by libaio ---- */

/* While a context ends, it is in no table any more: a thread waits for its requests. */
static const struct stuck_task *find_ending(const struct stuck_walk *w, uint64_t context)
{
	for (size_t i = 0; i < w->n_tasks; i++)
		if (context - w->tasks[i].stack_at < w->skel->rodata->thread_size)
			return &w->tasks[i];
	return NULL;
}

static void find_owner(const struct stuck_walk *w, struct stuck_request *r)
{
	const struct stuck_task *task;

	if (!bpf_map_lookup_elem(bpf_map__fd(w->skel->maps.owners), &r->context, &r->owner))
		return;
	task = find_ending(w, r->context);
	if (!task)
		return;
	r->owner.pid = task->pid;
	memcpy(r->owner.comm, task->comm, sizeof(r->owner.comm));
}

static void find_owners(struct stuck_walk *w)
{
	const struct stuck_request *last = NULL;

	for (size_t i = 0; i < w->n_requests; i++) {
		struct stuck_request *r = &w->requests[i].r;

		if (!r->context)
			continue;
		if (last && last->context == r->context)
			r->owner = last->owner;
		else
			find_owner(w, r);
		last = r;
	}
}

/* ---- all of it ---- */

static int walk(struct stuck_walk *w)
{
	int r = read_clocks(w);

	w->n_requests = 0;
	if (!r)
		r = list_disks(w);
	w->skel->bss->args.number = 0;
	for (uint32_t i = 0; !r && i < w->n_disks; i++)
		if (!w->disks[i].bios)
			r = walk_disk(w, i);
	if (!r)
		r = read_tasks(w);
	if (!r)
		find_owners(w);
	return r ? r : set_ages(w);
}

int stuck_walk(struct stuck_walk *w, struct error *err)
{
	int r = walk(w);

	return r ? error_set(err, STATUS_FAILED, r, "cannot walk the block devices: %s",
			     strerror(-r))
		 : 0;
}

int stuck_walk_open(struct stuck_walk *w, struct stuck_bpf *skel, struct error *err)
{
	int r;

	*w = (struct stuck_walk){ .skel = skel, .class_fd = -1, .tasks_link = -1 };
	w->class_fd = open("/sys/class/block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->class_fd < 0)
		return error_set(err, STATUS_FAILED, -errno, "cannot open /sys/class/block: %s",
				 strerror(errno));
	w->tasks_link =
	    bpf_link_create(bpf_program__fd(skel->progs.stuck_tasks), 0, BPF_TRACE_ITER, NULL);
	if (w->tasks_link < 0)
		return error_set(err, STATUS_FAILED, -errno, "cannot walk the threads: %s",
				 strerror(errno));
	r = maps_map_array(skel->maps.disks, false, &w->disks_map);
	if (!r)
		r = maps_map_array(skel->maps.requests, false, &w->requests_map);
	if (!r)
		r = maps_map_array(skel->maps.listed, false, &w->listed_map);
	return r ? error_set(err, STATUS_FAILED, r, "cannot use BPF maps") : 0;
}

void stuck_walk_close(struct stuck_walk *w)
{
	if (!w->skel)
		return;
	if (w->class_fd >= 0)
		close(w->class_fd);
	if (w->tasks_link >= 0)
		close(w->tasks_link);
	maps_unmap(&w->disks_map);
	maps_unmap(&w->requests_map);
	maps_unmap(&w->listed_map);
	free(w->disks);
	free(w->requests);
	free(w->sorted);
	free(w->tasks);
}
