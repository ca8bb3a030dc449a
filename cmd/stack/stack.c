// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace stack: what it declares to the engine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "cmd/block/base.h"
#include "cmd/block/files.h"
#include "cmd/cli/command.h"
#include "cmd/stack/stack.h"
#include "cmd/block/syscalls.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/system/cpus.h"
#include "core/system/preflight.h"
#include "core/isolation/privileges.h"
#include "probes/stack.skel.h"

/* Limit for all counts: with the maps, the kernel's symbols and the rest, iotrace stays below 64
 * MB. */
#define TABLE_LIMIT (16U << 20)

/* ---- the BPF object ---- */

/* Bios on their way to their request: few, and bios that never make a request. */
static uint32_t paths_room(const struct args *args)
{
	return args->map_owners ? args->map_owners : blk_owners_room(cpus_possible(), 0);
}

/* Do rows refer to stacks by their path? */
static bool has_paths(const struct stack_options *o)
{
	return o->ios || o->waits;
}

/* Different stacks between two drains; 0: as many as the BPF object says. */
#define USER_STACKS 2048 /* for user space alone, drained five times a second */

static uint32_t stacks_room(const struct stack_options *o)
{
	if (!o->kernel && !o->user)
		return 1;
	return o->args.map_stacks || o->kernel ? o->args.map_stacks : USER_STACKS;
}

/* Different rows between two drains; 0: see above. */
#define FILE_ROWS (2 * FILE_NAMES) /* a file has several */

static uint32_t rows_room(const struct stack_options *o)
{
	return o->args.map_rows || !keys_of_file(o->by) ? o->args.map_rows : FILE_ROWS;
}

/* Different rows of completed I/Os between two drains; 0: see above. */
#define USER_DONE 8192 /* with user stacks: see USER_STACKS */

static uint32_t done_room(const struct stack_options *o)
{
	if (!has_paths(o))
		return 1;
	return o->args.map_rows || !o->user || keys_of_file(o->by) ? rows_room(o) : USER_DONE;
}

/* Bios of devices without requests. */
static uint32_t bios_room(const struct stack_options *o)
{
	bool has_requests = o->filters.disk.dev && blk_disk_has_requests(&o->filters);

	return o->ios && !has_requests ? o->args.map_requests : 1;
}

static int configure(struct tool_run *run, struct tool_object *object)
{
	const struct stack *s = run->ctx;
	unsigned char syscall_ops[SYSCALL_NUMBERS] = { 0 };
	const struct args *args = &s->o.args;
	uint32_t stacks = stacks_room(&s->o);
	uint32_t whole = s->o.filters.disk.whole;
	uint32_t requests = args->map_requests ? args->map_requests : blk_requests_possible(whole);
	uint32_t owners = blk_owners_entries(run->object.hooks, args, whole);
	bool by_file = keys_of_file(s->o.by);
	uint32_t files = !by_file ? 1 : args->map_files ? args->map_files : FILE_NAMES;
	const struct probe_option options[] = {
		{ "by_process", true },
		{ "want_kernel", s->o.kernel },
		{ "want_user", s->o.user },
		{ "want_read", s->o.reads },
		{ "want_write", s->o.writes },
		{ "count_ios", s->o.ios },
		{ "want_cgroup", keys_of_cgroup(s->o.by) },
		{ "by_user", keys_have(s->o.by, KEY_USER) },
		{ "by_file", by_file },
		{ "own_start", s->o.ios && blk_iostats_off(whole) },
		{ "trace_completion_mask", block_of(run)->flags.trace_completion },
		{ "syscall_ops", 0, syscall_ops, sizeof(syscall_ops) },
		{ "check_files", s->o.filters.disk.dev != 0 },
		{ "keyed_dev", keys_have(stack_keys(&s->o), KEY_DISK) },
	};
	const struct probe_map maps[] = {
		{ "cpus", cpus_possible() },
		{ "rows0", rows_room(&s->o) },
		{ "rows1", rows_room(&s->o) },
		{ "process_names0", args->map_names },
		{ "process_names1", args->map_names },
		{ "file_names0", files },
		{ "file_names1", files },
		{ "stacks0", stacks },
		{ "stacks1", stacks },
		{ "cgroups0", keys_of_cgroup(s->o.by) ? BLK_MADE_CGROUPS : 1 },
		{ "cgroups1", keys_of_cgroup(s->o.by) ? BLK_MADE_CGROUPS : 1 },
		/* For completed I/Os. */
		{ "done0", done_room(&s->o) },
		{ "done1", done_room(&s->o) },
		{ "paths", s->o.ios ? paths_room(args) : 1 },
		{ "inflight", s->o.ios ? requests : 1 },
		{ "bios", bios_room(&s->o) },
		{ "bio_owners", s->o.ios ? owners : 1 },
		{ "waits_of_threads", s->o.waits ? args->map_requests : 1 },
		{ "page_faults", s->o.waits ? cpus_possible() : 1 },
		CALL_DISKS_SIZES(&s->disks),
	};
	int r;

	syscalls_numbers(false, syscall_ops);
	r = tool_configure(object, options, ARRAY_SIZE(options), maps, ARRAY_SIZE(maps));
	if (!r && by_file)
		r = files_configure(run, object, &block_of(run)->flags);
	return r ? r : user_stacks_configure(s->o.user ? &s->stacks : NULL, object);
}

