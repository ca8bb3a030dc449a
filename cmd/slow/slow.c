// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace slow: what it declares to the engine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "cmd/block/base.h"
#include "cmd/block/files.h"
#include "cmd/engine/check.h"
#include "cmd/cli/command.h"
#include "cmd/slow/screen.h"
#include "cmd/slow/slow.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/system/cpus.h"
#include "core/system/kallsyms.h"
#include "core/isolation/privileges.h"
#include "output/terminal.h"
#include "probes/unwind.h"
#include "probes/slow.skel.h"

#define RECORDS		 (8U << 20)  /* bytes */
#define RECORDS_SHARED	 (2U << 20)  /* in record, which runs all the time */
#define RECORDS_ALL	 (32U << 20) /* with -m 0: 0.8 s at 400,000 I/Os per second */
#define STACKS		 16384
#define USER_STACKS	 8192
#define STACK_NAMES	 (16U << 20) /* limit of memory for the names of user stacks, in bytes */
#define SLOW_COLUMNS_MAX 32

/* How often data is read from the kernel: user stacks are best named while their process exists. */
#define PERIOD_MS      1000
#define PERIOD_USER_MS 200

/* Losses that user space counts; the losses of the probe have the numbers before them. */
enum {
	LOSS_ROWS = SLOW_LOSSES,
	LOSS_RECORDS,
	LOSS_USER,				     /* by enum user_stacks_loss */
	LOSS_STOPS = LOSS_USER + USER_STACKS_LOSSES, /* by enum unwind_stop, from 1 on */
};

#define HEADING_ROWS 24 /* a new heading after so many rows */

static struct slow_bpf *skel_of(const struct tool_run *run)
{
	return run->object.skel;
}

/* ---- the BPF object ---- */

/* Sets the limit of slow from now on, in the buffer @at; with -n also the slowest time that is
 * kept. */
static void set_min(const struct tool_run *run, uint32_t at, uint64_t ns)
{
	const struct slow *s = run->ctx;
	__u64 *min_ns = skel_of(run)->bss->min_ns;

	__atomic_store_n(&min_ns[at & 1], ns > s->o.min_ns ? ns : s->o.min_ns, __ATOMIC_RELAXED);
}

static int configure(struct tool_run *run, struct tool_object *object)
{
	const struct slow *s = run->ctx;
	const struct args *args = &s->o.args;
	uint32_t whole = s->o.filters.disk.whole;
	bool with_stacks = s->o.stacks || s->o.user;
	uint32_t arrivals = blk_arrivals_entries(args);
	bool some = s->o.min_ns || s->o.most;
	uint32_t records = args->map_rows	  ? args->map_rows
			   : !run->shared_process ? (some ? RECORDS : RECORDS_ALL)
			   : some		  ? RECORDS_SHARED
						  : RECORDS;
	int r;
	const struct probe_option options[] = {
		{ "by_process", true },
		{ "by_user", keys_have(s->o.by, KEY_USER) },
		{ "bio_mode", s->o.bio },
		{ "want_stack", s->o.stacks },
		{ "want_user", s->o.user },
		{ "limit", s->o.limit },
		{ "own_start", blk_iostats_off(whole) },
		{ "trace_completion_mask", block_of(run)->flags.trace_completion },
		{ "arrivals_room", arrivals / 2 },
		{ "records_bytes", records },
	};
	uint32_t names = args->map_names;
	const struct probe_map maps[] = {
		{ "cpus", cpus_possible() },
		{ "arrivals", with_stacks ? 1 : arrivals },
		{ "arrivals_stacks", with_stacks ? arrivals : 1 },
		{ "records", records },
		{ "stacks", s->o.stacks ? args->map_stacks ? args->map_stacks : STACKS : 1 },
		{ "user_stacks",
		  s->o.user ? args->map_stacks ? args->map_stacks : USER_STACKS : 1 },
		{ "cgroups0", BLK_MADE_CGROUPS },
		{ "cgroups1", BLK_MADE_CGROUPS },
		{ "process_names0", names },
		{ "process_names1", names },
		{ "inflight",
		  args->map_requests ? args->map_requests : blk_requests_possible(whole) },
		{ "bios", s->o.bio ? args->map_requests : 1 },
		{ "bio_owners", blk_owners_entries(run->object.hooks, args, whole) },
	};

	/* Programs send records as soon as they are attached. */
	set_min(run, 0, 0);
	set_min(run, 1, 0);
	r = tool_configure(object, options, ARRAY_SIZE(options), maps, ARRAY_SIZE(maps));
	if (!r)
		r = files_configure(run, object, &block_of(run)->flags);
	return r ? r : user_stacks_configure(s->o.user ? &s->user : NULL, object);
}

