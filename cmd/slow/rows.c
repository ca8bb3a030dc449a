// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/slow/rows.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "cmd/blk.h"
#include "cmd/by.h"
#include "core/base/clock.h"
#include "output/render.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* ---- columns ---- */

static void cell_time(const void *row, char *buf, size_t size)
{
	const struct slow_row *r = row;
	char clock[CLOCK_TEXT_SIZE];

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

static void cell_kbytes(const void *row, char *buf, size_t size)
{
	uint64_t bytes = ((const struct slow_row *)row)->bytes;

	snprintf(buf, size, "%.*f", bytes % 1024 ? 1 : 0, (double)bytes / 1024);
}

static void cell_depth(const void *row, char *buf, size_t size)
{
	uint32_t depth = ((const struct slow_row *)row)->depth;

	if (depth)
		snprintf(buf, size, "%u", depth);
	else
		snprintf(buf, size, "-");
}

#define MILLISECONDS(member)                                                                       \
	static void cell_##member(const void *row, char *buf, size_t size)                         \
	{                                                                                          \
		snprintf(buf, size, "%.2f", (double)((const struct slow_row *)row)->member / 1e6); \
	}
MILLISECONDS(total_ns)
MILLISECONDS(admit_ns)
MILLISECONDS(queue_ns)
MILLISECONDS(device_ns)

#define AT(member) offsetof(struct slow_row, member)

#define COLUMNS                                                                                     \
	{ "time",     "TIME", COLUMN_U64,                                                           \
	  ROLE_LABEL, "ns",   "when it arrived at the block layer, since the epoch",                \
	  AT(time),   12,     true,                                                                 \
	  cell_time },                                                                              \
	    { "pid",	  "PID", COLUMN_U32,                                                        \
	      ROLE_LABEL, "",	 "process (thread group) that submitted it; 0 where nobody saw it", \
	      AT(pid),	  6,	 true,                                                              \
	      NULL },                                                                               \
	    { "comm",	"COMM", COLUMN_STR, ROLE_LABEL, "", "its name; kept when it has exited",    \
	      AT(comm), 16,	true,	    cell_comm },                                            \
	    { "disk",	"DISK", COLUMN_STR, ROLE_LABEL, "", "disk, named as in /proc/diskstats",    \
	      AT(disk), 6,	true,	    NULL },                                                 \
	    { "op",   "D", COLUMN_STR, ROLE_LABEL, "", "operation, as of iotrace top",              \
	      AT(op), 1,   true,       cell_letter },                                               \
	    { "flags",                                                                              \
	      "FLAGS",                                                                              \
	      COLUMN_STR,                                                                           \
	      ROLE_LABEL,                                                                           \
	      "",                                                                                   \
	      "how it was submitted, with commas between: sync, meta, fua, preflush, ahead",        \
	      AT(flags),                                                                            \
	      5,                                                                                    \
	      true,                                                                                 \
	      cell_flags },                                                                         \
	    { "sector",	  NULL,	     COLUMN_U64,                                                    \
	      ROLE_LABEL, "sectors", "where it begins on the disk, in 512 bytes",                   \
	      AT(sector), 0,	     false,                                                         \
	      NULL },                                                                               \
	    { "bytes",	  "Kbytes",  COLUMN_U64, ROLE_GAUGE, "bytes",                               \
	      "its size", AT(bytes), 6,		 false,	     cell_kbytes },                         \
	    { "total_ns",   "TOTALms", COLUMN_U64,                                                  \
	      ROLE_GAUGE,   "ns",      "from its arrival to its completion",                        \
	      AT(total_ns), 8,	       false,                                                       \
	      cell_total_ns },                                                                      \
	    { "admit_ns",                                                                           \
	      "ADMIT",                                                                              \
	      COLUMN_U64,                                                                           \
	      ROLE_GAUGE,                                                                           \
	      "ns",                                                                                 \
	      "from its arrival until its request was made: throttled, waiting for a free "         \
	      "request",                                                                            \
	      AT(admit_ns),                                                                         \
	      7,                                                                                    \
	      false,                                                                                \
	      cell_admit_ns },                                                                      \
	    { "queue_ns",   "QUEUE", COLUMN_U64,                                                    \
	      ROLE_GAUGE,   "ns",    "from then until the request was issued to the device",        \
	      AT(queue_ns), 7,	     false,                                                         \
	      cell_queue_ns },                                                                      \
	    { "device_ns",   "DEVICE", COLUMN_U64,                                                  \
	      ROLE_GAUGE,    "ns",     "from then until its completion",                            \
	      AT(device_ns), 7,	       false,                                                       \
	      cell_device_ns },                                                                     \
	    { "depth",	  "DEPTH",                                                                  \
	      COLUMN_U32, ROLE_GAUGE,                                                               \
	      "requests", "requests at the device when it was issued, with itself; 0: not known",   \
	      AT(depth),  5,                                                                        \
	      false,	  cell_depth },                                                             \
	    { "retries",   NULL, COLUMN_U32,                                                        \
	      ROLE_GAUGE,  "",	 "how often the device gave it back, up to 255",                    \
	      AT(retries), 0,	 false,                                                             \
	      NULL },                                                                               \
	    { "status",	  "STATUS", COLUMN_STR, ROLE_LABEL, "", "ok, or the error (EIO)",           \
	      AT(status), 6,	    true,	NULL },                                             \
	    { "cgroup",	  NULL, COLUMN_STR, ROLE_LABEL, "", "control group that it is charged to",  \
	      AT(cgroup), 0,	true,	    NULL },                                                 \
	    { "unit",	NULL, COLUMN_STR, ROLE_LABEL, "", "systemd unit of that control group",     \
	      AT(unit), 0,    true,	  NULL },                                                   \
	    { "container",   NULL, COLUMN_STR, ROLE_LABEL, "", "container of that control group",   \
	      AT(container), 0,	   true,       NULL },                                              \
	    { "user_name", NULL, COLUMN_STR,                                                        \
	      ROLE_LABEL,  "",	 "real user of the process, with --by user",                        \
	      AT(user),	   0,	 true,                                                              \
	      NULL },                                                                               \
	    { "file",	  "FILE",                                                                   \
	      COLUMN_STR, ROLE_LABEL,                                                               \
	      "",	  "path of the file that it was for; in [brackets]: why there is none",     \
	      AT(file),	  4,                                                                        \
	      true,	  NULL },                                                                   \
	    { "waiting",   NULL,                                                                    \
	      COLUMN_U32,  ROLE_GAUGE,                                                              \
	      "requests",  "that a flush was for, up to 128; 0: the kernel does not tell",          \
	      AT(waiting), 0,                                                                       \
	      false,	   NULL },                                                                  \
	    { "waiters",                                                                            \
	      NULL,                                                                                 \
	      COLUMN_STR,                                                                           \
	      ROLE_LABEL,                                                                           \
	      "",                                                                                   \
	      "whose they were: NAME[PID], with commas between, ... for those behind 32; as "       \
	      "FILE in text",                                                                       \
	      AT(waiters),                                                                          \
	      0,                                                                                    \
	      true,                                                                                 \
	      NULL },                                                                               \
	    { "writeback",                                                                          \
	      NULL,                                                                                 \
	      COLUMN_BOOL,                                                                          \
	      ROLE_LABEL,                                                                           \
	      "",                                                                                   \
	      "written back by a kernel thread, on behalf of whoever dirtied the pages",            \
	      AT(writeback),                                                                        \
	      0,                                                                                    \
	      false,                                                                                \
	      NULL },                                                                               \
	    { "letter",	  NULL, COLUMN_U32, ROLE_STATE, "", "character that stands for op in text", \
	      AT(letter), 0,	false,	    NULL },                                                 \
	{                                                                                           \
		"utc_offset", NULL, COLUMN_U32, ROLE_STATE, "s",                                    \
		    "time zone of the machine, seconds east of UTC modulo 2^32", AT(utc_offset),    \
		    0, false, NULL                                                                  \
	}

#define KERNEL_COLUMN                                                                              \
	{                                                                                          \
		"kernel", NULL, COLUMN_FRAMES, ROLE_STACK, "",                                     \
		    "functions of the kernel that sent it, the innermost first", AT(kernel), 0,    \
		    false, NULL                                                                    \
	}
#define USER_COLUMN                                                                                \
	{                                                                                          \
		"user", NULL, COLUMN_FRAMES, ROLE_STACK, "", "the same of the program, with -U",   \
		    AT(user_frames), 0, false, NULL                                                \
	}

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

/* How many of those that wait are in `waiters`. */
static uint32_t listed(const struct slow_record *r)
{
	return r->waiting < SLOW_WAITERS ? r->waiting : SLOW_WAITERS;
}

int slow_rows_add(struct slow_rows *rows, const struct slow_record *record)
{
	size_t size = offsetof(struct slow_record, path) + record->path_bytes +
		      listed(record) * sizeof(record->waiters[0]);
	struct slow_record *copy;

	if (rows->n == SLOW_ROWS_MAX || size > sizeof(*record)) {
		rows->full++;
		return 0;
	}
	if (rows->n == rows->room) {
		size_t room = rows->room ? rows->room * 2 : 256;
		struct slow_pending *grown = reallocarray(rows->pending, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		rows->pending = grown;
		rows->room = room;
	}
	copy = malloc(size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, record, size);
	rows->pending[rows->n++] =
	    (struct slow_pending){ .record = copy, .total_ns = total_of(record) };
	return 0;
}

static int compare_totals(const void *a, const void *b)
{
	const struct slow_pending *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	return (x->record->end_ns > y->record->end_ns) - (x->record->end_ns < y->record->end_ns);
}

static int compare_ends(const void *a, const void *b)
{
	const struct slow_pending *x = a, *y = b;

	return (x->record->end_ns > y->record->end_ns) - (x->record->end_ns < y->record->end_ns);
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

#define UNKNOWN "[unknown]" /* whose start was not seen */

static bool is_of_next(const struct slow_pending *p, uint32_t epoch)
{
	return p->record->epoch == epoch;
}

/* The program reads the two one after the other: between them the entry may have gone. */
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

int slow_rows_name(struct slow_rows *rows, const struct slow_tables *tables)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct slow_pending *p = &rows->pending[i];
		const struct slow_record *r = p->record;

		if (p->comm || is_of_next(p, tables->epoch))
			continue;
		p->comm = text_keep(&rows->texts,
				    r->known ? process_names_get(tables->names, r->pid, r->start)
					     : UNKNOWN);
		p->waiters = waiters_text(&rows->texts, r, tables->names);
		if (!p->comm || !p->waiters)
			return -ENOMEM;
	}
	return 0;
}

/* Queues the user stack of @p, whose frames are in the map still. */
static int queue_stack(struct slow_pending *p, const struct slow_tables *t)
{
	const struct slow_record *r = p->record;
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
		p->lost = true;
		id = (struct stack_id){ { STACK_LOST, 0 } };
	}
	if (id.hash[0] != STACK_LOST) {
		while (depth < STACK_DEPTH && frames.ip[depth])
			depth++;
		if (t->symbolizer->has_tables && depth && frames.ip[depth - 1] < UNWIND_STOPS)
			p->stop = (uint8_t)frames.ip[depth - 1];
		code = symbolizer_take_stack(t->symbolizer, &id, &frames);
	}
	if (!code)
		code = symbolizer_queue_user(t->symbolizer, &process, &id, r->end_ns - p->total_ns,
					     &p->user);
	p->lost |= t->symbolizer->lost > lost_before;
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
		p->lost |= tables->symbolizer->lost > lost_before;
		p->user_state = SLOW_USER_NODE;
		if (p->user == INTERN_NONE)
			r = -ENOMEM;
	}
	symbolizer_end_batch(tables->symbolizer);
	return r;
}