/* ---- attaching ---- */

static int options(struct tool_run *t, int argc, char **argv, struct error *err)
{
	return stack_options(argc, argv, &((struct stack *)t->ctx)->o, err);
}

static int resolve(struct tool_run *run, struct error *err)
{
	struct stack *s = run->ctx;

	s->o.waits |= run->check && s->o.ios; /* at once, there */
	if (s->o.waits)
		call_disks_init(&s->disks, &s->o.filters, keys_have(stack_keys(&s->o), KEY_DISK));
	return s->o.user ? user_stacks_resolve(run, err) : 0;
}

static const struct hook_alt switch_alts[] = {
	{ HOOK_RAW_TP, "sched_switch", 0, { "wait_switch" }, 0, NULL, false },
};

static const struct hook_alt fault_alts[] = {
	{ HOOK_RAW_TP, "page_fault_user", 3, { "wait_fault" }, 0, NULL, false },
	{ HOOK_KPROBE, "handle_mm_fault", 0, { "wait_fault_kp" }, 0, NULL, false },
};

/* Page faults are only in rows without a disk. */
static bool counts_faults(const struct stack *s)
{
	return s->o.waits && s->o.reads && !s->o.filters.disk.dev;
}

static size_t events(struct tool_run *run, struct hook_event *out)
{
	struct stack *s = run->ctx;
	bool bios = s->o.ios || !s->o.waits;
	size_t n = 0;

	run->files = s->o.user ? USER_STACKS_FILES : 0;
	if (s->o.ios)
		s->helpers[n++] = blk_helpers[0];
	if (s->o.user) /* if tables are used */
		s->helpers[n++] = USER_STACKS_HELPER;
	run->helpers = s->helpers;
	n = blk_events(WANT_NAMES | (tool_tracks(run) ? WANT_TRACK : 0) | (bios ? WANT_STACK : 0) |
			   (s->o.ios ? WANT_SUBMIT | WANT_ISSUE : 0) |
			   (keys_of_cgroup(s->o.by) ? WANT_CGROUPS : 0),
		       out);
	if (s->o.waits)
		out[n++] =
		    (struct hook_event){ "switch", switch_alts, ARRAY_SIZE(switch_alts), false };
	if (counts_faults(s))
		out[n++] = (struct hook_event){ "fault", fault_alts, ARRAY_SIZE(fault_alts), true };
	return n;
}

static void note_faults(struct tool_run *run)
{
	const struct stack *s = run->ctx;
	const struct hook_choice *choice;
	const char *sep = ":";
	struct error why;
	char text[1024] = "waits in page faults are not counted";
	size_t n, used = strlen(text);

	if (s->o.waits && s->o.filters.disk.dev)
		tool_note(run, "waits in page faults are not counted with -d: the disk of the "
			       "file is unknown");
	if (!counts_faults(s) || hooks_tag(run->object.hooks, "fault", -1) >= 0)
		return;
	choice = hooks_choices(run->object.hooks, &n);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(choice[i].event, "fault") != 0)
			continue;
		if (choice[i].code == -EACCES && preflight_perf(&why))
			snprintf(text + used, sizeof(text) - used, "%s %s (%s)", sep, why.what,
				 why.hint);
		else
			snprintf(text + used, sizeof(text) - used, "%s %s: %s", sep,
				 choice[i].target, choice[i].reason);
		used = strlen(text);
		sep = ";";
	}
	tool_note(run, "%s", text);
}

