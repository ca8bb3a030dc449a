// SPDX-License-Identifier: GPL-2.0-or-later
/* Drains the BPF maps, and gets names for stacks and processes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "cmd/stack/stack.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "probes/stack.skel.h"

/* How often the kernel's counts are read: rarely, but its maps must not fill up, and user stacks
 * are best named while the process exists. */
#define PERIOD_MS      1000
#define PERIOD_USER_MS 200

static bool meanwhile(void *ctx);

/* ---- names ---- */

int stack_open_symbolizer(struct stack *s, struct error *err)
{
	int r = 0;

	s->stacks.symbolizer.tree = &s->table.tree;
	s->run->collect_ms = s->o.user ? PERIOD_USER_MS : PERIOD_MS;
	if (s->o.kernel)
		r = user_stacks_open_kernel(s->run, &s->stacks.symbolizer.kallsyms, err);
	if (!r && s->o.user)
		r = user_stacks_open(s->run, &s->stacks, meanwhile, s, err);
	return r;
}

/* ---- contents of the maps ---- */

/* The submitter fields of the kernel's counts. */
struct subject {
	struct blk_process process; /* pid STACK_ANY_PID: unknown */
	uint64_t cgroup;
	uint32_t dev;
	struct file_id file;
};

/* The file of an I/O, "" if it is not asked for. */
static const char *file_of(struct stack *s, const struct file_id *id, enum by_key key)
{
	const char *file = file_names_get(s->files, id);

	return key == KEY_FILE ? file : file_names_dir(s->files, file, keys_dir_depth(s->o.by));
}

static const char *label_of(struct stack *s, const struct subject *of, enum by_key key)
{
	static const enum cgroup_name names[BY_KEYS] = {
		[KEY_CGROUP] = CGROUP_PATH,
		[KEY_UNIT] = CGROUP_UNIT,
		[KEY_CONTAINER] = CGROUP_CONTAINER,
	};
	bool any = of->process.pid == STACK_ANY_PID;

	if (!keys_have(stack_keys(&s->o), key))
		return "";
	switch (key) {
	case KEY_DISK:
		return of->dev || !s->o.waits ? disks_name(s->run->disks, of->dev) : KEYS_UNKNOWN;
	case KEY_PROCESS:
	case KEY_COMM:
		return any ? TABLE_LOST_PROCESS
			   : process_names_get(s->run->names, of->process.pid, of->process.start);
	case KEY_USER:
		return any ? KEYS_UNKNOWN : users_name(s->users, of->process.uid);
	case KEY_FILE:
	case KEY_DIR:
		return file_of(s, &of->file, key);
	default:
		return cgroups_name(s->cgroups, of->cgroup, names[key]);
	}
}

/* For the next batch.  Uses the present names: processes are renamed, disks' numbers reused. */
static int add_waiting(struct stack *s, const struct subject *of, struct table_key *key,
		       const struct table_row *row)
{
	static const enum by_key labels[STACK_LABELS] = { KEY_CGROUP, KEY_UNIT, KEY_CONTAINER,
							  KEY_USER,   KEY_FILE, KEY_DIR };
	bool per_pid = keys_have(stack_keys(&s->o), KEY_PROCESS);

	key->disk = stack_tree_name(&s->next.tree, label_of(s, of, KEY_DISK));
	key->comm =
	    stack_tree_name(&s->next.tree, label_of(s, of, per_pid ? KEY_PROCESS : KEY_COMM));
	if (key->disk == INTERN_NONE || key->comm == INTERN_NONE)
		return -ENOMEM;
	for (int i = 0; i < STACK_LABELS; i++) {
		key->labels[i] = stack_tree_name(&s->next.tree, label_of(s, of, labels[i]));
		if (key->labels[i] == INTERN_NONE)
			return -ENOMEM;
	}
	if (per_pid && of->process.pid != STACK_ANY_PID) {
		key->start = of->process.start;
		key->pid = of->process.pid;
	}
	s->sum += s->o.waits ? row->ns[0] + row->ns[1] : row->bytes[0] + row->bytes[1];
	return table_add(&s->next, key, row);
}

static struct table_row bytes_of(const struct stack_value *value)
{
	return (struct table_row){ .bytes = { value->bytes[0], value->bytes[1] } };
}

static int take_row(void *ctx, const void *key, const void *value)
{
	const struct stack_value *from = value;
	const struct stack_key *row = key;
	struct table_key made = { 0 };
	struct table_row sum;
	struct stack *s = ctx;
	int r = symbolizer_queue_kernel(&s->stacks.symbolizer, &row->kernel, &made.kernel);

	if (!r)
		r = symbolizer_queue_user(&s->stacks.symbolizer, row->process.pid,
					  row->process.start, &row->user, &made.user);
	if (!r && (s->o.ios || s->o.waits))
		r = stack_paths_keep(&s->paths, &row->kernel, &row->user, &s->stacks.symbolizer);
	if (r)
		return r;
	sum = bytes_of(from);
	return add_waiting(s, &(struct subject){ row->process, row->cgroup, row->dev, row->file },
			   &made, &sum);
}

