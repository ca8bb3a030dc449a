// SPDX-License-Identifier: GPL-2.0-or-later
/* The life of a tool: docs/ARCHITECTURE.md, "A run". */
#include "cmd/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/choices.h"
#include "cmd/report.h"
#include "cmd/tool_private.h"
#include "core/base/clock.h"
#include "core/bpf/kretprobe.h"
#include "core/bpf/closer.h"
#include "core/system/preflight.h"
#include "core/isolation/privileges.h"

_Static_assert(BLK_LOSS_ROWS < TOOL_LOSSES, "room for a tool's own losses");

/* ---- options ---- */

int tool_new(const struct tool *tool, struct tool_run **out, struct error *err)
{
	struct tool_run *t = calloc(1, sizeof(*t));

	*out = t;
	if (t)
		t->ctx = calloc(1, tool->ctx_size);
	if (!t || !t->ctx) {
		free(t);
		*out = NULL;
		error_no_memory(err);
		return -ENOMEM;
	}
	t->tool = tool;
	t->args = (struct args *)(void *)((char *)t->ctx + tool->args_at);
	t->collect_ms = 1000;
	return 0;
}

void tool_take_options(struct tool_run *t)
{
	const struct tool *tool;

	if (t->tool->part)
		t->tool = t->tool->part(t->ctx);
	tool = t->tool;
	if (tool->flags & TOOL_BLK)
		t->filters = (struct blk_filters *)(void *)((char *)t->ctx + tool->filters_at);
	t->object.run = t;
	t->object.probe = tool->probe;
	t->helpers = tool->helpers;
}

bool tool_tracks(const struct tool_run *t)
{
	return t->check || (t->args->command && !t->args->all);
}

/* ---- what is shown ---- */

static int prepare_show(struct tool_run *t, struct error *err)
{
	const struct tool *tool = t->tool;
	const struct tool_view *view = tool->view;

	t->settings = calloc(tool->n_settings + 1, sizeof(*t->settings));
	if (!t->settings)
		return error_no_memory(err);
	for (size_t i = 0; i < tool->n_settings; i++)
		t->settings[i] = (struct show_setting){
			.name = tool->settings[i].name,
			.key = tool->settings[i].key,
			.other_key = tool->settings[i].other_key,
			.at = (char *)t->ctx + tool->settings[i].at,
			.size = tool->settings[i].size,
			.max = tool->settings[i].max,
		};
	t->show.args = t->args;
	t->show.subcommand = tool->name;
	t->show.ctx = t->ctx;
	t->show.settings = t->settings;
	t->show.n_settings = tool->n_settings;
	t->show.check = view->check;
	t->show.prepare = view->tables;
	t->show.take = view->take;
	t->show.rows = view->rows;
	t->show.done = view->done;
	t->show.text = view->text;
	t->show.notes_first = view->notes_first;
	t->show.empty = view->empty;
	t->show.written_by = view->written_by;
	t->show.written_beside = view->written_beside;
	if (view->written_by)
		memcpy(&t->show.written, (char *)t->ctx + view->written_at,
		       sizeof(t->show.written));
	return 0;
}

void tool_note(struct tool_run *t, const char *fmt, ...)
{
	va_list args;

	if (t->n_notes == TOOL_NOTES)
		return;
	va_start(args, fmt);
	if (vasprintf(&t->notes[t->n_notes], fmt, args) >= 0)
		t->n_notes++;
	va_end(args);
}

static int open_show(struct tool_run *t, struct error *err)
{
	const struct hooks *hooks = t->object.hooks;
	size_t n = hooks ? blk_meta_hooks(hooks, t->show.hooks, BLK_META_HOOKS) : 0;

	return show_open(&t->show, t->show.hooks, n, (const char *const *)t->notes, t->n_notes,
			 err);
}

/* ---- hooks ---- */

static void explain(struct tool_run *t, bool dropped)
{
	if (t->object.hooks && t->args->verbose)
		choices_explain(t->object.hooks, dropped);
}

static int list_hooks(struct tool_run *t)
{
	hooks_try(t->object.hooks);
	choices_list(t->object.hooks);
	return TOOL_DONE;
}

size_t tool_events(struct tool_run *t)
{
	return t->tool->events ? t->tool->events(t, t->object.events) : 0;
}

/* Of an attach table. */
static int choose_table(struct tool_run *t, struct error *err)
{
	struct tool_object *o = &t->object;
	int r;

	hooks_free(o->hooks);
	o->hooks = NULL;
	o->n_events = tool_events(t);
	if (!o->n_events)
		return 0;
	r = preflight_trace(err);
	if (r)
		return r;
	closer_start(kretprobe_clean_after);
	r = hooks_choose(o->events, o->n_events, t->args->hooks, &o->hooks, err);
	if (!r && t->tool->flags & TOOL_BLK)
		t->flags = blk_flags(o->hooks);
	return r;
}