/* ---- words ---- */

static const char *flags_text(struct text_set *texts, uint32_t flags)
{
	static const char *const names[] = { "sync", "meta", "fua", "preflush", "ahead" };
	char text[64] = "";

	for (size_t i = 0; i < N(names); i++)
		if (flags >> i & 1) {
			size_t n = strlen(text);

			snprintf(text + n, sizeof(text) - n, "%s%s", n ? "," : "", names[i]);
		}
	return text_keep(texts, text);
}

/* block_rq_complete has -errno before 5.18 (8a7d267b4a2c), and a blk_status_t since. */
static const char *status_text(struct text_set *texts, int32_t error)
{
	static const int codes[] = { 0,	     EOPNOTSUPP, ETIMEDOUT, ENOSPC, ENOLINK, EREMOTEIO,
				     EBADE,  ENODATA,	 EILSEQ,    ENOMEM, EIO,     EREMCHG,
				     EAGAIN, EBUSY,	 EAGAIN,    EIO,    ETIME,   EIO };
	int code = error < 0 ? -error : error < (int)N(codes) ? codes[error] : EIO;
	const char *name = code ? strerrorname_np(code) : "ok";
	char text[16];

	if (name)
		return text_keep(texts, name);
	snprintf(text, sizeof(text), "%d", code);
	return text_keep(texts, text);
}

