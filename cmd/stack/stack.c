// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "cmd/check.h"
#include "cmd/command.h"
#include "cmd/report.h"
#include "cmd/stack/schema.h"
#include "cmd/stack/stack.h"
#include "core/base/clock.h"
#include "probes/stack.skel.h"

extern const char stack_source[];

/* What all that has been counted may take: with the maps, the kernel's symbols and the rest,
 * iotrace stays below 64 MB. */
#define TABLE_LIMIT (16U << 20)

/* What is larger than this is mapped for itself: it grows without a copy, and is given back when it
 * is freed.  By itself glibc takes ever larger blocks from its heap, where what lies behind them
 * keeps them. */
#define HEAP_BLOCK (128 << 10)

/* ---- losses ---- */

static const struct {
	const char *key, *text;
} loss_names[STACK_LOSS_ROWS_ALL] = {
	[STACK_LOSS_FRAMES] = { "stacks_lost", "stacks whose frames had no room" },
	[STACK_LOSS_ROWS] = { "rows_full",
			      "I/Os without a row of their own: under " TABLE_LOST_STACK },
	[STACK_LOSS_PROCESSES] = { "processes_full",
				   "of these without their process: under " TABLE_LOST_PROCESS },
	[STACK_LOSS_BIOS] = { "lost_ios", "I/Os that are in no row" },
	[STACK_LOSS_BYTES] = { "lost_bytes", "bytes that are in no row" },
	[STACK_LOSS_REFUSED] = { "refused", "I/Os rejected by the disk, counted anyway" },
	[STACK_LOSS_REFUSED_BYTES] = { "refused_bytes",
				       "bytes of I/Os rejected by the disk, counted anyway" },
	[STACK_LOSS_FOLDED] = { "folded",
				"rows whose stack was dropped to save memory, smallest first" },
	[STACK_LOSS_RECORDS] = { "mappings_lost", "process and mapping records" },
	[STACK_LOSS_SYMBOLS] = { "symbols_unread",
				 "files whose symbols were not fully read: damaged, too large or "
				 "too slow" },
	[STACK_LOSS_MAPPINGS] = { "mappings_full",
				  "mappings or processes beyond the tracking limits, or too slow to "
				  "read" },
	[STACK_LOSS_NAMES] = { "frames_unread",
			       "frames left without a name, or with an old one, to save time or "
			       "memory" },
};

/* All losses of the run: there is one output. */
static size_t read_losses(struct stack *s)
{
	size_t n = BLK_LOSS_ROWS;

	blk_losses(&s->blk_losses, s->skel->bss->losses, s->session.hooks,
		   &s->skel->bss->backup_hits, 0);
	s->blk_losses.rows[BLK_LOSS_NAMES].count = names_lost(s->names);
	memcpy(s->losses, s->blk_losses.rows, sizeof(s->blk_losses.rows));
	for (int i = 0; i < STACK_LOSS_ROWS_ALL; i++, n++) {
		uint64_t count = 0;

		if (i < STACK_LOSSES)
			count = s->skel->bss->stack_losses[i];
		if (i == STACK_LOSS_FRAMES)
			count += s->naming.lost;
		else if (i == STACK_LOSS_FOLDED)
			count = s->table.folded;
		else if (i == STACK_LOSS_SYMBOLS && s->naming.symbols)
			count = symbol_client_unread(s->naming.symbols);
		else if (s->naming.spaces && i == STACK_LOSS_RECORDS)
			count = spaces_lost(s->naming.spaces);
		else if (s->naming.spaces && i == STACK_LOSS_MAPPINGS)
			count = spaces_full(s->naming.spaces);
		else if (i == STACK_LOSS_NAMES)
			count = s->naming.unread;
		s->losses[n] = (struct loss){ loss_names[i].key, loss_names[i].text, count };
	}
	return n;
}

/* ---- the run ---- */

static int collect(void *ctx, struct error *err)
{
	struct stack *s = ctx;
	int r = stack_collect(s, false, err);

	stack_show_progress(s);
	return r;
}

static int emit(void *ctx, bool last, struct error *err)
{
	struct stack *s = ctx;
	int r;

	if (last) {
		__atomic_store_n(&s->skel->bss->stopped, 1, __ATOMIC_SEQ_CST);
		hooks_detach(s->session.hooks);
	}
	r = stack_collect(s, last, err);
	if (!r)
		r = stack_show(s, s->losses, read_losses(s), err);
	if (!r && last)
		stack_show_unread(s);
	return r;
}

static unsigned int wants(const struct stack_options *o)
{
	return WANT_STACK | WANT_NAMES | (o->args.command && !o->args.all ? WANT_TRACK : 0);
}

static uint64_t keeps(const struct stack_options *o)
{
	return hooks_privileges() | privileges_to_name() | (o->user ? PRIVILEGES_USER_STACKS : 0) |
	       (o->svg ? PRIVILEGES_FILE : 0);
}

