// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/slow/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "cmd/block/blk.h"
#include "cmd/block/by.h"
#include "cmd/block/files.h"
#include "cmd/block/records.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "output/columns.h"
#include "output/render.h"

/* ---- columns ---- */

static void cell_time(const void *row, char *buf, size_t size)
{
	const struct slow_row *r = row;
	char clock[CLOCK_TEXT_SIZE];

	if (r->dated)
		clock_date(r->time, (int32_t)r->utc_offset, clock);
	else
		clock_time(r->time, (int32_t)r->utc_offset, clock);
	snprintf(buf, size, "%s.%03u", clock, (unsigned int)(r->time / 1000000 % 1000));
}

char *slow_comm(const struct slow_row *row, char *buf, size_t size)
{
	if (!row->writeback)
		return text_unmarked(row->comm, BLK_WRITEBACK, buf, size);
	snprintf(buf, size, "%.*s" BLK_WRITEBACK, (int)size, row->comm);
	return buf;
}

static void cell_comm(const void *row, char *buf, size_t size)
{
	const struct slow_row *r = row;

	slow_comm(r, buf, size);
}

static void cell_letter(const void *row, char *buf, size_t size)
{
	snprintf(buf, size, "%c", (char)((const struct slow_row *)row)->letter);
}

/* "sync,meta" -> "SM" */
static void cell_flags(const void *row, char *buf, size_t size)
{
	const char *flag = ((const struct slow_row *)row)->flags;
	size_t n = 0;

	for (; *flag && n + 2 < size; flag += strcspn(flag, ","), flag += *flag == ',')
		buf[n++] = (char)(*flag - 'a' + 'A');
	if (!n)
		buf[n++] = '-';
	buf[n] = 0;
}

static void text_depth(uint64_t depth, char *buf, size_t size)
{
	if (depth)
		snprintf(buf, size, "%u", (unsigned int)depth);
	else
		snprintf(buf, size, "-");
}

#define ROW struct slow_row

#define COLUMNS                                                                                    \
	COLUMN(LABEL, "time", time, "TIME", 12, "ns",                                              \
	       "time of arrival at the block layer, since the epoch", .left = true,                \
	       .cell = cell_time),                                                                 \
	    LABEL(pid, "PID", 6, "process (thread group) that submitted it; 0: unknown",           \
		  .spare = true),                                                                  \
	    LABEL(comm, "COMM", 16, "name of the process, kept after it has exited",               \
		  .cell = cell_comm),                                                              \
	    LABEL(disk, "DISK", 6, "disk, named as in /proc/diskstats"),                           \
	    LABEL(op, "D", 1, "operation, with the letters of iotrace top", .cell = cell_letter),  \
	    LABEL(flags, "FLAGS", 5,                                                               \
		  "flags of the submission, separated by commas: sync, meta, fua, "                \
		  "preflush, ahead",                                                               \
		  .cell = cell_flags, .spare = true),                                              \
	    COLUMN(LABEL, "sector", sector, NULL, 0, "sectors",                                    \
		   "first sector on the disk, in units of 512 bytes"),                             \
	    GAUGE(bytes, "Kbytes", 6, "bytes", "its size", .text = column_kbytes, .spare = true),  \
	    GAUGE(total_ns, "TOTALms", 8, "ns", "time from its arrival to its completion",         \
		  .text = column_ms),                                                              \
	    GAUGE(admit_ns, "ADMIT", 7, "ns",                                                      \
		  "time from its arrival until its request was created: throttled, "               \
		  "or waiting for a free request",                                                 \
		  .text = column_ms),                                                              \
	    GAUGE(queue_ns, "QUEUE", 7, "ns",                                                      \
		  "time from the creation of the request until it was issued to the "              \
		  "device",                                                                        \
		  .text = column_ms),                                                              \
	    GAUGE(device_ns, "DEVICE", 7, "ns", "time from the issue until the completion",        \
		  .text = column_ms),                                                              \
	    GAUGE(depth, "DEPTH", 5, "requests",                                                   \
		  "requests at the device when it was issued, including itself; 0: "               \
		  "unknown",                                                                       \
		  .text = text_depth, .spare = true),                                              \
	    GAUGE(retries, NULL, 0, "", "how often it was requeued, up to 255"),                   \
	    LABEL(status, "STATUS", 6, "ok, or the error (EIO)", .spare = true),                   \
	    LABEL(cgroup, NULL, 0, "control group that it is charged to"),                         \
	    LABEL(unit, NULL, 0, "systemd unit of that control group"),                            \
	    LABEL(container, NULL, 0, "container of that control group"),                          \
	    COLUMN(LABEL, "user_name", user, NULL, 0, "",                                          \
		   "real user of the process, with --by user"),                                    \
	    LABEL(file, "FILE", 4, "path of its file; in [brackets]: why the file is unknown"),    \
	    GAUGE(waiting, NULL, 0, "requests",                                                    \
		  "requests that waited for this flush, up to 128; 0: unknown on "                 \
		  "this kernel"),                                                                  \
	    LABEL(waiters, NULL, 0,                                                                \
		  "processes of these requests: NAME[PID], separated by commas, ... "              \
		  "after 32; in the column FILE of text"),                                         \
	    LABEL(writeback, NULL, 0,                                                              \
		  "write-back by a kernel thread, not by the process that dirtied "                \
		  "the pages"),                                                                    \
	    STATE(letter, "", "letter of op in text"),                                             \
	    GAUGE(lost, NULL, 0, "", "I/Os lost just before this one"),                            \
	    STATE(utc_offset, "s", "time zone of the machine, seconds east of UTC modulo 2^32")

