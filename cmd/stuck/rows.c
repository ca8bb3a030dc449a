// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stuck/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/block/blk.h"
#include "cmd/block/files.h"
#include "cmd/stuck/waits.h"
#include "core/base/array.h"
#include "output/columns.h"

const char stuck_kind_request[] = STUCK_KIND_REQUEST, stuck_kind_disk[] = STUCK_KIND_DISK,
	   stuck_kind_threads[] = "threads";

/* ---- columns ---- */

static void text_seconds(uint64_t ns, char *buf, size_t size)
{
	if (ns)
		snprintf(buf, size, "%.2f", (double)ns / 1e9);
	else
		snprintf(buf, size, "-");
}

static void cell_at_least(const struct stuck_row *row, uint64_t ns, char *buf, size_t size)
{
	char text[32];

	text_seconds(ns, text, sizeof(text));
	snprintf(buf, size, "%s%s", row->at_least ? ">=" : "", text);
}

static void cell_device(const void *row, char *buf, size_t size)
{
	cell_at_least(row, ((const struct stuck_row *)row)->device_ns, buf, size);
}

static void cell_oldest(const void *row, char *buf, size_t size)
{
	cell_at_least(row, ((const struct stuck_row *)row)->age_ns, buf, size);
}

static void cell_letter(const void *row, char *buf, size_t size)
{
	snprintf(buf, size, "%c", (char)((const struct stuck_row *)row)->letter);
}

/* "fio[123] and 4 more"; "fio[123] async" of a request that none waits for */
static void cell_waiters(const void *row, char *buf, size_t size)
{
	const struct stuck_row *r = row;

	if (!r->pid)
		snprintf(buf, size, "-");
	else if (!r->threads)
		snprintf(buf, size, "%s[%u] async", r->comm, r->pid);
	else if (r->threads == 1)
		snprintf(buf, size, "%s[%u]", r->comm, r->pid);
	else
		snprintf(buf, size, "%s[%u] and %u more", r->comm, r->pid, r->threads - 1);
}

#define ROW struct stuck_row

static const struct column all_columns[] = {
	LABEL(kind, NULL, 0,
	      "what the row is about: a request, a disk, or threads that wait with the same stack"),
	LABEL(disk, "DISK", 6, "disk, named as in /proc/diskstats"),
	LABEL(where, "WHERE", 9, "where the request is; what the threads wait for"),
	LABEL(op, NULL, 0, "operation of the request, as in iotrace top"),
	GAUGE(age_ns, "AGEs", 8, "ns",
	      "since the request was made, or the thread last had a CPU (the longest of the "
	      "threads); 0: not known",
	      .text = text_seconds),
	GAUGE(device_ns, NULL, 0, "ns", "since the request was issued; 0: it was not"),
	LABEL(at_least, NULL, 0, "device_ns (of a disk: age_ns) is a lower bound"),
	LABEL(sector, NULL, 0, "where the request begins on the disk, in 512 bytes"),
	GAUGE(bytes, NULL, 0, "bytes", "size of the request"),
	LABEL(tag, NULL, 0, "tag of the request, as in debugfs"),
	GAUGE(threads, "THREADS", 7, "", "threads of the group; threads that wait for the request"),
	GAUGE(in_flight, NULL, 0, "", "of a disk: requests at the device"),
	GAUGE(queued, NULL, 0, "", "of a disk: its other requests"),
	GAUGE(held, NULL, 0, "", "of a disk: bios that io.max holds back"),
	GAUGE(frozen, NULL, 0, "", "of a disk: how often its queue is frozen"),
	GAUGE(suspended, NULL, 0, "", "of a disk: 1: device mapper has suspended it"),
	LABEL(scheduler, NULL, 0, "of a disk: its I/O scheduler"),
	LABEL(mapped, NULL, 0, "name of the disk in device mapper"),
	LABEL(pid, NULL, 0,
	      "process of the first of these threads; without a thread: that submitted the request "
	      "by libaio or io_uring; 0: not known"),
	LABEL(comm, "COMM", 16, "its name"),
	LABEL(holder, NULL, 0,
	      "process that holds the lock that the threads wait for; 0: not known"),
	LABEL(holder_comm, NULL, 0, "its name"),
	LABEL(cgroup, NULL, 0, "control group that the request is charged to, or of the thread"),
	LABEL(unit, NULL, 0, "systemd unit of that control group"),
	LABEL(container, NULL, 0, "container of that control group"),
	LABEL(file, "FILE", 4,
	      "path of the file that it is about; in [brackets]: why the file is unknown"),
	STATE(letter, "", "character that stands for op in text"),
	STACK(kernel, "functions of the kernel that the threads are in, the innermost first"),
};