/*
 * The cgroup that the kernel charges it to.  cgroup2 charges what is done in a cgroup without the
 * controller "io" to one above it: then it is the submitter's own.
 */
static uint64_t cgroup_of(struct cgroups *cgroups, const struct slow_record *r)
{
	const char *charged, *own;
	size_t n;

	if (r->cgroup && !r->cgroup2)
		return r->cgroup;
	if (!r->cgroup)
		return r->task_cgroup;
	charged = cgroups_path(cgroups, r->cgroup);
	own = cgroups_path(cgroups, r->task_cgroup);
	n = strcmp(charged, "/") == 0 ? 0 : strlen(charged);
	return strncmp(own, charged, n) == 0 && (own[n] == '/' || !own[n]) ? r->task_cgroup
									   : r->cgroup;
}

static const char *user_text(const struct slow_tables *t, const struct slow_record *r)
{
	if (!t->users)
		return "";
	return r->known ? users_name(t->users, r->uid) : KEYS_UNKNOWN;
}

/* ---- files ---- */

#define FILE_TEXT (SLOW_PATH + PATH_MAX + 128)

/* Room for the path of a record: a '/' for each NUL, and "/..." before. */
#define PATH_TEXT (SLOW_PATH + 16)

/* The path in the file system, from its root. */
static void path_of(const struct slow_record *r, char out[PATH_TEXT])
{
	const char *parts[SLOW_PARTS];
	size_t n = 0;
	int at = 0;

	for (uint32_t i = 0; i < r->path_bytes && n < N(parts); n++) {
		parts[n] = r->path + i;
		i += (uint32_t)strnlen(r->path + i, r->path_bytes - i) + 1;
	}
	out[0] = 0;
	if (r->path_flags & SLOW_CUT)
		at = snprintf(out, PATH_TEXT, "/...");
	while (n-- > 0) {
		size_t left = r->path_bytes - (size_t)(parts[n] - r->path);

		at += snprintf(out + at, PATH_TEXT - (size_t)at, "/%.*s",
			       (int)strnlen(parts[n], left), parts[n]);
	}
	if (!at)
		snprintf(out, PATH_TEXT, "/");
}