#define KERNEL_COLUMN STACK(kernel, "kernel functions that submitted it, innermost first")
#define USER_COLUMN                                                                                \
	COLUMN(STACK, "user", user_frames, NULL, 0, "",                                            \
	       "user functions that submitted it, innermost first (-U)")

static const struct column plain[] = { COLUMNS };
static const struct column with_kernel[] = { COLUMNS, KERNEL_COLUMN };
static const struct column with_user[] = { COLUMNS, USER_COLUMN };
static const struct column with_both[] = { COLUMNS, KERNEL_COLUMN, USER_COLUMN };

const struct schema slow_schemas[4] = {
	SCHEMA(plain, struct slow_row),
	SCHEMA(with_kernel, struct slow_row),
	SCHEMA(with_user, struct slow_row),
	SCHEMA(with_both, struct slow_row),
};

/* ---- records ---- */

static uint64_t total_of(const struct slow_record *r)
{
	return r->admit_ns + r->queue_ns + r->device_ns;
}

/* How many of the waiting processes are in `waiters`. */
static uint32_t listed(const struct slow_record *r)
{
	return r->waiting < SLOW_WAITERS ? r->waiting : SLOW_WAITERS;
}

/* Room for one more; NULL: out of memory. */
static struct slow_pending *add(struct slow_rows *rows)
{
	if (rows->n == rows->room) {
		size_t room = rows->room ? rows->room * 2 : 256;
		struct slow_pending *grown = reallocarray(rows->pending, room, sizeof(*grown));

		if (!grown)
			return NULL;
		rows->pending = grown;
		rows->room = room;
	}
	return &rows->pending[rows->n];
}

int slow_rows_add(struct slow_rows *rows, const struct slow_record *record, uint32_t lost)
{
	size_t size = offsetof(struct slow_record, path) + record->path_bytes +
		      listed(record) * sizeof(record->waiters[0]);
	struct slow_record *copy;
	struct slow_pending *p;

	if (rows->n == SLOW_ROWS_MAX || size > sizeof(*record)) {
		rows->full++;
		return 0;
	}
	p = add(rows);
	copy = p ? malloc(size) : NULL;
	if (!copy)
		return -ENOMEM;
	memcpy(copy, record, size);
	*p = (struct slow_pending){
		.record = copy, .end_ns = record->end_ns, .total_ns = total_of(record), .lost = lost
	};
	rows->n++;
	return 0;
}