hooks_log_line *tool_log(const struct tool_run *t)
{
	return hooks_log(t->args->verbose ? report_verbose : NULL);
}

static int choose(struct tool_run *t, struct error *err)
{
	int r;

	do {
		r = choose_table(t, err);
		if (t->args->list_hooks && t->object.hooks)
			return list_hooks(t);
		if (r)
			break;
		r = t->tool->chosen ? t->tool->chosen(t, err) : 0;
		if (r < 0 || r == TOOL_AGAIN)
			explain(t, r == TOOL_AGAIN);
	} while (r == TOOL_AGAIN);
	return r;
}

int tool_choose(struct tool_run *t, struct error *err)
{
	hooks_log_line *before = tool_log(t);
	int r = choose(t, err);

	hooks_log(before);
	return r;
}

/* ---- from the arguments to the choice of hooks ---- */

/* What may be wrong with the arguments comes first, then what may be wrong with the machine: a
 * wrong disk is a wrong disk for everybody. */
static int find_disks(struct tool_run *t, struct error *err)
{
	int r = preflight_resources(err);

	if (!r)
		r = disks_open(NULL, &t->disks, err);
	if (r || !t->filters)
		return r;
	r = blk_resolve_filters(t->filters, t->disks, err);
	if (!r)
		r = blk_check_processes(t->filters, t->args, err);
	return r;
}

int tool_parse(const struct tool *tool, int argc, char **argv, struct tool_run **out,
	       struct error *err)
{
	int r = tool_new(tool, out, err);

	if (!r)
		r = tool->options(argc, argv, (*out)->ctx, err);
	if (r)
		return r;
	tool_take_options(*out);
	return prepare_show(*out, err);
}

static int open_parsed(struct tool_run *t, struct error *err)
{
	const struct tool *tool = t->tool;
	int r = 0;

	if (tool->flags & (TOOL_DISKS | TOOL_BLK))
		r = find_disks(t, err);
	if (!r && tool->resolve)
		r = tool->resolve(t, err);
	if (r)
		return r;
	return tool_choose(t, err);
}

int tool_open(const struct tool *tool, int argc, char **argv, struct tool_run **out,
	      struct error *err)
{
	int r = tool_parse(tool, argc, argv, out, err);

	if (r)
		return r;
	if ((*out)->args->help || (*out)->args->show_source || (*out)->args->replay)
		return TOOL_DONE;
	(*out)->beside_others = true;
	return open_parsed(*out, err);
}

/* ---- attach ---- */

static int prepare(struct tool_run *t, struct error *err)
{
	int r = 0;

	if (t->tool->flags & TOOL_NAMES)
		r = process_names_open(&t->names);
	if (r)
		return error_no_memory(err);
	if (t->tool->prepare)
		r = t->tool->prepare(t, err);
	if (!r && t->filters)
		r = blk_follow(t->filters, t->run, err);
	return r;
}

/* What the engine itself reads and writes. */
static int find_variables(struct tool_run *t, struct error *err)
{
	uint32_t *epoch = tool_variable(t, "epoch", sizeof(*epoch));

	t->stopped = tool_variable(t, "stopped", sizeof(*t->stopped));
	t->backup_hits = tool_variable(t, "backup_hits", sizeof(*t->backup_hits));
	if ((t->tool->flags & TOOL_BLK && !t->stopped) ||
	    (t->tool->flags & TOOL_DOUBLE_BUFFER && !epoch))
		return error_set(err, STATUS_FAILED, -ENOENT,
				 "the BPF object lacks a variable of its flags");
	return t->tool->flags & TOOL_DOUBLE_BUFFER
		   ? double_buffer_open(epoch, hooks_are_preempted(t->object.hooks),
					&t->double_buffer, err)
		   : 0;
}

static int attach(struct tool_run *t, struct error *err)
{
	int r;

	if (!t->object.hooks)
		return 0;
	r = tool_attach_object(&t->object, err);
	return r ? r : find_variables(t, err);
}

/* From now on its programs count. */
static int begin(struct tool_run *t, struct error *err)
{
	uint64_t *begin_ns = t->object.obj ? tool_variable(t, "begin_ns", sizeof(*begin_ns)) : NULL;

	if (t->object.hooks)
		hooks_begin(t->object.hooks, t->backup_hits);
	if (begin_ns) {
		*begin_ns = clock_mono_ns();
		t->since_ns = *begin_ns;
	}
	tool_follow_clock(t);
	return t->tool->begin ? t->tool->begin(t, err) : 0;
}

