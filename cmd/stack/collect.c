// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "cmd/stack/stack.h"
#include "core/base/clock.h"
#include "core/system/limits.h"
#include "probes/stack.skel.h"

/* How often the kernel is asked for what it has counted: rarely, but its maps shall not fill up,
 * and user space is best named while it is there. */
#define PERIOD_MS      1000
#define PERIOD_USER_MS 200

static bool meanwhile(void *ctx);

/* ---- names ---- */

void stack_hidden_error(struct error *err)
{
	error_set(err, STATUS_OK, 0, "kernel addresses are hidden: kernel frames have no names");
	error_hint(err, "%s", kallsyms_hint);
}

void stack_unfollowed_error(int why, struct error *err)
{
	error_set(
	    err, STATUS_OK, why,
	    "mappings of processes started later are missing or late: perf_event_open() failed: %s",
	    strerror(-why));
	error_hint(err, "%s",
		   why == -EPERM || why == -EACCES ? "run as root or with CAP_PERFMON"
						   : "user frames may have no names");
}

bool stack_others_error(struct error *err)
{
	if (address_spaces_reads_others())
		return false;
	error_set(
	    err, STATUS_OK, 0,
	    "cannot read the mappings of other users' processes: user frames of those already "
	    "running have no names");
	error_hint(err, "run as root or with CAP_SYS_PTRACE");
	return true;
}

void stack_helper_error(int why, struct error *err)
{
	error_set(err, STATUS_OK, why,
		  "cannot start or sandbox the symbol reader: %s: user frames have no names",
		  strerror(-why));
	error_hint(err, "%s",
		   why == -EINVAL ? "the kernel needs CONFIG_SECCOMP_FILTER"
				  : "/proc/self/exe must be executable, and seccomp(2) allowed");
}

static void add_note(struct stack *s, const struct error *err)
{
	tool_note(s->run, "%s (%s)", err->what, err->hint);
}

static int open_kallsyms(struct stack *s, struct error *err)
{
	int r = kallsyms_open(NULL, &s->symbolizer.kallsyms, err);

	if (r || !kallsyms_hidden(s->symbolizer.kallsyms))
		return r;
	stack_hidden_error(err);
	add_note(s, err);
	return 0;
}

static int open_spaces(struct stack *s, struct error *err)
{
	struct symbol_client_config config = symbol_client_default;
	int why = 0, r = address_spaces_open(&s->symbolizer.spaces, &why);

	if (r)
		return limits_error(r, "follow the mappings of processes", err);
	if (why) {
		stack_unfollowed_error(why, err);
		add_note(s, err);
	}
	if (stack_others_error(err))
		add_note(s, err);
	config.wait = meanwhile;
	config.ctx = s;
	why = symbol_client_open(&config, &s->symbolizer.symbols);
	if (limits_is_shortage(why))
		return limits_error(why, "start the symbol reader", err);
	if (why) {
		stack_helper_error(why, err);
		add_note(s, err);
	}
	return 0;
}

int stack_open_symbolizer(struct stack *s, struct error *err)
{
	int r = 0;

	s->symbolizer.table = &s->table;
	s->run->collect_ms = s->o.user ? PERIOD_USER_MS : PERIOD_MS;
	if (s->o.kernel)
		r = open_kallsyms(s, err);
	if (!r && s->o.user)
		r = open_spaces(s, err);
	return r;
}

/* ---- what is in the maps ---- */

/* For the next batch.  The names are those of now: processes are renamed, disks' numbers used
 * again. */
static int add_waiting(struct stack *s, const struct blk_process *process, uint32_t dev,
		       struct table_key *key, const struct stack_value *value)
{
	bool any = process->pid == STACK_ANY_PID, per_pid = s->o.per_pid && !any;
	const char *comm = any ? TABLE_LOST_PROCESS
			       : process_names_get(s->run->names, process->pid, process->start);
	uint64_t bytes[2] = { value->bytes[0], value->bytes[1] };

	key->disk = table_name(&s->next, disks_name(s->run->disks, dev));
	key->comm = table_name(&s->next, comm);
	key->start = per_pid ? process->start : 0;
	key->pid = per_pid ? process->pid : 0;
	if (key->disk == INTERN_NONE || key->comm == INTERN_NONE)
		return -ENOMEM;
	s->bytes += bytes[0] + bytes[1];
	return table_add(&s->next, key, bytes);
}

static int take_row(void *ctx, const void *key, const void *value)
{
	const struct stack_value *from = value;
	const struct stack_key *row = key;
	struct table_key made = { 0 };
	struct stack *s = ctx;
	int r = symbolizer_queue_kernel(&s->symbolizer, &row->kernel, &made.kernel);

	if (!r)
		r = symbolizer_queue_user(&s->symbolizer, &row->process, &row->user, from->first_ns,
					  &made.user);
	return r ? r : add_waiting(s, &row->process, row->dev, &made, from);
}