/* ---- compact records ---- */

/* Names of the cgroup and the user of a row. */
struct names {
	const char *cgroup, *unit, *container, *user; /* cgroup: NULL: not looked up yet */
};

struct slow_owner {
	struct slow_owner *next;
	struct blk_owner owner;
	uint32_t epoch; /* the buffer that contains its name */
	uint32_t number;
	const char *comm; /* NULL: not named yet */
	struct names names;
};

/* NULL: out of memory. */
static struct slow_owner *keep_owner(struct slow_rows *rows, uint32_t number,
				     const struct blk_owner *owner, uint32_t epoch)
{
	struct slow_owner *o;

	if (!rows->numbers)
		rows->numbers = calloc(2UL * BLK_OWNERS, sizeof(void *));
	if (!rows->numbers || number >= 2 * BLK_OWNERS)
		return NULL;
	o = rows->numbers[number];
	if (o && o->epoch == epoch)
		return o;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->owner = *owner;
	o->epoch = epoch;
	o->number = number;
	o->next = rows->owners;
	rows->owners = o;
	rows->numbers[number] = o;
	return o;
}

/* All entries, or with @some all except entries of the buffer @epoch. */
static void free_owners(struct slow_rows *rows, uint32_t epoch, bool some)
{
	struct slow_owner **at = &rows->owners, *o;

	while ((o = *at)) {
		if (some && o->epoch == epoch) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		if (rows->numbers[o->number] == o)
			rows->numbers[o->number] = NULL;
		free(o);
	}
}

int slow_rows_add_plain(struct slow_rows *rows, const struct blk_record *record,
			const struct blk_owner *owner, uint32_t epoch, uint32_t lost)
{
	struct slow_owner *kept;
	struct slow_pending *p;

	if (rows->n == SLOW_ROWS_MAX) {
		rows->full++;
		return 0;
	}
	kept = keep_owner(rows, record->owner, owner, epoch);
	p = add(rows);
	if (!kept || !p)
		return -ENOMEM;
	*p = (struct slow_pending){ .plain = *record,
				    .owner = kept,
				    .end_ns = record->end_ns,
				    .total_ns = (uint64_t)record->admit_ns + record->queue_ns +
						record->device_ns,
				    .lost = lost };
	rows->n++;
	return 0;
}

/* The record of @p; @made: memory for all fields except the path. */
static const struct slow_record *record_of(const struct slow_pending *p, struct slow_record *made)
{
	const struct blk_record *r = &p->plain;
	const struct blk_owner *o;

	if (p->record)
		return p->record;
	o = &p->owner->owner;
	memset(made, 0, offsetof(struct slow_record, path));
	made->end_ns = r->end_ns;
	made->admit_ns = r->admit_ns;
	made->queue_ns = r->queue_ns;
	made->device_ns = r->device_ns;
	made->dev = r->dev;
	made->sector = r->sector;
	made->bytes = r->sectors * 512U;
	made->op = r->op;
	made->flags = r->flags;
	made->depth = r->depth;
	made->known = o->known;
	made->writeback = o->writeback;
	made->start = o->start;
	made->pid = o->pid;
	made->uid = o->uid;
	made->task_cgroup = o->task_cgroup;
	made->cgroup = o->cgroup;
	made->cgroup2 = o->cgroup2;
	made->epoch = p->owner->epoch;
	made->file = FILE_UNREAD;
	made->stack = -1;
	made->user_stack = STACK_NONE;
	return made;
}

/* ---- order ---- */