int tool_attach(struct tool_run *t, struct run *run, struct error *err)
{
	hooks_log_line *before;
	int r;

	t->run = run;
	r = prepare(t, err);
	before = tool_log(t);
	if (!r)
		r = attach(t, err);
	if (!r)
		r = tool_find_losses(t, err);
	t->since_ns = clock_mono_ns();
	if (!r && t->tool->attached)
		r = t->tool->attached(t, err);
	hooks_log(before);
	if (!r && !t->sink)
		r = open_show(t, err);
	if (r)
		return r;
	if (t->object.hooks)
		t->keeps |= hooks_privileges(t->object.hooks);
	explain(t, false);
	if (t->tool->keeps)
		t->tool->keeps(t);
	if (t->args->record)
		t->keeps |= PRIVILEGES_FILE;
	return begin(t, err);
}

/* ---- the run loop ---- */

struct tool_set {
	struct tool_run **tools;
	size_t n;
	size_t running; /* have not had their last output */
	int status;	/* of those whose last output failed as another could not go on */
};

/* As often as the one that is in the greatest hurry. */
static void set_pace(const struct tool_set *set)
{
	unsigned int ms = UINT32_MAX;

	for (size_t i = 0; i < set->n; i++)
		if (!set->tools[i]->ended && set->tools[i]->collect_ms < ms)
			ms = set->tools[i]->collect_ms;
	set->tools[0]->run->collect_ms = ms;
}

int tool_outcome(struct tool_run *t, int r, const struct error *err)
{
	if (r >= 0 || !t->failed)
		return r;
	t->ended = true;
	t->failed(t->sink_ctx, t, err);
	return 0;
}

/* @t cannot go on, as @r says, which ends the run: the others have their last output.  Returns @r.
 */
static int end_others(struct tool_set *set, struct tool_run *t, int r)
{
	t->ended = true;
	for (size_t i = 0; i < set->n; i++) {
		struct tool_run *other = set->tools[i];
		struct error err = { .status = STATUS_OK };

		if (other->ended)
			continue;
		other->ended = true;
		if (tool_emit(other, true, &err) && err.status != STATUS_OK)
			set->status = report_error(&err);
	}
	return r;
}

static int emit_all(void *ctx, bool last, struct error *err)
{
	struct tool_set *set = ctx;

	for (size_t i = 0; i < set->n; i++) {
		struct tool_run *t = set->tools[i];
		int r = t->ended ? 0 : tool_outcome(t, tool_emit(t, last, err), err);

		if (r)
			return end_others(set, t, r);
		t->ended |= last;
	}
	set_pace(set);
	return 0;
}

static int collect_all(void *ctx, struct error *err)
{
	struct tool_set *set = ctx;

	for (size_t i = 0; i < set->n; i++) {
		struct tool_run *t = set->tools[i];
		int r = t->ended ? 0 : tool_outcome(t, tool_collect(t, err), err);

		if (r)
			return end_others(set, t, r);
	}
	set_pace(set);
	return 0;
}

/* The interval of one of several is over, or it has failed meanwhile. */
static int on_timer(void *ctx, short events, struct error *err)
{
	struct tool_run *t = ctx;
	bool last = ++t->outputs == t->args->count;
	int r = t->ended ? 0 : tool_outcome(t, tool_emit(t, last, err), err);

	(void)events;
	if (r)
		return end_others(t->set, t, r);
	t->ended |= last;
	if (t->ended) {
		run_unwatch(t->run, t->timer_fd);
		t->timer_fd = -1;
	}
	set_pace(t->set);
	return t->ended && !--t->set->running ? RUN_STOP : RUN_GO_ON;
}

/* One tool has the outputs of the run; of several each has a timer. */
static int start_timers(struct tool_set *set, struct run *run, struct error *err)
{
	if (set->n == 1)
		return 0;
	run->interval_ns = run->count = 0;
	for (size_t i = 0; i < set->n; i++) {
		struct tool_run *t = set->tools[i];
		uint64_t ns = t->args->interval_ns;

		t->set = set;
		t->timer_fd = run_watch_timer(run, ns, ns, on_timer, t, err);
		if (t->timer_fd < 0)
			return t->timer_fd;
	}
	return 0;
}

void tool_set_interval(struct tool_run *t, uint64_t first_ns, uint64_t ns)
{
	if (t->set)
		run_set_timer(t->timer_fd, first_ns, ns);
	else
		run_set_interval(t->run, first_ns, ns);
}

static int start_one(struct tool_run *t, struct error *err)
{
	if (t->sink)
		return 0;
	return t->tool->start ? t->tool->start(t, err) : show_start(&t->show, err);
}