/* For a process with unknown stacks. */
static int add_lost(struct stack *s, const struct subject *of, const struct table_row *sum)
{
	static const struct stack_id lost = { { STACK_LOST, 0 } };
	struct table_key made = { 0 };
	int r =
	    s->o.kernel ? symbolizer_queue_kernel(&s->stacks.symbolizer, &lost, &made.kernel) : 0;

	if (!r && s->o.user)
		r = symbolizer_queue_user(&s->stacks.symbolizer, of->process.pid, of->process.start,
					  &lost, &made.user);
	return r ? r : add_waiting(s, of, &made, sum);
}

/* Counts without room for a row of their own: added to "[lost stack]". */
static int take_lost(void *ctx, const void *key, const void *value)
{
	const struct stack_lost_key *row = key;
	const struct table_row sum = bytes_of(value);
	const struct subject of = {
		row->process, row->cgroup, row->dev, { .kind = row->file_kind }
	};

	return add_lost(ctx, &of, &sum);
}

/* Completed I/Os. */
static int add_done(struct stack *s, const struct subject *of, uint64_t path,
		    const struct table_row *sum)
{
	const struct stack_id *kernel, *user;
	struct table_key made = { 0 };
	int r = 0;

	if (!s->o.kernel && !s->o.user)
		return add_waiting(s, of, &made, sum);
	r = stack_paths_find(&s->paths, path, &s->stacks.symbolizer, &kernel, &user);
	if (r == -ENOENT) {
		if (path) /* otherwise the kernel has counted it */
			s->paths.lost += sum->ios[0] + sum->ios[1];
		return add_lost(s, of, sum);
	}
	if (!r)
		r = symbolizer_queue_kernel(&s->stacks.symbolizer, kernel, &made.kernel);
	if (!r)
		r = symbolizer_queue_user(&s->stacks.symbolizer, of->process.pid, of->process.start,
					  user, &made.user);
	return r ? r : add_waiting(s, of, &made, sum);
}

static int take_done(void *ctx, const void *key, const void *value)
{
	const struct stack_done_key *row = key;
	const struct stack_done *done = value;
	const struct table_row sum = { .ios = { done->ios[0], done->ios[1] },
				       .ns = { done->ns[0], done->ns[1] } };
	struct stack *s = ctx;

	s->done_taken++;
	return add_done(s, &(struct subject){ row->process, row->cgroup, row->dev, row->file },
			row->path, &sum);
}

void stack_account_lost_completion(void *stack, const struct blk_inflight *entry)
{
	bool write = entry->op != BLK_READ;
	const struct table_row sum = { .ios = { !write, write } };
	struct subject of = { { .pid = STACK_ANY_PID }, entry->cgroup, entry->dev, { 0 } };
	struct stack *s = stack;

	if (entry->op == BLK_DISCARD || entry->op == BLK_FLUSH || entry->op == BLK_PASSTHROUGH ||
	    !(write ? s->o.writes : s->o.reads))
		return;
	if (blk_has_data(entry->op))
		of.file.kind = FILE_UNREAD;
	if (entry->known)
		of.process = entry->process;
	else if (blk_filters_submitters(&s->o.filters, &s->o.args))
		return;
	if (!s->failed)
		s->failed = add_done(s, &of, entry->known ? entry->call : 0, &sum);
}

/* Waits that were in progress when the run ended, up to that moment. */
static int take_wait(void *ctx, const void *key, const void *value)
{
	const struct stack_wait *wait = value;
	struct table_row sum = { .ns = { 0 } };
	struct stack *s = ctx;

	(void)key;
	if (s->stop_ns > wait->since_ns)
		sum.ns[wait->write] = s->stop_ns - wait->since_ns;
	return add_done(s, &(struct subject){ wait->process, wait->cgroup, wait->dev, { 0 } },
			wait->path, &sum);
}

