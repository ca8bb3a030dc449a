// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "cmd/stack/stack.h"
#include "core/clock.h"
#include "core/limits.h"
#include "probes/stack.skel.h"

/* How often the kernel is asked for what it has counted: rarely, but its maps shall not fill up,
 * and user space is best named while it is there. */
#define PERIOD_MS      1000
#define PERIOD_USER_MS 200

/* ---- names ---- */

void stack_hidden_error(struct error *err)
{
	error_set(err, STATUS_OK, 0, "the kernel hides its addresses: its frames have no names");
	error_hint(err, "%s", kallsyms_hint);
}

void stack_unfollowed_error(int why, struct error *err)
{
	error_set(
	    err, STATUS_OK, why,
	    "mappings of processes that begin later are not known, or late: the kernel refuses "
	    "perf_event_open(): %s",
	    strerror(-why));
	error_hint(err, "%s",
		   why == -EPERM || why == -EACCES ? "run as root or with CAP_PERFMON"
						   : "user frames may have no names");
}

bool stack_others_error(struct error *err)
{
	if (spaces_reads_others())
		return false;
	error_set(err, STATUS_OK, 0,
		  "mappings of other users' processes cannot be read: user frames of those that "
		  "began before have no names");
	error_hint(err, "run as root or with CAP_SYS_PTRACE");
	return true;
}

void stack_helper_error(int why, struct error *err)
{
	error_set(err, STATUS_OK, why,
		  "the process that reads symbols cannot be started or confined: %s: user frames "
		  "have no names",
		  strerror(-why));
	error_hint(err, "%s",
		   why == -EINVAL ? "the kernel needs CONFIG_SECCOMP_FILTER"
				  : "/proc/self/exe must be executable, and seccomp(2) allowed");
}

static void add_note(struct stack *s, const struct error *err)
{
	char *text = s->note_texts[s->n_notes];

	snprintf(text, sizeof(s->note_texts[0]), "%s (%s)", err->what, err->hint);
	s->notes[s->n_notes++] = text;
}

static int open_kallsyms(struct stack *s, struct error *err)
{
	int r = kallsyms_open(NULL, &s->naming.kallsyms, err);

	if (r || !kallsyms_hidden(s->naming.kallsyms))
		return r;
	stack_hidden_error(err);
	add_note(s, err);
	return 0;
}

static int open_spaces(struct stack *s, struct error *err)
{
	int why = 0, r = spaces_open(&s->naming.spaces, &why);

	if (r)
		return limits_error(r, "follow the mappings of processes", err);
	if (why) {
		stack_unfollowed_error(why, err);
		add_note(s, err);
	}
	if (stack_others_error(err))
		add_note(s, err);
	why = symbol_client_open(NULL, &s->naming.symbols);
	if (limits_is_shortage(why))
		return limits_error(why, "start the process that reads symbols", err);
	if (why) {
		stack_helper_error(why, err);
		add_note(s, err);
	}
	return 0;
}

int stack_open_naming(struct stack *s, struct error *err)
{
	int r = 0;

	s->naming.table = &s->table;
	s->run->collect_ms = s->o.user ? PERIOD_USER_MS : PERIOD_MS;
	if (s->o.kernel)
		r = open_kallsyms(s, err);
	if (!r && s->o.user)
		r = open_spaces(s, err);
	return r;
}

/* ---- one round ---- */