static int start_all(void *ctx, struct error *err)
{
	const struct tool_set *set = ctx;
	int r = 0;

	for (size_t i = 0; !r && i < set->n; i++)
		r = start_one(set->tools[i], err);
	return r;
}

static int take_hangup(void *ctx, struct error *err)
{
	const struct tool_set *set = ctx;
	int r = RUN_GO_ON;

	for (size_t i = 0; r == RUN_GO_ON && i < set->n; i++)
		if (set->tools[i]->takes_hangup && !set->tools[i]->ended)
			r = set->tools[i]->tool->hangup(set->tools[i], err);
	return r;
}

/* Where its output goes; NULL: somewhere else. */
static FILE *stream_of(const struct tool_run *t)
{
	if (t->sink)
		return stdout; /* for all we know */
	return t->output_unused ? NULL : t->show.stream;
}

static int watch_readers(const struct tool_set *set, struct run *run, struct error *err)
{
	int r = 0;

	run->stdout_unused = true;
	for (size_t i = 0; !r && i < set->n; i++) {
		FILE *stream = stream_of(set->tools[i]);

		run->stdout_unused &= stream != stdout;
		if (stream)
			r = run_watch_reader(run, fileno(stream), err);
	}
	return r;
}

static bool is_collected(const struct tool_run *t)
{
	return t->disks || t->tool->collect;
}

/* What comes last, while somebody reads. */
static int end_show(struct tool_run *t, int status)
{
	struct error err = { .status = STATUS_OK };
	int r;

	if (t->run->stuck || !t->show.started)
		return status;
	r = show_error(&t->show, run_guarded(t->run, show_end, &t->show), &err);
	if (!r || status)
		return status;
	return err.status != STATUS_OK ? report_error(&err) : report_output(r);
}

int tools_loop(struct tool_run **tools, size_t n, struct run *run)
{
	struct tool_set set = { tools, n, n };
	struct run_emit output = { emit_all, NULL, &set, start_all, &set };
	struct error err;
	int status;

	for (size_t i = 0; i < n; i++) {
		run->keeps |= tools[i]->keeps;
		if (is_collected(tools[i]))
			output.collect = collect_all;
		if (tools[i]->takes_hangup)
			run->hangup = take_hangup;
	}
	set_pace(&set);
	if (start_timers(&set, run, &err) || watch_readers(&set, run, &err))
		status = report_error(&err);
	else
		status = run_loop(run, &output);
	if (!status)
		status = set.status;
	for (size_t i = 0; i < n; i++) {
		if (tools[i]->on_screen)
			show_end(&tools[i]->show);
		status = end_show(tools[i], status);
	}
	return status;
}

/* ---- a run of one tool ---- */

static int run_one(struct tool_run *t)
{
	struct error err;
	struct run run;
	int status;

	if (run_begin(&run, t->args, &err) || tool_attach(t, &run, &err))
		status = report_error(&err);
	else
		status = tools_loop(&t, 1, &run);
	status = show_close(&t->show, status);
	run_end(&run);
	return status;
}

static int replay(struct tool_run *t)
{
	struct error err;

	/* A program with capabilities of its own opens no file by them. */
	if (geteuid() && privileges_drop(0, &err))
		return report_error(&err);
	if (t->tool->replay && t->tool->replay(t, &err))
		return report_error(&err);
	return show_replay(&t->show);
}

static int print_source(const struct tool_run *t)
{
	if (t->tool->probe && fputs(t->tool->probe->source, stdout) < 0)
		return report_output(-errno);
	return report_stdout();
}

static int open_and_run(struct tool_run *t)
{
	struct error err;
	int r = open_parsed(t, &err);

	if (!r)
		return run_one(t);
	return r < 0 ? report_error(&err) : report_stdout();
}

int tool_main(const struct tool *tool, int argc, char **argv)
{
	struct tool_run *t;
	struct error err;
	int status;

	if (tool->main)
		return tool->main(argc, argv);
	if (tool_parse(tool, argc, argv, &t, &err))
		status = report_error(&err);
	else if (t->args->help)
		status = report_stdout();
	else if (t->args->show_source)
		status = print_source(t);
	else if (t->args->replay)
		status = replay(t);
	else
		status = open_and_run(t);
	tool_close(t);
	return status;
}

void tool_close(struct tool_run *t)
{
	if (!t)
		return;
	if (t->object.hooks)
		hooks_leave(t->object.hooks);
	if (t->tool->free)
		t->tool->free(t->ctx);
	double_buffer_close(t->double_buffer);
	tool_close_objects(t);
	process_names_free(t->names);
	disks_free(t->disks);
	for (size_t i = 0; i < t->n_notes; i++)
		free(t->notes[i]);
	free(t->settings);
	free(t->ctx);
	free(t);
}