static int prepare(struct tool_run *run, struct error *err)
{
	struct stack *s = run->ctx;
	int r;

	s->run = run;
	s->table.tree.limit = TABLE_LIMIT;
	s->table.unit = s->o.unit;
	r = keys_of_cgroup(s->o.by) ? cgroups_open(NULL, NULL, &s->cgroups) : 0;
	if (!r && keys_have(s->o.by, KEY_USER))
		r = users_open(NULL, &s->users);
	if (!r && keys_of_file(s->o.by))
		r = file_names_open(run->disks, true, &s->files);
	if (r)
		return error_set(err, STATUS_FAILED, r, "out of memory");
	return stack_open_symbolizer(s, err);
}

static void find_disks(struct tool_run *run)
{
	call_disks_find(&((struct stack *)run->ctx)->disks, run, false);
}

static int attached(struct tool_run *run, struct error *err)
{
	struct stack *s = run->ctx;
	int r = s->o.user ? user_stacks_attached(run, &s->stacks, err) : 0;

	if (r)
		return r;
	note_faults(run);
	return call_disks_find(&s->disks, run, true) ? error_no_memory(err) : 0;
}

static void keeps(struct tool_run *run)
{
	const struct stack *s = run->ctx;

	tool_keep(run, "", privileges_to_name(), true);
	tool_keep(run, "with -U", PRIVILEGES_USER_STACKS, s->o.user);
	tool_keep(run, "with --svg", PRIVILEGES_FILE, s->o.svg);
	tool_keep(run, "with --by cgroup, unit or container", PRIVILEGES_CGROUPS,
		  keys_of_cgroup(s->o.by));
}

static int begin(struct tool_run *run, struct error *err)
{
	struct stack *s = run->ctx;

	(void)err;
	user_stacks_begin(run, &s->stacks);
	s->begin_ns = s->drained_ns = clock_mono_ns();
	return 0;
}

/* Can the frames of -K and -U be named? */
static int check(struct tool_run *run, struct check *check, struct error *out)
{
	struct stack *s = run->ctx;

	(void)out;
	user_stacks_check_kernel(check);
	user_stacks_check(check, &s->stacks);
	return 0;
}

/* ---- outputs ---- */

static int collect(struct tool_run *run, struct error *err)
{
	int r = tool_drain(run, err);

	if (!r)
		r = stack_name(run->ctx, err);
	stack_show_progress(run->ctx);
	return r;
}

static void stop(struct tool_run *run)
{
	struct stack *s = run->ctx;

	s->stop_ns = clock_mono_ns();
	if (s->o.ios)
		block_sweep(run, stack_account_lost_completion);
	else
		tool_detach(run);
	s->is_last = true;
}

/* A loss in user space, of which @lost are known by now. */
static void count_loss(struct tool_run *run, struct stack *s, size_t loss, uint64_t lost)
{
	tool_count_loss(run, BLK_LOSS_ROWS + loss, lost - s->lost_before[loss]);
	s->lost_before[loss] = lost;
}

static void count_losses(struct tool_run *run, struct stack *s)
{
	count_loss(run, s, STACK_LOSS_FRAMES, s->stacks.symbolizer.lost);
	count_loss(run, s, STACK_LOSS_PATHS, s->paths.lost);
	count_loss(run, s, STACK_LOSS_EVICTED, s->table.evicted);
	if (s->cgroups)
		tool_count_loss(run, BLK_LOSS_CGROUPS, cgroups_lost(s->cgroups));
	for (int i = 0; i < USER_STACKS_LOSSES; i++)
		count_loss(run, s, STACK_LOSS_USER + (size_t)i, user_stacks_lost(&s->stacks, i));
}

static int rows(struct tool_run *run, struct recording_interval *out, struct error *err)
{
	struct stack *s = run->ctx;
	int r = stack_name(s, err);

	if (!r)
		r = stack_make_rows(s, err);
	if (r)
		return r;
	count_losses(run, s);
	out->tables[0] = (struct recording_rows){ s->rows, s->table.rows.n };
	return 0;
}

static void end_output(struct tool_run *run, bool last)
{
	struct stack *s = run->ctx;

	if (last)
		stack_show_largest(s);
	free(s->rows);
	s->rows = NULL;
	table_clear(&s->table);
	symbolizer_forget(&s->stacks.symbolizer);
	if (last)
		user_stacks_show_unread(&s->stacks);
}