static const struct column request_columns[] = {
	LABEL(disk, "DISK", 6, ""),
	GAUGE(age_ns, "AGEs", 8, "ns", "", .text = text_seconds),
	GAUGE(device_ns, "DEVICEs", 8, "ns", "", .cell = cell_device),
	LABEL(where, "WHERE", 9, ""),
	LABEL(op, "D", 1, "", .cell = cell_letter),
	GAUGE(bytes, "KBYTES", 6, "bytes", "", .text = column_kbytes),
	COLUMN(GAUGE, "sector", sector, "SECTOR", 9, "", ""),
	COLUMN(GAUGE, "tag", tag, "TAG", 4, "", ""),
	LABEL(comm, "WAITING", 16, "", .cell = cell_waiters),
	LABEL(unit, "UNIT", 8, ""),
	LABEL(file, "FILE", 4, ""),
};

static const struct column disk_columns[] = {
	LABEL(disk, "DISK", 6, ""),
	GAUGE(in_flight, "DEVICE", 6, "", ""),
	GAUGE(queued, "QUEUED", 6, "", ""),
	GAUGE(held, "HELD", 6, "", ""),
	GAUGE(frozen, "FROZEN", 6, "", ""),
	GAUGE(age_ns, "OLDESTs", 8, "ns", "", .cell = cell_oldest),
	LABEL(scheduler, "SCHEDULER", 9, ""),
	LABEL(mapped, "MAPPED", 6, ""),
};

const struct schema stuck_schema = SCHEMA(all_columns, struct stuck_row),
		    stuck_request_schema = SCHEMA(request_columns, struct stuck_row),
		    stuck_disk_schema = SCHEMA(disk_columns, struct stuck_row);

/* ---- stacks ---- */

struct stack_text {
	struct stack_text *next;
	size_t n;
	const char *names[];
};

#define STACK_NAMES (STUCK_DEPTH + 1)

/*
 * The kernel leaves the functions by which a thread goes to sleep (down_write, io_schedule) out of
 * its stack: the first of these, by the call to it.  NULL: not known.
 */
static const char *name_called(const struct stuck_task *task, const struct kallsyms *kallsyms)
{
	static const char padding[] = "__pfx_"; /* calls may begin in it (6.2, e81dc127ef69) */
	const char *name = NULL;

	if (kallsyms && task->called)
		name = kallsyms_name(kallsyms, task->called);
	if (name && strncmp(name, padding, strlen(padding)) == 0)
		name += strlen(padding);
	return name;
}

/* The functions of @task, in texts.  Returns how many. */
static size_t name_stack(struct text_set *texts, const struct stuck_task *task,
			 const struct kallsyms *kallsyms, const char *names[STACK_NAMES])
{
	const char *called = name_called(task, kallsyms);
	size_t n = 0;

	if (called && (names[0] = text_keep(texts, called)))
		n++;
	for (size_t i = 0; i < task->depth && i < STUCK_DEPTH; i++) {
		const char *name = kallsyms ? kallsyms_name(kallsyms, task->stack[i]) : NULL;

		names[n] = text_keep(texts, name ? name : "?");
		if (!names[n])
			break;
		n++;
	}
	return n;
}

static const char *next_function(const void *owner, uint32_t *at)
{
	const struct stack_text *stack = owner;

	return *at < stack->n ? stack->names[(*at)++] : NULL;
}

static struct frames keep_stack(struct stuck_rows *rows, const char *const *names, size_t n)
{
	struct stack_text *stack = calloc(1, sizeof(*stack) + n * sizeof(names[0]));