static int compare_totals(const void *a, const void *b)
{
	const struct slow_pending *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

static int compare_ends(const void *a, const void *b)
{
	const struct slow_pending *x = a, *y = b;

	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

uint64_t slow_rows_limit(struct slow_rows *rows, size_t most)
{
	if (rows->n < most)
		return 0;
	qsort(rows->pending, rows->n, sizeof(*rows->pending), compare_totals);
	while (rows->n > most)
		free(rows->pending[--rows->n].record);
	return rows->pending[most - 1].total_ns;
}

#define UNKNOWN "[unknown]" /* whose start was missed */

static bool is_of_next(const struct slow_pending *p, uint32_t epoch)
{
	return (p->record ? p->record->epoch : p->owner->epoch) == epoch;
}

/* The program reads the two one after the other: the entry may be removed in between. */
static bool is_known(const struct slow_waiter *w)
{
	return w->pid && w->start;
}

static bool same_waiter(const struct slow_waiter *a, const struct slow_waiter *b)
{
	if (!is_known(a) || !is_known(b))
		return is_known(a) == is_known(b);
	return a->pid == b->pid && a->start == b->start;
}

/* "NAME[PID],NAME[PID]": each once. */
static const char *waiters_text(struct text_set *texts, const struct slow_record *r,
				struct process_names *names)
{
	char text[SLOW_WAITERS * 32 + 16] = "";
	size_t n = 0;

	if (!r->waiting)
		return "";
	for (uint32_t i = 0; i < listed(r); i++) {
		const struct slow_waiter *w = &r->waiters[i];
		uint32_t first = 0;

		while (!same_waiter(&r->waiters[first], w))
			first++;
		if (first < i)
			continue;
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", n ? "," : "");
		n += (size_t)(is_known(w)
				  ? snprintf(text + n, sizeof(text) - n, "%s[%u]",
					     process_names_get(names, w->pid, w->start), w->pid)
				  : snprintf(text + n, sizeof(text) - n, UNKNOWN));
	}
	if (r->waiting > listed(r))
		snprintf(text + n, sizeof(text) - n, ",...");
	return text_keep(texts, text);
}

static const char *comm_text(struct text_set *texts, struct process_names *names, bool known,
			     uint32_t pid, uint64_t start)
{
	return text_keep(texts, known ? process_names_get(names, pid, start) : UNKNOWN);
}

int slow_rows_name(struct slow_rows *rows, const struct slow_tables *tables)
{
	for (struct slow_owner *o = rows->owners; o; o = o->next) {
		if (o->comm || o->epoch == tables->epoch)
			continue;
		o->comm = comm_text(&rows->texts, tables->names, o->owner.known, o->owner.pid,
				    o->owner.start);
		if (!o->comm)
			return -ENOMEM;
	}
	for (size_t i = 0; i < rows->n; i++) {
		struct slow_pending *p = &rows->pending[i];
		const struct slow_record *r = p->record;

		if (p->comm || is_of_next(p, tables->epoch))
			continue;
		if (!r) {
			p->comm = p->owner->comm;
			p->waiters = "";
			continue;
		}
		p->comm = comm_text(&rows->texts, tables->names, r->known, r->pid, r->start);
		p->waiters = waiters_text(&rows->texts, r, tables->names);
		if (!p->comm || !p->waiters)
			return -ENOMEM;
	}
	return 0;
}

/* Queues the user stack of @p, whose frames are still in the map. */
static int queue_stack(struct slow_pending *p, const struct slow_tables *t)
{
	struct slow_record made;
	const struct slow_record *r = record_of(p, &made);
	const struct blk_process process = { .start = r->start, .pid = r->pid };
	struct stack_id id = { { r->user_stack } };
	uint64_t lost_before = t->symbolizer->lost;
	struct stack_frames frames;
	size_t depth = 0;
	int code = 0;

	p->user_state = SLOW_USER_QUEUED;
	if (id.hash[0] == STACK_NONE)
		return 0;
	if (id.hash[0] != STACK_LOST &&
	    bpf_map_lookup_elem(t->user_stacks, &r->user_stack, &frames)) {
		p->stack_lost = true;
		id = (struct stack_id){ { STACK_LOST, 0 } };
	}
	if (id.hash[0] != STACK_LOST) {
		while (depth < STACK_DEPTH && frames.ip[depth])
			depth++;
		if (depth && frames.ip[depth - 1] < UNWIND_STOPS)
			p->stop = (uint8_t)frames.ip[depth - 1];
		code = symbolizer_take_stack(t->symbolizer, &id, &frames);
	}
	if (!code)
		code =
		    symbolizer_queue_user(t->symbolizer, process.pid, process.start, &id, &p->user);
	p->stack_lost |= t->symbolizer->lost > lost_before;
	return code;
}

int slow_rows_name_stacks(struct slow_rows *rows, const struct slow_tables *tables,
			  struct unwinder *unwinder)
{
	int r = 0;

	for (size_t i = 0; !r && i < rows->n; i++) {
		struct slow_pending *p = &rows->pending[i];

		if (p->user_state == SLOW_USER_NEW && !is_of_next(p, tables->epoch))
			r = queue_stack(p, tables);
	}
	symbolizer_end_drain(tables->symbolizer);
	symbolizer_begin_batch(tables->symbolizer);
	unwinder_serve(unwinder);
	if (!r)
		r = symbolizer_resolve(tables->symbolizer);
	for (size_t i = 0; !r && i < rows->n; i++) {
		struct slow_pending *p = &rows->pending[i];

		uint64_t lost_before = tables->symbolizer->lost;

		if (p->user_state != SLOW_USER_QUEUED)
			continue;
		p->user = symbolizer_node(tables->symbolizer, p->user);
		p->stack_lost |= tables->symbolizer->lost > lost_before;
		p->user_state = SLOW_USER_NODE;
		if (p->user == INTERN_NONE)
			r = -ENOMEM;
	}
	symbolizer_end_batch(tables->symbolizer);
	return r;
}

/* ---- words ---- */

static const char *flags_text(struct slow_rows *rows, uint32_t flags)
{
	static const char *const names[] = { "sync", "meta", "fua", "preflush", "ahead" };
	const char **known = &rows->flags[flags % ARRAY_SIZE(rows->flags)];
	char text[64] = "";

	for (size_t i = 0; !*known && i < ARRAY_SIZE(names); i++)
		if (flags >> i & 1) {
			size_t n = strlen(text);

			snprintf(text + n, sizeof(text) - n, "%s%s", n ? "," : "", names[i]);
		}
	if (!*known)
		*known = text_keep(&rows->texts, text);
	return *known;
}

/* block_rq_complete has -errno before 5.18 (8a7d267b4a2c), and a blk_status_t since. */
static const char *status_text(struct text_set *texts, int32_t error)
{
	static const int codes[] = { 0,	     EOPNOTSUPP, ETIMEDOUT, ENOSPC, ENOLINK, EREMOTEIO,
				     EBADE,  ENODATA,	 EILSEQ,    ENOMEM, EIO,     EREMCHG,
				     EAGAIN, EBUSY,	 EAGAIN,    EIO,    ETIME,   EIO };
	int code = error < 0 ? -error : error < (int)ARRAY_SIZE(codes) ? codes[error] : EIO;
	const char *name = code ? strerrorname_np(code) : "ok";
	char text[16];

	if (name)
		return name;
	snprintf(text, sizeof(text), "%d", code);
	return text_keep(texts, text);
}

static const char *user_text(const struct slow_tables *t, const struct slow_record *r)
{
	if (!t->users)
		return "";
	return r->known ? users_name(t->users, r->uid) : KEYS_UNKNOWN;
}

/* ---- rows ---- */

static struct names name(struct slow_rows *rows, const struct slow_record *r,
			 const struct slow_tables *t)
{
	uint64_t cgroup = blk_charged_cgroup(t->cgroups, r->cgroup, r->cgroup2, r->task_cgroup);

	return (struct names){
		.cgroup = text_keep(&rows->texts, cgroups_path(t->cgroups, cgroup)),
		.unit = text_keep(&rows->texts, cgroups_name(t->cgroups, cgroup, CGROUP_UNIT)),
		.container =
		    text_keep(&rows->texts, cgroups_name(t->cgroups, cgroup, CGROUP_CONTAINER)),
		.user = text_keep(&rows->texts, user_text(t, r)),
	};
}

static struct names names_of(struct slow_rows *rows, const struct slow_pending *p,
			     const struct slow_record *r, const struct slow_tables *t)
{
	if (!p->owner)
		return name(rows, r, t);
	if (!p->owner->names.cgroup)
		p->owner->names = name(rows, r, t);
	return p->owner->names;
}

static int make_row(struct slow_rows *rows, const struct slow_pending *p,
		    const struct slow_tables *t)
{
	struct slow_record made;
	const struct slow_record *r = record_of(p, &made);
	struct slow_row *row = &rows->rows[rows->n_rows++];
	const struct names names = names_of(rows, p, r, t);

	*row = (struct slow_row){
		.time = p->end_ns - p->total_ns + (uint64_t)t->epoch_less,
		.pid = r->pid,
		.writeback = r->writeback,
		.comm = p->comm,
		.cgroup = names.cgroup,
		.unit = names.unit,
		.container = names.container,
		.user = names.user,
		.disk = disks_name(t->disks, r->dev),
		.op = blk_op_name(r->op),
		.letter = (unsigned char)blk_op_letter(r->op),
		.flags = flags_text(rows, r->flags),
		.status = status_text(&rows->texts, r->error),
		.file = files_of_record(&rows->texts, r, t->mounts, t->disks),
		.waiters = p->waiters,
		.waiting = r->waiting,
		.lost = p->lost,
		.sector = r->sector,
		.bytes = r->bytes,
		.total_ns = p->total_ns,
		.admit_ns = r->admit_ns,
		.queue_ns = r->queue_ns,
		.device_ns = r->device_ns,
		.depth = r->depth,
		.retries = r->retries,
		.utc_offset = (uint32_t)t->utc_offset,
	};
	if (t->kallsyms && r->stack >= 0)
		row->kernel = slow_stacks_frames(t->stacks, t->kallsyms, r->stack);
	if (t->symbolizer)
		row->user_frames = stack_tree_frames(t->symbolizer->tree, p->user);
	rows->stacks_lost += p->stack_lost;
	rows->stops[p->stop]++;
	return row->cgroup && row->unit && row->container && row->user && row->flags &&
		       row->status && row->file
		   ? 0
		   : -ENOMEM;
}

/* Room for a row of each record.  It is kept for the next output: new pages would take as long as
 * the rest of a row. */
static int make_room(struct slow_rows *rows)
{
	if (rows->n <= rows->rows_room && rows->rows)
		return 0;
	free(rows->rows);
	rows->rows_room = rows->room;
	rows->rows = calloc(rows->rows_room + 1, sizeof(*rows->rows));
	return rows->rows ? 0 : -ENOMEM;
}

int slow_rows_make(struct slow_rows *rows, const struct slow_tables *tables, size_t most)
{
	int r = slow_rows_name(rows, tables);

	rows->n_rows = 0;
	rows->stacks_lost = 0;
	memset(rows->stops, 0, sizeof(rows->stops));
	if (make_room(rows))
		return -ENOMEM;
	qsort(rows->pending, rows->n, sizeof(*rows->pending), most ? compare_totals : compare_ends);
	mounts_refresh(tables->mounts);
	for (size_t i = 0; !r && i < rows->n && (!most || rows->n_rows < most); i++)
		if (!is_of_next(&rows->pending[i], tables->epoch))
			r = make_row(rows, &rows->pending[i], tables);
	return r;
}

void slow_rows_clear(struct slow_rows *rows, uint32_t epoch)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->n; i++) {
		if (is_of_next(&rows->pending[i], epoch))
			rows->pending[kept++] = rows->pending[i];
		else
			free(rows->pending[i].record);
	}
	rows->n = kept;
	free_owners(rows, epoch, true);
	memset(rows->flags, 0, sizeof(rows->flags));
	rows->n_rows = 0;
	text_set_free(&rows->texts);
}