/* ---- attaching ---- */

int slow_tool_options(struct tool_run *run, int argc, char **argv, struct error *err)
{
	struct slow *s = run->ctx;
	int r = slow_options(argc, argv, &s->o, err);

	s->run = run;
	if (s->o.fsync)
		run->tool = &slow_fsync_tool;
	return r;
}

static int resolve(struct tool_run *run, struct error *err)
{
	struct slow *s = run->ctx;

	s->o.filtered = blk_filters_submitters(&s->o.filters, &s->o.args);
	for (uint32_t i = 0; i < s->o.filters.n_disks; i++)
		s->o.filtered |= s->o.filters.disks[i].partition;
	if (s->o.bio || blk_disk_has_requests(&s->o.filters))
		return s->o.user ? user_stacks_resolve(run, err) : 0;
	error_set(err, STATUS_USAGE, -EINVAL, "%s is a bio-based device", s->o.filters.disk.name);
	error_hint(err, "use --bio");
	return -EINVAL;
}

static size_t events(struct tool_run *run, struct hook_event *out)
{
	struct slow *s = run->ctx;

	run->files = s->o.user ? USER_STACKS_FILES : 0;
	s->helpers[0] = blk_helpers[0];
	s->helpers[1] = s->o.user ? USER_STACKS_HELPER : NULL;
	run->helpers = s->helpers;
	return blk_events(WANT_SUBMIT | WANT_ISSUE | WANT_NAMES | WANT_CGROUPS | WANT_ARRIVALS |
			      (s->o.user ? WANT_USER_STACKS : 0) | (s->o.bio ? WANT_BIO : 0) |
			      (tool_tracks(run) ? WANT_TRACK : 0),
			  out);
}

/* Called while the helper process reads a file.  True: the deadline is near. */
static bool meanwhile(void *ctx)
{
	struct slow *s = ctx;

	if (s->records.ring)
		blk_records_read(&s->records);
	return run_is_due(s->run->run);
}

static int open_stacks(struct tool_run *run, struct slow *s, struct error *err)
{
	int r = s->o.stacks ? user_stacks_open_kernel(run, &s->kallsyms, err) : 0;

	if (r || !s->o.user)
		return r;
	run->collect_ms = PERIOD_USER_MS;
	s->tree.limit = STACK_NAMES;
	s->user.symbolizer.tree = &s->tree;
	return user_stacks_open(run, &s->user, meanwhile, s, err);
}

static int prepare(struct tool_run *run, struct error *err)
{
	struct slow *s = run->ctx;
	int r = cgroups_open(NULL, NULL, &s->cgroups);

	if (!r)
		r = mounts_open(NULL, &s->mounts);
	if (!r && keys_have(s->o.by, KEY_USER))
		r = users_open(NULL, &s->users);
	if (r)
		return error_no_memory(err);
	return open_stacks(run, s, err);
}

static int add_plain(struct slow *s, const struct blk_record *r)
{
	uint32_t epoch;
	const struct blk_owner *owner = blk_records_owner(&s->records, r->owner, &epoch);

	return slow_rows_add_plain(&s->rows, r, owner, epoch,
				   blk_record_lost(&s->records.last_lost, r->lost));
}