/* Empties the maps of the inactive buffer. */
static int take_maps(struct stack *s, int inactive)
{
	struct stack_bpf *skel = s->run->object.skel;
	struct process_names *names = s->run->names;
	int r = blk_drain_names(
	    bpf_map__fd(inactive ? skel->maps.process_names1 : skel->maps.process_names0), names);

	if (r < 0)
		return r;
	s->names_taken = (uint32_t)r;
	s->files_taken = 0;
	if (s->files) {
		r = file_names_drain(s->files, bpf_map__fd(inactive ? skel->maps.file_names1
								    : skel->maps.file_names0));
		if (r < 0)
			return r;
		s->files_taken = (uint32_t)r;
	}
	r = s->cgroups
		? blk_drain_cgroups(
		      bpf_map__fd(inactive ? skel->maps.cgroups1 : skel->maps.cgroups0), s->cgroups)
		: 0;
	if (!r && (s->o.kernel || s->o.user))
		r = double_buffer_drain_hash(
		    bpf_map__fd(inactive ? skel->maps.stacks1 : skel->maps.stacks0),
		    sizeof(struct stack_id), sizeof(struct stack_frames), symbolizer_take_stack,
		    &s->stacks.symbolizer);
	if (!r)
		r = double_buffer_drain_hash(
		    bpf_map__fd(inactive ? skel->maps.rows1 : skel->maps.rows0),
		    sizeof(struct stack_key), sizeof(struct stack_value), take_row, s);
	if (!r)
		r = double_buffer_drain_hash(
		    bpf_map__fd(inactive ? skel->maps.lost1 : skel->maps.lost0),
		    sizeof(struct stack_lost_key), sizeof(struct stack_value), take_lost, s);
	s->done_taken = 0;
	if (!r && (s->o.ios || s->o.waits))
		r = double_buffer_drain_hash(
		    bpf_map__fd(inactive ? skel->maps.done1 : skel->maps.done0),
		    sizeof(struct stack_done_key), sizeof(struct stack_done), take_done, s);
	if (!r && s->o.waits && s->is_last)
		r = double_buffer_drain_hash(bpf_map__fd(skel->maps.waits_of_threads),
					     sizeof(__u64), sizeof(struct stack_wait), take_wait,
					     s);
	stack_paths_age(&s->paths);
	symbolizer_end_drain(&s->stacks.symbolizer);
	process_names_forget(names);
	if (s->cgroups)
		cgroups_forget(s->cgroups);
	return r;
}

static void adapt_period(struct stack *s, int inactive)
{
	struct stack_bpf *skel = s->run->object.skel;
	bool has_done = s->o.ios || s->o.waits;
	const struct run_fill fills[] = {
		{ skel->bss->rows_made[inactive], bpf_map__max_entries(skel->maps.rows0) },
		{ skel->bss->stacks_made[inactive], bpf_map__max_entries(skel->maps.stacks0) },
		{ s->names_taken, bpf_map__max_entries(skel->maps.process_names0) },
		{ s->files_taken, bpf_map__max_entries(skel->maps.file_names0) },
		{ s->done_taken, bpf_map__max_entries(skel->maps.done0) },
	};

	tool_adapt(s->run, s->o.user ? PERIOD_USER_MS : PERIOD_MS, fills,
		   ARRAY_SIZE(fills) - !has_done);
	skel->bss->rows_made[inactive] = 0;
	skel->bss->stacks_made[inactive] = 0;
}

int stack_drain(struct tool_run *run, int inactive, struct error *err)
{
	struct stack *s = run->ctx;
	int r;

	(void)err;
	s->drained_ns = run->swap_begin_ns;
	r = take_maps(s, inactive);
	adapt_period(s, inactive);
	return r;
}

/* ---- batches ---- */

/* Waiting rows, and their data to be named, may take about twice as much. */
#define MAX_WAITING (4U << 20)

/* Called while the helper process reads a file.  True: the deadline is near. */
static bool meanwhile(void *ctx)
{
	struct stack *s = ctx;
	uint64_t period_ns = s->run->collect_ms * (NS_PER_SEC / 1000);
	struct error err;

	if (!s->begin_ns)
		return false; /* nothing is attached yet */
	if (s->is_last)
		return true;
	if (!s->failed && clock_mono_ns() - s->drained_ns >= period_ns) {
		s->failed = tool_drain(s->run, &err);
		stack_show_progress(s);
	}
	return s->failed || run_is_due(s->run->run) ||
	       stack_tree_memory(&s->next.tree) + symbolizer_queued_size(&s->stacks.symbolizer) >
		   MAX_WAITING;
}

static int add_row(struct stack *s, uint32_t row)
{
	struct table_key key = *table_key(&s->now, row);

	key.kernel = symbolizer_node(&s->stacks.symbolizer, key.kernel);
	key.user = symbolizer_node(&s->stacks.symbolizer, key.user);
	if (table_copy_names(&s->table, &s->now, &key) || key.kernel == INTERN_NONE ||
	    key.user == INTERN_NONE)
		return -ENOMEM;
	return table_add(&s->table, &key, table_row(&s->now, row));
}

/* Names the waiting rows. */
static int name_batch(struct stack *s)
{
	int r;

	s->now = s->next;
	s->next = (struct table){ 0 };
	symbolizer_begin_batch(&s->stacks.symbolizer);
	unwinder_serve(&s->stacks.unwinder);
	r = symbolizer_resolve(&s->stacks.symbolizer);
	if (!r)
		r = s->failed;
	for (uint32_t i = 0; !r && i < s->now.rows.n; i++)
		r = add_row(s, i);
	if (!r)
		r = table_fit(&s->table);
	table_free(&s->now);
	symbolizer_end_batch(&s->stacks.symbolizer);
	return r;
}

int stack_name(struct stack *s, struct error *err)
{
	int r = name_batch(s);

	return r ? error_set(err, STATUS_FAILED, r, "cannot read the BPF maps: %s", strerror(-r))
		 : 0;
}