void slow_rows_free(struct slow_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		free(rows->pending[i].record);
	free(rows->pending);
	free_owners(rows, 0, false);
	free(rows->numbers);
	free(rows->rows);
	text_set_free(&rows->texts);
}

/* ---- width ---- */

size_t slow_width(const char *text)
{
	size_t width = 0, step;

	while ((step = render_step(&text)))
		width += step;
	return width;
}

const char *slow_shorten(const char *text, size_t room, char buf[SLOW_SHORT_SIZE])
{
	size_t width = slow_width(text);
	const char *at = text, *end = text;

	if (room > SLOW_NAME_MAX)
		room = SLOW_NAME_MAX;
	if (width <= room)
		return text;
	room -= strlen("...");
	if (*text == '/') {
		snprintf(buf, SLOW_SHORT_SIZE, "...%s", render_path_end(text, width, room));
	} else {
		while ((width = render_step(&at)) <= room) {
			room -= width;
			end = at;
		}
		snprintf(buf, SLOW_SHORT_SIZE, "%.*s...", (int)(end - text), text);
	}
	return buf;
}

/* ---- stacks ---- */

#define FRAMES_MAX  127
#define TRACING_MAX 8

struct slow_stacks {
	int map;
	uint32_t n;
	const char ***names; /* by number: up to a NULL */
	struct text_set addresses;
};

