// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/uring/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/columns.h"
#include "core/base/array.h"

/* ---- names ---- */

/* enum io_uring_op, include/uapi/linux/io_uring.h of 7.3: numbers never change. */
static const char *const names[] = {
	"nop",
	"readv",
	"writev",
	"fsync",
	"read_fixed",
	"write_fixed",
	"poll_add",
	"poll_remove",
	"sync_file_range",
	"sendmsg",
	"recvmsg",
	"timeout",
	"timeout_remove",
	"accept",
	"async_cancel",
	"link_timeout",
	"connect",
	"fallocate",
	"openat",
	"close",
	"files_update",
	"statx",
	"read",
	"write",
	"fadvise",
	"madvise",
	"send",
	"recv",
	"openat2",
	"epoll_ctl",
	"splice",
	"provide_buffers",
	"remove_buffers",
	"tee",
	"shutdown",
	"renameat",
	"unlinkat",
	"mkdirat",
	"symlinkat",
	"linkat",
	"msg_ring",
	"fsetxattr",
	"setxattr",
	"fgetxattr",
	"getxattr",
	"socket",
	"uring_cmd",
	"send_zc",
	"sendmsg_zc",
	"read_multishot",
	"waitid",
	"futex_wait",
	"futex_wake",
	"futex_waitv",
	"fixed_fd_install",
	"ftruncate",
	"bind",
	"listen",
	"recv_zc",
	"epoll_wait",
	"readv_fixed",
	"writev_fixed",
	"pipe",
	"nop128",
	"uring_cmd128",
};

const char *uring_op_name(uint32_t opcode, char buf[URING_OP_SIZE])
{
	if (opcode < ARRAY_SIZE(names))
		return names[opcode];
	if (opcode == URING_UNKNOWN)
		return "(unknown)";
	if (opcode == URING_NO_REQUEST)
		return "(no request)";
	snprintf(buf, URING_OP_SIZE, "op %u", opcode);
	return buf;
}

/* ---- columns ---- */

static void cell_ring(const void *row, char *buf, size_t size)
{
	const struct uring_row *r = row;

	snprintf(buf, size, "%.15s%s%s", r->ring, strstr(r->mode, "sqpoll") ? "sq" : "",
		 strstr(r->mode, "iopoll") ? "io" : "");
}

/* Many take some microseconds. */
static void put_ms(double ns, char *buf, size_t size)
{
	snprintf(buf, size, "%.3f", ns / 1e6);
}

/* Of several rows of the full screen, the figures of all of them. */
static void cell_average(const void *row, char *buf, size_t size)
{
	const struct uring_row *r = row;

	if (r->timed)
		put_ms((double)r->time_ns / (double)r->timed, buf, size);
	else
		snprintf(buf, size, "-");
}

static void put_percentile(const void *row, unsigned int permille, char *buf, size_t size)
{
	const struct hist *latency = ((const struct uring_row *)row)->latency;

	if (latency)
		put_ms((double)hist_percentile(latency, permille), buf, size);
	else
		snprintf(buf, size, "-");
}

static void cell_p50(const void *row, char *buf, size_t size)
{
	put_percentile(row, 500, buf, size);
}

static void cell_p99(const void *row, char *buf, size_t size)
{
	put_percentile(row, 990, buf, size);
}

static void cell_max(const void *row, char *buf, size_t size)
{
	put_percentile(row, 1000, buf, size);
}

#define ROW struct uring_row

static const struct column columns[] = {
	LABEL(pid, "PID", 6, "process that submitted the requests"),
	LABEL(comm, "COMM", 8, "its name when it used the ring first; empty: unknown"),
	LABEL(ring, "RING", 4,
	      "file descriptor of the ring in that process; ?: unknown, or registered only",
	      .cell = cell_ring),
	LABEL(mode, NULL, 0,
	      "sqpoll: a kernel thread reads the submissions; iopoll: completions are polled"),
	LABEL(op, "OP", 10, "operation, IORING_OP_* of io_uring_enter(2)"),
	COUNTER(count, "COUNT", 6, "requests", "requests that completed in the interval",
		.rate = "COUNT/s"),
	COUNTER(timed, NULL, 0, "requests", "of these, requests whose time is known"),
	COUNTER(time_ns, "AVGms", 7, "ns",
		"sum of their times from submission to completion; text shows the average",
		.cell = cell_average),
	GAUGE(p50_ns, "P50ms", 7, "ns", "50th percentile of the times, accurate to 1/16",
	      .cell = cell_p50, .spare = true),
	GAUGE(p99_ns, "P99ms", 7, "ns", "99th percentile of the times, accurate to 1/16",
	      .cell = cell_p99),
	GAUGE(max_ns, "MAXms", 7, "ns", "longest of these times", .cell = cell_max, .spare = true),
	COUNTER(inlined, "INLINE", 6, "requests", "requests that completed while being submitted",
		.rate = "INLINE/s"),
	COUNTER(polled, "POLLED", 6, "requests",
		"requests that waited until their file was ready, or that IOPOLL completed",
		.rate = "POLLED/s"),
	COUNTER(workers, "WORKER", 6, "requests", "requests given to a worker (kernel thread)",
		.rate = "WORKER/s"),
	COUNTER(failed, "FAIL", 4, "requests",
		"requests with a negative result, except timeouts that ended in time",
		.rate = "FAIL/s"),
	COUNTER(shorts, "SHORT", 5, "requests",
		"reads and writes with a result smaller than asked for", .spare = true,
		.rate = "SHORT/s"),
	COUNTER(overflow, "OVERFL", 6, "completions",
		"completions that did not fit into the completion ring", .spare = true,
		.rate = "OVERFL/s"),
	COUNTER(linked, "LINKED", 6, "requests",
		"requests that waited for another one in their chain", .spare = true,
		.rate = "LINKED/s"),
	COUNTER(more, "MORE", 5, "completions",
		"completions that ended no request, such as multishot ones", .spare = true,
		.rate = "MORE/s"),
	COLUMN(HISTOGRAM, "slots", latency, NULL, 0, "ns", "histogram of the times"),
};