static int take_row(void *ctx, const void *key, const void *value)
{
	struct stack *s = ctx;

	if (s->n_rows == s->rows_room) {
		size_t room = s->rows_room ? 2 * s->rows_room : 256;
		struct stack_row_in *grown = realloc(s->rows, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->rows = grown;
		s->rows_room = room;
	}
	memcpy(&s->rows[s->n_rows].key, key, sizeof(struct stack_key));
	memcpy(&s->rows[s->n_rows].value, value, sizeof(struct stack_value));
	s->n_rows++;
	return 0;
}

static int add_row(struct stack *s, const struct stack_row_in *row)
{
	const struct stack_key *from = &row->key;
	uint32_t pid = from->process.pid;
	const char *comm = names_of(s->names, pid, from->process.start);
	struct table_key key = {
		.disk = table_name(&s->table, disks_name(s->session.disks, from->dev)),
		.start = s->o.per_pid ? from->process.start : 0,
		.pid = s->o.per_pid ? pid : 0,
		.comm = table_name(&s->table, comm),
		.kernel = naming_kernel(&s->naming, &from->kernel),
		.user = naming_user(&s->naming, pid, &from->user, row->value.first_ns),
	};
	uint64_t bytes[2] = { row->value.bytes[0], row->value.bytes[1] };

	if (key.disk == INTERN_NONE || key.comm == INTERN_NONE || key.kernel == INTERN_NONE ||
	    key.user == INTERN_NONE)
		return -ENOMEM;
	s->bytes += bytes[0] + bytes[1];
	return table_add(&s->table, &key, bytes);
}

/* What had no room for a row of its own: it stands against "[lost stack]". */
static int take_lost(void *ctx, const void *key, const void *value)
{
	const struct stack_lost_key *lost = key;
	const struct stack_value *from = value;
	struct stack *s = ctx;
	const struct blk_process *process = &lost->process;
	bool any = process->pid == STACK_ANY_PID, per_pid = s->o.per_pid && !any;
	const char *comm =
	    any ? TABLE_LOST_PROCESS : names_of(s->names, process->pid, process->start);
	uint32_t stack = table_node(&s->table, 0, table_name(&s->table, TABLE_LOST_STACK));
	struct table_key made = {
		.disk = table_name(&s->table, disks_name(s->session.disks, lost->dev)),
		.start = per_pid ? process->start : 0,
		.pid = per_pid ? process->pid : 0,
		.comm = table_name(&s->table, comm),
		.kernel = s->o.kernel ? stack : 0,
		.user = s->o.user ? stack : 0,
	};
	uint64_t bytes[2] = { from->bytes[0], from->bytes[1] };

	if (made.disk == INTERN_NONE || made.comm == INTERN_NONE || stack == INTERN_NONE)
		return -ENOMEM;
	s->bytes += bytes[0] + bytes[1];
	return table_add(&s->table, &made, bytes);
}

/* Empties the maps of the quiet buffer. */
static int drain(struct stack *s, int quiet)
{
	struct stack_bpf *skel = s->skel;
	int r =
	    blk_drain_names(bpf_map__fd(quiet ? skel->maps.names1 : skel->maps.names0), s->names);

	s->n_rows = 0;
	if (r < 0)
		return r;
	s->names_taken = (uint32_t)r;
	r = 0;
	if (s->o.kernel || s->o.user)
		r = flip_drain_hash(bpf_map__fd(quiet ? skel->maps.stacks1 : skel->maps.stacks0),
				    sizeof(struct stack_id), sizeof(struct stack_frames),
				    naming_take, &s->naming);
	if (!r)
		r = flip_drain_hash(bpf_map__fd(quiet ? skel->maps.rows1 : skel->maps.rows0),
				    sizeof(struct stack_key), sizeof(struct stack_value), take_row,
				    s);
	if (!r)
		r = flip_drain_hash(bpf_map__fd(quiet ? skel->maps.lost1 : skel->maps.lost0),
				    sizeof(struct stack_lost_key), sizeof(struct stack_value),
				    take_lost, s);
	return r;
}

/* Asks for the names of the next rows from @at on; where it stopped. */
static int ask_rows(struct stack *s, size_t *at)
{
	int r = 0;

	if (!s->o.user)
		*at = s->n_rows;
	while (!r && *at < s->n_rows && !naming_is_full(&s->naming)) {
		const struct stack_row_in *row = &s->rows[(*at)++];

		r = naming_ask(&s->naming, row->key.process.pid, &row->key.user,
			       row->value.first_ns);
	}
	return r ? r : naming_resolve(&s->naming);
}

/* As many at once as memory allows: however much others have made to be named, it stays within its
 * limits. */
static int add_rows(struct stack *s)
{
	size_t done = 0, end = 0;
	int r = 0;

	while (!r && done < s->n_rows) {
		r = ask_rows(s, &end);
		while (!r && done < end)
			r = add_row(s, &s->rows[done++]);
		if (!r)
			r = table_fit(&s->table);
		naming_end_batch(&s->naming);
	}
	return r;
}

static void adapt_period(struct stack *s, int quiet)
{
	struct stack_bpf *skel = s->skel;
	const struct run_fill fills[] = {
		{ skel->bss->rows_made[quiet], bpf_map__max_entries(skel->maps.rows0) },
		{ skel->bss->stacks_made[quiet], bpf_map__max_entries(skel->maps.stacks0) },
		{ s->names_taken, bpf_map__max_entries(skel->maps.names0) },
	};

	run_adapt(s->run, s->o.user ? PERIOD_USER_MS : PERIOD_MS, fills,
		  sizeof(fills) / sizeof(fills[0]));
	skel->bss->rows_made[quiet] = 0;
	skel->bss->stacks_made[quiet] = 0;
}

static int take_round(struct stack *s)
{
	uint64_t before_ns = s->turned_ns, now_ns = clock_mono_ns();
	int quiet, r;

	session_look(&s->session, &s->skel->bss->stopped, &s->blk_losses);
	quiet = flip_turn(s->flip, &s->end_epoch_ns);
	if (quiet < 0)
		return quiet;
	/* When it began: while it waits, rows are made in the other buffer already. */
	s->turned_ns = now_ns;
	/* After the turn, so that the kernel has told of all that the rows are about; what ended
	 * before the turn before this one is in none of them. */
	if (s->naming.spaces)
		spaces_update(s->naming.spaces, before_ns);
	r = drain(s, quiet);
	if (!r)
		r = add_rows(s);
	adapt_period(s, quiet);
	naming_round(&s->naming);
	names_forget(s->names);
	return r;
}

int stack_collect(struct stack *s, struct error *err)
{
	int r = take_round(s);

	if (r)
		error_set(err, STATUS_FAILED, r, "cannot read the BPF maps: %s", strerror(-r));
	return r;
}
