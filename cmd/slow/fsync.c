// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace slow --fsync: calls of fsync and fdatasync that took long, and what they waited for. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cmd/block/base.h"
#include "cmd/block/syscalls.h"
#include "cmd/engine/check.h"
#include "cmd/slow/slow.h"
#include "core/bpf/kernel_types.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/isolation/privileges.h"
#include "probes/slow_fsync.skel.h"

#define RECORDS	  (8U << 20) /* bytes of the ring buffer */
#define PERIOD_MS 1000

/* Losses that user space counts. */
enum { LOSS_ROWS = FSYNC_LOSSES, LOSS_BTRFS };

/* ---- attaching ---- */

#define ALTS(a) (a), ARRAY_SIZE(a)

static const struct hook_alt call_alts[] = {
	{ HOOK_RAW_TP, "sys_enter", 2, { "fsync_enter", "fsync_exit" }, 0 },
};

static const struct hook_alt wait_alts[] = {
	{ HOOK_RAW_TP, "folio_wait_writeback", 2, { "folio_wait", "fsync_switch" }, 0 },
	{ HOOK_RAW_TP, "wait_on_page_writeback", 2, { "page_wait", "fsync_switch" }, 0 },
};

static const struct hook_alt bio_alts[] = {
	{ HOOK_TP_BTF, "block_bio_queue", 1, { "fsync_bio_btf" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 1, { "fsync_bio_raw" }, 0 },
	{ HOOK_RAW_TP, "block_bio_queue", 2, { "fsync_bio_raw_q" }, 0 },
};

/* Of file systems, each in the kernel or in a module. */
#define MODULE_ALTS(alts, module, tracepoint, ...)                                                 \
	static const struct hook_alt alts[] = {                                                    \
		{ HOOK_RAW_TP, tracepoint, 0, { __VA_ARGS__ }, 0 },                                \
		{ HOOK_RAW_TP, module "/" tracepoint, 0, { __VA_ARGS__ }, 0 },                     \
	}

MODULE_ALTS(ext4_alts, "ext4", "ext4_sync_file_enter", "file_sync", "file_written", "fast_begin",
	    "fast_end");
MODULE_ALTS(commit_alts, "jbd2", "jbd2_start_commit", "commit_begin", "commit_locking",
	    "commit_flushing", "commit_logging");
MODULE_ALTS(end_alts, "jbd2", "jbd2_run_stats", "commit_end", "commit_file", "handle_end");
MODULE_ALTS(xfs_alts, "xfs", "xfs_log_force", "log_force");

static size_t events(struct tool_run *run, struct hook_event *out)
{
	const struct args *args = run->args;
	size_t n = blk_events(args->command && !args->all ? WANT_TRACK : 0, out);

	out[n++] = (struct hook_event){ "wait", ALTS(wait_alts), false };
	out[n++] = (struct hook_event){ "bio", ALTS(bio_alts), false };
	out[n++] = (struct hook_event){ "commit_end", ALTS(end_alts), true };
	out[n++] = (struct hook_event){ "commit", ALTS(commit_alts), true };
	out[n++] = (struct hook_event){ "ext4", ALTS(ext4_alts), true };
	out[n++] = (struct hook_event){ "xfs", ALTS(xfs_alts), true };
	out[n++] = (struct hook_event){ "call", ALTS(call_alts), false };
	return n;
}

static int resolve(struct tool_run *run, struct error *err)
{
	struct slow *s = run->ctx;

	(void)err;
	run->helpers = NULL; /* no request is followed */
	call_disks_init(&s->fsync.disks, &s->o.filters, true);
	return 0;
}

static int prepare(struct tool_run *run, struct error *err)
{
	struct slow *s = run->ctx;
	int r = cgroups_open(NULL, NULL, &s->cgroups);

	run->collect_ms = PERIOD_MS;
	if (!r)
		r = mounts_open(NULL, &s->mounts);
	return r ? error_no_memory(err) : 0;
}

enum { INODE, SYNC_TID, DATASYNC_TID, FLAGS, MOUNT_OPT, MEMBERS };

/* Where ext4 has the number of the transaction that an fsync waits for, and whether data is
 * journalled; false: not known. */
static bool find_members(const struct tool_run *run, uint32_t at[MEMBERS])
{
	static const char *const names[MEMBERS][2] = {
		[INODE] = { "ext4_inode_info", "vfs_inode" },
		[SYNC_TID] = { "ext4_inode_info", "i_sync_tid" },
		[DATASYNC_TID] = { "ext4_inode_info", "i_datasync_tid" },
		[FLAGS] = { "ext4_inode_info", "i_flags" },
		[MOUNT_OPT] = { "ext4_sb_info", "s_mount_opt" },
	};

	for (size_t i = 0; i < MEMBERS; i++) {
		const long offset = kernel_types_offset(hooks_types(run->object.hooks), "ext4",
							names[i][0], names[i][1]);

		if (offset < 0)
			return false;
		at[i] = (uint32_t)offset;
	}
	return true;
}

/* What this kernel cannot tell, if there is an ext4. */
static void note_gaps(struct tool_run *run, bool known)
{
	static const char *const needed[] = { "ext4", "commit", "commit_end" };

	if (access("/sys/fs/ext4", F_OK))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		if (hooks_tag(run->object.hooks, needed[i], -1) >= 0)
			continue;
		tool_note(run, "the journal of ext4 is not seen: its part of fsyncs is in rest");
		return;
	}
	if (!known)
		tool_note(run, "this kernel does not tell which commit of ext4 an fsync waits for: "
			       "the last one that ended before it is taken");
}