const struct schema uring_schema = SCHEMA(columns, ROW);

/* ---- rows ---- */

/* What distinguishes rows: a ring's address is not shown. */
struct row_key {
	uint32_t pid;
	int32_t fd;
	uint32_t opcode;
};

static const char *mode_name(uint32_t flags)
{
	static const char *const modes[] = { "", "sqpoll", "iopoll", "sqpoll,iopoll" };

	return modes[!!(flags & URING_SQPOLL) + 2 * !!(flags & URING_IOPOLL)];
}

static int name_row(struct uring_rows *rows, struct uring_row *row, const struct uring_value *value)
{
	char comm[URING_COMM + 1] = "", ring[16] = "?", op[URING_OP_SIZE];

	memcpy(comm, value->comm, URING_COMM);
	if (value->fd >= 0)
		snprintf(ring, sizeof(ring), "%d", value->fd);
	row->comm = text_keep(&rows->texts, comm);
	row->ring = text_keep(&rows->texts, ring);
	row->op = text_keep(&rows->texts, uring_op_name(row->opcode, op));
	row->mode = mode_name(value->flags);
	return row->comm && row->ring && row->op ? 0 : -ENOMEM;
}

/* The row of @key, which may be new.  0, -ENOSPC or -ENOMEM. */
static int row_of(struct uring_rows *rows, const struct uring_key *key,
		  const struct uring_value *value, struct uring_row **out)
{
	const struct row_key own = { key->pid, value->fd, key->opcode };
	uint32_t number = intern_find(&rows->keys, &own, sizeof(own));

	if (number != INTERN_NONE) {
		*out = &rows->rows[number];
		return 0;
	}
	if (rows->n >= URING_ROWS_MAX)
		return -ENOSPC;
	*out = ARRAY_ADD(rows->rows, rows->n);
	if (!*out)
		return -ENOMEM;
	**out = (struct uring_row){ .pid = own.pid, .fd = own.fd, .opcode = own.opcode };
	if (name_row(rows, *out, value) ||
	    intern_bytes(&rows->keys, &own, sizeof(own), NULL) == INTERN_NONE)
		return -ENOMEM;
	return 0;
}

static int add_times(struct uring_row *row, const struct uring_value *from)
{
	const struct probe_hist *times = &from->latency;

	if (!from->timed)
		return 0;
	if (!row->latency)
		row->latency = calloc(1, sizeof(*row->latency));
	if (!row->latency)
		return -ENOMEM;
	row->timed += from->timed;
	row->time_ns += times->total_ns;
	row->latency->count += from->timed;
	row->latency->total += times->total_ns;
	if (times->max_ns > row->latency->max)
		row->latency->max = times->max_ns;
	for (size_t i = 0; i < HIST_FINE_SLOTS; i++)
		row->latency->fine[i] += times->fine[i];
	return 0;
}

int uring_rows_add(void *ctx, const void *key, const void *value)
{
	const struct uring_value *from = value;
	struct uring_rows *rows = ctx;
	struct uring_row *row;
	int r = row_of(rows, key, from, &row);

	if (r == -ENOSPC) {
		rows->left_out += from->count + from->more;
		return 0;
	}
	if (r)
		return r;
	row->count += from->count;
	row->inlined += from->inlined;
	row->polled += from->polled;
	row->workers += from->workers;
	row->failed += from->failed;
	row->shorts += from->shorts;
	row->overflow += from->overflow;
	row->linked += from->linked;
	row->more += from->more;
	return add_times(row, from);
}

void uring_rows_figures(struct uring_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct uring_row *row = &rows[i];

		if (!row->latency)
			continue;
		hist_raise_max(row->latency);
		hist_log2_from_fine(row->latency);
		row->p50_ns = hist_percentile(row->latency, 500);
		row->p99_ns = hist_percentile(row->latency, 990);
		row->max_ns = row->latency->max;
	}
}

static int compare(const void *a, const void *b)
{
	const struct uring_row *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->fd != y->fd)
		return x->fd < y->fd ? -1 : 1;
	return (x->opcode > y->opcode) - (x->opcode < y->opcode);
}

void uring_rows_finish(struct uring_rows *rows)
{
	if (rows->n)
		qsort(rows->rows, rows->n, sizeof(*rows->rows), compare);
	uring_rows_figures(rows->rows, rows->n);
}

void uring_rows_clear(struct uring_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		free(rows->rows[i].latency);
	free(rows->rows);
	text_set_free(&rows->texts);
	intern_free(&rows->keys);
	*rows = (struct uring_rows){ 0 };
}
