// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "cmd/check.h"
#include "cmd/command.h"
#include "cmd/slow/options.h"
#include "cmd/slow/rows.h"
#include "cmd/slow/summary.h"
#include "cmd/tool.h"
#include "cmd/user_stacks.h"
#include "core/base/clock.h"
#include "core/bpf/find_symbols.h"
#include "core/system/cpus.h"
#include "core/system/kallsyms.h"
#include "core/isolation/privileges.h"
#include "output/terminal.h"
#include "probes/unwind.h"
#include "probes/slow.skel.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

#define ARRIVALS	 16384
#define STACKS		 16384
#define USER_STACKS	 8192
#define STACK_NAMES	 (16U << 20) /* bytes of what user stacks are named by, at most */
#define SLOW_COLUMNS_MAX 32

/* How often what the kernel has noted is taken: user stacks are best named while their process is
 * there. */
#define PERIOD_MS      1000
#define PERIOD_USER_MS 200

/* Losses, behind those of the probe and rows_full. */
enum {
	LOSS_USER = SLOW_LOSSES + 1,		     /* by enum user_stacks_loss */
	LOSS_STOPS = LOSS_USER + USER_STACKS_LOSSES, /* by enum unwind_stop, from 1 on */
};

#define HEADING_ROWS 24 /* a new heading after so many rows */

struct slow {
	struct slow_options o;
	struct tool_run *run;
	struct cgroups *cgroups;
	struct mounts *mounts;
	struct users *users;	   /* with --by user */
	struct kallsyms *kallsyms; /* with -K */
	struct slow_stacks *stacks;
	struct ring_buffer *ring;
	struct user_stacks user;	   /* with -U */
	struct table table;		   /* of their names */
	const char *helpers[3];		   /* tool_run.helpers */
	uint64_t lost[USER_STACKS_LOSSES]; /* of what there was at the last output */
	struct slow_rows rows;
	struct slow_summary summary;
	size_t since_heading; /* rows */
	bool headed;
};

static struct slow_bpf *skel_of(const struct tool_run *run)
{
	return run->object.skel;
}

/* ---- the BPF object ---- */

/* Functions of the kernel that end bios: probes/bio_file.bpf.h. */
enum {
	END_CHAIN,
	END_IOMAP_DIO,
	END_DIO,
	END_DEVICE_DIO = END_DIO + 2,
	END_BUFFER = END_DEVICE_DIO + 3,
	END_JOURNAL,
	END_SWAP,
	END_WAIT = END_SWAP + 2,
	END_BTRFS = END_WAIT + 2,
	ENDS = END_BTRFS + 2
};

static const char *const ends[ENDS] = {
	[END_CHAIN] = "bio_chain_endio",
	[END_IOMAP_DIO] = "iomap_dio_bio_end_io",
	[END_DIO] = "dio_bio_end_io",
	"dio_bio_end_aio",
	[END_DEVICE_DIO] = "blkdev_bio_end_io",
	"blkdev_bio_end_io_async",
	"blkdev_bio_end_io_simple",
	[END_BUFFER] = "end_bio_bh_io_sync",
	[END_JOURNAL] = "journal_end_buffer_io_sync",
	[END_SWAP] = "end_swap_bio_write",
	"end_swap_bio_read",
	[END_WAIT] = "submit_bio_wait_endio",
	"bio_wait_end_io",
	[END_BTRFS] = "btrfs_simple_end_io",
	"btrfs_orig_write_end_io",
};

/* How many have an address, or -errno.  Reading all of /proc/kallsyms is most of a start. */
static int find_ends(uint64_t at[ENDS])
{
	int found = find_symbols(ends, at, ENDS);

	return found < 0 ? kallsyms_find(NULL, ends, at, ENDS) : found;
}

/* Bios that have arrived: of each CPU the map keeps up to 128 places ready. */
static uint32_t arrivals_entries(const struct args *args)
{
	uint32_t room = 256 * cpus_possible();

	if (args->map_owners)
		return args->map_owners;
	return room > ARRIVALS ? room : ARRIVALS;
}