static void name_file(const struct slow_record *r, const struct slow_tables *tables, char *out,
		      size_t size)
{
	const char *removed = r->path_flags & SLOW_REMOVED ? " (deleted)" : "";
	char in[PATH_TEXT], path[PATH_MAX];

	path_of(r, in);
	if (r->path_flags & SLOW_CUT ||
	    mounts_path(tables->mounts, r->file_dev, in, path, sizeof(path)))
		snprintf(out, size, "%s:%s%s", disks_name(tables->disks, r->file_dev), in, removed);
	else
		snprintf(out, size, "%s%s", path, removed);
}

static const char *file_text(struct text_set *texts, const struct slow_record *r,
			     const struct slow_tables *tables)
{
	const char *type = mounts_type(tables->mounts, r->file_dev);
	char text[FILE_TEXT];

	switch (r->file) {
	case FILE_NONE:
		return text_keep(texts, "");
	case FILE_NAMED:
		name_file(r, tables, text, sizeof(text));
		break;
	case FILE_UNNAMED:
		/* Inode 1 of btrfs is a file without a name that holds its metadata. */
		if (r->magic == BTRFS_SUPER_MAGIC && r->inode == 1)
			snprintf(text, sizeof(text), "[btrfs metadata]");
		else
			snprintf(text, sizeof(text), "[no name: inode %llu of %s]",
				 (unsigned long long)r->inode, type ? type : "a file system");
		break;
	case FILE_DEVICE:
		snprintf(text, sizeof(text), type ? "[%s metadata]" : "[block device]", type);
		break;
	case FILE_JOURNAL:
		snprintf(text, sizeof(text), "[%s journal]", type ? type : "file system's");
		break;
	case FILE_METADATA:
		snprintf(text, sizeof(text), "[%s metadata]", type ? type : "file system");
		break;
	case FILE_DIRECT:
		snprintf(text, sizeof(text), "[direct I/O, file not known]");
		break;
	case FILE_SWAP:
		snprintf(text, sizeof(text), "[swap]");
		break;
	default:
		snprintf(text, sizeof(text), "[no file's memory]");
	}
	return text_keep(texts, text);
}