	if (!stack)
		return (struct frames){ NULL };
	stack->n = n;
	if (n)
		memcpy(stack->names, names, n * sizeof(names[0]));
	stack->next = rows->stacks;
	rows->stacks = stack;
	return (struct frames){ next_function, stack, 0 };
}

/* ---- threads ---- */

/* A thread with what its stack says. */
struct waiting {
	const struct stuck_task *task;
	const struct wait_reason *reason;
	const char *names[STACK_NAMES];
	size_t depth;
	size_t own;			   /* the first that is not one by which it went to sleep */
	const struct stuck_found *request; /* NULL: of none, or not known */
	const struct stuck_disk *disk;	   /* the same */
	struct waiting *next_alike;	   /* those with the same stack */
	bool is_alike;			   /* it is in such a list */
};

/* The file whose page @task waits for, or which its system call is about. */
static const struct bio_file *file_of(const struct stuck_task *task)
{
	return task->awaited.kind ? &task->awaited : &task->call_file;
}

/* The device that this file is, or is on; 0: not known. */
static uint32_t dev_of(const struct stuck_task *task)
{
	return task->awaited.kind ? task->awaited.dev : task->call_dev;
}

/* The disk that its file is on; NULL: on none, or that is not known. */
static const struct stuck_disk *
disk_of_file(const struct stuck_walk *w, const struct stuck_input *t, const struct stuck_task *task)
{
	const uint32_t dev = dev_of(task);
	const char *name = dev ? disks_whole_name(t->names.disks, dev) : NULL;

	for (size_t i = 0; name && i < w->n_disks; i++)
		if (strcmp(w->disks[i].name, name) == 0)
			return &w->disks[i];
	return NULL;
}

static void read_waiting(struct stuck_rows *rows, const struct stuck_walk *w,
			 const struct stuck_input *t, const struct stuck_task *task,
			 struct waiting *out)
{
	*out = (struct waiting){ .task = task };
	out->depth = name_stack(&rows->texts, task, t->kallsyms, out->names);
	out->own = out->depth > task->depth;
	if (t->kallsyms)
		out->reason = waits_reason(out->names, out->depth);
	else if (task->request.kind || task->awaited.kind)
		out->reason = &wait_io; /* most likely: functions have no names */
	/* A thread that waits for something else still has the addresses of earlier I/O. */
	if (out->reason && out->reason->io && task->request.kind == STUCK_REQUEST &&
	    task->request.number < w->n_requests)
		out->request = &w->requests[task->request.number];
	if (out->request && out->request->disk < w->n_disks)
		out->disk = &w->disks[out->request->disk];
	else if (task->disk.kind == STUCK_DISK && task->disk.number < w->n_disks)
		out->disk = &w->disks[task->disk.number];
	else
		out->disk = disk_of_file(w, t, task);
}

/*
 * The thread of a journal writes the log for all threads that wait for its transaction: they wait
 * for the request that it waits for.  It is found by its name, which has the device, and is cut at
 * 15 bytes: "jbd2/nvme0n1p1-".
 */
static const struct waiting *journal_of(const struct waiting *thread, const struct stuck_walk *w,
					const struct stuck_input *t, const struct waiting *threads)
{
	const uint32_t dev = dev_of(thread->task);
	char comm[80];

	if (!dev)
		return NULL;
	snprintf(comm, sizeof(comm), "jbd2/%s-", disks_name(t->names.disks, dev));
	comm[sizeof(thread->task->comm) - 1] = 0;
	for (size_t i = 0; i < w->n_tasks; i++)
		if (threads[i].task->kernel && threads[i].request &&
		    strncmp(threads[i].task->comm, comm, strlen(comm)) == 0)
			return &threads[i];
	return NULL;
}

static void follow_journals(struct waiting *threads, const struct stuck_walk *w,
			    const struct stuck_input *t)
{
	for (size_t i = 0; i < w->n_tasks; i++) {
		const struct waiting *journal = NULL;

		if (threads[i].reason && threads[i].reason->journal)
			journal = journal_of(&threads[i], w, t, threads);
		if (journal)
			threads[i].request = journal->request;
	}
}

/* 0: not known. */
static uint64_t age_of(const struct stuck_task *task)
{
	if (!task->since_ns)
		return 0;
	return task->now_ns > task->since_ns ? task->now_ns - task->since_ns : 1;
}