static int configure(struct tool_run *run, struct tool_object *object)
{
	const struct slow *s = run->ctx;
	const struct args *args = &s->o.args;
	const uint32_t records = args->map_rows ? args->map_rows : RECORDS;
	unsigned char all[SYSCALL_NUMBERS] = { 0 }, ops[SYSCALL_NUMBERS] = { 0 };
	uint32_t at[MEMBERS] = { 0 };
	const bool known = find_members(run, at);
	const struct probe_option options[] = {
		{ "by_process", true },
		{ "min_ns", s->o.min_ns },
		{ "records_bytes", records },
		{ "check_files", s->o.filters.disk.dev != 0 },
		{ "syscall_ops", 0, ops, sizeof(ops) },
		{ "ext4_inode", known ? at[INODE] : 0 },
		{ "ext4_sync_tid", at[SYNC_TID] },
		{ "ext4_datasync_tid", at[DATASYNC_TID] },
		{ "ext4_flags", at[FLAGS] },
		{ "ext4_mount_opt", at[MOUNT_OPT] },
	};
	const struct probe_map maps[] = {
		{ "records", records },	 { "threads", args->map_requests }, { "process_names0", 1 },
		{ "process_names1", 1 }, CALL_DISKS_SIZES(&s->fsync.disks),
	};

	note_gaps(run, known);
	syscalls_numbers(false, all);
	for (size_t i = 0; i < SYSCALL_NUMBERS; i++)
		if (all[i] == SYSCALL_FSYNC + 1 || all[i] == SYSCALL_FDATASYNC + 1)
			ops[i] = all[i];
	return tool_configure(object, options, ARRAY_SIZE(options), maps, ARRAY_SIZE(maps));
}

static int take_record(void *ctx, void *data, size_t size)
{
	return fsync_rows_add(ctx, data, size);
}

static int attached(struct tool_run *run, struct error *err)
{
	struct slow_fsync *f = &((struct slow *)run->ctx)->fsync;

	f->ring = ring_buffer__new(tool_map(run, "records"), take_record, &f->rows, NULL);
	if (!f->ring)
		return error_set(err, STATUS_FAILED, -errno, "cannot use BPF maps");
	return call_disks_find(&f->disks, run, true) ? error_no_memory(err) : 0;
}

static void find_disks(struct tool_run *run)
{
	call_disks_find(&((struct slow *)run->ctx)->fsync.disks, run, false);
}

static void keeps(struct tool_run *run)
{
	tool_keep(run, "to name cgroups", PRIVILEGES_CGROUPS, true);
}

static int read_ring(struct slow_fsync *f)
{
	const int n = ring_buffer__consume(f->ring);

	return n < 0 ? n : 0;
}

/* With -n: only calls that may still be among the slowest of this interval stay. */
static void limit(struct slow *s)
{
	if (s->o.most)
		fsync_rows_limit(&s->fsync.rows, s->o.most);
}

static int on_ring(void *ctx, short events, struct error *err)
{
	struct slow *s = ctx;
	int r = read_ring(&s->fsync);

	(void)events;
	limit(s);
	return r ? error_set(err, STATUS_FAILED, r, "cannot read the ring buffer") : RUN_GO_ON;
}

static int begin(struct tool_run *run, struct error *err)
{
	struct slow *s = run->ctx;
	int r = run_watch(run->run, ring_buffer__epoll_fd(s->fsync.ring), POLLIN, on_ring, s, err);

	return r < 0 ? r : 0;
}

/* ---- outputs ---- */

/* When the first of the calls and commits began that go on: what began later may not be in the
 * map. */