/* ---- rows ---- */

static int make_row(struct slow_rows *rows, const struct slow_pending *p,
		    const struct slow_tables *t)
{
	const struct slow_record *r = p->record;
	struct slow_row *row = &rows->rows[rows->n_rows++];
	uint64_t cgroup = cgroup_of(t->cgroups, r);

	*row = (struct slow_row){
		.time = r->end_ns - p->total_ns + (uint64_t)t->epoch_less,
		.pid = r->pid,
		.writeback = r->writeback,
		.comm = p->comm,
		.cgroup = text_keep(&rows->texts, cgroups_path(t->cgroups, cgroup)),
		.unit = text_keep(&rows->texts, cgroups_name(t->cgroups, cgroup, CGROUP_UNIT)),
		.container =
		    text_keep(&rows->texts, cgroups_name(t->cgroups, cgroup, CGROUP_CONTAINER)),
		.user = text_keep(&rows->texts, user_text(t, r)),
		.disk = disks_name(t->disks, r->dev),
		.op = blk_op_name(r->op),
		.letter = (unsigned char)blk_op_letter(r->op),
		.flags = flags_text(&rows->texts, r->flags),
		.status = status_text(&rows->texts, r->error),
		.file = file_text(&rows->texts, r, t),
		.waiters = p->waiters,
		.waiting = r->waiting,
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
		row->user_frames = table_frames(t->symbolizer->table, p->user);
	rows->stacks_lost += p->lost;
	rows->stops[p->stop]++;
	return row->cgroup && row->unit && row->container && row->user && row->flags &&
		       row->status && row->file
		   ? 0
		   : -ENOMEM;
}

int slow_rows_make(struct slow_rows *rows, const struct slow_tables *tables, size_t most)
{
	int r = slow_rows_name(rows, tables);

	rows->rows = calloc(rows->n + 1, sizeof(*rows->rows));
	rows->n_rows = 0;
	rows->stacks_lost = 0;
	memset(rows->stops, 0, sizeof(rows->stops));
	if (!rows->rows)
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
	free(rows->rows);
	rows->rows = NULL;
	rows->n_rows = 0;
	text_set_free(&rows->texts);
}

void slow_rows_free(struct slow_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		free(rows->pending[i].record);
	free(rows->pending);
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
		while (width > room)
			width -= render_step(&at);
		snprintf(buf, SLOW_SHORT_SIZE, "...%s", at);
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
	const char *name = kallsyms_name(kallsyms, ip, NULL);
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