static int take_record(void *ctx, void *data, size_t size)
{
	struct slow_record *full = data;
	struct slow *s = ctx;

	if (size == sizeof(struct blk_record))
		return add_plain(s, data);
	if (size != sizeof(*full))
		return 0;
	return slow_rows_add(&s->rows, full, blk_record_lost(&s->records.last_lost, full->lost));
}

static int attached(struct tool_run *run, struct error *err)
{
	struct slow_bpf *skel = skel_of(run);
	struct slow *s = run->ctx;
	int r = blk_records_open(&s->records, skel->obj, &skel->bss->epoch, take_record, s);

	if (!r && s->o.stacks)
		r = slow_stacks_open(bpf_map__fd(skel->maps.stacks),
				     bpf_map__max_entries(skel->maps.stacks), &s->stacks);
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot use BPF maps");
	return s->o.user ? user_stacks_attached(run, &s->user, err) : 0;
}

/* With -n: from now on only I/Os that may still be among the slowest of this interval are sent. */
static void raise_min(struct slow *s)
{
	uint32_t epoch = skel_of(s->run)->bss->epoch;

	if (s->o.most)
		set_min(s->run, epoch, slow_rows_limit(&s->rows, s->o.most));
}

static int on_ring(void *ctx, short events, struct error *err)
{
	struct slow *s = ctx;
	int r = blk_records_read(&s->records);

	(void)events;
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot read the ring buffer");
	raise_min(s);
	return RUN_GO_ON;
}

static int begin(struct tool_run *run, struct error *err)
{
	struct slow *s = run->ctx;
	int r;

	user_stacks_begin(run, &s->user);
	r = run_watch(run->run, ring_buffer__epoll_fd(s->records.ring), POLLIN, on_ring, s, err);

	return r < 0 ? r : 0;
}

static void keeps(struct tool_run *run)
{
	const struct slow *s = run->ctx;

	tool_keep(run, "", privileges_to_name(), true);
	tool_keep(run, "to name cgroups", PRIVILEGES_CGROUPS, true);
	tool_keep(run, "with -U", PRIVILEGES_USER_STACKS, s->o.user);
}

static int check(struct tool_run *run, struct check *check, struct error *out)
{
	struct slow *s = run->ctx;
	struct error err;

	(void)out;
	if (!user_stacks_check_kernel(check)) {
		error_set(&err, STATUS_OK, 0, "kernel addresses are hidden");
		error_hint(&err, "%s", kallsyms_hint());
		check_gap(check, "files of direct I/O", &err);
	}
	user_stacks_check(check, &s->user);
	return 0;
}

/* ---- outputs ---- */

static struct slow_tables tables_of(struct slow *s)
{
	uint64_t now = clock_epoch_ns();

	return (struct slow_tables){
		.disks = s->run->disks,
		.names = s->run->names,
		.cgroups = s->cgroups,
		.mounts = s->mounts,
		.users = s->users,
		.kallsyms = s->kallsyms,
		.stacks = s->stacks,
		.symbolizer = s->o.user ? &s->user.symbolizer : NULL,
		.user_stacks = s->o.user ? bpf_map__fd(skel_of(s->run)->maps.user_stacks) : -1,
		.epoch = skel_of(s->run)->bss->epoch,
		.epoch_less = (int64_t)tool_epoch_ns(s->run, 0),
		.utc_offset = clock_utc_offset(now),
	};
}