static void free_stack(void *ctx)
{
	struct stack *s = ctx;

	stack_wipe_progress(s);
	user_stacks_close(&s->stacks);
	stack_paths_free(&s->paths);
	cgroups_free(s->cgroups);
	users_free(s->users);
	file_names_free(s->files);
	table_free(&s->table);
	table_free(&s->now);
	table_free(&s->next);
	call_disks_free(&s->disks);
}

/* ---- the declaration ---- */

TOOL_PROBE(stack);

#define PROBE_LOSS(i, key, text) [i] = { key, text, "stack_losses", i, false }
#define USER_LOSS(i, key, text)	 LOSS(STACK_LOSS_USER + (i), key, text),
#define STOP_LOSS(i, key, text)                                                                    \
	[STACK_LOSS_STOPS + (i)-1] = { key, text, "unwind_stops", i, false },
#define LOSS(i, key, text) [i] = { key, text, NULL, 0, false }

static const struct tool_loss losses[STACK_LOSS_ROWS_ALL] = {
	PROBE_LOSS(STACK_LOSS_FRAMES, "stacks_lost", "stacks not stored: map full"),
	PROBE_LOSS(STACK_LOSS_ROWS, "rows_full",
		   "I/Os counted without their stack, map full: under " STACK_TREE_LOST),
	PROBE_LOSS(STACK_LOSS_PROCESSES, "processes_full",
		   "of these, I/Os also counted without their process: under " TABLE_LOST_PROCESS),
	PROBE_LOSS(STACK_LOSS_BIOS, "lost_ios", "I/Os not shown: map full"),
	PROBE_LOSS(STACK_LOSS_BYTES, "lost_bytes", "bytes not shown: map full"),
	PROBE_LOSS(STACK_LOSS_REFUSED, "refused", "I/Os rejected by the disk, counted anyway"),
	PROBE_LOSS(STACK_LOSS_REFUSED_BYTES, "refused_bytes",
		   "bytes of I/Os rejected by the disk, counted anyway"),
	PROBE_LOSS(STACK_LOSS_IOS, "ios_full", "completed I/Os, or waits, not shown: map full"),
	PROBE_LOSS(STACK_LOSS_PATHS, "paths_lost",
		   "completed I/Os, or waits, with an unknown stack: under " STACK_TREE_LOST),
	PROBE_LOSS(STACK_LOSS_UNREAD, "stacks_unread",
		   "kernel stacks that could not be read: under " STACK_TREE_LOST),
	PROBE_LOSS(STACK_LOSS_WAITS, "waits_full", "waits not counted: too many at once"),
	PROBE_LOSS(STACK_LOSS_ENDS, "waits_no_end", "waits whose end was missed: not counted"),
	LOSS(STACK_LOSS_EVICTED, "stacks_evicted",
	     "rows whose stack was dropped to save memory, smallest first"),
	USER_STACKS_EACH_LOSS(USER_LOSS) USER_STACKS_EACH_STOP(STOP_LOSS)
	    CALL_DISKS_LOSS(STACK_LOSS_BTRFS),
};

static const struct tool_optional optional[] = {
	{ "track", "-- COMMAND" },
	{ "rename", "new names of processes that rename themselves" },
	{ "cgroup", "names of short-lived cgroups" },
	{ "submit", "--value ios, --value time" },
	{ "issue", "--value ios, --value time" },
	{ "requeue", "--value ios, --value time" },
	{ "complete", "--value ios, --value time" },
	{ "switch", "--value wait" },
	{ "fault", "--value wait: page faults" },
	{ NULL, NULL },
};

static const struct check_line checks[] = {
	{ { "-K", "-U", "--by", "cgroup", "--value", "time" }, "" },
	{ { NULL }, NULL },
};

const struct tool tool_stack = {
	.name = "stack",
	BLOCK_TOOL(struct stack, o),
	.flags = TOOL_NAMES | TOOL_DOUBLE_BUFFER,
	.probe = &stack_probe,
	.optional = optional,
	.losses = losses,
	.n_losses = ARRAY_SIZE(losses),
	.view = &stack_view,
	.options = options,
	.checks = checks,
	.resolve = resolve,
	.events = events,
	.prepare = prepare,
	.configure = configure,
	.attached = attached,
	.disks = find_disks,
	.keeps = keeps,
	.check = check,
	.begin = begin,
	.collect = collect,
	.stop = stop,
	.drain = stack_drain,
	.rows = rows,
	.end_output = end_output,
	.free = free_stack,
};