enum { BTRFS_BIO, BTRFS_INODE, BTRFS_VFS_INODE, BTRFS_MEMBERS };

/* Where btrfs has them; false: not known. */
static bool find_btrfs(const struct tool_run *run, uint32_t at[BTRFS_MEMBERS])
{
	static const char *const members[][2] = { { "btrfs_bio", "bio" },
						  { "btrfs_bio", "inode" },
						  { "btrfs_inode", "vfs_inode" } };

	for (size_t i = 0; i < BTRFS_MEMBERS; i++) {
		long r = hooks_offset(run->object.hooks, "btrfs", members[i][0], members[i][1]);

		if (r < 0)
			return false;
		at[i] = (uint32_t)r;
	}
	return true;
}

static int configure(struct tool_run *run, struct tool_object *object)
{
	const struct slow *s = run->ctx;
	const struct args *args = &s->o.args;
	uint32_t whole = s->o.filters.disk.whole;
	uint32_t btrfs[BTRFS_MEMBERS] = { 0 };
	bool has_btrfs = find_btrfs(run, btrfs), with_stacks = s->o.stacks || s->o.user;
	uint32_t arrivals = arrivals_entries(args);
	uint64_t at[ENDS] = { 0 };
	int r, found = find_ends(at);
	const struct probe_option options[] = {
		{ "by_process", true },
		{ "by_user", keys_have(s->o.by, KEY_USER) },
		{ "bio_mode", s->o.bio },
		{ "want_stack", s->o.stacks },
		{ "want_user", s->o.user },
		{ "limit", s->o.limit },
		{ "own_start", blk_iostats_off(whole) },
		{ "end_of_chain", at[END_CHAIN] },
		{ "end_of_iomap_dio", at[END_IOMAP_DIO] },
		{ "end_of_dio", 0, &at[END_DIO], 2 * sizeof(at[0]) },
		{ "end_of_device_dio", 0, &at[END_DEVICE_DIO], 3 * sizeof(at[0]) },
		{ "end_of_buffer", at[END_BUFFER] },
		{ "end_of_journal", at[END_JOURNAL] },
		{ "end_of_swap", 0, &at[END_SWAP], 2 * sizeof(at[0]) },
		{ "end_of_wait", 0, &at[END_WAIT], 2 * sizeof(at[0]) },
		{ "end_of_btrfs", 0, &at[END_BTRFS], 2 * sizeof(at[0]) },
		{ "btrfs_bio_bio", has_btrfs ? btrfs[BTRFS_BIO] : 0 },
		{ "btrfs_bio_inode", btrfs[BTRFS_INODE] },
		{ "btrfs_inode_vfs", btrfs[BTRFS_VFS_INODE] },
		{ "page_pinned_mask", run->flags.page_pinned },
		{ "trace_completion_mask", run->flags.trace_completion },
		{ "arrivals_room", arrivals / 2 },
	};
	uint32_t names = args->map_names;
	const struct probe_map maps[] = {
		{ "cpus", cpus_possible() },
		{ "arrivals", with_stacks ? 1 : arrivals },
		{ "arrivals_stacks", with_stacks ? arrivals : 1 },
		{ "records", args->map_rows },
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

	if (found <= 0)
		tool_note(run, "kernel addresses are hidden: files of direct I/O are not known");
	r = tool_configure(object, options, N(options), maps, N(maps));
	return r ? r : user_stacks_configure(s->o.user ? &s->user : NULL, object);
}

/* ---- attaching ---- */

static int options(int argc, char **argv, void *ctx, struct error *err)
{
	return slow_options(argc, argv, &((struct slow *)ctx)->o, err);
}

static void want_all(void *ctx)
{
	struct slow *s = ctx;

	s->o.bio = s->o.stacks = s->o.user = true;
}

static int resolve(struct tool_run *run, struct error *err)
{
	const struct slow *s = run->ctx;

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

/* Takes what is in the ring buffer.  0 or -errno. */
static int take(struct slow *s)
{
	int r = ring_buffer__consume(s->ring);

	return r < 0 ? r : 0;
}

/* While the helper process reads a file.  True: it should come to an end. */
static bool meanwhile(void *ctx)
{
	struct slow *s = ctx;

	if (s->ring)
		take(s);
	return run_is_due(s->run->run);
}

static int open_stacks(struct tool_run *run, struct slow *s, struct error *err)
{
	int r = s->o.stacks ? user_stacks_open_kernel(run, &s->kallsyms, err) : 0;

	if (r || !s->o.user)
		return r;
	run->collect_ms = PERIOD_USER_MS;
	s->table.limit = STACK_NAMES;
	s->user.symbolizer.table = &s->table;
	return user_stacks_open(run, &s->user, meanwhile, s, err);
}

static int prepare(struct tool_run *run, struct error *err)
{
	struct slow *s = run->ctx;
	int r = cgroups_open(NULL, NULL, &s->cgroups);

	s->run = run;
	if (!r)
		r = mounts_open(NULL, &s->mounts);
	if (!r && keys_have(s->o.by, KEY_USER))
		r = users_open(NULL, &s->users);
	if (r)
		return error_no_memory(err);
	return open_stacks(run, s, err);
}

static int take_record(void *ctx, void *data, size_t size)
{
	struct slow *s = ctx;

	return size == sizeof(struct slow_record) ? slow_rows_add(&s->rows, data) : 0;
}

/* What is slow from now on, in the buffer @at; of -n also as slow as those that are kept. */
static void set_min(struct slow *s, uint32_t at, uint64_t ns)
{
	__u64 *min_ns = skel_of(s->run)->bss->min_ns;

	__atomic_store_n(&min_ns[at & 1], ns > s->o.min_ns ? ns : s->o.min_ns, __ATOMIC_RELAXED);
}

static int attached(struct tool_run *run, struct error *err)
{
	struct slow_bpf *skel = skel_of(run);
	struct slow *s = run->ctx;
	int r = 0;

	set_min(s, 0, 0);
	set_min(s, 1, 0);
	s->ring = ring_buffer__new(bpf_map__fd(skel->maps.records), take_record, s, NULL);
	if (!s->ring)
		r = -errno;
	else if (s->o.stacks)
		r = slow_stacks_open(bpf_map__fd(skel->maps.stacks),
				     bpf_map__max_entries(skel->maps.stacks), &s->stacks);
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot use BPF maps");
	return s->o.user ? user_stacks_attached(run, &s->user, err) : 0;
}

/* Of -n: only what may still be among the slowest of this interval comes from now on. */
static void raise_min(struct slow *s)
{
	uint32_t epoch = skel_of(s->run)->bss->epoch;

	if (s->o.most)
		set_min(s, epoch, slow_rows_limit(&s->rows, s->o.most));
}

static int on_ring(void *ctx, short events, struct error *err)
{
	struct slow *s = ctx;
	int r = take(s);

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
	s->user.drained_ns = clock_mono_ns();
	r = run_watch(run->run, ring_buffer__epoll_fd(s->ring), POLLIN, on_ring, s, err);

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
		.epoch_less = (int64_t)(now - clock_mono_ns()),
		.utc_offset = clock_utc_offset(now),
	};
}

/* An I/O may have arrived long before it is complete: how long what was mapped then is kept, and
 * how long where there is much room for it. */
#define KEPT_NS	    (30 * NS_PER_SEC)
#define KEPT_MAX_NS (300 * NS_PER_SEC)

static uint64_t kept_ns(const struct address_spaces *spaces)
{
	struct address_spaces_size size;

	address_spaces_size(spaces, &size);
	return size.processes < ADDRESS_SPACES_PROCESSES / 2 &&
		       size.memory < ADDRESS_SPACES_MEMORY / 2
		   ? KEPT_MAX_NS
		   : KEPT_NS;
}

static int name_user_stacks(struct slow *s, const struct slow_tables *tables)
{
	uint64_t now = clock_mono_ns(), kept = kept_ns(s->user.symbolizer.spaces);

	s->user.drained_ns = now > kept ? now - kept : 0;
	address_spaces_update(s->user.symbolizer.spaces, s->user.drained_ns);
	return slow_rows_name_stacks(&s->rows, tables, &s->user.unwinder);
}

/* Programs write to the other buffer by now: its records are not of this output. */
static int drain(struct tool_run *run, int inactive, struct error *err)
{
	struct slow_bpf *skel = skel_of(run);
	const struct bpf_map *names =
	    inactive ? skel->maps.process_names1 : skel->maps.process_names0;
	const struct bpf_map *cgroups = inactive ? skel->maps.cgroups1 : skel->maps.cgroups0;
	struct slow *s = run->ctx;
	struct slow_tables tables;
	int r = take(s), n;

	(void)err;
	set_min(s, (uint32_t)inactive, 0); /* for its next time */
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
	return r || !s->o.user ? r : name_user_stacks(s, &tables);
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
	tool_count_loss(run, BLK_LOSS_ROWS + SLOW_LOSSES, s->rows.full);
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
	unsigned int rebuilt = s->table.rebuilt;

	table_free(&s->table);
	s->table.limit = STACK_NAMES;
	s->table.rebuilt = rebuilt + 1;
	symbolizer_begin_batch(&s->user.symbolizer);
	symbolizer_end_batch(&s->user.symbolizer); /* its cache has numbers of the table */
}

static void end_output(struct tool_run *run, bool last)
{
	struct slow *s = run->ctx;

	slow_rows_clear(&s->rows, skel_of(run)->bss->epoch);
	cgroups_forget(s->cgroups);
	if (table_memory(&s->table) > STACK_NAMES / 2)
		forget_names(s);
	if (last && s->o.user)
		user_stacks_show_unread(&s->user);
}

static void free_slow(void *ctx)
{
	struct slow *s = ctx;

	user_stacks_close(&s->user);
	table_free(&s->table);
	ring_buffer__free(s->ring);
	slow_rows_free(&s->rows);
	slow_stacks_free(s->stacks);
	kallsyms_free(s->kallsyms);
	mounts_free(s->mounts);
	users_free(s->users);
	cgroups_free(s->cgroups);
	slow_summary_free(&s->summary);
}

/* ---- what is shown ---- */

static int take_interval(void *ctx, const struct recording_interval *in, struct error *err)
{
	struct slow *s = ctx;

	if (slow_summary_add(&s->summary, s->o.by, in->tables[0].rows, in->tables[0].n))
		return error_no_memory(err);
	return 0;
}

static int print_start(void *ctx, FILE *stream)
{
	const struct slow *s = ctx;
	const struct slow_options *o = &s->o;
	char secs[32];
	int n;

	/* Without -n milliseconds. */
	tool_seconds(o->most ? o->args.interval_ns : o->min_ns * 1000, secs, sizeof(secs));
	if (o->most)
		n = fprintf(stream, "Tracing the %llu slowest I/Os of every %s secs... ",
			    (unsigned long long)o->most, secs);
	else
		n = fprintf(stream, "Tracing I/Os of %s ms and more... ", secs);
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

/* The table as it fits @stream: without the columns that say least, so that at least FILE_WIDTH_MIN
 * are left for FILE; all where it is no terminal. */
struct fitted {
	struct schema schema;
	struct column columns[SLOW_COLUMNS_MAX];
	size_t file; /* room for it; SLOW_NAME_MAX: no terminal */
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
	for (size_t i = 0; columns && i < N(least); i++)
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

/* One table: its heading comes again after some rows. */
static int print_body(void *ctx, const struct render_interval *in, FILE *stream, struct error *err)
{
	struct slow *s = ctx;
	struct fitted f;
	int r = 0;

	(void)err;
	fit(&f, in, stream);
	if (in->n && s->o.most && s->headed && fputs("\n", stream) < 0)
		return -errno;
	if (in->n && (!s->headed || s->o.most || s->since_heading >= HEADING_ROWS)) {
		r = render_table_heading(stream, &f.schema);
		s->headed = true;
		s->since_heading = 0;
	}
	s->since_heading += in->n;
	return r ? r : print_rows(s, in->rows, in->n, &f, stream);
}

static int print_end(void *ctx, FILE *stream)
{
	struct slow *s = ctx;
	int r = slow_summary_print(&s->summary, s->o.by, stream);

	return r ? r : render_flush(stream);
}

static void tables(void *ctx, struct show *show)
{
	const struct slow *s = ctx;

	show->tables[0] =
	    (struct recording_table){ "rows", &slow_schemas[s->o.stacks | s->o.user << 1] };
	show->n_tables = 1;
}

static const struct schema *columns(size_t i, const char **with)
{
	static const char *const names[] = { "", "-K", "-U", "-K -U" };

	if (i >= N(slow_schemas))
		return NULL;
	*with = names[i];
	return &slow_schemas[i];
}

/* ---- the declaration ---- */

TOOL_PROBE(slow);

#define PROBE_LOSS(i, key, text) [i] = { key, text, "slow_losses", i, false }
#define USER_LOSS(i, key, text)	 [LOSS_USER + (i)] = { key, text, NULL, 0, false },
#define STOP_LOSS(i, key, text)	 [LOSS_STOPS + (i)-1] = { key, text, NULL, 0, false },

static const struct tool_loss losses[] = {
	PROBE_LOSS(SLOW_LOSS_RING, "records_full", "slow I/Os not shown: the ring buffer was full"),
	PROBE_LOSS(SLOW_LOSS_LIMIT, "beyond_limit", "slow I/Os not shown: more than --limit"),
	PROBE_LOSS(SLOW_LOSS_ARRIVALS, "arrivals",
		   "I/Os whose time before their request was made is not known"),
	PROBE_LOSS(SLOW_LOSS_STACKS, "stacks_lost", "stacks that had no room"),
	[SLOW_LOSSES] = { .key = "rows_full",
			  .text = "slow I/Os not shown: too many in an interval" },
	USER_STACKS_EACH_LOSS(USER_LOSS) USER_STACKS_EACH_STOP(STOP_LOSS)
};

static const struct tool_optional optional[] = {
	{ "bio", "--bio" },
	{ "track", "-- COMMAND" },
	{ "rename", "names of processes that change them" },
	{ "cgroup", "names of cgroups that are gone at once" },
	{ NULL, NULL },
};

static const struct tool_setting settings[] = {
	TOOL_SETTING(struct slow, "interval_ns", 0, o.args.interval_ns, UINT64_MAX),
	TOOL_SETTING(struct slow, "min_ns", 0, o.min_ns, UINT64_MAX),
	TOOL_SETTING(struct slow, "most", 0, o.most, MAX_SLOWEST),
	TOOL_SETTING(struct slow, "stacks", 0, o.stacks, 1),
	TOOL_SETTING(struct slow, "user_stacks", 0, o.user, 1),
	TOOL_SETTING(struct slow, "by", 0, o.by, UINT64_MAX),
};

static const struct tool_view view = {
	.tables = tables,
	.take = take_interval,
	.text = { .begin = print_start, .body = print_body, .end = print_end },
	.empty = "no slow I/O seen",
};

const struct tool tool_slow = {
	.name = "slow",
	.ctx_size = sizeof(struct slow),
	.args_at = offsetof(struct slow, o.args),
	.filters_at = offsetof(struct slow, o.filters),
	.flags = TOOL_BLK | TOOL_NAMES | TOOL_DOUBLE_BUFFER,
	.args = &slow_args,
	.probe = &slow_probe,
	.helpers = blk_helpers,
	.optional = optional,
	.losses = losses,
	.n_losses = N(losses),
	.settings = settings,
	.n_settings = N(settings),
	.view = &view,
	.columns = columns,
	.options = options,
	.want_all = want_all,
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