static uint64_t oldest(const struct slow_fsync_bpf *skel)
{
	const struct bpf_map *map = skel->maps.threads;
	const int fd = bpf_map__fd(map);
	uint64_t key, next, oldest_ns = clock_mono_ns();
	bool more = !bpf_map_get_next_key(fd, NULL, &key);
	struct {
		uint64_t of_threads[6];
		union {
			struct fsync_head head;
			struct fsync_call call;
			struct fsync_commit commit;
		};
	} t;

	_Static_assert(sizeof(t) == 6 * 8 + sizeof(struct fsync_call), "struct fsync_thread");
	/* A key that is deleted meanwhile begins the walk anew. */
	for (uint32_t i = 0; more && i < 4 * bpf_map__max_entries(map); i++, key = next) {
		uint64_t ns;

		more = !bpf_map_get_next_key(fd, &key, &next);
		if (bpf_map_lookup_elem(fd, &key, &t))
			continue;
		ns = t.head.type == FSYNC_COMMIT ? t.commit.start_ns : t.call.enter_ns;
		if (ns && ns < oldest_ns)
			oldest_ns = ns;
	}
	return oldest_ns;
}

static int drain(struct tool_run *run, int inactive, struct error *err)
{
	struct slow_fsync *f = &((struct slow *)run->ctx)->fsync;

	(void)inactive;
	(void)err;
	/* First, so that a call that ends in between is in the ring buffer. */
	f->oldest_ns = oldest(run->object.skel);
	return read_ring(f);
}

/* In a long interval most commits and files are of no call that is shown. */
static int collect(struct tool_run *run, struct error *err)
{
	struct slow *s = run->ctx;
	int r = drain(run, 0, err);

	if (r)
		return r;
	limit(s);
	fsync_rows_forget(&s->fsync.rows, s->fsync.oldest_ns);
	return 0;
}

static int rows(struct tool_run *run, struct recording_interval *out, struct error *err)
{
	const struct slow_fsync_bpf *skel = run->object.skel;
	const uint64_t now = clock_epoch_ns();
	struct slow *s = run->ctx;
	struct fsync_rows *all = &s->fsync.rows;
	const struct fsync_tables tables = {
		.disks = run->disks,
		.cgroups = s->cgroups,
		.mounts = s->mounts,
		.epoch = skel->bss->epoch,
		.epoch_less = (int64_t)tool_epoch_ns(run, 0),
		.utc_offset = clock_utc_offset(now),
	};

	if (fsync_rows_make(all, &tables, s->o.most))
		return error_no_memory(err);
	tool_count_loss(run, BLK_LOSS_ROWS + LOSS_ROWS, all->full);
	all->full = 0;
	tool_count_loss(run, BLK_LOSS_CGROUPS, cgroups_lost(s->cgroups));
	out->tables[0] = (struct recording_rows){ all->rows, all->n_rows };
	return 0;
}

static void end_output(struct tool_run *run, bool last)
{
	const struct slow_fsync_bpf *skel = run->object.skel;
	struct slow *s = run->ctx;

	(void)last;
	fsync_rows_clear(&s->fsync.rows, skel->bss->epoch, s->fsync.oldest_ns);
	cgroups_forget(s->cgroups);
}

static void free_fsync(void *ctx)
{
	struct slow *s = ctx;

	ring_buffer__free(s->fsync.ring);
	fsync_rows_free(&s->fsync.rows);
	call_disks_free(&s->fsync.disks);
	mounts_free(s->mounts);
	cgroups_free(s->cgroups);
}

/* ---- the declaration ---- */

TOOL_PROBE(slow_fsync);

#define LOSS(i, key, text) [i] = { key, text, "fsync_losses", i, false }

static const struct tool_loss losses[] = {
	LOSS(FSYNC_LOSS_RECORDS, "records_full",
	     "fsyncs not shown, or commits and files unknown: the ring buffer was full"),
	LOSS(FSYNC_LOSS_THREADS, "threads_full",
	     "fsyncs not shown, or commits unknown: too many at once"),
	[LOSS_ROWS] = { .key = "rows_full",
			.text = "fsyncs not shown, or commits and files unknown: too many in an "
				"interval" },
	CALL_DISKS_LOSS(LOSS_BTRFS),
};

static const struct tool_optional optional[] = {
	{ "track", "-- COMMAND" },
	{ "ext4", "--fsync: the parts of fsyncs on ext4" },
	{ "commit", "--fsync: the commits of ext4's journal" },
	{ "commit_end", "--fsync: the commits of ext4's journal" },
	{ "xfs", "--fsync: the log of XFS" },
	{ NULL, NULL },
};

const struct tool slow_fsync_tool = {
	.name = "slow",
	BLOCK_TOOL(struct slow, o),
	.flags = TOOL_NAMES | TOOL_DOUBLE_BUFFER,
	.probe = &slow_fsync_probe,
	.optional = optional,
	.losses = losses,
	.n_losses = ARRAY_SIZE(losses),
	.view = &slow_view,
	.options = slow_tool_options,
	.resolve = resolve,
	.events = events,
	.prepare = prepare,
	.configure = configure,
	.attached = attached,
	.disks = find_disks,
	.keeps = keeps,
	.begin = begin,
	.drain = drain,
	.collect = collect,
	.rows = rows,
	.end_output = end_output,
	.free = free_fsync,
};