/* Programs write to the other buffer by now: its records belong to the next output. */
static int drain(struct tool_run *run, int inactive, struct error *err)
{
	struct slow_bpf *skel = skel_of(run);
	const struct bpf_map *names =
	    inactive ? skel->maps.process_names1 : skel->maps.process_names0;
	const struct bpf_map *cgroups = inactive ? skel->maps.cgroups1 : skel->maps.cgroups0;
	struct slow *s = run->ctx;
	struct slow_tables tables;
	int r, n;

	(void)err;
	blk_records_drain(&s->records, inactive);
	r = blk_records_read(&s->records);
	set_min(s->run, (uint32_t)inactive, 0); /* for its next time */
	if (!r)
		r = blk_drain_cgroups(bpf_map__fd(cgroups), s->cgroups);
	if (r)
		return r;
	n = blk_drain_names(bpf_map__fd(names), run->names);
	if (n < 0)
		return n;
	tables = tables_of(s);
	tool_adapt(run, s->o.user ? PERIOD_USER_MS : PERIOD_MS,
		   &(struct run_fill){ (uint32_t)n, bpf_map__max_entries(names) }, 1);
	r = slow_rows_name(&s->rows, &tables);
	return r || !s->o.user ? r : slow_rows_name_stacks(&s->rows, &tables, &s->user.unwinder);
}

static int collect(struct tool_run *run, struct error *err)
{
	int r = tool_drain(run, err);

	if (!r)
		raise_min(run->ctx);
	return r;
}

static void count_user_losses(struct tool_run *run, struct slow *s)
{
	tool_count_loss(run, BLK_LOSS_ROWS + SLOW_LOSS_STACKS, s->rows.stacks_lost);
	for (int i = 0; i < USER_STACKS_LOSSES; i++) {
		uint64_t lost = user_stacks_lost(&s->user, i);

		tool_count_loss(run, BLK_LOSS_ROWS + LOSS_USER + (size_t)i, lost - s->lost[i]);
		s->lost[i] = lost;
	}
	for (size_t i = 1; i < UNWIND_STOPS; i++)
		tool_count_loss(run, BLK_LOSS_ROWS + LOSS_STOPS + i - 1, s->rows.stops[i]);
}

static int rows(struct tool_run *run, struct recording_interval *out, struct error *err)
{
	struct slow *s = run->ctx;
	struct slow_tables tables = tables_of(s);

	if (slow_rows_make(&s->rows, &tables, s->o.most))
		return error_no_memory(err);
	tool_count_loss(run, BLK_LOSS_ROWS + LOSS_ROWS, s->rows.full);
	s->rows.full = 0;
	tool_count_loss(run, BLK_LOSS_CGROUPS, cgroups_lost(s->cgroups));
	if (s->o.user)
		count_user_losses(run, s);
	out->tables[0] = (struct recording_rows){ s->rows.rows, s->rows.n_rows };
	return 0;
}

/* No row has a stack any more. */
static void forget_names(struct slow *s)
{
	stack_tree_clear(&s->tree);
	symbolizer_forget(&s->user.symbolizer);
}

static void end_output(struct tool_run *run, bool last)
{
	struct slow *s = run->ctx;

	slow_rows_clear(&s->rows, skel_of(run)->bss->epoch);
	cgroups_forget(s->cgroups);
	if (stack_tree_memory(&s->tree) > STACK_NAMES / 2)
		forget_names(s);
	if (last && s->o.user)
		user_stacks_show_unread(&s->user);
}

static void free_slow(void *ctx)
{
	struct slow *s = ctx;

	user_stacks_close(&s->user);
	stack_tree_free(&s->tree);
	blk_records_close(&s->records);
	slow_rows_free(&s->rows);
	slow_stacks_free(s->stacks);
	kallsyms_free(s->kallsyms);
	mounts_free(s->mounts);
	users_free(s->users);
	cgroups_free(s->cgroups);
	slow_summary_free(&s->summary);
}

/* ---- display ---- */