int slow_stacks_open(int map, uint32_t entries, struct slow_stacks **out)
{
	struct slow_stacks *s = calloc(1, sizeof(*s));

	if (s)
		s->names = calloc(entries, sizeof(*s->names));
	if (!s || !s->names) {
		free(s);
		return -ENOMEM;
	}
	s->map = map;
	s->n = entries;
	*out = s;
	return 0;
}

void slow_stacks_free(struct slow_stacks *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->n; i++)
		free(s->names[i]);
	free(s->names);
	text_set_free(&s->addresses);
	free(s);
}

static const char *name_of(struct slow_stacks *s, const struct kallsyms *kallsyms, uint64_t ip)
{
	const char *name = kallsyms_name(kallsyms, ip);
	char text[64];

	if (name)
		return name;
	snprintf(text, sizeof(text), "[kernel]+0x%llx", (unsigned long long)ip);
	return text_keep(&s->addresses, text);
}

static const char **read_stack(struct slow_stacks *s, const struct kallsyms *kallsyms,
			       uint32_t number)
{
	const char **names = calloc(FRAMES_MAX + 1, sizeof(*names));
	uint64_t ips[FRAMES_MAX] = { 0 };
	size_t n = 0;

	if (!names || bpf_map_lookup_elem(s->map, &number, ips))
		return names;
	for (size_t i = 0; i < FRAMES_MAX && ips[i]; i++) {
		const char *name = name_of(s, kallsyms, ips[i]);

		if (name && i < TRACING_MAX && kallsyms_is_tracing(name))
			n = 0;
		else if (name)
			names[n++] = name;
	}
	return names;
}

static const char *next_frame(const void *owner, uint32_t *at)
{
	const char *const *names = owner;

	return names[*at] ? names[(*at)++] : NULL;
}

struct frames slow_stacks_frames(struct slow_stacks *s, const struct kallsyms *kallsyms,
				 int64_t number)
{
	if (number < 0 || number >= s->n)
		return (struct frames){ NULL };
	if (!s->names[number])
		s->names[number] = read_stack(s, kallsyms, (uint32_t)number);
	if (!s->names[number])
		return (struct frames){ NULL };
	return (struct frames){ next_frame, s->names[number], 0 };
}