/* In words, with what is known of the disk. */
static const char *reason_text(const struct waiting *thread)
{
	const struct stuck_disk *disk = thread->disk;
	const char *server;

	if (!thread->reason)
		return thread->depth > thread->own ? thread->names[thread->own] : "?";
	if (!thread->reason->io)
		return thread->reason->what;
	if (thread->request)
		return "request";
	server = waits_server(thread->task->awaited.magic);
	if (server)
		return server;
	if (thread->task->awaited.kind)
		return "page of the file";
	if (disk && disk->held)
		return "io.max";
	if (disk && disk->frozen)
		return "frozen queue";
	if (disk && disk->suspended)
		return "suspended device";
	if (disk && disk->bios)
		return "bio-based device";
	return "I/O";
}

static bool is_alike(const struct waiting *a, const struct waiting *b)
{
	return a->depth == b->depth && a->disk == b->disk && a->reason == b->reason &&
	       !a->request == !b->request && a->task->holder == b->task->holder &&
	       memcmp(a->names, b->names, a->depth * sizeof(a->names[0])) == 0;
}

/* ---- names ---- */

static const char *keep_name(struct stuck_rows *rows, const struct stuck_input *t, uint64_t cgroup,
			     enum cgroup_name what)
{
	return text_keep(&rows->texts, cgroups_name(t->names.cgroups, cgroup, what));
}

/* False without memory. */
static bool name_cgroup(struct stuck_rows *rows, const struct stuck_input *t, uint64_t cgroup,
			struct stuck_row *row)
{
	row->cgroup = text_keep(&rows->texts, cgroups_path(t->names.cgroups, cgroup));
	row->unit = keep_name(rows, t, cgroup, CGROUP_UNIT);
	row->container = keep_name(rows, t, cgroup, CGROUP_CONTAINER);
	return row->cgroup && row->unit && row->container;
}

static const char *name_file(struct stuck_rows *rows, const struct stuck_input *t,
			     const struct bio_file *file, const char *path, uint32_t path_bytes,
			     uint8_t path_flags)
{
	const struct file_record record = {
		.kind = (uint8_t)file->kind,
		.path_flags = path_flags,
		.dev = file->dev,
		.inode = file->inode,
		.magic = file->magic,
		.path = path,
		.path_bytes = path_bytes,
	};

	return files_text(&rows->texts, &record, t->names.mounts, t->names.disks);
}

/* ---- rows ---- */

static struct stuck_row *add_row(struct stuck_rows *rows, const char *kind)
{
	struct stuck_row *row = ARRAY_ADD(rows->rows, rows->n);

	if (row)
		*row = (struct stuck_row){ .kind = kind,
					   .disk = "-",
					   .where = "-",
					   .op = "",
					   .letter = '-',
					   .scheduler = "",
					   .mapped = "",
					   .comm = "",
					   .holder_comm = "",
					   .cgroup = "-",
					   .unit = "-",
					   .container = "-",
					   .file = "" };
	return row;
}

/* False without memory. */
static bool name_disk(struct stuck_rows *rows, const struct stuck_disk *disk, struct stuck_row *row)
{
	row->disk = text_keep(&rows->texts, disk->name);
	row->mapped = text_keep(&rows->texts, disk->mapped);
	return row->disk && row->mapped;
}

static bool is_wanted(const struct stuck_input *t, const struct stuck_disk *disk)
{
	for (size_t i = 0; disk && i < t->n_devs; i++)
		if (disk->dev == t->devs[i])
			return true;
	return !t->n_devs;
}

static uint64_t longest_known(const struct stuck_found *found)
{
	return found->age_ns ? found->age_ns : found->device_ns;
}

static bool is_old(const struct stuck_found *found, const struct stuck_input *t)
{
	const uint64_t age = longest_known(found);

	/* Where no time is known nothing says that it is young. */
	return !age || age >= t->min_ns;
}

static const char *const where_texts[STUCK_WHERES] = {
	[STUCK_AT_DEVICE] = "device",	    [STUCK_ENDED] = "completed",
	[STUCK_IN_SCHEDULER] = "scheduler", [STUCK_IN_DISPATCH] = "dispatch",
	[STUCK_IN_REQUEUE] = "requeue",	    [STUCK_IN_FLUSH] = "flush",
	[STUCK_IN_QUEUE] = "queued",
};