/* In a replay: what took less than -m of the run is not there, nor are users without --by user. */
static int check_replay(void *ctx, struct error *err)
{
	struct slow *s = ctx;
	const bool users = keys_have(s->o.by, KEY_USER);
	char secs[32];

	if (args_given(&s->o.args, KEYS_KEY))
		s->o.by = s->o.replay_by;
	if (slow_fsync_check(&s->o, err))
		return -EINVAL;
	if (keys_have(s->o.by, KEY_USER) && !users) {
		error_set(err, STATUS_USAGE, -EINVAL, "the recording has no users");
		error_hint(err, "record with --by user");
		return -EINVAL;
	}
	if (!args_given(&s->o.args, 'm'))
		return 0;
	tool_seconds(s->o.min_ns * 1000, secs, sizeof(secs));
	if (s->o.replay_min_ns < s->o.min_ns)
		return error_set(err, STATUS_USAGE, -EINVAL,
				 "the recording has %s of %s ms and more only",
				 s->o.fsync ? "fsyncs" : "I/Os", secs);
	s->o.min_ns = s->o.replay_min_ns;
	return 0;
}

static int take_interval(void *ctx, const struct recording_interval *in, struct error *err)
{
	struct slow *s = ctx;

	if (s->o.fsync)
		return 0;
	if (slow_summary_add(&s->summary, s->o.by, in->tables[0].rows, in->tables[0].n))
		return error_no_memory(err);
	return 0;
}

static int print_start(void *ctx, FILE *stream)
{
	const struct slow *s = ctx;
	const struct slow_options *o = &s->o;
	const char *what = o->fsync ? "fsyncs" : "I/Os";
	char secs[32];
	int n;

	/* Without -n milliseconds. */
	tool_seconds(o->most ? o->args.interval_ns : o->min_ns * 1000, secs, sizeof(secs));
	if (o->most)
		n = fprintf(stream, "Tracing the %llu slowest %s of every %s secs... ",
			    (unsigned long long)o->most, what, secs);
	else
		n = fprintf(stream, "Tracing %s of %s ms and more... ", what, secs);
	if (n < 0 || fputs("Hit Ctrl-C to end\n", stream) < 0)
		return -errno;
	return render_flush(stream);
}

static int print_stack(FILE *stream, struct frames frames)
{
	const char *name;
	int r = 0;

	while (!r && (name = frames_next(&frames))) {
		if (fputs("    ", stream) < 0)
			return -errno;
		r = render_name(stream, name);
		if (!r && fputs("\n", stream) < 0)
			return -errno;
	}
	return r;
}

/* ---- a terminal's width ---- */

#define FILE_WIDTH_MIN 24
#define TIME_WIDTH     12 /* "23:59:59.999" */
#define DATE_WIDTH     11

/* Fits the table to @stream: drops the dates, then the least important columns, so that at least
 * FILE_WIDTH_MIN are left for FILE; keeps all if it is not a terminal. */
struct fitted {
	struct schema schema;
	struct column columns[SLOW_COLUMNS_MAX];
	size_t file; /* room for it; SLOW_NAME_MAX: not a terminal */
	bool dated;
};

static bool is_column(const struct column *column, const char *key)
{
	return column->key && strcmp(column->key, key) == 0;
}

static size_t width_of(const struct fitted *f)
{
	size_t width = 0;

	for (size_t i = 0; i < f->schema.n; i++)
		if (f->columns[i].heading && !is_column(&f->columns[i], "file"))
			width += (size_t)f->columns[i].width + 1;
	return width;
}

static void leave_out(struct fitted *f, const char *key)
{
	for (size_t i = 0; i < f->schema.n; i++)
		if (is_column(&f->columns[i], key))
			f->columns[i].heading = NULL;
}

/* All rows below each other. */
static void widen(struct fitted *f, const char *key, size_t width)
{
	for (size_t i = 0; i < f->schema.n; i++)
		if (is_column(&f->columns[i], key) && (size_t)f->columns[i].width < width)
			f->columns[i].width = (int)width;
}