/* What had no room for a row of its own: it stands against "[lost stack]". */
static int take_lost(void *ctx, const void *key, const void *value)
{
	static const struct stack_id lost = { { STACK_LOST, 0 } };
	const struct stack_lost_key *row = key;
	struct table_key made = { 0 };
	struct stack *s = ctx;
	int r = s->o.kernel ? symbolizer_queue_kernel(&s->symbolizer, &lost, &made.kernel) : 0;

	if (!r && s->o.user)
		r = symbolizer_queue_user(&s->symbolizer, &row->process, &lost, 0, &made.user);
	return r ? r : add_waiting(s, &row->process, row->dev, &made, value);
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
	r = 0;
	if (s->o.kernel || s->o.user)
		r = double_buffer_drain_hash(
		    bpf_map__fd(inactive ? skel->maps.stacks1 : skel->maps.stacks0),
		    sizeof(struct stack_id), sizeof(struct stack_frames), symbolizer_take_stack,
		    &s->symbolizer);
	if (!r)
		r = double_buffer_drain_hash(
		    bpf_map__fd(inactive ? skel->maps.rows1 : skel->maps.rows0),
		    sizeof(struct stack_key), sizeof(struct stack_value), take_row, s);
	if (!r)
		r = double_buffer_drain_hash(
		    bpf_map__fd(inactive ? skel->maps.lost1 : skel->maps.lost0),
		    sizeof(struct stack_lost_key), sizeof(struct stack_value), take_lost, s);
	symbolizer_end_drain(&s->symbolizer);
	process_names_forget(names);
	return r;
}

static void adapt_period(struct stack *s, int inactive)
{
	struct stack_bpf *skel = s->run->object.skel;
	const struct run_fill fills[] = {
		{ skel->bss->rows_made[inactive], bpf_map__max_entries(skel->maps.rows0) },
		{ skel->bss->stacks_made[inactive], bpf_map__max_entries(skel->maps.stacks0) },
		{ s->names_taken, bpf_map__max_entries(skel->maps.process_names0) },
	};

	tool_adapt(s->run, s->o.user ? PERIOD_USER_MS : PERIOD_MS, fills,
		   sizeof(fills) / sizeof(fills[0]));
	skel->bss->rows_made[inactive] = 0;
	skel->bss->stacks_made[inactive] = 0;
}

int stack_drain(struct tool_run *run, int inactive, struct error *err)
{
	struct stack *s = run->ctx;
	uint64_t before_ns = s->swapped_ns;
	int r;

	(void)err;
	s->swapped_ns = run->swap_begin_ns;
	/* After the swap, so that the records cover all that the rows need; a process that ended
	 * before the previous swap began is in no row. */
	if (s->symbolizer.spaces)
		address_spaces_update(s->symbolizer.spaces, before_ns);
	r = take_maps(s, inactive);
	adapt_period(s, inactive);
	return r;
}

/* ---- batches ---- */

/* Rows that wait, and what is to be named for them, may take about twice as much. */
#define MAX_WAITING (4U << 20)

/* While the helper process reads a file.  True: it should come to an end. */
static bool meanwhile(void *ctx)
{
	struct stack *s = ctx;
	uint64_t period_ns = s->run->collect_ms * (NS_PER_SEC / 1000);
	struct error err;

	if (!s->begin_ns)
		return false; /* nothing is attached yet */
	if (s->is_last)
		return true;
	if (!s->failed && clock_mono_ns() - s->swapped_ns >= period_ns) {
		s->failed = tool_drain(s->run, &err);
		stack_show_progress(s);
	}
	return s->failed || run_is_due(s->run->run) ||
	       table_memory(&s->next) + symbolizer_queued_size(&s->symbolizer) > MAX_WAITING;
}

static int add_row(struct stack *s, uint32_t row)
{
	struct table_key key = *table_key(&s->now, row);

	key.disk = table_name(&s->table, table_text(&s->now, key.disk));
	key.comm = table_name(&s->table, table_text(&s->now, key.comm));
	key.kernel = symbolizer_node(&s->symbolizer, key.kernel);
	key.user = symbolizer_node(&s->symbolizer, key.user);
	if (key.disk == INTERN_NONE || key.comm == INTERN_NONE || key.kernel == INTERN_NONE ||
	    key.user == INTERN_NONE)
		return -ENOMEM;
	return table_add(&s->table, &key, s->now.rows[row].bytes);
}

/* Names what waits. */
static int name_batch(struct stack *s)
{
	int r;

	s->now = s->next;
	s->next = (struct table){ 0 };
	symbolizer_begin_batch(&s->symbolizer);
	r = symbolizer_resolve(&s->symbolizer);
	if (!r)
		r = s->failed;
	for (uint32_t i = 0; !r && i < s->now.keys.n; i++)
		r = add_row(s, i);
	if (!r)
		r = table_fit(&s->table);
	table_free(&s->now);
	symbolizer_end_batch(&s->symbolizer);
	return r;
}

int stack_name(struct stack *s, struct error *err)
{
	int r = name_batch(s);

	return r ? error_set(err, STATUS_FAILED, r, "cannot read the BPF maps: %s", strerror(-r))
		 : 0;
}