/* The threads that wait for a request. */
struct waiters {
	const struct waiting *first;
	uint32_t n;
};

static int request_row(struct stuck_rows *rows, const struct stuck_walk *w,
		       const struct stuck_input *t, const struct stuck_found *found,
		       const struct waiters *waiters)
{
	const struct stuck_request *r = &found->r;
	struct stuck_row *row = add_row(rows, stuck_kind_request);
	bool named;

	if (!row)
		return -ENOMEM;
	row->where = where_texts[found->where];
	row->op = blk_op_name(r->op);
	row->letter = (unsigned char)blk_op_letter(r->op);
	row->age_ns = found->age_ns;
	row->device_ns = found->device_ns;
	row->at_least = found->at_least;
	row->sector = r->bytes ? r->sector : 0;
	row->bytes = r->bytes;
	row->tag = (uint32_t)r->tag;
	named =
	    name_disk(rows, &w->disks[found->disk], row) && name_cgroup(rows, t, r->cgroup, row);
	row->file = name_file(rows, t, &r->file, r->path, r->path_bytes, r->path_flags);
	row->threads = waiters->n;
	if (waiters->n) {
		row->pid = waiters->first->task->pid;
		row->comm = text_keep(&rows->texts, waiters->first->task->comm);
	} else if (r->owner.pid) {
		row->pid = r->owner.pid;
		row->comm = text_keep(&rows->texts, r->owner.comm);
	}
	return named && row->file && row->comm ? 0 : -ENOMEM;
}

/* A disk that is not idle; @sums: its requests. */
static int disk_row(struct stuck_rows *rows, const struct stuck_walk *w, uint32_t disk,
		    const struct stuck_row *sums)
{
	const struct stuck_disk *d = &w->disks[disk];
	struct stuck_row *row;

	if (!d->held && !d->frozen && !d->suspended && !sums->queued && !sums->in_flight)
		return 0;
	row = add_row(rows, stuck_kind_disk);
	if (!row)
		return -ENOMEM;
	row->held = d->held;
	row->suspended = d->suspended;
	row->frozen = d->frozen;
	row->queued = sums->queued;
	row->in_flight = sums->in_flight;
	row->age_ns = sums->age_ns;
	row->at_least = sums->at_least;
	row->scheduler = text_keep(&rows->texts, *d->scheduler ? d->scheduler : "none");
	return name_disk(rows, d, row) && row->scheduler ? 0 : -ENOMEM;
}

static int disk_rows(struct stuck_rows *rows, const struct stuck_walk *w,
		     const struct stuck_input *t)
{
	struct stuck_row *sums = calloc(w->n_disks + 1, sizeof(*sums)), *sum;
	int r = sums ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < w->n_requests; i++) {
		const struct stuck_found *found = &w->requests[i];

		sum = &sums[found->disk];
		if (found->where == STUCK_AT_DEVICE)
			sum->in_flight++;
		else
			sum->queued++;
		if (longest_known(found) > sum->age_ns) {
			sum->age_ns = longest_known(found);
			sum->at_least = !found->age_ns && found->at_least;
		}
	}
	for (uint32_t i = 0; !r && i < w->n_disks; i++)
		if (is_wanted(t, &w->disks[i]))
			r = disk_row(rows, w, i, &sums[i]);
	free(sums);
	return r;
}

static int request_rows(struct stuck_rows *rows, const struct stuck_walk *w,
			const struct stuck_input *t, const struct waiting *threads)
{
	struct waiters *waiters = calloc(w->n_requests + 1, sizeof(*waiters));
	int r = waiters ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < w->n_tasks; i++)
		if (threads[i].request && !waiters[threads[i].request - w->requests].n++)
			waiters[threads[i].request - w->requests].first = &threads[i];
	for (size_t i = 0; !r && i < w->n_requests; i++) {
		const struct stuck_found *found = &w->requests[i];

		if (is_wanted(t, &w->disks[found->disk]) && is_old(found, t))
			r = request_row(rows, w, t, found, &waiters[i]);
	}
	free(waiters);
	return r;
}