static void fit(struct fitted *f, const struct render_interval *in, FILE *stream)
{
	static const char *const least[] = { "depth",	 "flags",    "bytes",	 "status",
					     "admit_ns", "queue_ns", "device_ns" };
	size_t columns = terminal_size(stream).columns;
	char comm[64];

	*f = (struct fitted){ .schema = *in->schema, .file = SLOW_NAME_MAX };
	memcpy(f->columns, in->schema->columns, f->schema.n * sizeof(f->columns[0]));
	f->schema.columns = f->columns;
	for (size_t i = 0; i < in->n; i++) {
		const struct slow_row *row = (const struct slow_row *)in->rows + i;

		widen(f, "disk", slow_width(row->disk));
		widen(f, "comm", slow_width(slow_comm(row, comm, sizeof(comm))));
	}
	f->dated = !columns || width_of(f) + DATE_WIDTH + FILE_WIDTH_MIN <= columns;
	if (f->dated)
		widen(f, "time", TIME_WIDTH + DATE_WIDTH);
	for (size_t i = 0; columns && i < ARRAY_SIZE(least); i++)
		if (width_of(f) + FILE_WIDTH_MIN > columns)
			leave_out(f, least[i]);
	if (columns)
		f->file =
		    columns > width_of(f) + FILE_WIDTH_MIN ? columns - width_of(f) : FILE_WIDTH_MIN;
}

static int print_row(const struct fitted *f, const struct slow_row *row, FILE *stream)
{
	char shortened[SLOW_SHORT_SIZE], file[sizeof("[for ]") + SLOW_SHORT_SIZE];
	struct slow_row shown = *row;

	shown.dated = f->dated;
	shown.file = slow_shorten(row->file, f->file, shortened);
	if (*row->waiters) {
		snprintf(file, sizeof(file), "[for %s]",
			 slow_shorten(row->waiters, f->file - strlen("[for ]"), shortened));
		shown.file = file;
	}
	return render_table_rows(stream, &f->schema, &shown, 1);
}

static int print_rows(struct slow *s, const struct slow_row *rows, size_t n, const struct fitted *f,
		      FILE *stream)
{
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		r = print_row(f, &rows[i], stream);
		if (!r && s->o.stacks)
			r = print_stack(stream, rows[i].kernel);
		if (!r && s->o.stacks && s->o.user && fputs("    --\n", stream) < 0)
			r = -errno;
		if (!r && s->o.user)
			r = print_stack(stream, rows[i].user_frames);
	}
	return r;
}

/* One table: its heading is repeated after some rows. With -n intervals are set apart. */
static int print_heading(struct slow *s, const struct render_interval *in,
			 const struct schema *schema, FILE *stream)
{
	int r = 0;

	if (in->n && s->o.most && s->headed && fputs("\n", stream) < 0)
		return -errno;
	if (in->n && (!s->headed || s->since_heading >= HEADING_ROWS)) {
		r = render_table_heading(stream, schema);
		s->headed = true;
		s->since_heading = 0;
	}
	s->since_heading += in->n;
	return r;
}

static int print_body(void *ctx, const struct render_interval *in, FILE *stream, struct error *err)
{
	struct slow *s = ctx;
	struct fitted f;
	int r;

	(void)err;
	if (s->o.fsync) {
		r = print_heading(s, in, in->schema, stream);
		return r ? r : fsync_print_rows(stream, in->rows, in->n);
	}
	fit(&f, in, stream);
	r = print_heading(s, in, &f.schema, stream);
	return r ? r : print_rows(s, in->rows, in->n, &f, stream);
}

static int print_end(void *ctx, FILE *stream)
{
	struct slow *s = ctx;
	int r = s->o.fsync ? 0 : slow_summary_print(&s->summary, s->o.by, stream);

	return r ? r : render_flush(stream);
}

static void tables(void *ctx, struct show *show)
{
	const struct slow *s = ctx;

	show->tables[0] =
	    (struct recording_table){ "rows", &slow_schemas[s->o.stacks | s->o.user << 1] };
	show->n_tables = 1;
	if (!s->o.fsync)
		return;
	show->tables[0].schema = &fsync_schema;
	show->empty = "no slow fsync seen";
}