static int prepare(struct stack *s, struct run *run, struct error *err)
{
	int r = names_open(&s->names);

	if (r)
		return error_set(err, STATUS_FAILED, r, "out of memory");
	s->run = run;
	s->table.limit = TABLE_LIMIT;
	r = stack_open_svg(s, err);
	if (!r)
		r = stack_open_naming(s, err);
	if (!r)
		r = blk_follow(&s->o.filters, run, err);
	if (!r)
		r = stack_attach(s, err);
	if (!r)
		r = show_open_hooks(&s->show, s->session.hooks, s->notes, s->n_notes, err);
	run->keeps = keeps(&s->o);
	s->begin_ns = s->turned_ns = clock_mono_ns();
	s->begin_epoch_ns = clock_epoch_ns();
	return r;
}

static int trace(struct stack *s, struct run *run)
{
	const struct run_emit output = { emit, collect, s, show_start, &s->show };
	struct error err;

	mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK);
	if (prepare(s, run, &err))
		return report_error(&err);
	if (s->o.args.verbose)
		blk_explain_hooks(s->session.hooks);
	return run_loop(run, &output);
}

static void cleanup(struct stack *s)
{
	stack_wipe_progress(s);
	flip_close(s->flip);
	session_end(&s->session);
	stack_close(s);
	naming_free(&s->naming);
	table_free(&s->table);
	names_free(s->names);
	table_free(&s->now);
	table_free(&s->next);
	outfile_discard(&s->svg, false);
}

static int replay(struct stack *s)
{
	struct error err;
	int status = stack_open_svg(s, &err) ? report_error(&err) : show_replay(&s->show);

	cleanup(s);
	return status;
}

/* The mappings of a process are found by its number: there they would be another's, or nobody's. */
static int check_namespace(const struct stack_options *o, struct error *err)
{
	if (!o->user || o->args.kernel || !blk_in_pid_namespace())
		return 0;
	error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
		  "cannot name user frames from inside a pid namespace");
	error_hint(err, "in a container: run iotrace on the host, or without -U");
	return -ENOTSUP;
}

static int run_stack(int argc, char **argv)
{
	struct stack s = { 0 };
	struct run run;
	struct error err;
	int status;

	if (stack_options(argc, argv, &s.o, &err))
		return report_error(&err);
	if (s.o.args.help)
		return report_stdout();
	if (s.o.args.show_source)
		return session_source(stack_source);
	stack_prepare_show(&s);
	if (s.o.args.replay)
		return replay(&s);
	if (check_namespace(&s.o, &err))
		return report_error(&err);
	if (session_begin(&s.session, &s.o.args, &s.o.filters, &status) ||
	    session_choose(&s.session, &s.o.args, wants(&s.o), &status)) {
		session_end(&s.session);
		return status;
	}
	if (run_begin(&run, &s.o.args, &err))
		status = report_error(&err);
	else
		status = trace(&s, &run);
	status = show_close(&s.show, status);
	cleanup(&s);
	run_end(&run);
	return status;
}

/* Are there names for what -K and -U show? */
static void check_naming(struct check *check, struct stack *s)
{
	struct error err;
	int why = 0;

	if (kallsyms_open(NULL, &s->naming.kallsyms, &err)) {
		check_gap(check, "-K", &err);
	} else if (kallsyms_hidden(s->naming.kallsyms)) {
		stack_hidden_error(&err);
		check_gap(check, "-K", &err);
	}
	if (spaces_open(&s->naming.spaces, &why) == 0 && why) {
		stack_unfollowed_error(why, &err);
		check_gap(check, "-U", &err);
	}
	if (stack_others_error(&err))
		check_gap(check, "-U", &err);
	why = symbol_client_open(NULL, &s->naming.symbols);
	if (why) {
		stack_helper_error(why, &err);
		check_gap(check, "-U", &err);
	}
}

static void check_stack(struct check *check)
{
	static const struct check_option options[] = {
		{ "track", "-- COMMAND" },
		{ "rename", "names of processes that change them" },
		{ NULL, NULL },
	};
	struct stack s = { .o = { .kernel = true, .user = true, .reads = true, .writes = true } };

	if (!check_choose_blk(check, WANT_STACK | WANT_NAMES | WANT_TRACK, options, &s.session) &&
	    !check_outcome(check, s.session.hooks, stack_attach(&s, &check->err))) {
		check_options(check, options);
		check_naming(check, &s);
		check_keeps(check, "", privileges_to_name());
		check_keeps(check, "with -U", PRIVILEGES_USER_STACKS);
		check_keeps(check, "with --svg", PRIVILEGES_FILE);
		check_works(check);
	}
	cleanup(&s);
}

static const struct schema *columns(size_t i, const char **with)
{
	*with = "";
	return i ? NULL : stack_schema();
}

const struct command command_stack = { run_stack, check_stack, &stack_args, columns };