static int threads_row(struct stuck_rows *rows, const struct stuck_input *t,
		       const struct waiting *first)
{
	struct stuck_row *row = add_row(rows, stuck_kind_threads);
	const struct stuck_task *task = first->task;
	bool named;

	if (!row)
		return -ENOMEM;
	if (first->disk && !name_disk(rows, first->disk, row))
		return -ENOMEM;
	row->where = reason_text(first);
	row->pid = task->pid;
	row->comm = text_keep(&rows->texts, task->comm);
	row->holder = task->holder;
	if (task->holder)
		row->holder_comm = text_keep(&rows->texts, task->holder_comm);
	row->sector = first->request ? first->request->r.sector : 0;
	for (const struct waiting *each = first; each; each = each->next_alike) {
		row->threads++;
		if (age_of(each->task) > row->age_ns)
			row->age_ns = age_of(each->task);
	}
	named = name_cgroup(rows, t, task->cgroup, row);
	row->file =
	    name_file(rows, t, file_of(task), task->path, task->path_bytes, task->path_flags);
	row->kernel = keep_stack(rows, first->names, first->depth);
	return named && row->comm && row->holder_comm && row->file && row->kernel.next ? 0
										       : -ENOMEM;
}

/* Lists those with the same stack below the first of them. */
static void group_threads(struct waiting *threads, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct waiting **last = &threads[i].next_alike;

		for (size_t j = i + 1; !threads[i].is_alike && j < n; j++) {
			if (threads[j].is_alike || !is_alike(&threads[i], &threads[j]))
				continue;
			threads[j].is_alike = true;
			*last = &threads[j];
			last = &threads[j].next_alike;
		}
	}
}

/* Has one of them waited long enough?  If that is not known, nothing says that it is too short. */
static bool is_old_group(const struct waiting *first, const struct stuck_input *t)
{
	for (const struct waiting *each = first; each; each = each->next_alike)
		if (!each->task->since_ns || age_of(each->task) >= t->min_ns)
			return true;
	return false;
}

static int thread_rows(struct stuck_rows *rows, const struct stuck_walk *w,
		       const struct stuck_input *t, struct waiting *threads)
{
	int r = 0;

	group_threads(threads, w->n_tasks);
	for (size_t i = 0; !r && i < w->n_tasks; i++)
		if (!threads[i].is_alike && is_wanted(t, threads[i].disk) &&
		    is_old_group(&threads[i], t))
			r = threads_row(rows, t, &threads[i]);
	return r;
}

/* What has waited longest comes first, disks by their order, and then threads. */
static int compare(const void *a, const void *b)
{
	const struct stuck_row *x = a, *y = b;

	if (x->kind != y->kind) {
		if (x->kind == stuck_kind_request || y->kind == stuck_kind_threads)
			return -1;
		return 1;
	}
	return (x->age_ns < y->age_ns) - (x->age_ns > y->age_ns);
}

int stuck_rows_make(struct stuck_rows *rows, const struct stuck_walk *w,
		    const struct stuck_input *t)
{
	struct waiting *threads = calloc(w->n_tasks + 1, sizeof(*threads));
	int r = threads ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < w->n_tasks; i++)
		read_waiting(rows, w, t, &w->tasks[i], &threads[i]);
	if (!r)
		follow_journals(threads, w, t);
	if (!r)
		r = request_rows(rows, w, t, threads);
	if (!r)
		r = disk_rows(rows, w, t);
	if (!r)
		r = thread_rows(rows, w, t, threads);
	if (!r && rows->n)
		qsort(rows->rows, rows->n, sizeof(*rows->rows), compare);
	free(threads);
	return r;
}

void stuck_rows_clear(struct stuck_rows *rows)
{
	while (rows->stacks) {
		struct stack_text *next = rows->stacks->next;

		free(rows->stacks);
		rows->stacks = next;
	}
	rows->n = 0;
	text_set_free(&rows->texts);
}

void stuck_rows_free(struct stuck_rows *rows)
{
	stuck_rows_clear(rows);
	free(rows->rows);
	rows->rows = NULL;
}