static const struct schema *columns(size_t i, const char **with)
{
	static const char *const names[] = { "", "-K", "-U", "-K -U", "--fsync" };

	if (i >= ARRAY_SIZE(names))
		return NULL;
	*with = names[i];
	return i < ARRAY_SIZE(slow_schemas) ? &slow_schemas[i] : &fsync_schema;
}

/* ---- the declaration ---- */

TOOL_PROBE(slow);

#define PROBE_LOSS(i, key, text) [i] = { key, text, "slow_losses", i, false }
#define USER_LOSS(i, key, text)	 [LOSS_USER + (i)] = { key, text, NULL, 0, false },
#define STOP_LOSS(i, key, text)	 [LOSS_STOPS + (i)-1] = { key, text, NULL, 0, false },

static const struct tool_loss losses[] = {
	[LOSS_RECORDS] = { "records_full", "slow I/Os not shown: the ring buffer was full",
			   "records_lost", 0, false },
	PROBE_LOSS(SLOW_LOSS_LIMIT, "beyond_limit",
		   "slow I/Os shown without file and stack: more than --limit"),
	PROBE_LOSS(SLOW_LOSS_ARRIVALS, "arrivals",
		   "I/Os whose ADMIT time is unknown: shown as 0.00"),
	PROBE_LOSS(SLOW_LOSS_STACKS, "stacks_lost", "stacks not stored: map full"),
	[LOSS_ROWS] = { .key = "rows_full",
			.text = "slow I/Os not shown: too many in an interval" },
	USER_STACKS_EACH_LOSS(USER_LOSS) USER_STACKS_EACH_STOP(STOP_LOSS)
};

static const struct tool_optional optional[] = {
	{ "bio", "--bio" },
	{ "track", "-- COMMAND" },
	{ "rename", "new names of processes that rename themselves" },
	{ "cgroup", "names of short-lived cgroups" },
	{ NULL, NULL },
};

static const struct check_line checks[] = { { { "--bio", "-K", "-U" }, "" },
					    { { "--fsync" }, "--fsync" },
					    { { NULL }, NULL } };

static const struct show_setting settings[] = {
	SHOW_SETTING(struct slow, "interval_ns", 0, o.args.interval_ns, UINT64_MAX),
	SHOW_SETTING(struct slow, "min_ns", 0, o.min_ns, UINT64_MAX),
	SHOW_SETTING(struct slow, "most", 0, o.most, MAX_SLOWEST),
	SHOW_SETTING(struct slow, "stacks", 0, o.stacks, 1),
	SHOW_SETTING(struct slow, "user_stacks", 0, o.user, 1),
	SHOW_SETTING(struct slow, "fsync", 0, o.fsync, 1),
	SHOW_SETTING(struct slow, "by", 0, o.by, UINT64_MAX),
	SHOW_SETTING(struct slow, "filtered", 0, o.filtered, 1),
	{ 0 },
};

const struct tool_view slow_view = {
	.columns = columns,
	.moments = true,
	.settings = settings,
	.screen = &slow_screen,
	.tables = tables,
	.check = check_replay,
	.take = take_interval,
	.text = { .begin = print_start, .body = print_body, .end = print_end },
	.empty = "no slow I/O seen",
};

const struct tool tool_slow = {
	.name = "slow",
	BLOCK_TOOL(struct slow, o),
	.flags = TOOL_NAMES | TOOL_DOUBLE_BUFFER,
	.probe = &slow_probe,
	.optional = optional,
	.losses = losses,
	.n_losses = ARRAY_SIZE(losses),
	.view = &slow_view,
	.options = slow_tool_options,
	.checks = checks,
	.resolve = resolve,
	.events = events,
	.prepare = prepare,
	.configure = configure,
	.attached = attached,
	.keeps = keeps,
	.check = check,
	.begin = begin,
	.drain = drain,
	.collect = collect,
	.rows = rows,
	.end_output = end_output,
	.free = free_slow,
};
